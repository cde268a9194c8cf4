"""Commitments add up, bind, and their blindings travel in sums that say no more than they must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.validation.commitment import (
    BlindingError,
    Limbs,
    commit,
    sum_is_committed,
)
from dhdmm.validation.group import ORDER
from tests.secagg.seeded import seeded

vectors = st.lists(st.lists(st.integers(-(2**30), 2**30), min_size=3, max_size=3), min_size=1)


@given(vectors)
def test_the_sum_of_commitments_commits_to_the_sum(ys: list[list[int]]) -> None:
    limbs, randomness = Limbs.for_sums(len(ys), 2**40), seeded(str(ys))
    drawn = [limbs.draw(randomness) for _ in ys]
    made = [commit(y, limbs.blinding(one)) for y, one in zip(ys, drawn, strict=True)]
    total = [sum(column) for column in zip(*ys, strict=True)]
    blinding = limbs.blinding([sum(column) for column in zip(*drawn, strict=True)])
    assert sum_is_committed(made, total, blinding)
    assert not sum_is_committed(made, [total[0] + 1, *total[1:]], blinding)
    assert not sum_is_committed(made, total, blinding + 1)
    assert not sum_is_committed(made[1:], total, blinding)


@given(st.integers(2, 10**6), st.integers(1, 63))
def test_limbs_have_room_in_the_modulus_and_enough_entropy(summands: int, bits: int) -> None:
    modulus = 2**bits
    if summands * 3 >= modulus:
        with pytest.raises(BlindingError):
            Limbs.for_sums(summands, modulus)
        return
    limbs = Limbs.for_sums(summands, modulus)
    assert summands * (2**limbs.bits - 1) < modulus
    assert limbs.bits == 56 or summands * (2 ** (limbs.bits + 1) - 1) >= modulus
    assert 2 ** (limbs.count * (limbs.bits - 1)) >= ORDER * (2**64 * summands) ** 2
    assert all(0 <= limb < 2**limbs.bits for limb in limbs.draw(seeded(bits)))


def test_limbs_take_all_their_values() -> None:
    """Each of 4 is missing among 4,096 uniform ones with probability 10⁻⁵¹¹."""
    drawn = Limbs(4096, 2).draw(seeded(0))
    assert set(drawn) == {0, 1, 2, 3}


def test_sums_of_digits_would_tell_of_the_single_blindings() -> None:
    """Two blindings whose lowest digits add up to 0 both have a lowest digit of 0."""
    weights = [Limbs(8, 4).blinding([int(i == j) for i in range(8)]) for j in range(8)]
    digits = [16**j for j in range(8)]  # the positional system
    low = [[0] * 8, [0, *[15] * 7]]
    assert {sum(d * x for d, x in zip(digits, one, strict=True)) % 16 for one in low} == {0}
    hashed = [sum(t * x for t, x in zip(weights, one, strict=True)) % ORDER for one in low]
    assert hashed[0] == 0
    assert hashed[1] % 16 != 0
    assert all(2**200 < weight < ORDER for weight in weights)


def test_limbs_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="2 limbs, 3 are due"):
        Limbs(3, 4).blinding([1, 2])

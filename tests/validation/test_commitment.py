"""Commitments add up and bind, and hide an input as long as its blinding is hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation import masks
from dhdmm.aggregation.group import Group
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.wrapping import detach
from dhdmm.secagg import messages as m
from dhdmm.validated.attachments import read_input
from dhdmm.validation.commitment import commit, draw_blinding, sum_is_committed
from dhdmm.validation.group import ORDER, encode_point
from tests.secagg.seeded import seeded
from tests.validation.rounds import Table

vectors = st.lists(st.lists(st.integers(-(2**30), 2**30), min_size=3, max_size=3), min_size=1)


@given(vectors)
def test_the_sum_of_commitments_commits_to_the_sum(ys: list[list[int]]) -> None:
    randomness = seeded(str(ys))
    drawn = [draw_blinding(randomness) for _ in ys]
    made = [commit(y, r) for y, r in zip(ys, drawn, strict=True)]
    total = [sum(column) for column in zip(*ys, strict=True)]
    blinding = sum(drawn) % ORDER
    assert sum_is_committed(made, total, blinding)
    assert not sum_is_committed(made, [total[0] + 1, *total[1:]], blinding)
    assert not sum_is_committed(made, total, blinding + 1)
    assert not sum_is_committed(made[1:], total, blinding)


def test_blindings_are_uniform_modulo_q() -> None:
    """The mean of 6,000 is within 5 of its deviations, but once in 10⁶ seeds; of 32 bytes, 10."""
    randomness = seeded("blindings")
    mean = sum(draw_blinding(randomness) / ORDER for _ in range(6000)) / 6000
    assert abs(mean - 0.5) < 5 * (12 * 6000) ** -0.5


# ---- a coordinator that guesses an input, and looks whether its commitment opens -----------------


def confirms(group: Group, packed: bytes, commitment: bytes, guess: list[int]) -> bool:
    """With the number that came, or less a mask that the guess shows: y − guess = F(seed)."""
    masked = group.unpack(packed)
    words = group.modulus.reduce(masked.vector - group.modulus.residues(np.array(guess)))
    shown = int.from_bytes(words.tobytes()[:48], "little")
    tried = masked.scalar, (masked.scalar - shown) % ORDER
    return any(encode_point(commit(guess, r)) == commitment for r in tried)


def test_a_coordinator_that_guesses_an_input_cannot_see_that_it_is_right() -> None:
    assert not coordinator_confirms()
    with numbers_masked(lambda *_: 0):  # not at all
        assert coordinator_confirms()


def coordinator_confirms() -> bool:
    table, sent = Table("sum"), dict[int, bytes]()
    table.play(lambda i, said: sent.setdefault(i, said))
    assert table.sum == table.total()
    attached, inner = detach(sent[2])
    signed, _ = read_input(attached, inner)
    guess = table.vectors[2].tolist()
    return confirms(table.round.below.group, m.decode(inner).vector, signed.commitment, guess)


def test_key_stream_that_masks_the_vector_masks_no_blinding() -> None:
    """As a leader sees it, whose share is masked once: its words follow from a right guess."""
    assert not leader_confirms()
    with numbers_masked(
        lambda real, modulus, seeds, size: real(modulus, modulus.zeros(0), seeds, size)
    ):
        assert leader_confirms()


def leader_confirms() -> bool:
    group, guess = Group(Modulus(2**32), 12, ORDER), list(range(-6, 6))
    blinding = draw_blinding(seeded("leader"))
    share = group.element(group.modulus.residues(np.array(guess)), blinding)
    group.add_masks(share, [(seeded("mask")(32), 1)])
    return confirms(group, group.pack(share), encode_point(commit(guess, blinding)), guess)


@contextmanager
def numbers_masked(weakened: Callable[..., int]) -> Iterator[None]:
    """Vectors are masked as ever, the numbers beside them by this."""
    real = masks.add_masks

    def add_masks(modulus, accumulator, signed_seeds, following_bytes=0):
        seeds = list(signed_seeds)
        real(modulus, accumulator, seeds)
        return weakened(real, modulus, seeds, following_bytes)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(masks, "add_masks", add_masks)
        yield

"""Sums of four squares."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dhdmm.validation.squares import four_squares
from tests.secagg.seeded import seeded


def test_every_small_number() -> None:
    randomness = seeded(0)
    for number in range(1000):
        assert sum(part**2 for part in four_squares(number, randomness)) == number


@given(st.integers(min_value=0, max_value=2**124))
@example(4**40)
@example(2 * 4**40)
@example(7 * 4**30)
@example(3215031751)  # a strong pseudoprime to the bases 2, 3, 5 and 7
def test_every_large_number(number: int) -> None:
    assert sum(part**2 for part in four_squares(number, seeded(number))) == number


def test_a_negative_number_has_none() -> None:
    with pytest.raises(ValueError, match="negative"):
        four_squares(-1, seeded(0))

"""A participant's noise in parts, so that what turns out to be too much can be taken out again.

V     variance of all of it: enough if as few survive as a round allows
V_0   variance of what is never removed: enough if everybody survives
b     the step: the removable parts have variances b, 2b, 4b, …, so any level ℓ = 0 … 2^m − 1 is a
      sum of some of them, and V_0 + ℓb is left when the others are removed
S     V·h: what the noise of the honest survivors together must not fall below

docs/proofs-accounting.md has what this means for the promise, docs/proofs.md why nobody can have
too much removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import PrivacyError
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import SECRET_BYTES, KeyStream
from dhdmm.privacy.zcdp import MINIMUM_VARIANCE

SEED_BYTES = SECRET_BYTES
FINEST_STEP = Fraction(1, 50)
"""Of V_0: what is left is at most 2 % more variance than needed, 1 % more standard error."""
MOST_PARTS = 8


@dataclass(frozen=True)
class RemovableNoise:
    """How the noise of every participant of a round is divided."""

    variance: Fraction
    participants: int
    minimum_survivors: int
    honest_floor: int

    @property
    def unknown(self) -> int:
        """How many survivors' noise does not count: c corrupt ones and the margin."""
        return self.minimum_survivors - self.honest_floor

    @cached_property
    def parts(self) -> int:
        """m: the fewest whose step is fine enough, or as many as keep each a sum's honest part."""
        base, wanted = (
            self._least,
            parts_wanted(self.participants - self.unknown, self.honest_floor),
        )
        if base < MINIMUM_VARIANCE:
            return 0
        steps = int((self.variance - base) / MINIMUM_VARIANCE)  # so many of variance 9 fit in
        return min(wanted, (steps + 1).bit_length() - 1)

    @property
    def _least(self) -> Fraction:
        """S/(n − c − margin)."""
        return self.variance * self.honest_floor / (self.participants - self.unknown)

    @cached_property
    def base(self) -> Fraction:
        """V_0."""
        return self._least if self.parts else self.variance

    @property
    def most_removed(self) -> Fraction:
        """V − V_0."""
        return self.variance - self.base

    @cached_property
    def step(self) -> Fraction:
        """b = (V − V_0)/(2^m − 1)."""
        return self.most_removed / (self.levels - 1) if self.parts else Fraction(0)

    @property
    def levels(self) -> int:
        return 1 << self.parts

    @property
    def smallest(self) -> Fraction:
        """The variance of the smallest part; the accounting needs it to be at least 9."""
        return min(self.base, self.step) if self.parts else self.variance

    @property
    def honest_parts(self) -> int:
        """More than this many discrete Gaussians are not needed to make up S, at any level."""
        return (1 + self.parts) * (self.participants - self.unknown)

    def level(self, survivors: int) -> int:
        """The least ℓ with (V_0 + ℓb)(survivors − c − margin) ≥ S."""
        if not self.minimum_survivors <= survivors <= self.participants:
            raise PrivacyError(f"{survivors} survivors, where a round has none")
        if not self.parts:
            return 0
        due = self.variance * self.honest_floor / (survivors - self.unknown)
        return max(0, math.ceil((due - self.base) / self.step))

    def kept(self, level: int) -> Fraction:
        """V_ℓ = V_0 + ℓb."""
        return self.base + level * self.step

    def removed(self, level: int) -> tuple[int, ...]:
        """The parts that are removed at this level, by number."""
        return tuple(j for j in range(self.parts) if not level >> j & 1)

    def expand(self, part: int, seed: bytes, rows: int) -> NDArray[np.int64]:
        """The noise of one part, of variance 2^j·b, from its seed."""
        return DiscreteGaussian(self.step * 2**part).sample(rows, KeyStream.of_seed(seed))


def parts_wanted(most_honest: int, honest_floor: int) -> int:
    """The fewest parts with (V − V_0)/(2^m − 1) ≤ V_0/50, where V/V_0 = most/h."""
    steps = math.ceil(Fraction(most_honest - honest_floor, honest_floor) / FINEST_STEP)
    return min(MOST_PARTS, steps.bit_length())


def variance_wanted(participants: int, minimum_survivors: int, honest_floor: int) -> Fraction:
    """S for which every wanted part has variance 9: b = S(1/h − 1/most)/(2^m − 1)."""
    most = participants - (minimum_survivors - honest_floor)
    if most == honest_floor:
        return Fraction(0)
    steps = (1 << parts_wanted(most, honest_floor)) - 1
    return MINIMUM_VARIANCE * steps / (Fraction(1, honest_floor) - Fraction(1, most))

"""Confidence intervals from exact standard errors and covariances.

An answer's error is a fixed linear combination of many discrete Gaussians, normal for all purposes
here: its excess over the normal is below the bound of docs/accounting.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DhdmmError

Floats = NDArray[np.float64]

DEFAULT_LEVEL = 0.95


def critical(level: float = DEFAULT_LEVEL, joint: int = 1) -> float:
    """z with Pr[|error| > z·σ] = 1 − level; for `joint` answers together, Bonferroni's z.

    >>> round(critical(), 3)
    1.96
    """
    if not 0 < level < 1:
        raise DhdmmError(f"a confidence level is between 0 and 1, not {level}")
    return -NormalDist().inv_cdf((1 - level) / (2 * joint))  # SciPy takes long to import


def half_width(standard_errors: Floats, level: float = DEFAULT_LEVEL) -> Floats:
    """z·σ.

    >>> half_width(np.array([1.0, 2.0])).round(3).tolist()
    [1.96, 3.92]
    """
    return np.asarray(critical(level) * standard_errors)


def fieller(
    n: Floats, d: Floats, nn: Floats, nd: Floats, dd: Floats, z: float
) -> tuple[Floats, Floats]:
    """The quotients θ for which |n − θd| ≤ z·σ(n − θd), (low, high); ±∞ where d may be 0.

    n, d: estimates of numerator and denominator; nn, nd, dd: their variances and covariance.
    n − θd is normal with mean 0 at the true θ, so the set holds it with exactly the chosen
    probability, whatever the denominator is (Fieller 1954). It is an interval while d is more than
    z standard errors from 0; otherwise it has no end, and the answer is the whole line.

    >>> [float(end[0]) for end in fieller(*np.array([[1.0], [1], [0], [0], [1]]), z=2.0)]
    [-inf, inf]
    """
    a, b, c = d**2 - z**2 * dd, n * d - z**2 * nd, n**2 - z**2 * nn
    bounded = a > 0
    divisor = np.where(bounded, a, 1.0)
    reach = np.sqrt(np.maximum(b**2 - a * c, 0)) / divisor
    low = np.where(bounded, b / divisor - reach, -np.inf)
    return low, np.where(bounded, b / divisor + reach, np.inf)


# ---- columns of estimates -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums: normal, with exact standard errors."""

    values: Floats
    standard_errors: Floats
    times: ClassVar[str] = ""

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        reach = z * self.standard_errors
        return self.values - reach, self.values + reach


@dataclass(frozen=True, eq=False)
class Quotients:
    """Shares, means, rates: n / d with variances and covariance nn, nd, dd."""

    n: Floats
    d: Floats
    nn: Floats
    nd: Floats
    dd: Floats
    times: ClassVar[str] = ""

    @cached_property
    def values(self) -> Floats:
        """Not a number where the denominator's estimate is exactly 0."""
        return np.asarray(self.n / np.where(self.d == 0, np.nan, self.d))

    @property
    def standard_errors(self) -> Floats:
        """σ(n − θd) / |d| at θ = n/d: to first order. Intervals are not made from them."""
        theta = self.values
        square = np.maximum(self.nn - 2 * theta * self.nd + theta**2 * self.dd, 0)
        return np.asarray(np.sqrt(square) / np.where(self.d == 0, np.nan, np.abs(self.d)))

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        return fieller(self.n, self.d, self.nn, self.nd, self.dd, z)


@dataclass(frozen=True, eq=False)
class QuotientSums:
    """Sums and differences of quotients: of k of them, each interval has 1/k of the error.

    So the interval of the sum, from the sum of the lower ends to that of the upper ones, holds at
    least as often as it says, however the quotients depend on each other (Bonferroni).
    """

    parts: tuple[Quotients, ...]
    times: ClassVar[str] = ""

    @cached_property
    def values(self) -> Floats:
        return np.asarray(sum(part.values for part in self.parts))

    @property
    def standard_errors(self) -> Floats:
        """At most these: those of the quotients, added up."""
        return np.asarray(sum(part.standard_errors for part in self.parts))

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        shared = -NormalDist().inv_cdf(NormalDist().cdf(-z) / len(self.parts))
        low, high = zip(*(part.bounds(shared) for part in self.parts), strict=True)
        return np.asarray(sum(low)), np.asarray(sum(high))


class Estimates(Protocol):
    """One column of a table."""

    @property
    def times(self) -> str:
        """Of dates, the unit of time that they count since 1970; empty if they are numbers."""

    @property
    def values(self) -> Floats: ...

    @property
    def standard_errors(self) -> Floats: ...

    def bounds(self, z: float) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True, eq=False)
class Stacked:
    """Columns one below the other."""

    parts: tuple[Estimates, ...]

    @property
    def times(self) -> str:
        """All are dates or none is: a study that asks for both in one table is refused."""
        return self.parts[0].times

    @property
    def values(self) -> Floats:
        return np.concatenate([part.values for part in self.parts])

    @property
    def standard_errors(self) -> Floats:
        return np.concatenate([part.standard_errors for part in self.parts])

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        low, high = zip(*(part.bounds(z) for part in self.parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

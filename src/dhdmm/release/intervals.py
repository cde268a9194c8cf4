"""Confidence intervals from exact standard errors and covariances.

An answer's error is a fixed linear combination of many discrete Gaussians, normal for all purposes
here: its excess over the normal is below the bound of docs/accounting.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

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
    return float(-ndtri((1 - level) / (2 * joint)))


def half_width(standard_errors: Floats, level: float = DEFAULT_LEVEL, joint: int = 1) -> Floats:
    """z·σ.

    >>> half_width(np.array([1.0, 2.0])).round(3).tolist()
    [1.96, 3.92]
    """
    return np.asarray(critical(level, joint) * standard_errors)


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

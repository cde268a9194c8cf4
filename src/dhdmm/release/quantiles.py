"""Quantiles and their intervals from estimated prefixes."""

from __future__ import annotations

import numpy as np

from dhdmm.release.intervals import Floats


def quantile(
    below: Floats, total: float, covariance: Floats, at: float, z: float
) -> tuple[int, int, int]:
    """The value at which a share `at` of the records is reached: (estimate, low, high), positions.

    below: estimated records up to each value in turn; covariance: (values + 1, values + 1), of
    `below` and, last, `total`. With G(v) = below(v) − at·total, the quantile is the first v with
    G(v) ≥ 0. It is below `low` only if G + zσ < 0 at the quantile itself, and above `high` only
    if G − zσ ≥ 0 at the value before: both with at most half the error probability. The interval
    is conservative, because values are discrete and because every value in between is kept.
    """
    from scipy.optimize import isotonic_regression  # slow to import

    values = len(below)
    excess = below - at * total
    variance = np.diag(covariance)[:values] - 2 * at * covariance[:values, values]
    error = np.sqrt(np.maximum(variance + at**2 * covariance[values, values], 0))
    may_reach = np.append(excess + z * error >= 0, True)
    low = min(int(np.argmax(may_reach)), values - 1)
    may_miss = np.flatnonzero(excess[:-1] - z * error[:-1] < 0)
    high = max(int(may_miss[-1]) + 1 if len(may_miss) else 0, low)
    rising = isotonic_regression(excess).x
    first = int(np.argmax(np.append(rising >= 0, True)))
    return min(max(first, low), high), low, high

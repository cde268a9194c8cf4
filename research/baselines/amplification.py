"""Privacy amplification by shuffling: what n shuffled ε₀-private reports promise together.

Feldman, McMillan, Talwar, "Hiding among the clones" (2021): each of the other n − 1 reports is, but
for chance 1 − e^(−ε₀), a clone of the report in question, of one of two kinds with equal chance. So
what an observer learns is bounded by the hockey-stick divergence of two small distributions,
computed here as it stands and not through the closed form, which is looser. Replacing one record by
another is protected, in both directions.

ε₀   of one report in front of the shuffler; ε, δ of all of them behind it
q    e^ε₀/(e^ε₀ + 1), the chance that the report in question is of its own kind
C    clones among n − 1, Bin(n − 1, e^(−ε₀));  A of them of the first kind, Bin(C, ½)
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from dhdmm.errors import PrivacyError
from dhdmm.strategy.matrix import Floats

NEGLECTED = 1e-13
"""Probability of each tail of C that is not looked at; it is added to δ."""
TOLERANCE = 1e-6
LARGEST_REPORT_EPSILON = 20.0


def shuffled_epsilon(report_epsilon: float, reports: int, delta: float) -> float:
    """ε for this δ of `reports` shuffled reports; never more than ε₀ itself."""
    if not (report_epsilon > 0 and reports >= 1 and 2 * NEGLECTED < delta < 1):
        raise PrivacyError(f"no amplification for ε₀ = {report_epsilon}, δ = {delta}")
    one, other = _observations(report_epsilon, reports)

    def excess(epsilon: float) -> float:
        return _hockey_stick(one, other, epsilon) + 2 * NEGLECTED - delta

    if excess(report_epsilon) > 0:
        return report_epsilon
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0, report_epsilon, xtol=TOLERANCE))


def report_epsilon(epsilon: float, reports: int, delta: float) -> float:
    """The largest ε₀ of a report that shuffling amplifies to (ε, δ), to 1e-6."""
    low, high = epsilon, LARGEST_REPORT_EPSILON
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        if shuffled_epsilon(middle, reports, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _observations(report_epsilon: float, reports: int) -> tuple[Floats, Floats]:
    """Probabilities of (C, reports of the first kind) for either record in question."""
    q = math.exp(report_epsilon) / (math.exp(report_epsilon) + 1)
    clones = reports - 1, math.exp(-report_epsilon)
    fewest, most = int(binom.ppf(NEGLECTED, *clones)), int(binom.isf(NEGLECTED, *clones))
    one, other = [], []
    for C in range(max(fewest, 0), most + 1):
        A = binom.pmf(np.arange(-1, C + 2), C, 0.5)
        added, not_added = A[:-1], A[1:]  # the report in question is of the first kind, or not
        weight = binom.pmf(C, *clones)
        one.append(weight * (q * added + (1 - q) * not_added))
        other.append(weight * ((1 - q) * added + q * not_added))
    return np.concatenate(one), np.concatenate(other)


def _hockey_stick(P: Floats, Q: Floats, epsilon: float) -> float:
    """max over directions of Σ (P − e^ε Q)₊."""
    scale = math.exp(epsilon)
    return max(float(np.maximum(P - scale * Q, 0).sum()), float(np.maximum(Q - scale * P, 0).sum()))

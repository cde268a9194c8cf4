"""The conditions on a graph's degree and threshold: E1–E7 of docs/parameters.md.

Letters as in parameters.py. Everything is a natural logarithm. Sums are bounded from above.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dhdmm.aggregation.method import ThreatModel
from dhdmm.secagg import phantoms
from dhdmm.secagg.sums import log_sums
from dhdmm.secagg.tails import (
    TERMS,
    Array,
    Numbers,
    is_below,
    log_binomial_tail,
    log_choose,
    log_hypergeometric_tail,
    log_series,
)

SECURITY_BITS = 40  # σ: what an adversary may gain
CORRECTNESS_BITS = 30  # η: how often an honest round may fail


def first_broken(n: int, c: int, s: int, k: int, t: int, threat_model: ThreatModel) -> str | None:
    if not rare(n, n - s, k, k - t + 1, CORRECTNESS_BITS):
        return "E3 (enough neighbours survive)"
    if threat_model is ThreatModel.SEMI_HONEST:
        if not rare(n, c, k, t, SECURITY_BITS + 1):
            return "E1 (too few corrupt neighbours to reconstruct)"
        return None if e2_holds(n, c, s, k) else "E2 (honest survivors stay connected)"
    if not rare(n, c, k, 2 * t - k, SECURITY_BITS + 2):
        return "E4 (never both secrets of one participant)"
    if k == n - 1:
        return None  # E5 and E5b follow from E4, and nobody has more than n − 1 neighbours
    if not e5b_holds(n, c, k, t):
        return "E5b (one survivor set)"
    return None if is_below(e6(n, k), CORRECTNESS_BITS) else "E6 (in-degree stays below 3k)"


def rare(n: int, marked: int, k: int, x: int, bits: int) -> bool:
    """E1, E3, E4: n·Pr[Hyp(n−1, marked, k) ≥ x] ≤ 2^−bits."""
    tail = log_hypergeometric_tail(n - 1, np.asarray(float(marked)), k, x)
    return bool(is_below(math.log(n) + float(tail), bits))


def e2_holds(n: int, c: int, s: int, k: int) -> bool:
    """E2: ½n(n−k−1)·C(n−k, B−k)/C(n, B), B = c + n − s absent: nobody is cut off."""
    B = c + n - s
    if k > B or k >= n - 1:
        return True
    log_cut = log_choose(n - k, B - k) - log_choose(n, B)
    return bool(is_below(math.log(n * (n - k - 1) / 2) + float(log_cut), SECURITY_BITS + 1))


def e5b_holds(n: int, c: int, k: int, t: int) -> bool:
    """E5b. It implies E5 (both of its bounds exceed E5's)."""
    m = (n - c) // 2
    bound = partial(_two_bitmaps, n, c, k, t, _support_by_acceptors(n, c, k, t))
    _, sums = log_sums(bound, m, SECURITY_BITS + 2)
    return bool(is_below(np.logaddexp.reduce(sums, initial=-np.inf), SECURITY_BITS + 2))


def _support_by_acceptors(n: int, c: int, k: int, t: int) -> Array:
    """ln Pr[Hyp(n−1, κ−1+c, k) ≥ t] for κ = m, m−1, …: as many as a series has ratios."""
    m = (n - c) // 2
    kappas = np.arange(m, m - min(m - 1, TERMS) - 2, -1.0)
    return log_hypergeometric_tail(n - 1, kappas - 1 + c, k, t)


def _two_bitmaps(
    n: int, c: int, k: int, t: int, supported: Array, low: Array, high: Array
) -> Array:
    """E5b's summands from low to high: ln of a bound on the chance that any s' release twice.

    Given s' of them are closed at 2t−k; and each has t out-neighbours among the κ ≤ m participants
    that accepted it or the corrupt ones: Σ_κ C(n−c−s', κ−s')·Pr[Hyp(n−1, κ−1+c, k) ≥ t]^{s'},
    summed from κ = m down. Its ratios decrease: the tail is the distribution function, at κ, of the
    t-th smallest of k draws, which is log-concave. Both decrease with s' but for the s' − 1 + c.
    """
    m = (n - c) // 2
    closed = low * log_hypergeometric_tail(n - 1, high - 1 + c, k, 2 * t - k)
    with np.errstate(invalid="ignore"):
        decay = np.nan_to_num(np.diff(supported), nan=-np.inf)  # impossible stays impossible

    def ratio(j: Numbers) -> Array:
        return np.asarray((m - j - low) / (n - c - m + j + 1) * np.exp(low * decay[j]))

    log_first = log_choose(n - c - low, m - low) + low * supported[0]
    accepted = log_series(log_first, ratio, len(supported) - 2)
    return np.log(high - low + 1) + log_choose(n - c, high) + np.minimum(closed, accepted)


def e6(n: int, k: int) -> float:
    """E6: ln n·Pr[Bin(n−1, k/(n−1)) > 3k], too many in-neighbours of one honest participant."""
    return math.log(n) + float(
        log_binomial_tail(np.asarray(n - 1.0), np.asarray(math.log(k / (n - 1))), 3 * k + 1)
    )


def margin_needed(n: int, c: int, s: int, k: int, t: int, threat_model: ThreatModel) -> int:
    """E7; on a complete graph, and in the semi-honest model, there are no phantoms."""
    if threat_model is ThreatModel.SEMI_HONEST or k == n - 1:
        return 0
    return phantoms.margin(n, c, s, k, t, SECURITY_BITS)

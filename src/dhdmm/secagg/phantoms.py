"""How many can be called alive and yet be missing from the sum: E7 of docs/parameters.md.

Letters as in parameters.py: n participants, c corrupt, s the fewest survivors, k the degree, t the
threshold, m = ⌊(n−c)/2⌋. A *phantom* is honest, alive in the survivor bitmap, and not in the sum.
docs/proofs.md (step 6) says why there are no others than the two kinds counted here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dhdmm.secagg.sums import log_sums
from dhdmm.secagg.tails import (
    Array,
    is_below,
    log_binomial_tail,
    log_choose,
    log_hypergeometric_tail,
)

TOGETHER = 32
"""Sizes of a search that are looked at at once."""


def margin(n: int, c: int, s: int, k: int, t: int, security_bits: int) -> int:
    """Phantoms of both kinds, except with probability 2^−(σ+1). More than m are in the sum."""
    unmet = unmet_phantoms(n, c, k, security_bits + 2)
    exposed = exposed_phantoms(n, c, s, k, t, unmet, security_bits + 4)
    return min(unmet + exposed, n - c - (n - c) // 2 - 1)


def unmet_phantoms(n: int, c: int, k: int, bits: int) -> int:
    """Smallest f with Σ_{f' > f} C(n−c, f')·Pr[Bin(n−c−f', q_{f'}) > m] ≤ 2^−bits.

    q_f = C(n−1−f, k)/C(n−1, k) is the chance that none of f phantoms is an out-neighbour, and
    more than m participants reveal.
    """
    m = (n - c) // 2
    most = min(n - c - m, n - k) - 1  # with more, a sum of m+1 is impossible

    def bound(low: Array, high: Array) -> Array:
        log_unaware = log_choose(n - 1 - low, k) - log_choose(n - 1, k)
        tail = log_binomial_tail(n - c - low, log_unaware, m + 1)  # decreases
        return np.log(high - low + 1) + log_choose(n - c, high) + tail

    low, sums = log_sums(bound, most, bits)
    beyond = np.logaddexp.accumulate(sums[::-1])[::-1]  # the sums from each run on
    rare = is_below(beyond, bits)
    return int(low[np.argmax(rare)]) - 1 if rare.any() else max(most, 0)


def exposed_phantoms(n: int, c: int, s: int, k: int, t: int, unmet: int, bits: int) -> int:
    """Those whose mask key was revealed under another bitmap; three bounds, each 2^−bits.

    Each has t out-neighbours that are corrupt or among r revealers of other bitmaps. These
    revealers are dead in the bitmap or unmet phantoms, at most d = n−s+unmet, which bounds the
    exposed roughly. Each revealer has t out-neighbours that are corrupt or among the u missing
    from the sum: d and the exposed. That bounds r, and r the exposed.
    """
    d = min(n - s + unmet, n - c)
    u = min(d + _supported(n, c, k, t, d, bits), n - c)
    log_support = _log_support(n, c, k, t, u - 1)
    missing = log_choose(n - c, u)
    r = _before_first(lambda r: missing + log_choose(u, r) + r * log_support, u, bits)
    return _supported(n, c, k, t, r, bits)


def _supported(n: int, c: int, k: int, t: int, holders: int, bits: int) -> int:
    """The most participants that each have t out-neighbours corrupt or among `holders` honest ones,
    whichever these are; none if nobody has t − holders corrupt out-neighbours."""
    if is_below(math.log(n) + _log_support(n, c, k, t - holders, 0), bits):
        return 0
    log_support, chosen = _log_support(n, c, k, t, holders), log_choose(n - c, holders)
    return _before_first(
        lambda sizes: chosen + log_choose(n - c, sizes) + sizes * log_support, n - c, bits
    )


def _log_support(n: int, c: int, k: int, t: int, holders: int) -> Array:
    """ln Pr[Hyp(n−1, c + holders, k) ≥ t]."""
    return log_hypergeometric_tail(n - 1, np.asarray(float(c + holders)), k, t)


def _before_first(log_chance: Callable[[Array], Array], most: int, bits: int) -> int:
    """The largest size up to `most` before the first that is too rare.

    If a size is, so are all larger ones: logarithms of chances here are concave functions of the
    size that are not negative at 0.
    """
    low, high = 0, most + 1
    while high - low > 1:
        sizes = np.arange(low + 1.0, high, max(1, (high - low) // TOGETHER))
        rare = is_below(log_chance(sizes), bits)
        low = max(low, int(sizes[~rare].max(initial=0)))
        high = min(high, int(sizes[rare].min(initial=high)))
    return low

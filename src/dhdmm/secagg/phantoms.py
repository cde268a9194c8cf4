"""How many can be called alive and yet be missing from the sum: E7 of docs/parameters.md.

Letters as in parameters.py: n participants, c corrupt, s the fewest survivors, k the degree, t the
threshold, m = ⌊(n−c)/2⌋. A *phantom* is honest, alive in the survivor bitmap, and not in the sum.
docs/proofs.md (step 6) says why there are no others than the two kinds counted here.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dhdmm.secagg.tails import (
    Array,
    is_below,
    log_binomial_tail,
    log_choose,
    log_hypergeometric_tail,
)


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
    phantoms = np.arange(1.0, min(n - c - m, n - k))  # with more, a sum of m+1 is impossible
    log_unaware = log_choose(n - 1 - phantoms, k) - log_choose(n - 1, k)
    log_terms = log_choose(n - c, phantoms) + log_binomial_tail(
        n - c - phantoms, log_unaware, m + 1
    )
    beyond = np.logaddexp.accumulate(log_terms[::-1])[::-1]  # beyond[f]: the sum over f' > f
    return int(np.sum(~is_below(beyond, bits)))


def exposed_phantoms(n: int, c: int, s: int, k: int, t: int, unmet: int, bits: int) -> int:
    """Those whose mask key was revealed under another bitmap; three bounds, each 2^−bits.

    Each has t out-neighbours that are corrupt or among r revealers of other bitmaps. These
    revealers are dead in the bitmap or unmet phantoms, at most d = n−s+unmet, which bounds the
    exposed roughly. Each revealer has t out-neighbours that are corrupt or among the u missing
    from the sum: d and the exposed. That bounds r, and r the exposed.
    """
    d = min(n - s + unmet, n - c)
    u = min(d + _supported(n, c, k, t, d, bits), n - c)
    revealers = np.arange(1.0, u + 1)
    log_support = _log_support(n, c, k, t, u - 1)
    log_chosen = log_choose(n - c, u) + log_choose(u, revealers)  # the missing, then the revealers
    r = _before_first(is_below(log_chosen + revealers * log_support, bits))
    return _supported(n, c, k, t, r, bits)


def _supported(n: int, c: int, k: int, t: int, holders: int, bits: int) -> int:
    """The most participants that each have t out-neighbours corrupt or among `holders` honest ones,
    whichever these are; none if nobody has t − holders corrupt out-neighbours."""
    if is_below(math.log(n) + _log_support(n, c, k, t - holders, 0), bits):
        return 0
    sizes = np.arange(1.0, n - c + 1)
    log_chosen = log_choose(n - c, holders) + log_choose(n - c, sizes)
    return _before_first(is_below(log_chosen + sizes * _log_support(n, c, k, t, holders), bits))


def _log_support(n: int, c: int, k: int, t: int, holders: int) -> Array:
    """ln Pr[Hyp(n−1, c + holders, k) ≥ t]."""
    return log_hypergeometric_tail(n - 1, np.asarray(float(c + holders)), k, t)


def _before_first(rare: npt.NDArray[np.bool_]) -> int:
    """The largest size before the first that is too rare; if a size is, so are all larger ones,
    because a larger set contains one of that size."""
    return int(np.argmax(rare)) if rare.any() else len(rare)

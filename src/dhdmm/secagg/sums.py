"""Sums over all sizes of a set, with an effort that grows with the logarithm of the largest size.

Terms are tiny and change by orders of magnitude from one size to the next, so that few of them
count. Sizes are taken in runs, whose terms are bounded together; a run whose bound is not
negligible is cut, in the end into single sizes, whose terms are exact. Nothing is left out, so a
sum is never below the truth, and it is above it by 2⁻²⁰ of what it is compared with at the most.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhdmm.secagg.tails import Array, is_below

SINGLE = 48
"""Sizes up to here are never in runs."""
GROWTH = 1.06
"""Of the ends of the first runs."""
PIECES = 16
SPARE_BITS = 40
"""So many bits below the threshold a run is negligible: with all others it is 2⁻²⁰ of it."""

Bound = Callable[[Array, Array], Array]
"""ln of at least the sum of the terms of sizes low … high, and of the term where they are equal."""


def log_sums(bound: Bound, last: int, bits: int) -> tuple[Array, Array]:
    """Runs that together are the sizes up to `last`: where each begins, and at least ln of its sum.

    Where a term alone exceeds 2^−bits the runs begin with the last such size that was found.
    """
    low, high = _first_runs(last)
    sums = bound(low, high)
    while True:
        cut = (high > low) & ~is_below(sums, bits + SPARE_BITS)
        ends = np.concatenate([low[low == high], high[cut]])
        at_ends = bound(high[cut], high[cut]) if cut.any() else sums[cut]
        terms = np.concatenate([sums[low == high], at_ends])
        too_large = ~is_below(terms, bits)
        if too_large.any():
            first = np.argmax(np.where(too_large, ends, 0))
            after = low > ends[first]
            low, high = np.append(ends[first], low[after]), np.append(ends[first], high[after])
            sums, cut = np.append(terms[first], sums[after]), np.append(False, cut[after])
        if not cut.any():
            order = np.argsort(low)
            return low[order], sums[order]
        pieces = _pieces(low[cut], high[cut])
        low, high, sums = (
            np.concatenate([kept[~cut], more])
            for kept, more in zip((low, high, sums), (*pieces, bound(*pieces)), strict=True)
        )


def _first_runs(last: int) -> tuple[Array, Array]:
    """Single sizes, then runs that grow with them."""
    ends = [float(size) for size in range(1, min(last, SINGLE) + 1)]
    while ends and ends[-1] < last:
        ends.append(min(float(last), ends[-1] * GROWTH // 1))
    high = np.array(ends)
    return np.append(0.0, high)[:-1] + 1, high


def _pieces(low: Array, high: Array) -> tuple[Array, Array]:
    step = np.ceil((high - low + 1) / PIECES)[:, None]
    starts = low[:, None] + step * np.arange(PIECES)
    inside = starts <= high[:, None]
    return starts[inside], np.minimum(starts + step - 1, high[:, None])[inside]

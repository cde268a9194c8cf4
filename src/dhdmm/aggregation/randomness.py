"""Randomness is an argument: a function that gives as many uniform bytes as it is asked for.

In production it is the operating system's generator; in tests, a seeded stream. Everything drawn
here is exactly uniform: a word that would bias the result is thrown away, never folded in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import LocalProtocolError

Randomness = Callable[[int], bytes]


def uniform_below(randomness: Randomness, bounds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """One independent uniform integer in [0, bound) for each bound ≥ 1.

    Of a 32-bit word only as many bits are kept as the largest result has; if that is not below the
    bound, which happens less than half of the time, it is drawn again.
    """
    kept = bounds - np.uint32(1)
    for shift in (1, 2, 4, 8, 16):  # all bits below the highest set one are set, too
        kept |= kept >> np.uint32(shift)
    drawn: NDArray[np.uint32] = _words(randomness, bounds.size, "<u4").reshape(bounds.shape) & kept
    while (rejected := drawn >= bounds).any():
        again = _words(randomness, int(rejected.sum()), "<u4")
        drawn[rejected] = again & kept[rejected]
    return drawn


def uniform_permutation(randomness: Randomness, size: int) -> NDArray[np.int64]:
    """A uniform permutation of 0…size−1: the order of independent uniform 64-bit words.

    Independent words are exchangeable, so given that they are distinct every order is equally
    likely; a draw with a tie (probability below size²/2⁶⁵) is discarded whole.
    """
    while True:
        words = _words(randomness, size, "<u8")
        order = np.argsort(words)
        if (np.diff(words[order]) > 0).all():
            return order.astype(np.int64, copy=False)


def _words(randomness: Randomness, count: int, dtype: str) -> NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    drawn = randomness(size)
    if len(drawn) != size:
        raise LocalProtocolError("the source of randomness failed")
    return np.frombuffer(drawn, dtype=dtype)

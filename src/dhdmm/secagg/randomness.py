"""Randomness is an argument: a function that gives as many uniform bytes as it is asked for.

In production it is the operating system's generator; in tests, a seeded stream. Everything drawn
here is exactly uniform: a word that would bias the result is thrown away, never folded in.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Randomness = Callable[[int], bytes]


def uniform_below(randomness: Randomness, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One independent uniform integer in [0, bound) for each bound, 1 ≤ bound ≤ 2³².

    A 64-bit word is used if it lies below the largest multiple of its bound, which happens all but
    2⁻³² of the time; the others are drawn again.
    """
    words = _words(randomness, bounds.size).reshape(bounds.shape)
    limits = ~np.uint64(0) - (~np.uint64(0) % bounds + np.uint64(1)) % bounds  # ⌊2⁶⁴/bound⌋·bound−1
    rejected = words > limits
    while rejected.any():
        words[rejected] = _words(randomness, int(rejected.sum()))
        rejected = words > limits
    return words % bounds


def uniform_permutation(randomness: Randomness, size: int) -> NDArray[np.int64]:
    """A uniform permutation of 0…size−1: the order of independent uniform 64-bit words.

    Independent words are exchangeable, so given that they are distinct every order is equally
    likely; a draw with a tie (probability below size²/2⁶⁵) is discarded whole.
    """
    while True:
        words = _words(randomness, size)
        order = np.argsort(words)
        if (np.diff(words[order]) > 0).all():
            return order.astype(np.int64, copy=False)


def _words(randomness: Randomness, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(randomness(8 * count), dtype="<u8").astype(np.uint64)

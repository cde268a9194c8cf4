"""Who masks with whom: the communication graphs of Bell et al. (CCS 2020).

n participants are named by their roster positions 0…n−1; k is the degree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.randomness import Randomness, uniform_below, uniform_permutation

Positions = NDArray[np.int64]


def harary_neighbours(participants: int, degree: int, randomness: Randomness) -> Positions:
    """The graph of the semi-honest protocol, step 1: neighbours[i] are i's, ascending; (n, k).

    Participants sit on a circle in uniformly random order and each is joined to the k/2 nearest on
    either side. k = n−1, even or odd, is the complete graph and needs no randomness.
    """
    n, k = participants, degree
    if k == n - 1:
        return complete_neighbours(n)
    if not 0 < k < n or k % 2:
        raise LocalProtocolError(f"no Harary graph of degree {k} on {n} participants")
    circle = uniform_permutation(randomness, n)
    steps = np.concatenate([np.arange(-k // 2, 0), np.arange(1, k // 2 + 1)])
    neighbours = np.empty((n, k), dtype=np.int64)
    neighbours[circle] = circle[(np.arange(n)[:, None] + steps) % n]
    neighbours.sort(axis=1)
    return neighbours


def complete_neighbours(participants: int) -> Positions:
    """Everybody is a neighbour of everybody else; (n, n−1)."""
    others = np.arange(participants - 1)
    return others + (others >= np.arange(participants)[:, None])


def sample_out_neighbours(
    position: int, participants: int, degree: int, randomness: Randomness
) -> Positions:
    """The malicious protocol, step 2: a participant's own choice of k others, ascending; (k,).

    Uniform over the k-subsets of the roster without `position`, by Floyd's method: for j from
    N−k to N−1, take a uniform element of {0…j}, or j itself if that one is already taken.
    """
    n, k = participants, degree
    if not (0 <= position < n and 0 < k < n):
        raise LocalProtocolError(f"position {position} cannot choose {k} of {n} participants")
    last = np.arange(n - 1 - k, n - 1, dtype=np.uint32)
    candidates = uniform_below(randomness, last + np.uint32(1))
    chosen: set[int] = set()
    for j, candidate in zip(last.tolist(), candidates.tolist(), strict=True):
        chosen.add(j if candidate in chosen else candidate)
    others = np.array(sorted(chosen), dtype=np.int64)
    return others + (others >= position)

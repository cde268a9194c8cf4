"""Which of many sets of attributes lie within the few attributes that a query varies with."""

from __future__ import annotations

import itertools
from collections.abc import Collection

Attributes = frozenset[int]


def contained(sets: Collection[Attributes], among: Attributes) -> list[Attributes]:
    """The sets within `among`; its subsets are looked up where these are fewer.

    >>> contained({frozenset(): 1, frozenset({2}): 2}, frozenset({1, 2}))
    [frozenset(), frozenset({2})]
    """
    if 2 ** len(among) > len(sets):
        return [held for held in sets if held <= among]
    subsets = itertools.chain.from_iterable(
        itertools.combinations(sorted(among), size) for size in range(len(among) + 1)
    )
    return [held for held in map(frozenset, subsets) if held in sets]

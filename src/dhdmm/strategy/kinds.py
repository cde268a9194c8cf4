"""The kinds of an attribute's values that a strategy's columns tell apart.

A column depends on a cell only through each attribute's *kind*: its orbit, and whether it is the
last value of a residual's part (the one column of a contrast that differs), or below the last child
of its node. A pair of cells depends
on pairs of kinds and, for equal kinds, on whether the values are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate
from dhdmm.strategy.blocks import WHOLE, Block, MeasuredAxis, Residual, SidePieces
from dhdmm.strategy.matrix import Integers
from dhdmm.strategy.tree import Tree


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of one attribute's merged values."""

    axis: MeasuredAxis
    first: Integers
    """(kinds,): a merged value of each kind."""
    count: Integers
    """(kinds,): merged values of each kind."""
    of_values: Integers
    """(merged values,): the kind of each."""

    @property
    def orbit(self) -> Integers:
        return self.axis.orbit[self.first]

    def places(self, residual: Residual) -> Integers:
        """(kinds,): 0 outside the residual's part, 1 inside, 2 for its last value."""
        position = self.axis.positions(residual.part, self.first)
        _, child = residual.contrast.digits(position)
        return np.where(position < 0, 0, 1 + (child == residual.contrast.n - 1))

    def norms(self, residual: Residual, dtype: Any) -> NDArray[Any]:
        """(kinds,): squared norm of the contrast's column, 0 outside the part."""
        return np.array([0, *residual.contrast.norms], dtype)[self.places(residual)]

    def own(self) -> Pairs:
        """Every kind with itself: pairs of equal values."""
        own = np.arange(len(self.first))
        return Pairs(self, own, own, np.ones(len(own), bool))

    def pairs(self) -> Pairs:
        """All pairs: of different values, then of equal ones."""
        count, own = len(self.first), self.own()
        allocate(5 * count**2)
        i, j = (index.ravel() for index in np.indices((count, count)))
        repeated = (i != j) | (self.count[i] > 1)
        different = np.zeros(np.count_nonzero(repeated), bool)
        return Pairs(
            self,
            np.concatenate([i[repeated], own.i]),
            np.concatenate([j[repeated], own.j]),
            np.concatenate([different, own.same]),
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of kinds (i, j) of one attribute, with equal or different values."""

    kinds: Kinds
    i: Integers
    j: Integers
    same: NDArray[np.bool_]

    def inner(self, residual: Residual, dtype: Any) -> NDArray[Any]:
        """(pairs,): inner product of the contrast's columns, 0 outside the part."""
        places = self.kinds.places(residual)
        u, v = places[self.i], places[self.j]
        positions = self.kinds.axis.positions(residual.part, self.kinds.first)
        node, child = residual.contrast.digits(positions)
        met = (u * v > 0) & (node[self.i] == node[self.j])
        different = np.array([0, *residual.contrast.inner_products], dtype)[met * np.maximum(u, v)]
        equal = np.array([0, *residual.contrast.norms], dtype)[u]
        # where values are nested each kind is one value, and two may be below one child
        below = met & (self.i != self.j) & (child[self.i] == child[self.j])
        return np.where(self.same | below, equal, different)


def find_kinds(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block], only_longer: bool = False
) -> list[Kinds]:
    """Values by their orbit, and by whether they are below the last child in a residual's part.

    Where only the longest column matters, those of no longer last column are left out. Otherwise
    pairs matter, and where values are nested each kind is a value: of every node the first two
    children and the last, which any pair looks like.
    """
    parts = {
        (a, r.part)
        for block in blocks
        for i, r in enumerate(block.residuals)
        if not (only_longer and r.contrast.is_level)
        for a in {place[i] for place in block.places}
    }
    found: list[Kinds] = []
    for a, axis in enumerate(axes):
        allocate(10 * len(axis.orbit))
        mine = np.array([part for b, part in parts if b == a], np.int64)
        if axis.tree.levels > 1 and not only_longer:
            chosen = _first_two_and_last(axis.tree)
            of_values = np.full(len(axis.orbit), -1)
            of_values[chosen] = np.arange(len(chosen))
            found.append(Kinds(axis, chosen, np.ones(len(chosen), np.int64), of_values))
            continue
        ends = np.arange(len(axis.orbit)) == len(axis.orbit) - 1
        # A part of two values has two equal columns, none of them special.
        marks = [axis.orbit, *_last_children(axis.tree, mine), ends & (WHOLE in mine)]
        order = axis.tree.order  # the first of a kind is below first children wherever it may
        name = reduce(lambda number, mark: 2 * number + mark, marks)  # of at most 22 levels
        _, first, kind, count = np.unique(
            name[order], return_index=True, return_inverse=True, return_counts=True
        )
        of_values = np.empty(len(order), np.int64)
        of_values[order] = kind
        found.append(Kinds(axis, order[first], count, of_values))
    return found


def _last_children(tree: Tree, parts: Integers) -> list[NDArray[np.bool_]]:
    """For every level, which values are below the last child of their node, in these parts."""
    found = []
    for level in range(tree.levels):
        child, last = tree.children(level)
        found.append((child == last) & np.isin(tree.orbit + level * len(tree.shapes), parts))
    return found


def _first_two_and_last(tree: Tree) -> Integers:
    """Merged values that are below such children only, increasing."""
    chosen = np.ones(len(tree.orbit), bool)
    for child, last in map(tree.children, range(tree.levels)):
        chosen &= (child < 2) | (child == last)
    return np.flatnonzero(chosen)


def number_type(blocks: Sequence[Block], pieces: Sequence[SidePieces]) -> Any:
    """int64 if no sum of inner products here can overflow it, else Python integers."""
    parts = zip(blocks, pieces, strict=True)
    total = sum(block.copies * norm_bound(block, mine) for block, mine in parts)
    return np.int64 if 8 * total < 2**62 else object


def norm_bound(block: Block, pieces: SidePieces) -> int:
    """At least every |⟨a_u, a_v⟩| within one copy, by the largest norms of its pieces' columns."""
    sides = [sum(math.isqrt(piece.largest_norm) + 1 for piece in side) ** 2 for side in pieces]
    return math.prod([*sides, *(max(r.contrast.norms) for r in block.residuals)])

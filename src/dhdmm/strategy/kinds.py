"""The kinds of an attribute's values that a strategy's columns tell apart.

A column depends on a cell only through each attribute's *kind*: its orbit, and whether it is the
last value of a residual's part (the one column of a contrast that differs). A pair of cells depends
on pairs of kinds and, for equal kinds, on whether the values are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate
from dhdmm.strategy.blocks import WHOLE, Block, MeasuredAxis, Piece, Residual, SidePieces
from dhdmm.strategy.matrix import Integers


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
        return np.where(position < 0, 0, 1 + (position == residual.contrast.n - 1))

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
        u, v = (self.kinds.places(residual)[kind] for kind in (self.i, self.j))
        different = np.array([0, *residual.contrast.inner], dtype)[(u * v > 0) * np.maximum(u, v)]
        equal = self.kinds.norms(residual, dtype)[self.i]
        return np.where(self.same, equal, different)


def find_kinds(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block], only_longer: bool = False
) -> list[Kinds]:
    """Values by their orbit, and by whether they are the last of a residual's part.

    Where only the longest column matters, those of no longer last column are left out.
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
        mine = [part for b, part in parts if b == a]
        is_last = np.isin(axis.orbit, mine) & (axis.places == axis.sizes[axis.orbit] - 1)
        ends = np.arange(len(axis.orbit)) == len(axis.orbit) - 1
        # A part of two values has two equal columns, none of them special.
        marks = np.stack([axis.orbit, is_last, ends & (WHOLE in mine)], axis=1).astype(np.int64)
        _, first, kind, count = np.unique(
            marks, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        found.append(Kinds(axis, first, count, kind.ravel()))
    return found


def number_type(blocks: Sequence[Block], pieces: Sequence[SidePieces]) -> Any:
    """int64 if no sum of inner products here can overflow it, else Python integers."""
    parts = zip(blocks, pieces, strict=True)
    total = sum(block.copies * norm_bound(block, mine) for block, mine in parts)
    return np.int64 if 8 * total < 2**62 else object


def norm_bound(block: Block, pieces: SidePieces) -> int:
    """At least every |⟨a_u, a_v⟩| within one copy, by the largest norms of its pieces' columns."""
    sides = [sum(math.isqrt(_largest_norm(piece)) + 1 for piece in side) ** 2 for side in pieces]
    return math.prod([*sides, *(max(r.contrast.norms) for r in block.residuals)])


def _largest_norm(piece: Piece) -> int:
    return int(piece.squared_norms.max())

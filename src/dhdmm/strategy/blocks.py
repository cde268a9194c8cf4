"""What a strategy is made of: integer blocks (T·B) ⊗ E, one copy per attribute of all maps.

Rows of a block are (i, e₁, …, e_j): row i of T·B and a row of each residual's contrast. At a cell
u = (u₁, …, u_d) the entry is (T·B)[i, orbits of u] · ∏ E[e, position of u_a in the part], and zero
when some u_a lies outside its residual's part.

T: (r, r) upper triangular, non-singular; B: (r, orbits of the block's axes); E: contrast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhdmm.strategy.basis import Basis, kronecker_rows, standing_vectors
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.matrix import Exact, Integers, largest, multiply

WHOLE = -1
"""As a residual's part: all merged values instead of one orbit."""
LARGEST_TABLE = 2**24
"""Entries of a block written out over all orbits of its axes at once."""


@dataclass(frozen=True, eq=False)
class StrategyAxis:
    """One attribute: value → merged value → orbit, and the integer vectors over orbits."""

    merged: Integers
    orbit: Integers
    extra: Integers
    """(count, orbits): vectors besides the standing ones."""

    @cached_property
    def vectors(self) -> Integers:
        """(1 + orbits + count, orbits): all ones, one per orbit, then the extra ones."""
        return np.concatenate([standing_vectors(len(self.sizes)), self.extra])

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.orbit)

    @cached_property
    def representatives(self) -> Integers:
        """(merged values,): the first value of each."""
        return np.unique(self.merged, return_index=True)[1]

    def part(self, part: int) -> Integers:
        """Merged values of a residual's part."""
        everything = np.arange(len(self.orbit))
        return everything if part == WHOLE else np.flatnonzero(self.orbit == part)

    def positions(self, part: int) -> Integers:
        """(merged values,): position in the part, −1 outside."""
        found = np.full(len(self.orbit), -1)
        members = self.part(part)
        found[members] = np.arange(len(members))
        return found


@dataclass(frozen=True)
class Residual:
    """A contrast over one part of an attribute's merged values."""

    attribute: int
    part: int
    contrast: Contrast


@dataclass(frozen=True, eq=False)
class Piece:
    """A share of T·B that varies with `axes` only: table (r, orbits of axes)."""

    axes: tuple[int, ...]
    table: Exact


@dataclass(frozen=True, eq=False)
class Block:
    residuals: tuple[Residual, ...]
    axes: tuple[int, ...]
    basis: Basis
    T: Integers

    @property
    def attributes(self) -> tuple[int, ...]:
        """Attributes on which the block's entries depend."""
        return tuple(sorted([*self.axes, *(residual.attribute for residual in self.residuals)]))

    @property
    def copies(self) -> int:
        return math.prod(residual.contrast.n - 1 for residual in self.residuals)

    @property
    def rows(self) -> int:
        return self.basis.rows * self.copies

    def patterns(self, axes: Sequence[StrategyAxis]) -> list[tuple[tuple[int, ...], Integers]]:
        """Groups of the basis's products: (positions of axes they vary with, their numbers).

        One group with all axes, unless that table would be too large.
        """
        ids = self.basis.ids
        varies = np.ones(ids.shape, bool)
        if self._entries(axes, range(len(self.axes))) > LARGEST_TABLE:
            varies = ids != 0
        found, place = np.unique(varies, axis=0, return_inverse=True)
        return [
            (tuple(np.flatnonzero(pattern).tolist()), np.flatnonzero(place.ravel() == i))
            for i, pattern in enumerate(found)
        ]

    def table_entries(self, axes: Sequence[StrategyAxis]) -> int:
        """Entries of the largest piece."""
        return max(self._entries(axes, positions) for positions, _ in self.patterns(axes))

    def _entries(self, axes: Sequence[StrategyAxis], positions: Iterable[int]) -> int:
        return self.basis.rows * math.prod(len(axes[self.axes[i]].sizes) for i in positions)

    def pieces(self, axes: Sequence[StrategyAxis]) -> list[Piece]:
        """T·B as one table per group of products."""
        combined = multiply(self.T, self.basis.combine.toarray())
        found: list[Piece] = []
        for positions, mine in self.patterns(axes):
            held = tuple(self.axes[i] for i in positions)
            ids = self.basis.ids[np.ix_(mine, positions)]
            K = kronecker_rows(ids, [axes[a].vectors for a in held])
            table = multiply(combined[:, mine], K)
            found.append(Piece(held, table.reshape(-1, *(len(axes[a].sizes) for a in held))))
        return found


def drop_unused_vectors(
    axes: Sequence[StrategyAxis], blocks: Sequence[Block]
) -> tuple[tuple[StrategyAxis, ...], tuple[Block, ...]]:
    """The same strategy with only the extra vectors that some block uses, renumbered."""
    kept_axes: list[StrategyAxis] = []
    numbers: list[Integers] = []
    for a, axis in enumerate(axes):
        ids = [b.basis.ids[:, b.axes.index(a)] for b in blocks if a in b.axes]
        standing = len(axis.sizes) + 1
        used = np.unique(np.concatenate([*ids, np.zeros(1, np.int64)]))
        used = used[used >= standing]
        renumber = np.arange(len(axis.vectors))
        renumber[used] = standing + np.arange(len(used))
        numbers.append(renumber)
        kept_axes.append(replace(axis, extra=axis.extra[used - standing]))
    kept_blocks: list[Block] = []
    for block in blocks:
        columns = [numbers[a][block.basis.ids[:, i]] for i, a in enumerate(block.axes)]
        ids = np.stack(columns, axis=1) if columns else block.basis.ids
        kept_blocks.append(replace(block, basis=replace(block.basis, ids=ids)))
    return tuple(kept_axes), tuple(kept_blocks)


def entry_bound(block: Block, pieces: Sequence[Piece]) -> int:
    """At least the largest |entry| of the block; exact when there is one piece."""
    contrast = math.prod(largest(residual.contrast.matrix) for residual in block.residuals)
    return sum(largest(piece.table) for piece in pieces) * contrast


def columns(pieces: Sequence[Piece], orbits: Integers) -> Exact:
    """T·B at the given cells: orbits (cells, attributes) → (r, cells)."""
    shares = [
        piece.table[(slice(None), *(orbits[:, a] for a in piece.axes))]
        if piece.axes
        else np.repeat(piece.table[:, None], len(orbits), axis=1)
        for piece in pieces
    ]
    return np.asarray(sum(shares[1:], start=shares[0]))

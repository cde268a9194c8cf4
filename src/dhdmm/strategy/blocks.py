"""What a strategy is made of: integer blocks (T·B) ⊗ E, one copy per attribute of all maps.

Rows of a block are (i, e₁, …, e_j): row i of T·B and a row of each residual's contrast. At a cell
u = (u₁, …, u_d) the entry is (T·B)[i, orbits of u] · ∏ E[e, position of u_a in the part], and zero
when some u_a lies outside its residual's part.

T: (r, r) upper triangular, non-singular; B: (r, orbits of the block's axes); E: contrast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhdmm.strategy.basis import Basis, kronecker_rows
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
    vectors: Integers

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

    def pieces(self, axes: Sequence[StrategyAxis]) -> list[Piece]:
        """T·B as one table, or as one table per set of axes when the whole would be too large."""
        shape = [len(axes[a].sizes) for a in self.axes]
        if self.basis.rows * math.prod(shape) <= LARGEST_TABLE:
            patterns = np.ones((len(self.basis.ids), len(self.axes)), bool)
        else:
            patterns = self.basis.ids != 0
        combined = multiply(self.T, self.basis.combine.toarray())
        found: list[Piece] = []
        for pattern in np.unique(patterns, axis=0):
            mine = np.flatnonzero((patterns == pattern).all(axis=1))
            chosen = [i for i, varies in enumerate(pattern) if varies]
            held = tuple(self.axes[i] for i in chosen)
            K = kronecker_rows(self.basis.ids[mine][:, chosen], [axes[a].vectors for a in held])
            table = multiply(combined[:, mine], K)
            found.append(Piece(held, table.reshape(-1, *(len(axes[a].sizes) for a in held))))
        return found


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

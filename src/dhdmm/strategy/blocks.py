"""What a strategy is made of: integer blocks (T₁·B₁) ⊗ (T₂·B₂) ⊗ … ⊗ E₁ ⊗ E₂ ⊗ …

A *side* T·B measures vectors that are constant on orbits of its axes; nearly always a block has one
side, several when the best strategy itself is a Kronecker product. A *residual* measures what sums
to zero over a part of one attribute. Rows of a block run over the rows of its sides, then of its
contrasts, the last fastest. The entry at a cell is the product of the sides' entries at its orbits
and of the contrasts' entries at its positions, zero when it lies outside a residual's part.

T: (r, r) upper triangular, non-singular; on one long attribute it may be a matrix of dyadic.py,
with one row of B for each value. B: (r, orbits of the side's axes); E: contrast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis, kronecker_rows, single_orbits
from dhdmm.strategy.contrast import Contrast, Nest
from dhdmm.strategy.dyadic import Dyadic
from dhdmm.strategy.matrix import Exact, Integers, largest, multiply, squared_column_norms
from dhdmm.strategy.tree import MergedAxis
from dhdmm.strategy.vectors import common_vectors

Range = tuple[int, int]
"""The smallest and the largest that an entry can be."""

WHOLE = -1
"""As a residual's part: all merged values instead of one orbit."""
LARGEST_ROWS = 2**26
"""Rows of a strategy: a participant sends one number for each."""
LARGEST_TABLE = 2**24
"""Entries of a block written out over all orbits of its axes at once."""
SMALL_TABLE = 2**12
"""Entries up to which calls of NumPy cost more than what they compute."""
LARGEST_WRITTEN = 2**24
"""Entries of a piece that are written out over all its orbits at once."""
CHEAP_TABLE = 2**21
"""Entries up to which a table is better than its products, one cell at a time."""


def require_few_rows(rows: int) -> None:
    """For an error before they are computed."""
    if rows > LARGEST_ROWS:
        raise StrategyError(
            f"the workload takes {rows:,} measured sums, more than {LARGEST_ROWS:,}",
            hint="ask for fewer tables, for tables of fewer attributes, or of coarser values",
        )


@dataclass(frozen=True, eq=False)
class MeasuredAxis(MergedAxis):
    """One attribute: value → merged value → orbit, and the integer vectors over orbits."""

    extra: Integers
    """(count, orbits): vectors besides the common ones."""

    @cached_property
    def vectors(self) -> Integers:
        """(1 + orbits + count, orbits): all ones, one per orbit, then the extra ones."""
        orbits = len(self.sizes)
        found = np.zeros((1 + orbits + len(self.extra), orbits), np.int64)
        found[: 1 + orbits] = common_vectors(orbits)
        found[1 + orbits :] = self.extra
        return found

    @cached_property
    def narrow(self) -> NDArray[np.integer[Any]]:
        """`merged` in the smallest words that hold it."""
        return self.merged.astype(np.min_scalar_type(len(self.orbit)))

    @cached_property
    def representatives(self) -> Integers:
        """(merged values,): the first value of each."""
        return np.unique(self.merged, return_index=True)[1]

    def nest(self, part: int) -> Nest | None:
        """What a residual's part is; None if there is none of that number."""
        if part == WHOLE:
            return Nest(len(self.orbit))
        return self.tree.nest(part)

    def part(self, part: int) -> Integers:
        """Merged values of a residual's part, by position."""
        return np.arange(len(self.orbit)) if part == WHOLE else self.tree.members(part)

    def positions(self, part: int, values: NDArray[np.integer[Any]]) -> Integers:
        """(values,): position of merged values in the part, −1 outside."""
        if part == WHOLE:
            return values.astype(np.int64)
        inside = self.orbit[values] == self.tree.orbit_of(part)
        return np.where(inside, self.tree.places[values], -1)


@dataclass(frozen=True)
class Residual:
    """A contrast over one part of an attribute's merged values: a level of an orbit, or WHOLE."""

    attribute: int
    part: int
    contrast: Contrast


@dataclass(frozen=True, eq=False)
class Piece:
    """A share of a side that varies with `axes` only."""

    axes: tuple[int, ...]
    mixing: Exact
    """(r, products): the share of every Kronecker row."""
    ids: Integers
    """(products, axes)"""
    vectors: tuple[Integers, ...]
    """Of every axis, over its orbits."""

    @cached_property
    def entries(self) -> int:
        return len(self.mixing) * math.prod(int(v.shape[1]) for v in self.vectors)

    @cached_property
    def table(self) -> Exact:
        """(r, orbits of axes…)"""
        if self.entries > LARGEST_WRITTEN:
            raise StrategyError(f"{self.entries:,} numbers of a side are too many to write out")
        allocate(self.entries)
        work(OBJECT)
        shape = tuple(int(vectors.shape[1]) for vectors in self.vectors)
        cells = single_orbits(self.ids, shape)
        if cells is None:
            table = multiply(self.mixing, kronecker_rows(self.ids, self.vectors))
        else:
            table = np.zeros((len(self.mixing), math.prod(shape)), self.mixing.dtype)
            table[:, cells] = self.mixing
        return table.reshape(-1, *shape)

    @cached_property
    def largest(self) -> int:
        """At least every |entry|, and exactly where it is cheap to write them out."""
        if self.entries <= CHEAP_TABLE:
            return largest(self.table)
        held = [largest(v[ids]) for v, ids in zip(self.vectors, self.ids.T, strict=True)]
        row = max(int(total) for total in np.abs(self.mixing.astype(object)).sum(axis=1))
        return row * math.prod(held)

    @cached_property
    def ranges(self) -> list[Range]:
        """Of every row."""
        if self.entries <= CHEAP_TABLE:
            return _ranges_of(self.table.reshape(len(self.mixing), -1))
        held = math.prod(largest(v[i]) for v, i in zip(self.vectors, self.ids.T, strict=True))
        bounds = [held * int(x) for x in np.abs(self.mixing.astype(object)).sum(axis=1)]
        return [(-bound, bound) for bound in bounds]

    def at(self, orbits: Sequence[Integers]) -> Exact:
        """(r, cells), for cells with these orbits on every attribute."""
        if self.entries <= CHEAP_TABLE:
            cells: tuple[Any, ...] = (slice(None), *(orbits[a] for a in self.axes))
            return np.asarray(self.table[cells].reshape(len(self.mixing), -1))
        K = np.ones((len(self.ids), len(orbits[0])), np.int64)
        for i, a in enumerate(self.axes):
            K *= self.vectors[i][self.ids[:, i]][:, orbits[a]]
        return multiply(self.mixing, K)

    @cached_property
    def squared_norms(self) -> Exact:
        """(orbits of axes): of every column."""
        flat = squared_column_norms(self.table.reshape(len(self.table), -1))
        return np.asarray(flat.reshape(self.table.shape[1:]))

    @cached_property
    def largest_norm(self) -> int:
        """Squared, of any column."""
        return int(self.squared_norms.max())


def write_out_together(pieces: Iterable[Piece]) -> None:
    """Tables, their largest entries and norms of many small pieces of the same products, at once.

    They are what each piece would find by itself, and most of a strategy's sides share theirs.
    """
    alike: dict[tuple[int, tuple[int, ...], bytes], list[Piece]] = {}
    for piece in pieces:
        key = len(piece.mixing), piece.axes, piece.ids.tobytes()
        if piece.entries <= SMALL_TABLE:
            alike.setdefault(key, []).append(piece)
    for same in alike.values():
        first = same[0]
        work(OBJECT)
        allocate(len(same) * first.entries)
        K = kronecker_rows(first.ids, first.vectors)
        mixing = np.concatenate([piece.mixing for piece in same])
        bound = largest(mixing) * largest(K) * len(K)
        if bound**2 * len(first.mixing) >= 2**53:
            continue  # one by one, with as large numbers as it takes
        tables = multiply(mixing, K).reshape(len(same), len(first.mixing), -1)
        norms = np.einsum("pij,pij->pj", tables, tables)
        entries = np.abs(tables).max(axis=(1, 2)).tolist()
        shape = tuple(vectors.shape[1] for vectors in first.vectors)
        for piece, table, norm, entry in zip(same, tables, norms, entries, strict=True):
            known = {"largest": entry, "squared_norms": norm.reshape(shape)}
            vars(piece).update(table=table.reshape(-1, *shape), **known)


@dataclass(frozen=True, eq=False)
class DyadicPiece:
    """A whole side of one axis, whose T is too large to write out."""

    axes: tuple[int, ...]
    matrix: Dyadic

    @property
    def table(self) -> Exact:
        return self.matrix.columns(np.arange(len(self.matrix)))

    @property
    def largest(self) -> int:
        """At least every |entry|, and exactly where it is cheap to write them out."""
        return largest(self.table) if len(self.matrix) ** 2 <= CHEAP_TABLE else self.matrix.largest

    @property
    def ranges(self) -> list[Range]:
        """Of every row, and exactly where it is cheap to write them out."""
        if len(self.matrix) ** 2 <= CHEAP_TABLE:
            return _ranges_of(self.table)
        return [(-self.matrix.largest, self.matrix.largest)] * len(self.matrix)

    def at(self, orbits: Sequence[Integers]) -> Exact:
        return self.matrix.columns(orbits[self.axes[0]])

    @property
    def squared_norms(self) -> Exact:
        return self.matrix.squared_norms

    @property
    def largest_norm(self) -> int:
        """Squared, of any column."""
        return int(self.squared_norms.max())


@dataclass(frozen=True, eq=False)
class Group:
    """Products of a side's basis that vary with the same axes."""

    axes: tuple[int, ...]
    products: list[int]
    K: Integers
    """(products, orbits of axes)"""


SidePieces = list[Sequence[Piece | DyadicPiece]]
"""For every side of a block, the pieces that it is the sum of."""


@dataclass(frozen=True, eq=False)
class Side:
    """T·B over some axes."""

    axes: tuple[int, ...]
    basis: Basis
    T: Integers | Dyadic

    @property
    def triangle(self) -> Integers:
        """T, where it is written out."""
        assert not isinstance(self.T, Dyadic)
        return self.T

    def patterns(self, axes: Sequence[MeasuredAxis]) -> list[tuple[list[int], list[int]]]:
        """Groups of the basis's products: (positions of axes they vary with, their numbers).

        One group with all axes, unless that table would be too large.
        """
        ids, everywhere = self.basis.ids, list(range(len(self.axes)))
        if self.basis.rows * self._cells(axes, everywhere) <= LARGEST_TABLE:
            return [(everywhere, list(range(len(ids))))]
        found, place = np.unique(ids != 0, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(pattern).tolist(), np.flatnonzero(place.ravel() == i).tolist())
            for i, pattern in enumerate(found)
        ]

    def largest_group(self, axes: Sequence[MeasuredAxis]) -> int:
        """Entries of the largest group of products."""
        return max(self._cells(axes, at) * len(mine) for at, mine in self.patterns(axes))

    def _cells(self, axes: Sequence[MeasuredAxis], positions: Iterable[int]) -> int:
        return math.prod(len(axes[self.axes[i]].sizes) for i in positions)

    def groups(self, axes: Sequence[MeasuredAxis]) -> Iterator[Group]:
        """B's products, written out group by group."""
        for positions, mine in self.patterns(axes):
            held = tuple(self.axes[i] for i in positions)
            ids = self.basis.ids[mine][:, positions]
            yield Group(held, mine, kronecker_rows(ids, [axes[a].vectors for a in held]))

    def pieces(self, axes: Sequence[MeasuredAxis]) -> Sequence[Piece | DyadicPiece]:
        """T·B, a piece per group of products."""
        if isinstance(self.T, Dyadic):
            return [DyadicPiece(self.axes, self.T)]
        allocate(2 * self.basis.rows * len(self.basis.coefficients))
        plain = self.basis.is_plain
        combined = self.T if plain else multiply(self.T, self.basis.written_out)
        found: list[Piece] = []
        for positions, mine in self.patterns(axes):
            held = tuple(self.axes[i] for i in positions)
            vectors = tuple(axes[a].vectors for a in held)
            found.append(
                Piece(held, combined[:, mine], self.basis.ids[mine][:, positions], vectors)
            )
        return found

    def renumbered(self, numbers: Sequence[Integers]) -> Side:
        """The same with vectors numbered anew, numbers[a][old] = new."""
        ids = self.basis.ids.copy()
        for i, a in enumerate(self.axes):
            ids[:, i] = numbers[a][ids[:, i]]
        return replace(self, basis=replace(self.basis, ids=ids))


@dataclass(frozen=True, eq=False)
class Block:
    """The Kronecker product of its sides and its residuals' contrasts.

    Copies over other attributes, one below the other, are one block: of two questions with five
    answers each, or of any pair of sixty such questions, the same is measured.
    """

    residuals: tuple[Residual, ...]
    sides: tuple[Side, ...]
    others: tuple[tuple[int, ...], ...] = ()
    """The residuals' attributes in every further copy."""

    @property
    def copies(self) -> int:
        return 1 + len(self.others)

    @property
    def places(self) -> list[tuple[int, ...]]:
        """The residuals' attributes in every copy."""
        return [tuple(residual.attribute for residual in self.residuals), *self.others]

    def apart(self) -> list[Block]:
        """Every copy as a block by itself."""
        if not self.others:
            return [self]
        work(OBJECT * self.copies)
        return [Block(self._moved(attributes), self.sides) for attributes in self.places]

    def _moved(self, attributes: tuple[int, ...]) -> tuple[Residual, ...]:
        moved = zip(attributes, self.residuals, strict=True)
        return tuple(Residual(a, residual.part, residual.contrast) for a, residual in moved)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes of all sides."""
        return tuple(a for side in self.sides for a in side.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of one copy: rows of every side, then rows of every contrast."""
        contrasts = (residual.contrast.rows for residual in self.residuals)
        return (*(side.basis.rows for side in self.sides), *contrasts)

    @cached_property
    def rows(self) -> int:
        return self.copies * math.prod(self.shape)

    def pieces(self, axes: Sequence[MeasuredAxis]) -> SidePieces:
        return [side.pieces(axes) for side in self.sides]


def apart(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Every copy of every block, in the order of the rows."""
    return tuple(copy for block in blocks for copy in block.apart())


def drop_unused_vectors(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block]
) -> tuple[tuple[MeasuredAxis, ...], tuple[Block, ...]]:
    """The same strategy with only the extra vectors that some block uses, renumbered."""
    sides = [side for block in blocks for side in block.sides]
    kept: list[MeasuredAxis] = []
    numbers: list[Integers] = []
    for a, axis in enumerate(axes):
        ids = [side.basis.ids[:, side.axes.index(a)] for side in sides if a in side.axes]
        common = len(axis.sizes) + 1
        used = np.unique(np.concatenate([*ids, np.zeros(1, np.int64)]))
        used = used[used >= common]
        renumber = np.arange(len(axis.vectors))
        renumber[used] = common + np.arange(len(used))
        numbers.append(renumber)
        kept.append(replace(axis, extra=axis.extra[used - common]))
    renumbered = tuple(
        replace(block, sides=tuple(side.renumbered(numbers) for side in block.sides))
        for block in blocks
    )
    return tuple(kept), renumbered


def entry_bound(block: Block, pieces: SidePieces) -> int:
    """At least the largest |entry| of the block; exact when every side is one piece."""
    sides = [sum(piece.largest for piece in side) for side in pieces]
    contrasts = [residual.contrast.largest for residual in block.residuals]
    return math.prod([*sides, *contrasts])


def row_ranges(block: Block, pieces: SidePieces) -> Iterator[tuple[int, Range]]:
    """Runs of the block's rows with bounds on their entries; exact as `entry_bound` is.

    Outside of a residual's part an entry is 0, and so is what somebody without records measures.
    """
    found: list[Range] = [(1, 1)]
    for side in pieces:
        rows = [_added(each) for each in zip(*(piece.ranges for piece in side), strict=True)]
        found = [_multiplied(one, row) for one in found for row in rows]
    for residual in block.residuals:
        found = [_multiplied(one, residual.contrast.range) for one in found]
    each = math.prod(residual.contrast.rows for residual in block.residuals)
    for _ in range(block.copies):
        for low, high in found:
            yield each, (min(low, 0), max(high, 0))


def _ranges_of(table: Exact) -> list[Range]:
    lows, highs = table.min(axis=1).tolist(), table.max(axis=1).tolist()
    return list(zip(lows, highs, strict=True))


def _added(ranges: Iterable[Range]) -> Range:
    lows, highs = zip(*ranges, strict=True)
    return sum(lows), sum(highs)


def _multiplied(one: Range, other: Range) -> Range:
    products = [a * b for a in one for b in other]
    return min(products), max(products)


def columns(pieces: SidePieces, orbits: Sequence[Integers]) -> Exact:
    """All sides at cells with these orbits on every attribute: (product of sides' rows, cells)."""
    total = np.ones((1, len(orbits[0])), np.int64)
    for side in pieces:
        rows = reduce(np.add, (piece.at(orbits) for piece in side))
        total = (total[:, None, :] * rows[None, :, :]).reshape(-1, len(orbits[0]))
    return total

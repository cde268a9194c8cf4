"""A' x, exact, without visiting A': each block sees a histogram of its own few attributes.

Of a million records over fourteen attributes a block tells apart a few thousand cells. They are
counted once for all blocks that look at the same attributes, and fewer attributes are counted from
the cells of more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.blocks import (
    WHOLE,
    Block,
    DyadicPiece,
    MeasuredAxis,
    SidePieces,
    columns,
)
from dhdmm.strategy.matrix import Exact, Integers, multiply

FEW_ENTRIES = 2**14
"""Of a block at the cells that occur: so many are written out and added as they are."""
ENTRIES_TOGETHER = 2**22
"""Of a block's sides at the cells that occur, written out at once."""
RECORDS_TOGETHER = 2**16
"""Records that are counted at once, so that what they need stays in the processor's cache."""
LARGEST_TABLE = 2**22
"""Cells that are counted by their number; more are sorted."""
EXACT_DOUBLES = 2**53


@dataclass(frozen=True, eq=False)
class Cells:
    """Merged values of some attributes that occur together, and how often."""

    values: Mapping[int, NDArray[np.integer[Any]]]
    counts: Integers


@dataclass(frozen=True, eq=False)
class Counted:
    """A histogram, and the histograms of some of its attributes."""

    axes: Sequence[MeasuredAxis]
    cells: Cells
    _known: dict[frozenset[int], Cells] = field(default_factory=dict)

    @classmethod
    def of(cls, axes: Sequence[MeasuredAxis], codes: Integers, counts: Integers) -> Counted:
        values = {}
        for a, axis in enumerate(axes):
            values[a] = axis.narrow[codes[:, a]]
        return cls(axes, Cells(values, counts))

    def over(self, attributes: frozenset[int]) -> Cells:
        """The cells of these attributes, from the fewest known cells of more."""
        if attributes not in self._known:
            wider = [cells for held, cells in self._known.items() if held > attributes]
            source = min([*wider, self.cells], key=lambda cells: len(cells.counts))
            self._known[attributes] = self._counted(source, sorted(attributes))
        return self._known[attributes]

    def _counted(self, source: Cells, held: list[int]) -> Cells:
        sizes = [len(self.axes[a].orbit) for a in held]
        if math.prod(sizes) > LARGEST_TABLE:
            return _sorted_out(source, held)
        table = _counts_by_number([source.values[a] for a in held], sizes, source.counts)
        occupied = np.flatnonzero(table)
        values = np.unravel_index(occupied, sizes) if held else ()
        return Cells(dict(zip(held, values, strict=True)), table[occupied])


def _counts_by_number(
    values: Sequence[NDArray[np.integer[Any]]], sizes: Sequence[int], counts: Integers
) -> Integers:
    """(cells,): counts added up in a table of all cells, the last attribute fastest.

    >>> _counts_by_number([np.array([0, 1, 1]), np.array([2, 0, 2])], [2, 3], np.array([5, 1, 1]))
    array([0, 0, 5, 1, 0, 1])
    """
    cells = math.prod(sizes)
    table = np.zeros(cells, np.int64)
    step = max(RECORDS_TOGETHER, cells)
    all_ones = bool(np.all(counts == 1))
    for start in range(0, len(counts), step):
        part = slice(start, start + step)
        number = np.zeros(len(counts[part]), np.intp)
        for digit, size in zip(values, sizes, strict=True):
            number *= size
            number += digit[part]
        if all_ones:
            table += np.bincount(number, minlength=cells)
        elif _sum_of_sizes(counts[part]) < EXACT_DOUBLES:
            table += np.bincount(number, counts[part], cells).astype(np.int64)
        else:
            np.add.at(table, number, counts[part])
    return table


def _sum_of_sizes(counts: Integers) -> int:
    """At least Σ |count|."""
    return len(counts) * max(abs(int(counts.max(initial=0))), abs(int(counts.min(initial=0))))


def _sorted_out(source: Cells, held: list[int]) -> Cells:
    """The same for tables that are too large to write down."""
    order = np.lexsort([source.values[a] for a in reversed(held)])
    values = {a: source.values[a][order] for a in held}
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.any([v[1:] != v[:-1] for v in values.values()], axis=0)
    starts = np.flatnonzero(is_first)
    counts = source.counts[order]
    summed = np.add.reduceat(counts, starts) if len(starts) else counts
    return Cells({a: v[starts] for a, v in values.items()}, summed)


def total_count(counts: Integers) -> int:
    """Σ |count|, exact whatever the counts are."""
    if _sum_of_sizes(counts) < 2**63:
        return int(np.abs(counts).sum())
    return sum(abs(count) for count in counts.tolist())


@dataclass(frozen=True, eq=False)
class Parts:
    """Every copy of every block in the order of the rows, and what measuring looks up in them."""

    axes: Sequence[MeasuredAxis]
    blocks: Sequence[tuple[Block, SidePieces]]

    @cached_property
    def ends(self) -> list[int]:
        return list(accumulate(block.rows for block, _ in self.blocks))

    @cached_property
    def attributes(self) -> list[frozenset[int]]:
        """Of every block, those that its columns depend on."""
        return [_attributes(self.axes, block) for block, _ in self.blocks]

    @cached_property
    def _needs(self) -> tuple[list[tuple[int, int]], Integers, Integers]:
        """Orbits of attributes, outside of which a block is 0; and pairs of block and needed one.

        The pairs are two arrays of indices."""
        held = [
            (b, (r.attribute, self.axes[r.attribute].tree.orbit_of(r.part)))
            for b, (block, _) in enumerate(self.blocks)
            for r in block.residuals
            if r.part != WHOLE
        ]
        number = {part: p for p, part in enumerate(sorted({part for _, part in held}))}
        pairs = np.array([(b, number[part]) for b, part in held], np.int64).reshape(-1, 2)
        return list(number), pairs[:, 0], pairs[:, 1]

    def touched(self, cells: Cells) -> list[int]:
        """The blocks in which some record may count; of a single record most contrasts are 0."""
        parts, blocks, needed = self._needs
        occurs = {a: set(self.axes[a].orbit[v].tolist()) for a, v in cells.values.items()}
        missed = np.array([part not in occurs[a] for a, part in parts], bool)
        found = np.ones(len(self.blocks), bool)
        found[blocks[missed[needed]]] = False
        return np.flatnonzero(found).tolist()


def measure_blocks(parts: Parts, codes: Integers, counts: Integers) -> Integers:
    """A' x for x with these counts at these cells, (rows,)."""
    axes, ends = parts.axes, parts.ends
    counted = Counted.of(axes, codes, counts)
    measured = np.zeros(ends[-1], np.int64)
    if not len(counts):
        return measured
    reached = parts.touched(counted.cells)
    for b in sorted(reached, key=lambda b: -len(parts.attributes[b])):  # so that others follow
        block, pieces = parts.blocks[b]
        few = block.rows * len(counts) <= FEW_ENTRIES
        cells = counted.cells if few else counted.over(parts.attributes[b])
        rows = slice(ends[b] - block.rows, ends[b])
        if isinstance(pieces[0][0], DyadicPiece):  # a block by itself
            measured[rows] = _by_halves(axes, pieces[0][0], cells)
        elif block.rows * len(cells.counts) <= FEW_ENTRIES:
            measured[rows] = columns_at(axes, block, pieces, cells) @ cells.counts
        else:
            measured[rows] = _by_contrasts(axes, block, pieces, cells)
    return measured


def _by_halves(axes: Sequence[MeasuredAxis], piece: DyadicPiece, cells: Cells) -> Integers:
    """T H x for counts of one attribute's values."""
    (a,) = piece.axes
    x = np.zeros(len(axes[a].sizes), np.int64)
    np.add.at(x, axes[a].orbit[cells.values[a]], cells.counts)
    return piece.matrix.apply(x)


def _attributes(axes: Sequence[MeasuredAxis], block: Block) -> frozenset[int]:
    """Those that the block's columns depend on."""
    told = [a for a in block.axes if len(axes[a].sizes) > 1]
    return frozenset([*told, *(r.attribute for r in block.residuals)])


def columns_at(
    axes: Sequence[MeasuredAxis], block: Block, pieces: SidePieces, cells: Cells
) -> Exact:
    """The block of A' at the given cells, (rows of the block, cells)."""
    found = columns(pieces, _orbits(axes, block, cells))
    for r in block.residuals:
        position = axes[r.attribute].positions(r.part, cells.values[r.attribute])
        E = r.contrast.columns(position)
        found = (found[:, None, :] * E[None, :, :]).reshape(-1, found.shape[1])
    return found


def _orbits(axes: Sequence[MeasuredAxis], block: Block, cells: Cells) -> list[Integers]:
    """By attribute; one that was not counted, or that no side holds, shows as a single orbit."""
    found = [np.zeros(len(cells.counts), np.int64)] * len(axes)
    for a in block.axes:
        if a in cells.values:
            found[a] = axes[a].orbit[cells.values[a]]
    return found


def _by_contrasts(
    axes: Sequence[MeasuredAxis], block: Block, pieces: SidePieces, cells: Cells
) -> Integers:
    """The same by counts per (position in each part, orbits that occur together)."""
    positions = [
        axes[r.attribute].positions(r.part, cells.values[r.attribute]) for r in block.residuals
    ]
    inside = np.logical_and.reduce([np.ones(len(cells.counts), bool), *(p >= 0 for p in positions)])
    if not inside.any():
        return np.zeros(block.rows, np.int64)
    orbits = [orbit[inside] for orbit in _orbits(axes, block, cells)]
    told = [a for a in block.axes if a in cells.values]
    together = _numbered([orbits[a] for a in told], [len(axes[a].sizes) for a in told], orbits[0])
    present, first, place = np.unique(together, return_index=True, return_inverse=True)
    Z = np.zeros((*(r.contrast.nest.values for r in block.residuals), len(present)), np.int64)
    np.add.at(Z, (*(p[inside] for p in positions), place), cells.counts[inside])
    for i, r in enumerate(block.residuals):
        Z = r.contrast.apply(Z, i)
    Z, measured = Z.reshape(-1, len(present)), np.zeros(block.shape, np.int64)
    rows = math.prod(side.basis.rows for side in block.sides)
    step = max(ENTRIES_TOGETHER // rows, 1)
    for part in (slice(start, start + step) for start in range(0, len(present), step)):
        own = columns(pieces, [orbit[first[part]] for orbit in orbits])
        measured += multiply(own, Z[:, part].T).reshape(block.shape).astype(np.int64)
    return measured.ravel()


def _numbered(digits: Sequence[Integers], sizes: Sequence[int], like: Integers) -> Integers:
    """One number for each combination of digits.

    >>> _numbered([np.array([0, 1, 1]), np.array([2, 0, 2])], [2, 3], np.zeros(3)).tolist()
    [2, 3, 5]
    """
    if math.prod(sizes) >= 2**63:
        return np.unique(np.stack(digits), axis=1, return_inverse=True)[1].ravel()
    numbers = np.zeros(len(like), np.int64)
    for digit, size in zip(digits, sizes, strict=True):
        numbers = numbers * size + digit
    return numbers

"""What a random histogram shows of row spaces, modulo several primes.

Attributes are looked at together: vectors over their merged values stand end to end, each in the
order of its attribute's tree, so that one call of NumPy does the same to all of them. What a
vector g and the histogram x make of a part that an attribute can have in a block is a *column* of
the vector; the columns of all vectors are one array, in which `Laid.columns` finds them.

g: a vector over the values of one attribute, or a random sum of a factor's rows;
p: the primes, the first axis of every array; B, C, K: a side's basis, see dhdmm.strategy.basis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate, borrow, work
from dhdmm.strategy.blocks import MeasuredAxis, Side
from dhdmm.strategy.matrix import Integers, different_rows, runs
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.residues import (
    SHARED,
    Entries,
    added,
    inverse_numbers,
    product,
    random_residues,
    reduced,
    solve_in_groups,
    summed,
)

Booleans = NDArray[np.bool_]
HELD, MEAN, FIRST_PART = 0, 1, 3
"""Columns of an attribute: in a side, constant; then a residual's part, WHOLE = −1 being 2.

Every part has a column, whether blocks name it or not."""
ENTRIES_TOGETHER = 2**20
"""Products of a basis's rows with queries that are written out at once."""


def starts_of(counts: Integers) -> Integers:
    """Where each begins of so many things that stand end to end."""
    return np.asarray(np.cumsum(counts) - counts)


class Values:
    """The merged values of all attributes end to end, those of each in the order of its tree."""

    def __init__(self, axes: Sequence[MeasuredAxis]) -> None:
        trees = [axis.tree for axis in axes]
        self.axes = axes
        self.levels = max(tree.levels for tree in trees)
        self.counts = np.array([len(axis.orbit) for axis in axes])
        self.first = starts_of(self.counts)
        self.orbits = np.array([len(axis.sizes) for axis in axes])
        self.starts: list[Integers] = []
        """For every level where nodes begin; the first level are orbits, the last single values."""
        self.nodes: list[Integers] = []
        """For every level how many nodes each attribute has."""
        for level in range(self.levels + 1):
            mine = [tree.node_starts(min(level, tree.levels)) for tree in trees]
            self.starts.append(np.concatenate([*map(np.add, mine, self.first)]))
            self.nodes.append(np.array([*map(len, mine)]))

    @cached_property
    def places(self) -> Integers:
        """Of the merged values, attribute by attribute in the order of their numbers."""
        ranks = [axis.tree.ranks for axis in self.axes]
        return np.concatenate([*map(np.add, ranks, self.first)])


class Laid:
    """Vectors over merged values end to end, each over the values of its own attribute."""

    def __init__(self, values: Values, attribute: Integers) -> None:
        self.values, self.attribute = values, attribute
        sizes = values.counts[attribute]
        self.starts = starts_of(sizes)
        moved = self.starts - values.first[attribute]
        borrow(6 * int(sizes.sum()))
        self.nodes: list[Integers] = []
        """For every level which of the values' nodes stand here."""
        self.node_starts: list[Integers] = []
        for starts, counts in zip(values.starts, values.nodes, strict=True):
            mine = counts[attribute]
            self.nodes.append(runs(starts_of(counts)[attribute], mine))
            self.node_starts.append(starts[self.nodes[-1]] + np.repeat(moved, mine))
        self.orbits = starts_of(values.orbits[attribute])
        """The first orbit of each vector."""
        self.first = np.searchsorted(attribute, np.arange(len(values.counts)))
        """The first vector of each attribute."""

    @cached_property
    def order(self) -> Integers:
        """Which of all merged values stands where."""
        return runs(self.values.first[self.attribute], self.values.counts[self.attribute])

    def by_attribute(self, sums: Integers) -> list[Integers]:
        """(primes, vectors, orbits) of every attribute, from those of all orbits end to end."""
        counts = np.bincount(self.attribute, minlength=len(self.values.counts))
        parts = np.split(sums, np.cumsum(counts * self.values.orbits)[:-1], axis=1)
        shapes = zip(counts.tolist(), self.values.orbits.tolist(), strict=True)
        return [one.reshape(-1, *shape) for one, shape in zip(parts, shapes, strict=True)]

    def within(self, level: int, of: int) -> Integers:
        """The first node of a level in each node of a level above it."""
        return np.searchsorted(self.node_starts[level], self.node_starts[of])

    def columns(self, attribute: int, columns: Integers) -> tuple[Integers, Integers]:
        """Where each column of an attribute stands for its first vector, and how far to the next.

        One column for HELD; of every vector MEAN; of every vector WHOLE; then level by level those
        of its orbits.
        """
        first, orbits = self.first[attribute], self.values.orbits[attribute]
        level, orbit = np.divmod(columns - FIRST_PART, orbits)
        rows = len(self.attribute)
        part = 1 + 2 * rows + level * len(self.nodes[0]) + self.orbits[first] + orbit
        is_part, is_held = columns >= FIRST_PART, columns == HELD
        place = np.where(is_part, part, 1 + (columns - MEAN) * rows + first)
        return np.where(is_held, 0, place), np.where(is_held, 0, np.where(is_part, orbits, 1))


class Histogram:
    """A random histogram x = ⊗ x_a, and what vectors and x make of each other."""

    def __init__(self, axes: Sequence[MeasuredAxis], p: Integers, seed: bytes) -> None:
        self.values, self.p = Values(axes), p
        self.sizes = np.array([len(axis.merged) for axis in axes])
        allocate(3 * len(p) * int(self.sizes.sum()))
        self.x = random_residues("x", int(self.sizes.sum()), p, seed)
        """(primes, values)"""
        self.first = starts_of(self.sizes)
        """The first value of each attribute."""
        of_merged = [
            axis.merged + first for axis, first in zip(axes, self.values.first, strict=True)
        ]
        place = self.values.places[np.concatenate(of_merged)]
        self.merged = added(self.x, place, int(self.values.counts.sum()), p)
        representatives = [axis.representatives for axis in axes]
        self.representatives = np.empty(len(self.merged[0]), np.int64)
        """(merged values, in the order of trees): a value of each."""
        self.representatives[self.values.places] = np.concatenate(
            [*map(np.add, representatives, self.first)]
        )
        self.sums = [summed(self.merged, starts, p) for starts in self.values.starts]
        """For every level: sums over its nodes."""
        widths = [
            np.concatenate([axis.tree.widths[min(level, axis.tree.levels)] for axis in axes])
            for level in range(self.values.levels + 1)
        ]
        self.inverse_widths = [inverse_numbers(one, p) for one in widths]
        """For every level: of the values below a node, orbit by orbit."""
        self.inverse_counts = inverse_numbers(self.values.counts, p)

    @memoised
    def vectors(self, a: int) -> Integers:
        """(primes, 1, vectors): inner products of x with all vectors of an attribute."""
        first = int(self.values.orbits[:a].sum())
        own = self.sums[0][:, None, first : first + self.values.orbits[a]]
        return vector_values(self.values.axes[a], own, self.p)

    @memoised
    def means(self, a: int) -> Integers:
        """(primes, orbits): of x over the orbits of an attribute."""
        first = int(self.values.orbits[:a].sum())
        mine = slice(first, first + int(self.values.orbits[a]))
        return reduced(self.sums[0][:, mine] * self.inverse_widths[0][:, mine], self.p)

    def kept(self, rows: Integers, attribute: Integers) -> Integers:
        """g x, (primes, rows), for rows over values end to end, each of its attribute."""
        sizes = self.sizes[attribute]
        borrow(rows.size)
        weighed = rows * self.x[:, runs(self.first[attribute], sizes)]
        return summed(weighed, starts_of(sizes), self.p)

    def on_merged(self, rows: Integers, laid: Laid) -> Integers:
        """The same rows on merged values: what they are at the first value of each."""
        moved = starts_of(self.sizes[laid.attribute]) - self.first[laid.attribute]
        places = self.representatives[laid.order]
        return rows[:, places + np.repeat(moved, self.values.counts[laid.attribute])]

    def columns(self, laid: Laid, g: Integers) -> tuple[Integers, Integers]:
        """What g x̂ is on each column, (primes, columns), and g summed over orbits.

        On a residual's part both are centred: Σ g x − Σ g · Σ x / size, or for nested values the
        same of their sums below the children of each node.
        """
        p, levels = self.p, range(self.values.levels + 1)
        borrow(6 * g.size)
        sums = [summed(g, starts, p) for starts in laid.node_starts]
        by_level = []
        for level in levels:
            products = reduced(sums[level] * self.sums[level][:, laid.nodes[level]], p)
            together = summed(products, laid.within(level, 0), p)
            widths = self.inverse_widths[level][:, laid.nodes[0]]
            by_level.append(reduced(together * widths, p))
        parts = [reduced(fine - coarse, p) for coarse, fine in pairwise(by_level)]
        totals = summed(self.sums[0], starts_of(self.values.orbits), p)
        means = reduced(totals * self.inverse_counts, p)[:, laid.attribute]
        mean = reduced(summed(sums[0], laid.orbits, p) * means, p)
        whole = reduced(summed(by_level[-1], laid.orbits, p) - mean, p)
        return np.concatenate([np.ones((len(p), 1), np.int64), mean, whole, *parts], 1), sums[0]


def vector_values(axis: MeasuredAxis, sums: Integers, p: Integers) -> Integers:
    """(primes, …, orbits) → (primes, …, vectors): inner products with all vectors of an axis."""
    found = [reduced(sums.sum(axis=-1, keepdims=True), p), sums]
    if len(axis.extra):
        extra = np.stack([axis.extra.T % prime for prime in p])
        lead = sums.reshape(len(p), -1, sums.shape[-1])
        found.append(product(lead, extra, p).reshape(*sums.shape[:-1], -1))
    return np.concatenate(found, axis=-1)


class SideProbe:
    """(B D Bᵀ)⁻¹ B x for one side, D the sizes of orbits; equal sides of many blocks share it."""

    def __init__(self, side: Side, x: Histogram) -> None:
        self.axes, self.basis, self.p = side.axes, side.basis, x.p
        self._axes = [x.values.axes[a] for a in side.axes]
        self.is_everything = _is_every_unit(side, [len(axis.sizes) for axis in self._axes])
        if self.is_everything:
            self._means = [x.means(a) for a in side.axes]
            return
        rows = len(side.basis.ids)
        borrow(4 * len(self.p) * rows**2)
        work(10 * len(self.p) * len(side.axes) * rows**2)
        alone = np.zeros((1, len(self.axes)), np.int64)
        right = self._rows([x.vectors(a) for a in side.axes], alone)
        right = right.transpose(0, 2, 1)
        self.solved = solve_in_groups(self._gram(), right, self._groups(), self.p)[:, :, 0]

    def _gram(self) -> Entries:
        """B D Bᵀ"""
        tables = [self._axis_gram(i) for i in range(len(self.axes))]

        def of_products(row: Integers, column: Integers) -> Integers:
            shape = np.broadcast_shapes(row.shape, column.shape)
            found = np.ones((len(self.p), *shape), np.int64)
            for table, place in tables:
                at = place[row] * table.shape[1] + place[column]
                found = reduced(found * table.reshape(len(self.p), -1).take(at, axis=1), self.p)
            return found

        if self.basis.is_plain:
            return of_products
        every = np.arange(len(self.basis.ids))
        inner = of_products(every[:, None], every)
        gram = self._combined(self._combined(inner).transpose(0, 2, 1))
        return lambda row, column: gram[:, row, column]

    def _axis_gram(self, i: int) -> tuple[Integers, Integers]:
        """Inner products of the vectors in use on an axis, and which of them each product has."""
        axis, (used, place) = self._axes[i], np.unique(self.basis.ids[:, i], return_inverse=True)
        vectors = np.stack([axis.vectors[used] % prime for prime in self.p])
        weighed = reduced(vectors * axis.sizes, self.p)
        return product(weighed, vectors.transpose(0, 2, 1), self.p), place.ravel()

    def _groups(self) -> Integers:
        """Rows with different units on one axis have no cell in common."""
        best = np.full(self.basis.rows, SHARED)
        if not self.basis.is_plain:
            return best
        steps = self.basis.rows
        for axis, ids in zip(self._axes, self.basis.ids.T, strict=True):
            group = np.where((ids >= 1) & (ids <= len(axis.sizes)), ids, SHARED)
            held = np.bincount(group[group != SHARED], minlength=1)
            if held.max() + np.count_nonzero(group == SHARED) < steps:
                best, steps = group, int(held.max() + np.count_nonzero(group == SHARED))
        return best

    def _combined(self, products: Integers) -> Integers:
        """C over the last axis."""
        if self.basis.is_plain:
            return products
        weights = np.stack([self.basis.coefficients % prime for prime in self.p])
        weighed = reduced(products * weights.reshape(len(self.p), 1, -1), self.p)
        return summed(weighed, self.basis.starts[:-1], self.p)

    def _rows(self, vectors: Sequence[Integers], chosen: Integers) -> Integers:
        """B g for products of chosen rows, (primes, chosen, rows of B)."""
        K = np.ones((len(self.p), len(chosen), len(self.basis.ids)), np.int64)
        for i, table in enumerate(vectors):
            own = table.take(chosen[:, i], axis=1).take(self.basis.ids[:, i], axis=2)
            K = reduced(K * own, self.p)
        return self._combined(K)

    def values(self, vectors: Sequence[Integers], chosen: Integers) -> Integers:
        """g x̂ on this side, (primes, chosen): by `vector_values` of its axes, and chosen rows."""
        if self.is_everything:
            total = np.ones((len(self.p), len(chosen)), np.int64)
            for i, (table, means) in enumerate(zip(vectors, self._means, strict=True)):
                sums = table[:, :, 1 : 1 + means.shape[1]]
                line = product(sums, means[:, :, None], self.p)[:, :, 0]
                total = reduced(total * line[:, chosen[:, i]], self.p)
            return total
        work(4 * len(self.p) * len(chosen) * self.basis.ids.size)
        found = np.zeros((len(self.p), len(chosen)), np.int64)
        step = max(1, ENTRIES_TOGETHER // len(self.basis.ids))
        for start in range(0, len(chosen), step):
            part = self._rows(vectors, chosen[start : start + step])
            found[:, start : start + step] = product(part, self.solved[:, :, None], self.p)[:, :, 0]
        return found


def _is_every_unit(side: Side, orbits: Sequence[int]) -> bool:
    """Whether B is the identity on orbits, but for the order of its rows.

    As many rows as columns are not enough: untrusted rows may depend on each other.
    """
    ids = side.basis.ids
    if len(ids) != math.prod(orbits) or not side.basis.is_plain:
        return False
    units = bool(np.all((ids >= 1) & (ids <= np.array(orbits, np.int64))))
    return units and len(different_rows(ids)[0]) == len(ids)

"""Whether queries lie in a strategy's row space, by exact arithmetic and not by a tolerance.

A query w can be answered from A'x exactly when w x = w x̂ for every histogram x, x̂ being what is
reconstructed from A'x: one that A' does not see whole differs for nearly every x. So a probe is a
random x, reconstructed modulo a prime, where nothing is rounded. The rows of a term are tested
together, as their sum with random weights. Queries in the row space pass every probe. Others pass a
probe by chance 2d/p at most, d the number of attributes, because the difference is a polynomial of
degree 2d in the random numbers; three primes of 20 bits leave 2·10⁻¹⁴ for d = 14. All of them
follow from a seed: with the digest of a plan as seed, whoever makes the plan cannot choose queries
that its probes do not see. (That p divides every minor by which the query leaves the row space is
as unlikely.) A relative tolerance would not do: of 10¹⁸ cells, all but one are 10⁻⁹ away from all
of them.

Probe and weights are products, x = ⊗ x_a and g = ⊗ g_a, so g x̂ is a sum over blocks of products of
numbers: one for each attribute and its part in the block (its *column*), one for each side.

g: a query's row over the values of one attribute, or a random sum of a factor's rows;
p: the primes, the first axis of every array; B, C, K: a side's basis, see dhdmm.strategy.basis.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import Block, MeasuredAxis, Side, apart
from dhdmm.strategy.matrix import Integers, different_rows
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.residues import (
    SHARED,
    Entries,
    SingularModuloPrime,
    added,
    combined_rows,
    inverse,
    product,
    random_residues,
    reduced,
    solve_in_groups,
)
from dhdmm.strategy.symmetry import fingerprint
from dhdmm.study.factor import Factor
from dhdmm.study.workload import Product, Term

PROBES = 3
PRIMES = (1048573, 1048571, 1048559, 1048549, 1048517, 1048507)
"""Above every part of an attribute, below 2²⁰."""
HELD, MEAN, FIRST_PART = 0, 1, 3
"""Columns of an attribute: in a side, constant; then a residual's part, WHOLE = −1 being 2.

Every part has a column, whether blocks name it or not."""
ROWS_TOGETHER, ENTRIES_TOGETHER = 2**12, 2**20
"""Queries that are judged one by one, and entries of their rows, at once."""
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Membership:
    """The row space of the strategy with these axes and blocks."""

    axes: tuple[MeasuredAxis, ...]
    blocks: tuple[Block, ...]
    seed: bytes = b""

    def contains(self, *terms: Term) -> bool:
        """Whether all rows of all terms lie in the row space."""
        queries = Queries.mixed(terms, self.numbered(terms), self.probe.p, self.seed)
        return not self.probe.lost(queries).any()

    @memoised
    def numbered(self, terms: tuple[Term, ...]) -> FactorNumbers:
        """The terms' factors, looked at once."""
        return FactorNumbers(terms)

    def measured(self, term: Term) -> Booleans:
        """Which rows of the term lie in the row space, (queries,)."""
        if self.contains(term):
            return np.ones(term.queries, np.bool_)
        factors = [factor for product in term.products for factor in product.factors]
        entries = sum(math.prod(factor.shape) for factor in factors)
        if term.queries == 1 or (term.queries <= ROWS_TOGETHER and entries <= ENTRIES_TOGETHER):
            lost = self.probe.lost(Queries.one_by_one(term, self.probe.p))
            return np.asarray(np.all(lost == 0, axis=0))
        return np.concatenate([self.measured(half) for half in _halves(term)])

    @cached_property
    def probe(self) -> Probe:
        """A prime that divides a determinant is left out."""
        primes = list(PRIMES)
        while len(primes) >= PROBES:
            try:
                return Probe(self.axes, apart(self.blocks), np.array(primes[:PROBES]), self.seed)
            except SingularModuloPrime as singular:
                primes.remove(singular.prime)
        raise StrategyError("the strategy's rows depend on each other")


def _halves(term: Term) -> list[Term]:
    """The first and the second half of its rows, in their order."""
    a = next(a for a, rows in enumerate(term.row_shape) if rows > 1)

    def taken(rows: Integers) -> Term:
        products = []
        for whole in term.products:
            factors = list(whole.factors)
            factors[a] = factors[a].take(rows)
            products.append(Product(whole.coefficient, tuple(factors)))
        return replace(term, products=tuple(products))

    return [taken(half) for half in np.array_split(np.arange(term.row_shape[a]), 2)]


class FactorNumbers:
    """The different factors of each attribute, and every product as their numbers."""

    def __init__(self, terms: Iterable[Term]) -> None:
        products = [product for term in terms for product in term.products]
        attributes = len(products[0].factors)
        self.factors: list[list[Factor]] = [[] for _ in range(attributes)]
        self.index = np.zeros((len(products), attributes), np.int64)
        known: dict[object, int] = {}
        work(OBJECT / 4 * len(products))
        for i, one in enumerate(products):
            for a, factor in enumerate(one.factors):
                number = known.get((a, id(factor)))
                if number is None:
                    number = known.setdefault((a, fingerprint(factor)), len(self.factors[a]))
                    if number == len(self.factors[a]):
                        self.factors[a].append(factor)
                    known[a, id(factor)] = number
                self.index[i, a] = number


@dataclass(frozen=True, eq=False)
class Queries:
    """Sums of products of one row per attribute."""

    rows: list[Integers]
    """For each attribute the rows, (primes, rows, values)."""
    index: Integers
    """(products, attributes): which row."""
    coefficients: Integers
    """(primes, products)"""
    query: Integers
    """(products,): which query the product is a summand of."""

    @classmethod
    def mixed(
        cls, terms: Sequence[Term], numbered: FactorNumbers, p: Integers, seed: bytes
    ) -> Queries:
        """One query for each term: its rows with random weights.

        Row i of each of a term's products belongs to the same query, so has the same weight.
        """
        rows = []
        for a, factors in enumerate(numbered.factors):
            allocate(2 * len(p) * len(factors) * factors[0].shape[1])
            longest = max(factor.shape[0] for factor in factors)
            weights = random_residues(f"weights {a}", longest, p, seed)
            mixed = [combined_rows(f, weights[:, : f.shape[0]], p) for f in factors]
            rows.append(np.stack(mixed, axis=1))
        query = np.repeat(np.arange(len(terms)), [len(term.products) for term in terms])
        coefficients = [_coefficients(term.products, p) for term in terms]
        return cls(rows, numbered.index, np.concatenate(coefficients, axis=1), query)

    @classmethod
    def one_by_one(cls, term: Term, p: Integers) -> Queries:
        """Every row of the term is a query."""
        count, rows = len(term.products), []
        for a in range(len(term.row_shape)):
            written = [p_.factors[a].to_sparse().toarray() for p_ in term.products]
            stacked = np.concatenate(written).astype(np.int64)
            rows.append(np.stack([stacked % prime for prime in p]))
        row = np.indices(term.row_shape).reshape(len(term.row_shape), -1).T
        index = [row + np.array(term.row_shape) * i for i in range(count)]
        coefficients = np.repeat(_coefficients(term.products, p), term.queries, axis=1)
        return cls(rows, np.concatenate(index), coefficients, np.tile(np.arange(len(row)), count))


def _coefficients(products: Sequence[Product], p: Integers) -> Integers:
    """(primes, products) of a query, times the number that makes all of them integers."""
    common = math.lcm(*(one.coefficient.denominator for one in products))
    numbers = [int(one.coefficient * common) for one in products]
    return np.array([[number % prime for number in numbers] for prime in p.tolist()])


class AxisProbe:
    """One attribute of a probe: x_a, and the numbers that a query's rows and x_a make."""

    def __init__(self, axis: MeasuredAxis, x: Integers, p: Integers) -> None:
        allocate(3 * len(p) * len(axis.merged))
        self.axis, self.x, self.p = axis, x, p
        self.order, self.starts = axis.tree.order, axis.tree.starts
        self.merged = added(x, axis.merged, len(axis.orbit), p)
        self.orbits = self.orbit_sums(self.merged)
        counts = np.tile(np.append(axis.sizes, len(axis.orbit)), (len(p), 1))
        self.inverse_sizes = inverse(counts, p)
        widths = np.tile(axis.tree.widths.ravel(), (len(p), 1))
        self.inverse_widths = inverse(widths, p).reshape(len(p), *axis.tree.widths.shape)

    def orbit_sums(self, values: Integers) -> Integers:
        """(primes, …, merged values) → (primes, …, orbits)."""
        return reduced(np.add.reduceat(values[..., self.order], self.starts, axis=-1), self.p)

    def node_products(self, g: Integers, level: int) -> Integers:
        """Σ Σg · Σx / width over the nodes of a level, by orbit: (primes, rows, orbits)."""
        tree, p = self.axis.tree, self.p
        starts = tree.node_starts(level)
        borrow(4 * len(p) * g.shape[1] * len(starts))
        sums = reduced(np.add.reduceat(g[..., self.order], starts, axis=-1), p)
        own = reduced(np.add.reduceat(self.merged[:, self.order], starts, axis=-1), p)
        products = reduced(sums * own[:, None], p)
        first = np.searchsorted(starts, self.starts)
        together = reduced(np.add.reduceat(products, first, axis=-1), p)
        return reduced(together * self.inverse_widths[:, None, level], p)

    def vector_values(self, sums: Integers) -> Integers:
        """(primes, …, orbits) → (primes, …, vectors): inner products with all of its vectors."""
        total = reduced(sums.sum(axis=-1, keepdims=True), self.p)
        lead = sums.reshape(len(self.p), -1, sums.shape[-1])
        more = product(lead, self.extra, self.p).reshape(*sums.shape[:-1], -1)
        return np.concatenate([total, sums, more], axis=-1)

    @cached_property
    def extra(self) -> Integers:
        """(primes, orbits, count): the axis's vectors that are not common to all axes."""
        return np.stack([self.axis.extra.T % prime for prime in self.p])

    def kept(self, rows: Integers) -> Integers:
        """g x, (primes, rows)."""
        borrow(rows.size)
        return reduced((rows * self.x[:, None]).sum(axis=-1), self.p)

    def columns(self, rows: Integers) -> tuple[Integers, Integers]:
        """What g x̂ is on each column, (primes, rows, columns), and g summed over orbits.

        On a residual's part both are centred: Σ g x − Σ g · Σ x / size, or for nested values the
        same of their sums below the children of each node.
        """
        p = self.p
        borrow(4 * rows.size)
        g = rows[:, :, self.axis.representatives]
        sums, together = self.orbit_sums(g), self.orbit_sums(reduced(g * self.merged[:, None], p))
        by_level = [self.node_products(g, level) for level in range(self.axis.tree.levels + 1)]
        parts = [reduced(fine - coarse, p) for coarse, fine in pairwise(by_level)]
        every, all_x = sums.sum(axis=-1), self.orbits.sum(axis=-1)
        mean = reduced(reduced(every, p) * reduced(all_x, p)[:, None], p)
        mean = reduced(mean * self.inverse_sizes[:, None, -1], p)
        whole = together.sum(axis=-1) - mean
        first = [np.ones_like(mean), mean, reduced(whole, p)]
        return np.concatenate([np.stack(first, axis=-1), *parts], -1), sums


class SideProbe:
    """(B D Bᵀ)⁻¹ B x for one side, D the sizes of orbits; equal sides of many blocks share it."""

    def __init__(self, side: Side, axes: Sequence[AxisProbe], p: Integers) -> None:
        self.axes, self.basis, self.p = side.axes, side.basis, p
        self._mine = [axes[a] for a in side.axes]
        self.is_everything = _is_every_unit(side, [len(x.starts) for x in self._mine])
        if self.is_everything:
            return
        borrow(4 * len(p) * len(side.basis.ids) ** 2)
        work(10 * len(p) * len(side.axes) * len(side.basis.ids) ** 2)
        values = self._rows([x.vector_values(x.orbits)[:, None] for x in self._mine], [0])
        right = values.transpose(0, 2, 1)
        self.solved = solve_in_groups(self._gram(), right, self._groups(), p)[:, :, 0]

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
        x, ids = self._mine[i], self.basis.ids[:, i]
        used, place = np.unique(ids, return_inverse=True)
        vectors = np.stack([x.axis.vectors[used] % prime for prime in self.p])
        weighed = reduced(vectors * x.axis.sizes, self.p)
        return product(weighed, vectors.transpose(0, 2, 1), self.p), place.ravel()

    def _groups(self) -> Integers:
        """Rows with different units on one axis have no cell in common."""
        best = np.full(self.basis.rows, SHARED)
        if not self.basis.is_plain:
            return best
        steps = self.basis.rows
        for i, x in enumerate(self._mine):
            ids = self.basis.ids[:, i]
            group = np.where((ids >= 1) & (ids <= len(x.starts)), ids, SHARED)
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
        return reduced(np.add.reduceat(weighed, self.basis.starts[:-1], axis=-1), self.p)

    def _rows(self, values: Sequence[Integers], chosen: Sequence[int] | Integers) -> Integers:
        """B g for products of chosen rows, (primes, chosen, rows of B)."""
        numbers = np.asarray(chosen).reshape(-1, 1) if len(np.shape(chosen)) == 1 else chosen
        numbers = np.broadcast_to(numbers, (len(numbers), len(self.axes)))
        K = np.ones((len(self.p), len(numbers), len(self.basis.ids)), np.int64)
        for i, table in enumerate(values):
            ids = self.basis.ids[:, i]
            K = reduced(K * table.take(numbers[:, i], axis=1).take(ids, axis=2), self.p)
        return self._combined(K)

    def values(self, sums: Sequence[Integers], chosen: Integers) -> Integers:
        """g x̂ on this side, (primes, chosen): sums over orbits by axis, chosen rows (…, axes)."""
        if self.is_everything:
            total = np.ones((len(self.p), len(chosen)), np.int64)
            for i, x in enumerate(self._mine):
                means = reduced(x.orbits * x.inverse_sizes[:, :-1], self.p)
                line = product(sums[i], means[:, :, None], self.p)[:, :, 0]
                total = reduced(total * line[:, chosen[:, i]], self.p)
            return total
        work(4 * len(self.p) * len(chosen) * self.basis.ids.size)
        tables = [x.vector_values(s) for x, s in zip(self._mine, sums, strict=True)]
        found = np.zeros((len(self.p), len(chosen)), np.int64)
        step = max(1, ENTRIES_TOGETHER // len(self.basis.ids))
        for start in range(0, len(chosen), step):
            part = self._rows(tables, chosen[start : start + step])
            found[:, start : start + step] = product(part, self.solved[:, :, None], self.p)[:, :, 0]
        return found


class Probe:
    """x, and what is needed to compare g x with g x̂ for every query g."""

    def __init__(
        self, axes: Sequence[MeasuredAxis], blocks: Sequence[Block], p: Integers, seed: bytes
    ) -> None:
        self.p = p
        self.axes = [
            AxisProbe(axis, random_residues(f"{a}", len(axis.merged), p, seed), p)
            for a, axis in enumerate(axes)
        ]
        self.columns, self.sides, self.side = _places(len(axes), blocks)
        self._sides = [SideProbe(side, self.axes, p) for side in self.sides]

    def lost(self, queries: Queries) -> Integers:
        """g (x − x̂) for every query, (primes, queries)."""
        p, index = self.p, queries.index
        tables = [x.columns(rows) for x, rows in zip(self.axes, queries.rows, strict=True)]
        kept = np.ones(queries.coefficients.shape, np.int64)
        for a, (x, rows) in enumerate(zip(self.axes, queries.rows, strict=True)):
            kept = reduced(kept * x.kept(rows)[:, index[:, a]], p)
        q, b = self._meeting([(table != 0).any(axis=0) for table, _ in tables], index)
        borrow(4 * len(p) * len(q))
        work(10 * len(p) * len(q) * len(tables))
        taken = np.ones((len(p), len(q)), np.int64)
        for a, (table, _) in enumerate(tables):
            taken = reduced(taken * table[:, index[q, a], self.columns[b, a]], p)
        for slot in self.side.T:
            for number in np.unique(slot[b]):
                if number >= 0:
                    pairs = np.flatnonzero(slot[b] == number)
                    share = self._side_values(self._sides[number], tables, index[q[pairs]])
                    taken[:, pairs] = reduced(taken[:, pairs] * share, p)
        lost = reduced(kept - added(taken, q, len(index), p), p)
        weighed = reduced(lost * queries.coefficients, p)
        return added(weighed, queries.query, 1 + int(queries.query[-1]), p)

    def _side_values(
        self, side: SideProbe, tables: Sequence[tuple[Integers, Integers]], index: Integers
    ) -> Integers:
        """(primes, products), computed once for products that agree on the side's axes."""
        chosen, place = different_rows(index[:, side.axes])
        return side.values([tables[a][1] for a in side.axes], chosen)[:, place]

    def _meeting(self, seen: Sequence[Booleans], index: Integers) -> tuple[Integers, Integers]:
        """Pairs of a product and a block on all of whose residuals it is not zero.

        Sets of residuals have random names, added up attribute by attribute; only sets with which
        some block's begin are extended. (Blocks of the same name by chance do no harm.)
        """
        q = np.arange(len(index))
        name = np.zeros(len(q), np.uint64)
        of_blocks = np.zeros(len(self.columns), np.uint64)
        for a, nonzero in enumerate(seen):
            used = np.unique(self.columns[:, a])
            parts = used[used > MEAN]
            digest = hashlib.shake_256(f"dhdmm parts {a}".encode()).digest(8 * nonzero.shape[1])
            names = np.frombuffer(digest, "<u8").astype(np.uint64)
            names[: MEAN + 1] = 0
            of_blocks = of_blocks + names[self.columns[:, a]]
            borrow(len(q) * len(parts) / 4)
            which, part = np.nonzero(nonzero[:, parts][index[q, a]])
            q = np.concatenate([q, q[which]])
            name = np.concatenate([name, name[which] + names[parts[part]]])
            work(20 * len(q))
            kept = np.isin(name, of_blocks)
            q, name = q[kept], name[kept]
        order = np.argsort(of_blocks, kind="stable")
        low, high = (np.searchsorted(of_blocks[order], name, side) for side in ("left", "right"))
        b = np.arange((high - low).sum()) - np.repeat(np.cumsum(high - low) - high, high - low)
        return np.repeat(q, high - low), order[b]


def _places(attributes: int, blocks: Sequence[Block]) -> tuple[Integers, list[Side], Integers]:
    """Each block's columns, the different sides, and each block's sides among them or −1."""
    columns = np.full((len(blocks), attributes), MEAN)
    number: dict[object, int] = {}
    sides: list[Side] = []
    side_of = np.full((len(blocks), max(len(block.sides) for block in blocks)), -1)
    for b, block in enumerate(blocks):
        for residual in block.residuals:
            columns[b, residual.attribute] = residual.part + FIRST_PART
        for i, side in enumerate(block.sides):
            columns[b, list(side.axes)] = HELD
            key = side.axes, side.basis.key
            if key not in number:
                number[key] = len(sides)
                sides.append(side)
            side_of[b, i] = number[key]
    return columns, sides, side_of


def _is_every_unit(side: Side, orbits: Sequence[int]) -> bool:
    """Whether B is the identity on orbits, but for the order of its rows.

    As many rows as columns are not enough: untrusted rows may depend on each other.
    """
    ids = side.basis.ids
    if len(ids) != math.prod(orbits) or not side.basis.is_plain:
        return False
    units = bool(np.all((ids >= 1) & (ids <= np.array(orbits, np.int64))))
    return units and len(different_rows(ids)[0]) == len(ids)

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

p: the primes, the first axis of every array.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import Block, MeasuredAxis, Side
from dhdmm.strategy.matrix import Integers, different_rows, runs
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.probe import (
    FIRST_PART,
    HELD,
    MEAN,
    Booleans,
    Histogram,
    Laid,
    SideProbe,
    starts_of,
    vector_values,
)
from dhdmm.strategy.residues import (
    SingularModuloPrime,
    added,
    combined_rows,
    random_residues,
    reduced,
)
from dhdmm.strategy.symmetry import different_factors
from dhdmm.study.workload import Product, Term

PROBES = 3
PRIMES = (1048573, 1048571, 1048559, 1048549, 1048517, 1048507)
"""Above every part of an attribute, below 2²⁰."""
ROWS_TOGETHER, ENTRIES_TOGETHER = 2**12, 2**20
"""Queries that are judged one by one, and entries of their rows, at once."""
FEW_PAIRS = 2**12
"""Products with sets of residuals that are not worth to be looked up."""


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
                return Probe(self.axes, self.blocks, np.array(primes[:PROBES]), self.seed)
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
        work(OBJECT / 4 * len(products))
        columns = zip(*(product.factors for product in products), strict=True)
        different = [different_factors(column) for column in columns]
        self.factors = [factors for factors, _ in different]
        self.index = np.stack([numbers for _, numbers in different], axis=1)


@dataclass(frozen=True, eq=False)
class Queries:
    """Sums of products of one row per attribute."""

    attribute: Integers
    """(rows,): which each row is over, increasing."""
    rows: Integers
    """(primes, …): the rows over values, end to end."""
    index: Integers
    """(products, attributes): which of the attribute's rows."""
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
        every = [factor for factors in numbered.factors for factor in factors]
        allocate(2 * len(p) * sum(factor.shape[1] for factor in every))
        longest = [max(f.shape[0] for f in factors) for factors in numbered.factors]
        drawn = random_residues("weights", sum(longest), p, seed)
        attribute = np.repeat(np.arange(len(longest)), [*map(len, numbered.factors)])
        first = starts_of(np.array(longest))[attribute].tolist()
        weights = [drawn[:, i : i + f.shape[0]] for f, i in zip(every, first, strict=True)]
        rows = combined_rows(every, weights, p)
        query = np.repeat(np.arange(len(terms)), [len(term.products) for term in terms])
        return cls(attribute, rows, numbered.index, _coefficients(terms, p), query)

    @classmethod
    def one_by_one(cls, term: Term, p: Integers) -> Queries:
        """Every row of the term is a query."""
        count, rows = len(term.products), []
        for a in range(len(term.row_shape)):
            rows += [one.factors[a].to_sparse().toarray().ravel() for one in term.products]
        stacked = np.concatenate(rows).astype(np.int64) % p[:, None]
        attribute = np.repeat(np.arange(len(term.row_shape)), count * np.array(term.row_shape))
        row = np.indices(term.row_shape).reshape(len(term.row_shape), -1).T
        index = [row + np.array(term.row_shape) * i for i in range(count)]
        coefficients = np.repeat(_coefficients([term], p), term.queries, axis=1)
        query = np.tile(np.arange(len(row)), count)
        return cls(attribute, stacked, np.concatenate(index), coefficients, query)


def _coefficients(terms: Sequence[Term], p: Integers) -> Integers:
    """(primes, products), those of each term times the number that makes all of them integers."""
    numbers: list[int] = []
    for term in terms:
        given = [product.coefficient for product in term.products]
        common = math.lcm(*(one.denominator for one in given))
        numbers += [one.numerator * (common // one.denominator) for one in given]
    return np.array([[number % prime for number in numbers] for prime in p.tolist()])


class Probe:
    """x, and what is needed to compare g x with g x̂ for every query g."""

    def __init__(
        self, axes: Sequence[MeasuredAxis], blocks: Sequence[Block], p: Integers, seed: bytes
    ) -> None:
        self.p, self.x = p, Histogram(axes, p, seed)
        self.columns, self.sides, self.side = _places(len(axes), blocks)
        self._sides = [SideProbe(side, self.x) for side in self.sides]

    def lost(self, queries: Queries) -> Integers:
        """g (x − x̂) for every query, (primes, queries)."""
        p, index, attributes = self.p, queries.index, range(queries.index.shape[1])
        laid = Laid(self.x.values, queries.attribute)
        table, sums = self.x.columns(laid, self.x.on_merged(queries.rows, laid))
        own = self.x.kept(queries.rows, queries.attribute)
        kept = np.ones(queries.coefficients.shape, np.int64)
        for a in attributes:
            kept = reduced(kept * own[:, laid.first[a] + index[:, a]], p)
        q, b = self.meeting(laid, (table != 0).any(axis=0), index)
        borrow(4 * len(p) * len(q))
        work(10 * len(p) * len(q) * len(attributes))
        taken = np.ones((len(p), len(q)), np.int64)
        for a in attributes:
            place, step = laid.columns(a, self.columns[:, a])
            taken = reduced(taken * table[:, place[b] + step[b] * index[q, a]], p)
        orbits = laid.by_attribute(sums)
        vectors = {
            a: vector_values(self.x.values.axes[a], orbits[a], p)
            for a in {a for side in self.sides for a in side.axes}
        }
        for slot in self.side.T:
            for number in np.unique(slot[b]):
                if number >= 0:
                    pairs, side = np.flatnonzero(slot[b] == number), self._sides[number]
                    # computed once for products that agree on the side's axes
                    chosen, place = different_rows(index[q[pairs]][:, side.axes])
                    share = side.values([vectors[a] for a in side.axes], chosen)[:, place]
                    taken[:, pairs] = reduced(taken[:, pairs] * share, p)
        lost = reduced(kept - added(taken, q, len(index), p), p)
        weighed = reduced(lost * queries.coefficients, p)
        return added(weighed, queries.query, 1 + int(queries.query[-1]), p)

    def meeting(self, laid: Laid, seen: Booleans, index: Integers) -> tuple[Integers, Integers]:
        """Pairs of a product and a block all of whose residuals' columns it sees.

        Sets of residuals have random names, added up attribute by attribute; of many only those
        are extended with which some block's begin. (Blocks of one name by chance do no harm.)
        """
        q = np.arange(len(index))
        name = np.zeros(len(q), np.uint64)
        of_blocks = np.zeros(len(self.columns), np.uint64)
        for a in range(index.shape[1]):
            used, which = np.unique(self.columns[:, a], return_inverse=True)
            digest = hashlib.shake_256(f"dhdmm parts {a}".encode()).digest(8 * len(used))
            names = np.where(used > MEAN, np.frombuffer(digest, "<u8"), 0).astype(np.uint64)
            of_blocks = of_blocks + names[which.ravel()]
            parts, names = used[used > MEAN], names[used > MEAN]
            if not len(parts):
                continue
            borrow(len(q) * len(parts) / 4)
            place, step = laid.columns(a, parts)
            which, part = np.nonzero(seen[place + step * index[q, a][:, None]])
            q = np.concatenate([q, q[which]])
            name = np.concatenate([name, name[which] + names[part]])
            work(20 * len(q))
            if len(q) > FEW_PAIRS:
                kept = np.isin(name, of_blocks)
                q, name = q[kept], name[kept]
        order = np.argsort(of_blocks, kind="stable")
        low, high = (np.searchsorted(of_blocks[order], name, side) for side in ("left", "right"))
        return np.repeat(q, high - low), order[runs(low, high - low)]


def _places(attributes: int, blocks: Sequence[Block]) -> tuple[Integers, list[Side], Integers]:
    """Each copy's columns, the different sides, and each copy's sides among them or −1."""
    copies = [block.copies for block in blocks]
    columns = np.full((sum(copies), attributes), MEAN)
    number: dict[object, int] = {}
    sides: list[Side] = []
    side_of = np.full((len(columns), max(len(block.sides) for block in blocks)), -1)
    work(OBJECT * len(blocks))
    for block, end in zip(blocks, accumulate(copies), strict=True):
        rows = np.arange(end - block.copies, end)
        for residual, place in zip(block.residuals, zip(*block.places, strict=True), strict=True):
            columns[rows, place] = residual.part + FIRST_PART
        for i, side in enumerate(block.sides):
            columns[rows[:, None], side.axes] = HELD
            key = side.axes, side.basis.key
            if key not in number:
                number[key] = len(sides)
                sides.append(side)
            side_of[rows, i] = number[key]
    return columns, sides, side_of

"""The structure that makes large workloads small, all of it lossless.

1. *Merging*: values of an attribute whose columns agree in every factor are one merged value.
2. *Exchangeability*: merged values u, v of an attribute are exchangeable when swapping them leaves
   every Gram matrix FᵢᵀFⱼ of the attribute unchanged; exchangeable values form an *orbit*. The
   error is convex and invariant, so the optimal X = AᵀA may be averaged over all such swaps. Then V
   = WᵀW and X are block diagonal: an attribute enters a block either by its *trivial* part (one
   coordinate per orbit, the vector 1_o/√|o|) or by the *standard* part of one orbit (the |o|−1
   dimensions of vectors on o that sum to zero), on which every Gram acts as a number.

A block is named by its residuals: {(attribute, orbit)} of standard parts; every other attribute is
trivial. On it V acts as Σ c · ⊗ G (trivial parts) times the identity of the standard parts.

Values that are the leaves of a tree, such as tracts in counties in states, have larger orbits: its
subtrees are exchanged as wholes (tree.py). Such an orbit has one standard part for each level.

Most other exchangeable values are easy to find (*twins*): no row but those that hold a single value
tells them apart. A Gram is computed for two values of each class of twins, from which all its
entries follow: ten thousand ages that are counted one by one need a Gram of two.

F: factor (rows, values); G: Gram on orbits (orbits, orbits); λ: Gram's number on a standard part.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import Floats, Integers, largest
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.strategy.tree import MergedAxis, Tree, find_tree
from dhdmm.study.factor import Factor, Ranges, column_fingerprints, gram
from dhdmm.study.workload import Workload

GRAM_COPIES = 4
"""Arrays of a Gram's size that exist while orbits are found."""


SHORT = 2**8
"""Bytes of a factor that are not worth a digest: wide workloads have a million small ones."""

Residuals = tuple[tuple[int, int], ...]
"""Standard parts of a block as (attribute, part), attributes increasing."""
FactorPairs = tuple[tuple[int, int], ...]
"""A Kronecker product of Grams FᵢᵀFⱼ, named by i and j for every attribute."""


@dataclass(frozen=True, eq=False)
class Twins:
    """Classes of merged values whose exchange leaves every Gram unchanged, with representatives.

    At the values `shown`, two of a class (one if it has no other), a Gram is written out.
    """

    number: Integers
    """(merged values,): value → class, numbered by first occurrence."""
    shown: Integers
    """Increasing."""

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.number)

    @cached_property
    def first(self) -> Integers:
        """(classes,): the first value of each."""
        return np.unique(self.number, return_index=True)[1]

    @cached_property
    def _places(self) -> tuple[Integers, Integers]:
        """Where among the values shown the first and the last one of each class is."""
        shown = self.number[self.shown]
        first = np.unique(shown, return_index=True)[1]
        return first, len(shown) - 1 - np.unique(shown[::-1], return_index=True)[1]

    def own(self, G: Integers) -> Integers:
        """(classes,): G_uu."""
        first, _ = self._places
        return np.asarray(G[first, first], np.int64)

    def other(self, G: Integers) -> Integers:
        """(classes, classes): G_uv of different values; of a class of one value G_uu."""
        first, last = self._places
        found = G[np.ix_(first, first)].astype(np.int64)
        np.fill_diagonal(found, G[first, last])
        return found

    def sums(self, G: Integers) -> Integers:
        """(classes, classes): Σ G_uv over the values of both."""
        other, n = self.other(G), self.sizes
        found = other * np.outer(n, n)
        found[np.diag_indices(len(n))] += n * (self.own(G) - np.diag(other))
        return np.asarray(found)

    def expand(self, G: Integers) -> Integers:
        """(merged values, merged values)"""
        found = self.other(G)[np.ix_(self.number, self.number)]
        np.fill_diagonal(found, self.own(G)[self.number])
        return found


@dataclass(frozen=True, eq=False)
class ReducedAxis(MergedAxis):
    """One attribute: its values merged, the merged values in orbits, its distinct factors."""

    factors: tuple[Factor, ...]
    """The workload's distinct factors of this attribute, on merged values."""
    twins: Twins
    met: tuple[tuple[int, int], ...]
    """Factors that meet in one term."""
    is_tree: bool = False
    """Whether rows are nested sets, of few entries: then Grams are not written out."""

    @cached_property
    def shown(self) -> dict[tuple[int, int], Integers]:
        """FᵢᵀFⱼ of factors that meet, at the values that stand for their twins."""
        return _shown(self.factors, self.twins, self.met)

    @cached_property
    def summed(self) -> dict[tuple[int, int], Integers]:
        """Grams summed over orbits: 1_oᵀ G 1_o'."""
        if self.is_tree:
            ones = self._indicator(np.arange(len(self.orbit)), self.orbit, np.ones_like(self.orbit))
            return {(i, j): (ones[i].T @ ones[j]).toarray() for i, j in self.met}
        orbit = self.orbit[self.twins.first]
        found = {}
        for key, G in self.shown.items():
            found[key] = np.zeros((len(self.sizes), len(self.sizes)), np.int64)
            np.add.at(found[key], np.ix_(orbit, orbit), self.twins.sums(G))
        return found

    def _indicator(self, values: Integers, columns: Integers, entries: Integers) -> list[Any]:
        """Every factor times a sparse matrix with these entries."""
        from scipy import sparse

        allocate(8 * sum(factor.nonzeros for factor in self.factors))
        shape = len(self.orbit), int(columns.max()) + 1
        matrix = sparse.csr_array((entries, (values, columns)), shape=shape)
        return [factor.to_sparse() @ matrix for factor in self.factors]

    @cached_property
    def trivial(self) -> dict[tuple[int, int], Floats]:
        """Grams on the trivial part: 1_oᵀ G 1_o' / √(|o||o'|)."""
        root = np.sqrt(self.sizes.astype(np.float64))
        return {key: G / np.outer(root, root) for key, G in self.summed.items()}

    @cached_property
    def standard(self) -> dict[tuple[int, int], Integers]:
        """λ on every part, 0 where an orbit has no such level.

        Where nothing is nested it is G_uu − G_uv for u ≠ v of the orbit. Else zᵀGz/zᵀz for the
        difference z of two children of one node.
        """
        if self.is_tree:
            return self._nested_numbers()
        orbit = self.orbit[self.twins.shown]
        pairs = [np.flatnonzero(orbit == o)[[0, -1]] for o in range(len(self.sizes))]
        first, last = np.array(pairs).T
        return {
            key: G[first, first].astype(np.int64) - G[first, last] for key, G in self.shown.items()
        }

    def _nested_numbers(self) -> dict[tuple[int, int], Integers]:
        tree, found = self.tree, np.zeros((len(self.met), self.tree.parts), np.int64)
        for level in range(tree.levels):
            child, last = tree.children(level)
            first_node = tree.places < tree.widths[level][self.orbit]
            values = np.flatnonzero((last > 0) & first_node & (child < 2))
            if not len(values):
                continue
            signs = np.where(child[values] == 0, 1, -1)
            seen = self._indicator(values, self.orbit[values], signs)
            for n, (i, j) in enumerate(self.met):
                lengths = 2 * tree.widths[level + 1][: seen[i].shape[1]]
                own = np.asarray((seen[i].multiply(seen[j])).sum(axis=0)).ravel() // lengths
                found[n, level * len(self.sizes) :][: len(own)] = own
        return dict(zip(self.met, found, strict=True))

    @cached_property
    def diagonals(self) -> dict[tuple[int, int], Integers]:
        """G_uu, (merged values,)."""
        if self.is_tree:
            seen = [factor.to_sparse() for factor in self.factors]
            return {(i, j): np.asarray(seen[i].multiply(seen[j]).sum(axis=0)) for i, j in self.met}
        return {key: self.twins.own(G)[self.twins.number] for key, G in self.shown.items()}

    def gram(self, key: tuple[int, int]) -> Integers:
        """FᵢᵀFⱼ in full, (merged values, merged values)."""
        if key not in self._grams:
            _require_room(len(self.orbit), 1 + len(self._grams))
            self._grams[key] = self.twins.expand(self.shown[key])
        return self._grams[key]

    @cached_property
    def _grams(self) -> dict[tuple[int, int], Integers]:
        return {}


@dataclass(frozen=True, eq=False)
class ReducedTerm:
    """weight · Σ coefficient · ⊗ factors[a][index[a]]."""

    weight: float
    coefficients: tuple[Fraction, ...]
    indices: tuple[tuple[int, ...], ...]
    """Per product, the index of its factor on every axis."""

    @property
    def integer_coefficients(self) -> tuple[int, ...]:
        """The products' coefficients times their common denominator."""
        common = math.lcm(*(c.denominator for c in self.coefficients))
        return tuple(int(c * common) for c in self.coefficients)

    def pairs(self) -> Iterator[tuple[float, tuple[tuple[int, int], ...]]]:
        """V's share of this term: Σ over pairs of products of c · ⊗ FᵢᵀFⱼ."""
        products = list(zip(self.coefficients, self.indices, strict=True))
        for (c, left), (e, right) in itertools.product(products, products):
            yield self.weight**2 * float(c * e), tuple(zip(left, right, strict=True))


@dataclass(frozen=True, eq=False)
class BlockGram:
    """V on one block: Σ coefficient · ⊗ G over the axes whose trivial part has several orbits."""

    residuals: Residuals
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    """Orbits of each of `axes`; their product is the block's dimension."""
    pairs: dict[FactorPairs, float]
    """The Gram of every one of `axes`, named by two factors → coefficient."""
    summands: tuple[tuple[float, tuple[Floats, ...]], ...]
    multiplicity: int
    """Product of the residuals' dimensions, times the copies: how often the block occurs."""
    others: tuple[tuple[int, ...], ...] = ()
    """The residuals' attributes in every further copy."""

    @property
    def dimension(self) -> int:
        return math.prod(self.shape)

    @property
    def trace(self) -> float:
        """tr V, once per copy of the block."""
        return math.fsum(c * math.prod(np.trace(G) for G in grams) for c, grams in self.summands)


@dataclass(frozen=True, eq=False)
class Reduction:
    """A workload on merged values and orbits."""

    axes: tuple[ReducedAxis, ...]
    terms: tuple[ReducedTerm, ...]
    objective: Objective

    @property
    def orbit_shape(self) -> tuple[int, ...]:
        return tuple(len(axis.sizes) for axis in self.axes)

    def blocks(self, together: bool = True) -> list[BlockGram]:
        """The blocks on which V is not zero; copies that differ only by their attributes are one.

        All values of an attribute of one orbit are alike, so of such a residual only its size
        matters: all two-way tables of sixty yes/no questions have three different blocks.
        """
        found: dict[Residuals, dict[FactorPairs, float]] = {}
        for term in self.terms:
            for coefficient, pairs in term.pairs():
                self._add_share(found, coefficient, pairs)
        copies: dict[Hashable, list[Residuals]] = {}
        for residuals in sorted(found):
            parts = ((None if self._is_alike(a) else a, o) for a, o in residuals)
            sizes = (self.axes[a].tree.nest(part) for a, part in residuals)
            alike = tuple(parts), tuple(sizes), tuple(found[residuals].items())
            copies.setdefault(alike if together else residuals, []).append(residuals)
        grams = [self._block_gram(places, found[places[0]]) for places in copies.values()]
        return [block for block in grams if block.summands]

    def _is_alike(self, a: int) -> bool:
        return len(self.axes[a].sizes) == 1

    def _add_share(
        self,
        found: dict[Residuals, dict[FactorPairs, float]],
        coefficient: float,
        pairs: FactorPairs,
    ) -> None:
        """Adds c · ⊗ G to every block that sees it."""
        varying: list[list[tuple[tuple[int, int] | None, float]]] = []
        for a, pair in enumerate(pairs):
            options = self._options(a, pair)
            if len(options) == 1:
                coefficient *= options[0][1]
            else:
                varying.append(options)
        work(OBJECT * (math.prod(map(len, varying)) + len(pairs) / 10))
        for choice in itertools.product(*varying):
            number = coefficient * math.prod(number for _, number in choice)
            if number:
                residuals = tuple(part for part, _ in choice if part is not None)
                key = tuple(pairs[a] for a in self.trivial_axes(residuals))
                summands = found.setdefault(residuals, {})
                summands[key] = summands.get(key, 0.0) + number

    @memoised
    def _options(self, a: int, pair: tuple[int, int]) -> list[tuple[tuple[int, int] | None, float]]:
        """The parts of an attribute that a Gram does not map to 0, with its number there.

        None is the trivial one.
        """
        standard = self.axes[a].standard[pair]
        trivial = float(self.axes[a].trivial[pair][0, 0]) if self._is_alike(a) else 1.0
        active = [((a, int(o)), float(standard[o])) for o in np.flatnonzero(standard)]
        return [(None, trivial), *active]

    @memoised
    def trivial_axes(self, residuals: Residuals) -> tuple[int, ...]:
        """Attributes of several orbits that enter a block by their trivial part."""
        standard = dict(residuals)
        return tuple(a for a in self._long_axes if a not in standard)

    @cached_property
    def _long_axes(self) -> list[int]:
        return [a for a in range(len(self.axes)) if not self._is_alike(a)]

    def _block_gram(
        self, places: Sequence[Residuals], summands: dict[FactorPairs, float]
    ) -> BlockGram:
        residuals = places[0]
        axes = self.trivial_axes(residuals)
        grams = [
            (c, tuple(self.axes[a].trivial[pair] for a, pair in zip(axes, key, strict=True)))
            for key, c in summands.items()
        ]
        copies = math.prod(self.axes[a].tree.existing(part).rows for a, part in residuals)
        return BlockGram(
            residuals,
            axes,
            tuple(self.orbit_shape[a] for a in axes),
            summands,
            tuple((c, G) for c, G in grams if all(np.any(g) for g in G)),
            copies * len(places),
            tuple(tuple(a for a, _ in place) for place in places[1:]),
        )

    def scalar(self, pairs: Sequence[tuple[int, int]], standard: dict[int, int]) -> float:
        """Product of the Grams' numbers on standard parts and on axes of a single orbit."""
        number = 1.0
        for a, pair in enumerate(pairs):
            options = dict(self._options(a, pair))
            number *= options.get((a, standard[a]), 0.0) if a in standard else options[None]
            if not number:
                break
        return number


def reduce_workload(workload: Workload, objective: Objective = TOTAL_SQUARED_ERROR) -> Reduction:
    """Merge values and find the orbits of every attribute."""
    products = [product for term in workload.terms for product in term.products]
    columns = list(zip(*(product.factors for product in products), strict=True))
    distinct = [different_factors(column) for column in columns]
    merged = [_merge(factors) for factors, _ in distinct]
    indices = zip(*(numbers.tolist() for _, numbers in distinct), strict=True)
    terms: list[ReducedTerm] = []
    for term, weight in zip(workload.terms, objective.weights(workload), strict=True):
        coefficients = tuple(product.coefficient for product in term.products)
        mine = tuple(itertools.islice(indices, len(coefficients)))
        terms.append(ReducedTerm(weight, coefficients, mine))
    axes = tuple(_axis(a, *merge, terms) for a, merge in enumerate(merged))
    return Reduction(axes, tuple(terms), objective)


def fingerprint(factor: Factor) -> bytes:
    """Equal for equal factors."""
    work(4 * OBJECT + 20 * factor.shape[0])
    if isinstance(factor, Ranges):
        heading = b"ranges %d " % factor.size
        parts = [factor.low, factor.high]
    else:
        heading = b"rows %d %d " % factor.shape
        parts = [factor.matrix.indptr, factor.matrix.indices, factor.matrix.data]
    entries = [np.ascontiguousarray(part, np.int64) for part in parts]
    if len(heading) + sum(part.nbytes for part in entries) < SHORT:
        return heading + b"".join(part.tobytes() for part in entries)
    digest = hashlib.sha256(heading)
    for part in entries:
        digest.update(part.data)
    return digest.digest()


def different_factors(factors: Sequence[Factor]) -> tuple[list[Factor], Integers]:
    """The different factors in the order of their first, and for each which of them it is."""
    same = np.fromiter(map(id, factors), np.int64, len(factors))
    _, first, place = np.unique(same, return_index=True, return_inverse=True)
    order = np.argsort(first)
    known: dict[bytes, int] = {}
    kept: list[Factor] = []
    numbers = np.empty(len(first), np.int64)
    for i, place_of_first in zip(order.tolist(), first[order].tolist(), strict=True):
        factor = factors[place_of_first]
        numbers[i] = number = known.setdefault(fingerprint(factor), len(kept))
        if number == len(kept):
            kept.append(factor)
    return kept, numbers[place.ravel()]


def _merge(factors: Sequence[Factor]) -> tuple[Integers, tuple[Factor, ...]]:
    """(value → merged value, factors on merged values)."""
    for factor in factors:
        allocate(6 * factor.shape[1])
        borrow(6 * factor.shape[0])
    prints = np.concatenate([column_fingerprints(factor) for factor in factors], axis=1)
    _, first, inverse = np.unique(prints, axis=0, return_index=True, return_inverse=True)
    merged = _by_first_occurrence(inverse.ravel())
    return merged, tuple(factor.columns(np.sort(first)) for factor in factors)


def _by_first_occurrence(labels: Integers) -> Integers:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _axis(
    a: int, merged: Integers, factors: tuple[Factor, ...], terms: Sequence[ReducedTerm]
) -> ReducedAxis:
    together = {tuple(index[a] for index in term.indices) for term in terms}
    stacks = [[factors[i] for i in sorted(set(met))] for met in sorted(together)]
    twins = find_twins(stacks)
    met = sorted({pair for chosen in together for pair in itertools.product(chosen, chosen)})
    tree = find_tree(stacks)
    if tree is not None and (tree.levels > 1 or len(twins.shown) > sizes.TWINS):
        if len(tree.shapes) > sizes.ROWS_OVER_AXIS:
            raise StrategyError(
                f"the groups of one attribute are too different: {len(tree.shapes):,} kinds of"
                f" values, more than {sizes.ROWS_OVER_AXIS:,}",
                hint="ask for fewer levels of groups, or for larger groups",
            )
        return ReducedAxis(merged, tree, factors, twins, tuple(met), is_tree=True)
    shown = _shown(factors, twins, met)
    orbit = np.zeros(len(twins.sizes), np.int64)
    orbit[twins.number[twins.shown]] = orbits(list(shown.values()))
    axis = ReducedAxis(merged, Tree.flat(orbit[twins.number]), factors, twins, tuple(met))
    vars(axis)["shown"] = shown
    return axis


def _shown(
    factors: Sequence[Factor], twins: Twins, met: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Integers]:
    _require_room(len(twins.shown), len(met))
    seen = [factor.columns(twins.shown) for factor in factors]
    return {(i, j): _compact(gram(seen[i], seen[j])) for i, j in met}


def _compact(G: Integers) -> Integers:
    """In half the memory where that is enough."""
    return np.asarray(G, np.int32 if largest(G) < 2**31 else np.int64)


def _require_room(values: int, grams: int) -> None:
    if grams * values**2 > sizes.GRAMS:
        raise StrategyError(
            f"the workload tells {values:,} values of one attribute apart",
            hint="group them: comparing each with each takes too much memory",
        )
    allocate(GRAM_COPIES * grams * values**2)


def find_twins(stacks: Sequence[Sequence[Factor]]) -> Twins:
    """Values that only rows with a single value tell apart, and these only by their order.

    A stack is the factors of a term's products: their rows belong together, one by one.
    """
    prints = np.concatenate([_twin_prints(stack) for stack in stacks], axis=1)
    number = _by_first_occurrence(np.unique(prints, axis=0, return_inverse=True)[1].ravel())
    order = np.argsort(number, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(number))[:-1]])
    seconds = np.minimum(starts + 1, len(order) - 1)
    seconds = seconds[number[order[seconds]] == np.arange(len(starts))]
    return Twins(number, np.unique(order[np.concatenate([starts, seconds])]))


def _twin_prints(stack: Sequence[Factor]) -> NDArray[np.uint64]:
    """(size, …): equal for twins, different for others but for chance."""
    borrow(sum(12 * factor.shape[0] + 6 * factor.shape[1] for factor in stack))
    singles = [_single_entries(factor) for factor in stack]
    places = np.stack([place for place, _ in singles])
    alone = (places >= -1).all(axis=0)
    highest = places.max(axis=0)
    alone &= ((places == highest) | (places == -1)).all(axis=0) & (highest >= 0)
    values = np.stack([value for _, value in singles], axis=1)[alone]
    kinds, kind = np.unique(values, axis=0, return_inverse=True)
    digest = hashlib.shake_256(b"dhdmm twins").digest(16 * len(kinds))
    numbers = np.frombuffer(digest, "<u8").astype(np.uint64).reshape(len(kinds), 2)
    counted = np.zeros((stack[0].shape[1], 2), np.uint64)
    np.add.at(counted, highest[alone], numbers[kind.ravel()])
    rest = np.flatnonzero(~alone)
    others = [column_fingerprints(factor.take(rest)) for factor in stack] if len(rest) else []
    return np.concatenate([counted, *others], axis=1)


def _single_entries(factor: Factor) -> tuple[Integers, Integers]:
    """Of every row the only value that it holds (−1 none, −2 several), and the entry there."""
    if isinstance(factor, Ranges):
        held, place, entry = factor.high - factor.low, factor.low, np.ones_like(factor.low)
    else:
        held = np.diff(factor.matrix.indptr).astype(np.int64)
        place, entry = np.zeros((2, len(held)), np.int64)
        at = factor.matrix.indptr[:-1][held == 1]
        place[held == 1], entry[held == 1] = factor.matrix.indices[at], factor.matrix.data[at]
    single = held == 1
    return np.where(single, place, np.where(held == 0, -1, -2)), np.where(single, entry, 0)


def orbits(grams: Sequence[Integers]) -> Integers:
    """(values,): orbit of each value under the swaps that leave every G unchanged.

    Swapping u and v leaves G unchanged iff G_uu = G_vv, G_uv = G_vu and rows and columns u, v
    agree elsewhere. These are compared by their products with random numbers modulo 2⁶⁴, so that
    a comparison takes no time that grows with the values.
    """
    size = len(grams[0])
    work(10 * len(grams) * size**2 + size * OBJECT)
    digest = hashlib.shake_256(b"dhdmm orbits").digest(8 * size)
    h = np.frombuffer(digest, "<u8").astype(np.uint64)
    diagonals = [np.diag(G).astype(np.uint64) for G in grams]
    prints = [(G.astype(np.uint64) @ h, h @ G.astype(np.uint64)) for G in grams]
    keys = [part for G in grams for part in (G.sum(axis=0), G.sum(axis=1), np.diag(G))]
    candidate = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].ravel()
    orbit = np.full(size, -1)
    for u in range(size):
        if orbit[u] >= 0:
            continue
        rivals = np.flatnonzero((candidate == candidate[u]) & (orbit < 0))
        work(OBJECT / 10 + 10 * len(grams) * len(rivals))
        same = np.ones(len(rivals), bool)
        for G, own, (rows, columns) in zip(grams, diagonals, prints, strict=True):
            across, back = G[u, rivals].astype(np.uint64), G[rivals, u].astype(np.uint64)
            gap = h[u] * (own[u] - across) - h[rivals] * (own[rivals] - across)
            same &= (across == back) & (rows[u] - rows[rivals] == gap)
            same &= columns[u] - columns[rivals] == gap
        orbit[rivals[same]] = orbit.max() + 1
    return orbit

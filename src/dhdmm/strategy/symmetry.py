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

Most exchangeable values are easy to find (*twins*): no row but those that hold a single value
tells them apart. A Gram is computed for two values of each class of twins, from which all its
entries follow: ten thousand ages that are counted one by one need a Gram of two.

F: factor (rows, values); G: Gram on orbits (orbits, orbits); λ: Gram's number on a standard part.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.study.factor import Factor, Ranges, column_fingerprints, gram
from dhdmm.study.workload import Workload

LARGEST_GRAMS = 2**26
"""Entries of all Gram matrices of one attribute: 512 MiB."""
GRAM_COPIES = 4
"""Arrays of a Gram's size that exist while orbits are found."""

Residuals = tuple[tuple[int, int], ...]
"""Standard parts of a block as (attribute, orbit), attributes increasing."""


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
        return np.asarray(G[first, first])

    def other(self, G: Integers) -> Integers:
        """(classes, classes): G_uv of different values; of a class of one value G_uu."""
        first, last = self._places
        found = G[np.ix_(first, first)]
        np.fill_diagonal(found, G[first, last])
        return found

    def row_sums(self, G: Integers) -> Integers:
        """(classes,): Σ_v G_uv."""
        other = self.other(G)
        return np.asarray(other @ self.sizes + self.own(G) - np.diag(other))

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
class ReducedAxis:
    """One attribute: its values merged, the merged values in orbits, its distinct factors."""

    merged: Integers
    """(values,): value → merged value, numbered by first occurrence."""
    orbit: Integers
    """(merged values,): merged value → orbit, numbered by first occurrence."""
    factors: tuple[Factor, ...]
    """The workload's distinct factors of this attribute, on merged values."""
    twins: Twins
    shown: dict[tuple[int, int], Integers]
    """FᵢᵀFⱼ of factors that meet in one term, at the values that stand for their twins."""

    @cached_property
    def sizes(self) -> Integers:
        """(orbits,): merged values per orbit."""
        return np.bincount(self.orbit)

    @cached_property
    def members(self) -> tuple[Integers, ...]:
        return tuple(np.flatnonzero(self.orbit == o) for o in range(len(self.sizes)))

    @cached_property
    def summed(self) -> dict[tuple[int, int], Integers]:
        """Grams summed over orbits: 1_oᵀ G 1_o'."""
        orbit = self.orbit[self.twins.first]
        found = {}
        for key, G in self.shown.items():
            found[key] = np.zeros((len(self.sizes), len(self.sizes)), np.int64)
            np.add.at(found[key], np.ix_(orbit, orbit), self.twins.sums(G))
        return found

    @cached_property
    def trivial(self) -> dict[tuple[int, int], Floats]:
        """Grams on the trivial part: 1_oᵀ G 1_o' / √(|o||o'|)."""
        root = np.sqrt(self.sizes.astype(np.float64))
        return {key: G / np.outer(root, root) for key, G in self.summed.items()}

    @cached_property
    def standard(self) -> dict[tuple[int, int], Integers]:
        """λ on each orbit's standard part: G_uu − G_uv for u ≠ v in it, 0 for single values."""
        orbit = self.orbit[self.twins.shown]
        pairs = [np.flatnonzero(orbit == o)[[0, -1]] for o in range(len(self.sizes))]
        first, last = np.array(pairs).T
        return {key: G[first, first] - G[first, last] for key, G in self.shown.items()}

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
    pairs: dict[tuple[tuple[int, int], ...], float]
    """The Gram of every one of `axes`, named by two factors → coefficient."""
    summands: tuple[tuple[float, tuple[Floats, ...]], ...]
    multiplicity: int
    """Product of |o|−1 over the residuals: how often the block occurs."""

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

    def blocks(self) -> list[BlockGram]:
        """The blocks on which V is not zero, from each product's own active parts."""
        found: dict[Residuals, None] = {}
        for term in self.terms:
            for index in term.indices:
                options = [self._standard_options(a, i) for a, i in enumerate(index)]
                work(OBJECT * math.prod(len(choices) for choices in options))
                for choice in itertools.product(*options):
                    found[tuple(part for part in choice if part is not None)] = None
        grams = [self.block_gram(residuals) for residuals in sorted(found)]
        return [block for block in grams if block.summands]

    def _standard_options(self, a: int, i: int) -> list[tuple[int, int] | None]:
        active = np.flatnonzero(self.axes[a].standard[i, i])
        return [None, *((a, int(o)) for o in active)]

    def block_gram(self, residuals: Residuals) -> BlockGram:
        work(OBJECT * sum(len(term.indices) ** 2 for term in self.terms))
        standard = dict(residuals)
        axes = tuple(
            a for a, orbits in enumerate(self.orbit_shape) if a not in standard and orbits > 1
        )
        summands: dict[tuple[tuple[int, int], ...], float] = {}
        for term in self.terms:
            for coefficient, pairs in term.pairs():
                number = coefficient * self.scalar(pairs, standard)
                if number:
                    key = tuple(pairs[a] for a in axes)
                    summands[key] = summands.get(key, 0.0) + number
        grams = [
            (c, tuple(self.axes[a].trivial[pair] for a, pair in zip(axes, key, strict=True)))
            for key, c in summands.items()
        ]
        return BlockGram(
            residuals,
            axes,
            tuple(self.orbit_shape[a] for a in axes),
            summands,
            tuple((c, G) for c, G in grams if all(np.any(g) for g in G)),
            math.prod(int(self.axes[a].sizes[o]) - 1 for a, o in residuals),
        )

    def scalar(self, pairs: Sequence[tuple[int, int]], standard: dict[int, int]) -> float:
        """Product of the Grams' numbers on standard parts and on axes of a single orbit."""
        number = 1.0
        for a, pair in enumerate(pairs):
            if a in standard:
                number *= float(self.axes[a].standard[pair][standard[a]])
            elif len(self.axes[a].sizes) == 1:
                number *= float(self.axes[a].trivial[pair][0, 0])
            if not number:
                break
        return number


def reduce_workload(workload: Workload, objective: Objective = TOTAL_SQUARED_ERROR) -> Reduction:
    """Merge values and find the orbits of every attribute."""
    products = [product for term in workload.terms for product in term.products]
    columns = list(zip(*(product.factors for product in products), strict=True))
    merged = [_merge(_distinct(column)[0]) for column in columns]
    indices = zip(*(_distinct(column)[1] for column in columns), strict=True)
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
        parts = [factor.low, factor.high]
    else:
        parts = [factor.matrix.indptr, factor.matrix.indices, factor.matrix.data]
    digest = hashlib.sha256(repr((type(factor).__name__, factor.shape)).encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part, np.int64).tobytes())
    return digest.digest()


def _distinct(factors: Sequence[Factor]) -> tuple[list[Factor], list[int]]:
    """The different factors, and for each given one its number among them."""
    number: dict[bytes, int] = {}
    kept: list[Factor] = []
    indices: list[int] = []
    for factor in factors:
        key = fingerprint(factor)
        if key not in number:
            number[key] = len(kept)
            kept.append(factor)
        indices.append(number[key])
    return kept, indices


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
    twins = find_twins([[factors[i] for i in sorted(set(met))] for met in sorted(together)])
    met = sorted({pair for chosen in together for pair in itertools.product(chosen, chosen)})
    _require_room(len(twins.shown), len(met))
    seen = [factor.columns(twins.shown) for factor in factors]
    shown = {(i, j): gram(seen[i], seen[j]) for i, j in met}
    orbit = np.zeros(len(twins.sizes), np.int64)
    orbit[twins.number[twins.shown]] = orbits(list(shown.values()))
    return ReducedAxis(merged, orbit[twins.number], factors, twins, shown)


def _require_room(values: int, grams: int) -> None:
    if grams * values**2 > LARGEST_GRAMS:
        raise StrategyError(
            f"the workload tells {values:,} values of one attribute apart",
            hint="group them: comparing each with each takes more than half a gigabyte",
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
    agree elsewhere. Only values with equal row and column sums need comparing.
    """
    stacked = np.stack([part for G in grams for part in (G, G.T)])
    size = stacked.shape[1]
    work(10 * stacked.size + size * OBJECT)
    keys = np.concatenate([stacked.sum(axis=2), np.einsum("guu->gu", stacked)]).T
    _, candidates = np.unique(keys, axis=0, return_inverse=True)
    orbit = np.full(size, -1)
    count = 0
    for u in range(size):
        if orbit[u] >= 0:
            continue
        orbit[u] = count
        rivals = np.flatnonzero((candidates.ravel() == candidates.ravel()[u]) & (orbit < 0))
        work(len(rivals) * (OBJECT + 4 * len(stacked) * size))
        for v in rivals:
            others = np.ones(size, bool)
            others[u] = others[v] = False
            if np.array_equal(stacked[:, u, others], stacked[:, v, others]) and np.array_equal(
                stacked[:, u, v], stacked[:, v, u]
            ):
                orbit[v] = count
        count += 1
    return orbit

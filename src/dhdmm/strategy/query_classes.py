"""Queries that share a variance, and what a block sees of them.

Let swaps of *twins* (symmetry.py) leave X = AᵀA unchanged. A factor's row is constant on a class of
twins, or holds one of them alone. So two rows with the same sums over the classes, and the same
squared lengths, are swapped into each other, and their queries have the same variance: they are a
*query class*, the classes of a term being all combinations of its attributes' classes of rows.

With a mass m_c on every class, V = Σ_c m_c v_c v_cᵀ averaged over the swaps. On a block it is the
sum over classes of m_c · ∏ λ · ⊗ z zᵀ with z a row's sums over orbits in orthonormal coordinates
and λ = (Σ f² − (Σ f)²/n)/(n − 1) its share of a standard part. A term of several products has one
summand for every pair of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.effort import allocate
from dhdmm.strategy.inverse import paired
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.symmetry import BlockGram, ReducedAxis, Reduction
from dhdmm.strategy.tree import Tree
from dhdmm.study.factor import Factor, Ranges, Rows, group_sums

AnyRows = Ranges | Floats


def by_twins(reduction: Reduction) -> Reduction:
    """The same workload with orbits that are classes of twins: swaps that permute its queries."""
    axes = []
    for axis in reduction.axes:
        axes.append(replace(axis, tree=Tree.flat(axis.twins.number), is_tree=False))
        vars(axes[-1]).update({"shown": axis.shown})
    return replace(reduction, axes=tuple(axes))


@dataclass(frozen=True, eq=False)
class RowClasses:
    """One attribute's rows in a term, those alike taken together."""

    counts: Floats
    """(classes,): how many rows each has."""
    trivial: tuple[AnyRows, ...]
    """Of every product (classes, orbits): sums over orbits in orthonormal coordinates."""
    standard: dict[tuple[int, int], Floats]
    """Of every pair of products (classes, orbits): λ; empty where all orbits are single values."""

    @classmethod
    def of(cls, axis: ReducedAxis, factors: Sequence[Factor]) -> RowClasses:
        sizes = axis.sizes
        if np.all(sizes == 1):
            rows = tuple(f if isinstance(f, Ranges) else _dense(f) for f in factors)
            return cls(np.ones(factors[0].shape[0]), rows, {})
        pairs = list(itertools.product(range(len(factors)), repeat=2))
        sums = [group_sums(f, axis.orbit, len(sizes)) for f in factors]
        inner = [_inner(axis, factors[i], factors[j]) for i, j in pairs]
        signature = np.concatenate([*sums, *inner], axis=1)
        _, first, counts = np.unique(signature, axis=0, return_index=True, return_counts=True)
        held = [s[first].astype(np.float64) for s in sums]
        standard = {
            (i, j): (product[first] - held[i] * held[j] / sizes) / np.maximum(sizes - 1, 1)
            for (i, j), product in zip(pairs, inner, strict=True)
        }
        return cls(counts.astype(np.float64), tuple(h / np.sqrt(sizes) for h in held), standard)


def _inner(axis: ReducedAxis, left: Factor, right: Factor) -> Integers:
    """(rows, orbits): Σ f g over the values of each orbit."""
    product = Rows(left.to_sparse().multiply(right.to_sparse()).tocsr())
    return group_sums(product, axis.orbit, len(axis.sizes))


def _dense(factor: Rows) -> Floats:
    return np.asarray(factor.to_sparse().toarray(), np.float64)


@dataclass(frozen=True, eq=False)
class Share:
    """What a block sees of one pair of a term's products."""

    term: int
    axes: tuple[int, ...]
    """Of the block."""
    outside: Floats
    """(classes…): the coefficient and the numbers of all other attributes, 1 long on `axes`."""
    left: tuple[AnyRows, ...]
    right: tuple[AnyRows, ...]

    def gram(self, masses: Floats) -> Floats:
        """Σ_c m_c v_c v_cᵀ, (dimension, dimension)."""
        T = masses * self.outside
        T = T.sum(axis=tuple(a for a in range(T.ndim) if a not in self.axes))
        for left, right in zip(self.left, self.right, strict=True):
            T = np.moveaxis(_spread(left, T, right), (0, 1), (-2, -1))
        k = len(self.axes)
        T = T.transpose([*range(0, 2 * k, 2), *range(1, 2 * k, 2)])
        return T.reshape(math.prod(T.shape[:k]), -1)

    def variances(self, inverse: Floats) -> Floats:
        """v_c X⁺ v_cᵀ of every class, (classes…)."""
        k = len(self.axes)
        sizes = [rows.shape[1] for rows in self.left]
        T = inverse.reshape([*sizes, *sizes])
        for i, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            T = np.moveaxis(T, (0, k - i), (0, 1))
            T = np.moveaxis(_quadratic(left, T, right), 0, -1)
        shape = dict(zip(self.axes, T.shape, strict=True))
        return T.reshape([shape.get(a, 1) for a in range(self.outside.ndim)]) * self.outside


def _spread(left: AnyRows, masses: Floats, right: AnyRows) -> Floats:
    """Σ_i left[i]ᵀ masses[i, …] right[i]: (orbits, orbits, …)."""
    if isinstance(left, Ranges) and isinstance(right, Ranges):
        corners = np.zeros((left.size + 1, right.size + 1, *masses.shape[1:]))
        np.add.at(corners, (left.low, right.low), masses)
        np.add.at(corners, (left.high, right.high), masses)
        np.subtract.at(corners, (left.low, right.high), masses)
        np.subtract.at(corners, (left.high, right.low), masses)
        return np.asarray(np.cumsum(np.cumsum(corners, axis=0), axis=1)[:-1, :-1])
    spread = np.einsum("iu,i...,iv->uv...", _array(left), masses, _array(right), optimize=True)
    return np.asarray(spread)


def _quadratic(left: AnyRows, middle: Floats, right: AnyRows) -> Floats:
    """left[i] middle right[i]ᵀ of every row: (rows, …)."""
    if isinstance(left, Ranges) and isinstance(right, Ranges):
        return paired(left, middle, right)
    found = np.einsum("iu,uv...,iv->i...", _array(left), middle, _array(right), optimize=True)
    return np.asarray(found)


def _array(rows: AnyRows) -> Floats:
    return rows if isinstance(rows, np.ndarray) else rows.to_sparse().toarray().astype(np.float64)


class QueryClasses:
    """The classes of all terms of a reduction by twins."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self._terms = [
            [
                self._rows(a, tuple(index[a] for index in term.indices))
                for a in range(len(reduction.axes))
            ]
            for term in reduction.terms
        ]
        allocate(4 * sum(math.prod(self.shape(t)) for t in range(len(self._terms))))

    @memoised
    def _rows(self, a: int, chosen: tuple[int, ...]) -> RowClasses:
        axis = self.reduction.axes[a]
        return RowClasses.of(axis, [axis.factors[i] for i in chosen])

    def shape(self, term: int) -> tuple[int, ...]:
        return tuple(len(rows.counts) for rows in self._terms[term])

    def counts(self, term: int) -> Floats:
        """How many queries each class of the term has."""
        total = np.ones(())
        for rows in self._terms[term]:
            total = np.multiply.outer(total, rows.counts)
        return total

    def shares(self, block: BlockGram) -> list[Share]:
        """Of all terms that see the block."""
        return [
            share
            for t, term in enumerate(self.reduction.terms)
            for i, j in itertools.product(range(len(term.indices)), repeat=2)
            for share in [self._share(block, t, i, j)]
            if share is not None
        ]

    def _share(self, block: BlockGram, t: int, i: int, j: int) -> Share | None:
        term, rows, fixed = self.reduction.terms[t], self._terms[t], dict(block.residuals)
        outside = np.array(float(term.coefficients[i] * term.coefficients[j]))
        for a, axis in enumerate(rows):
            if a in block.axes:
                number = np.ones(1)
            elif a in fixed:
                if not axis.standard:
                    return None
                number = axis.standard[i, j][:, fixed[a]]
            else:
                number = _column(axis.trivial[i]) * _column(axis.trivial[j])
            if not np.any(number):
                return None
            outside = np.multiply.outer(outside, number)
        left, right = (tuple(rows[a].trivial[p] for a in block.axes) for p in (i, j))
        return Share(t, block.axes, outside, left, right)


def _column(rows: AnyRows) -> Floats:
    """The only column of rows over a single orbit."""
    return _array(rows)[:, 0]

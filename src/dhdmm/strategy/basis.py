"""An integer basis of a block's row space, taken sparse-first from the workload's own rows.

Rounding a strategy of rank(W) rows would tilt its row space and bias the answers. So the row space
is held exactly: every row of B is an integer combination (nearly always one summand) of Kronecker
products of integer vectors, one per axis, each constant on orbits; see `integer.py` for A' = T B.

B = C K: K (products, dimension) Kronecker rows, C (rows, products) groups and weighs them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from dhdmm.strategy.matrix import Integers, RowSpace, independent_rows, primitive
from dhdmm.strategy.symmetry import Axis, BlockGram, ReducedTerm, Reduction
from dhdmm.study.factor import Factor, Ranges

CHUNK = 1024
"""Candidate rows looked at together."""


def standing_vectors(orbits: int) -> Integers:
    """Vectors that every axis has: all ones (number 0), then one per orbit."""
    return np.concatenate([np.ones((1, orbits), np.int64), np.eye(orbits, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Basis:
    """B, its rows written as sums of Kronecker products of numbered vectors."""

    starts: Integers
    """(rows+1,): row i is the sum of the products starts[i] … starts[i+1]−1."""
    coefficients: Integers
    """(products,)"""
    ids: Integers
    """(products, axes): the vector on every axis of the block."""

    @property
    def rows(self) -> int:
        return len(self.starts) - 1

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal exactly for equal bases over the same axes."""
        return self.starts.tobytes(), self.coefficients.tobytes(), self.ids.tobytes()

    @property
    def is_plain(self) -> bool:
        """Whether every row is one product with coefficient 1."""
        return len(self.coefficients) == self.rows and bool(np.all(self.coefficients == 1))

    @cached_property
    def combine(self) -> sparse.csr_array:
        """C, (rows, products)."""
        products = len(self.coefficients)
        return sparse.csr_array(
            (self.coefficients, np.arange(products), self.starts), shape=(self.rows, products)
        )

    def dense(self, vectors: Sequence[Integers]) -> Integers:
        """B, (rows, dimension), from each axis's vectors (count, orbits)."""
        return np.asarray(self.combine @ kronecker_rows(self.ids, vectors))


def kronecker_rows(ids: Integers, vectors: Sequence[Integers]) -> Integers:
    """K, (products, dimension): row i is ⊗_a vectors[a][ids[i, a]], the last axis fastest."""
    K = np.ones((len(ids), 1), np.int64)
    for a, table in enumerate(vectors):
        K = (K[:, :, None] * table[ids[:, a]][:, None, :]).reshape(len(ids), -1)
    return K


@dataclass(eq=False)
class VectorBook:
    """Numbers the integer vectors of one axis, over its orbits, after the standing ones."""

    axis: Axis
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _rows: list[Integers] = field(default_factory=list)

    def __post_init__(self) -> None:
        for row in standing_vectors(len(self.axis.sizes)):
            self._numbers.setdefault(row.tobytes(), len(self._rows))
            self._rows.append(row)

    def number(self, vector: Integers) -> int:
        key = np.ascontiguousarray(vector, np.int64).tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._rows)
            self._rows.append(np.asarray(vector, np.int64))
        return self._numbers[key]

    @property
    def vectors(self) -> Integers:
        return np.stack(self._rows)

    @property
    def extra(self) -> Integers:
        """The vectors after the standing ones."""
        return self.vectors[len(self.axis.sizes) + 1 :]

    def means(self, factor: Factor) -> Integers:
        """Rows of F averaged over orbits, times the orbits' common multiple: (rows, orbits)."""
        multiple = math.lcm(*(int(size) for size in self.axis.sizes))
        sums = (factor.to_sparse() @ self.axis.indicator).toarray()
        return np.asarray(sums * (multiple // self.axis.sizes))

    def spanning(self, index: int) -> Integers:
        """Numbers of sparse independent vectors that span factor `index` on the trivial part."""
        if index not in self._spans:
            size = len(self.axis.sizes)
            independent = independent_rows(self._sparse_first(index), size)
            if len(independent) == size:
                independent = np.eye(size, dtype=np.int64)
            self._spans[index] = np.array([self.number(row) for row in independent], np.int64)
        return self._spans[index]

    def zero_sum_spanning(self, indices: Sequence[int]) -> Integers:
        """The same for the rows of some factors minus their means over all merged values."""
        size = len(self.axis.orbit)
        centred = (
            primitive(size * rows - rows @ np.ones((size, size), np.int64))
            for index in indices
            for rows in self._sparse_first(index)
        )
        independent = independent_rows(centred, size, stop=size - 1)
        if len(independent) == size - 1:
            eye = np.eye(size, dtype=np.int64)
            independent = eye[:-1] - eye[-1]
        return np.array([self.number(row) for row in independent], np.int64)

    @cached_property
    def _spans(self) -> dict[int, Integers]:
        return {}

    def _sparse_first(self, index: int) -> Iterator[Integers]:
        factor = self.axis.factors[index]
        if isinstance(factor, Ranges):
            weight = factor.high - factor.low
        else:
            weight = np.diff(factor.matrix.indptr)
        order = np.argsort(weight, kind="stable")
        for start in range(0, len(order), CHUNK):
            rows = primitive(self.means(factor.take(order[start : start + CHUNK])))
            yield rows[np.argsort(np.count_nonzero(rows, axis=1), kind="stable")]


class BasisBuilder:
    """Integer bases for all blocks of a reduction, sharing each axis's vectors."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.books = [VectorBook(axis) for axis in reduction.axes]
        self._known: dict[Hashable, Basis] = {}

    def rank_bound(self) -> int:
        """At least rank(W): the products' rows, or columns where they are fewer."""
        shapes = {
            tuple(
                min(axis.factors[i].shape)
                for axis, i in zip(self.reduction.axes, index, strict=True)
            )
            + index
            for term in self.reduction.terms
            for index in term.indices
        }
        return sum(math.prod(shape[: len(self.books)]) for shape in shapes)

    def basis(self, block: BlockGram) -> Basis:
        """Many blocks over the same axes have the same candidates, hence the same basis."""
        simple, coupled = self._simple_candidates(block), self._coupled_candidates(block)
        key = block.axes, simple.key, coupled.key
        if key not in self._known:
            self._known[key] = self._found(block, simple, coupled)
        return self._known[key]

    def _found(self, block: BlockGram, simple: Basis, coupled: Basis) -> Basis:
        space = RowSpace(block.dimension)
        kept = self._choose(space, block, simple) + self._choose(space, block, coupled)
        if space.rank == space.columns:
            return self._units(block)
        return concatenate(kept, len(block.axes))

    def _units(self, block: BlockGram) -> Basis:
        """One row per orbit: the sparsest basis when the block has full rank."""
        units = [
            [self.books[a].number(row) for row in np.eye(size, dtype=np.int64)]
            for a, size in zip(block.axes, block.shape, strict=True)
        ]
        ids = np.array(list(itertools.product(*units)), np.int64)
        return Basis(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)

    def _choose(self, space: RowSpace, block: BlockGram, candidates: Basis) -> list[Basis]:
        """The candidates that enlarge the row space, sparse ones first."""
        vectors = [self.books[a].vectors for a in block.axes]
        weight = np.asarray(abs(candidates.combine) @ self._nonzeros(block, candidates.ids))
        order = np.argsort(weight, kind="stable")
        kept: list[Basis] = []
        for start in range(0, len(order), CHUNK):
            if space.rank == space.columns:
                break
            chunk = select(candidates, order[start : start + CHUNK])
            kept.append(select(chunk, space.extend(chunk.dense(vectors))))
        return kept

    def _nonzeros(self, block: BlockGram, ids: Integers) -> Integers:
        counts = np.ones(len(ids), np.int64)
        for i, a in enumerate(block.axes):
            counts *= np.count_nonzero(self.books[a].vectors, axis=1)[ids[:, i]]
        return counts

    def _simple_candidates(self, block: BlockGram) -> Basis:
        """Terms of one product: all combinations of vectors that span its factors."""
        found = [np.zeros((0, len(block.axes)), np.int64)]
        seen: set[tuple[int, ...]] = set()
        for term in self.reduction.terms:
            index = term.indices[0]
            key = tuple(index[a] for a in block.axes)
            if len(term.indices) > 1 or key in seen or not self._active(term, block):
                continue
            seen.add(key)
            spans = [self.books[a].spanning(index[a]) for a in block.axes]
            grid = np.meshgrid(*spans, indexing="ij") if spans else [np.zeros(1, np.int64)]
            found.append(np.stack([g.ravel() for g in grid], axis=1)[:, : len(block.axes)])
        ids = np.unique(np.concatenate(found), axis=0)
        return Basis(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)

    def _active(self, term: ReducedTerm, block: BlockGram) -> bool:
        pairs = tuple((i, i) for i in term.indices[0])
        return self.reduction.scalar(pairs, dict(block.residuals)) != 0

    def _coupled_candidates(self, block: BlockGram) -> Basis:
        """Terms of several products: each row, seen through differences inside the residuals.

        A row's part on the block is Σ_p c_p (trivial part of p) ⊗ (standard part of p); every
        linear functional of the standard parts gives a vector of the block's row space, and
        differences of two values of the orbit span all functionals.
        """
        found: list[tuple[Integers, Integers]] = []
        for term in self.reduction.terms:
            if len(term.indices) > 1:
                found += self._coupled_rows(term, block)
        if not found:
            return concatenate([], len(block.axes))
        starts = np.concatenate([[0], np.cumsum([len(c) for c, _ in found])])
        coefficients = np.concatenate([c for c, _ in found])
        return Basis(starts, coefficients, np.concatenate([ids for _, ids in found]))

    def _coupled_rows(
        self, term: ReducedTerm, block: BlockGram
    ) -> Iterator[tuple[Integers, Integers]]:
        axes = self.reduction.axes
        standard = dict(block.residuals)
        means = [
            [self.books[a].means(axes[a].factors[i]) for a, i in enumerate(index)]
            for index in term.indices
        ]
        jumps = [
            [
                self._differences(a, i, standard[a]) if a in standard else None
                for a, i in enumerate(index)
            ]
            for index in term.indices
        ]
        shape = tuple(len(m) for m in means[0])
        for row in itertools.product(*(range(count) for count in shape)):
            weights = np.stack(
                [
                    self._functionals(c, row, means[p], jumps[p], block)
                    for p, c in enumerate(term.integer_coefficients)
                ],
                axis=1,
            )
            for weight in independent_rows([primitive(weights)], len(term.indices)):
                used = np.flatnonzero(weight)
                ids = [
                    [self.books[a].number(means[p][a][row[a]]) for a in block.axes] for p in used
                ]
                yield weight[used], np.array(ids, np.int64).reshape(len(used), len(block.axes))

    def _functionals(
        self,
        coefficient: int,
        row: tuple[int, ...],
        means: list[Integers],
        jumps: list[Integers | None],
        block: BlockGram,
    ) -> Integers:
        """One number per functional of the standard parts: c · ∏ differences · ∏ single orbits."""
        numbers = np.array([coefficient], np.int64)
        for a, i in enumerate(row):
            jump = jumps[a]
            if jump is not None:
                numbers = np.multiply.outer(numbers, jump[i]).ravel()
            elif a not in block.axes:
                numbers = numbers * means[a][i, 0]
        return numbers

    def _differences(self, a: int, index: int, orbit: int) -> Integers:
        """(rows, |o|−1): F at the orbit's first value minus F at each other one."""
        members = self.reduction.axes[a].members[orbit]
        values = self.reduction.axes[a].factors[index].to_sparse()[:, members].toarray()
        return np.asarray(values[:, :1] - values[:, 1:])


def select(basis: Basis, rows: Sequence[int] | Integers) -> Basis:
    chosen = basis.combine[np.asarray(rows, np.int64)]
    used = chosen.indices
    return Basis(chosen.indptr.astype(np.int64), chosen.data, basis.ids[used])


def concatenate(parts: Sequence[Basis], axes: int) -> Basis:
    lengths = [np.diff(part.starts) for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.zeros(0, np.int64)]))])
    none = np.zeros(0, np.int64)
    return Basis(
        starts.astype(np.int64),
        np.concatenate([*(part.coefficients for part in parts), none]),
        np.concatenate([*(part.ids for part in parts), np.zeros((0, axes), np.int64)]),
    )

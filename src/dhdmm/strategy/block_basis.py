"""The bases of a reduction's blocks, taken sparse-first from the workload's own rows."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis, concatenate, select
from dhdmm.strategy.blocks import MeasuredAxis
from dhdmm.strategy.matrix import (
    PRIME,
    Integers,
    RowSpace,
    independent_rows,
    multiply_modulo,
    primitive,
)
from dhdmm.strategy.symmetry import BlockGram, ReducedTerm, Reduction
from dhdmm.strategy.vectors import CHUNK, VectorBook


class TooLarge(StrategyError):
    """A basis of more rows than can be solved, or columns of too many different cells."""


class BasisBuilder:
    """Integer bases for all blocks of a reduction, sharing each axis's vectors."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.books = [VectorBook(axis) for axis in reduction.axes]
        self._known: dict[Hashable, Basis] = {}

    @property
    def measured_axes(self) -> tuple[MeasuredAxis, ...]:
        """Every attribute with the vectors that the bases name."""
        return tuple(
            MeasuredAxis(axis.merged, axis.tree, book.extra)
            for axis, book in zip(self.reduction.axes, self.books, strict=True)
        )

    def rank_bound(self, block: BlockGram) -> int:
        """At least the rank of V on the block."""
        simple = sum(math.prod(len(span) for span in grid) for grid in self._grids(block).values())
        rows = (term.indices[0] for term in self.reduction.terms if len(term.indices) > 1)
        factors = [axis.factors for axis in self.reduction.axes]
        coupled = (
            math.prod(f[i].shape[0] for f, i in zip(factors, row, strict=True)) for row in rows
        )
        # differences of standard parts may tell more rows apart than there are
        return int(min(simple + 2 ** len(block.residuals) * sum(coupled), block.dimension))

    def basis(self, block: BlockGram) -> Basis:
        """Many blocks over the same axes have the same candidates, hence the same basis."""
        simple, coupled = self._simple_candidates(block), self._coupled_candidates(block)
        key = block.axes, simple.key, coupled.key
        if key not in self._known:
            self._known[key] = self._found(block, simple, coupled)
        return self._known[key]

    def _found(self, block: BlockGram, simple: Basis, coupled: Basis) -> Basis:
        if self._has_every_unit(block, simple):
            return self._units(block)
        space = RowSpace(min(block.dimension, simple.rows + coupled.rows))
        kept = self._choose(space, block, simple) + self._choose(space, block, coupled)
        if space.rank == block.dimension:
            return self._units(block)
        return concatenate(kept, len(block.axes))

    def _has_every_unit(self, block: BlockGram, candidates: Basis) -> bool:
        """Whether all products of one orbit per axis are there, so that the rank is known."""
        units = ((candidates.ids >= 1) & (candidates.ids <= np.array(block.shape, int))).all(axis=1)
        return int(np.count_nonzero(units)) == block.dimension

    def _units(self, block: BlockGram) -> Basis:
        """One row per orbit: the sparsest basis when the block has full rank."""
        work(OBJECT / 4 * (block.dimension + sum(block.shape)))
        allocate(block.dimension * len(block.axes))
        units = [
            [self.books[a].number(row) for row in np.eye(size, dtype=np.int64)]
            for a, size in zip(block.axes, block.shape, strict=True)
        ]
        return Basis.plain(np.array(list(itertools.product(*units)), np.int64))

    def _choose(self, space: RowSpace, block: BlockGram, candidates: Basis) -> list[Basis]:
        """The candidates that enlarge the row space, sparse ones first."""
        seen = [self._seen(block, a, space.columns) for a in block.axes]
        weight = candidates.weights(self._nonzeros(block, candidates.ids))
        order = np.argsort(weight, kind="stable")
        kept: list[Basis] = []
        for start in range(0, len(order), CHUNK):
            if space.rank == space.columns:
                break
            chunk = select(candidates, order[start : start + CHUNK])
            rows = (
                chunk.dense(seen)
                if space.columns == block.dimension
                else sketched(chunk, seen, space.columns)
            )
            kept.append(select(chunk, space.extend(rows)))
        return kept

    def _seen(self, block: BlockGram, a: int, columns: int) -> Integers:
        """(vectors, …): an axis's vectors, or what `sketch` sees of them."""
        vectors = self.books[a].vectors
        return vectors if columns == block.dimension else sketch(vectors, a, columns)

    def _nonzeros(self, block: BlockGram, ids: Integers) -> Integers:
        counts = np.ones(len(ids), np.int64)
        for i, a in enumerate(block.axes):
            counts *= np.count_nonzero(self.books[a].vectors, axis=1)[ids[:, i]]
        return counts

    def _simple_candidates(self, block: BlockGram) -> Basis:
        """Terms of one product: all combinations of vectors that span its factors."""
        found = [np.zeros((0, len(block.axes)), np.int64)]
        for spans in self._grids(block).values():
            work(4 * OBJECT)
            borrow(2 * len(spans) * math.prod(len(span) for span in spans))
            grid = np.meshgrid(*spans, indexing="ij") if spans else [np.zeros(1, np.int64)]
            found.append(np.stack([g.ravel() for g in grid], axis=1)[:, : len(block.axes)])
        return Basis.plain(np.unique(np.concatenate(found), axis=0))

    def _grids(self, block: BlockGram) -> dict[tuple[int, ...], list[Integers]]:
        """Of every different product that the block sees, the vectors that span its factors."""
        found: dict[tuple[int, ...], list[Integers]] = {}
        for term in self.reduction.terms:
            for index in () if len(term.indices) > 1 else term.indices:
                key = tuple(index[a] for a in block.axes)
                if key not in found and self._active(index, block):
                    found[key] = [self.books[a].spanning(index[a]) for a in block.axes]
        return found

    def widest(self, block: BlockGram) -> int:
        """Combinations of orbits on which a squared column may depend."""
        sizes = dict(zip(block.axes, block.shape, strict=True))
        grids = self._grids(block).values()
        sets = {
            tuple(a for a, span in zip(block.axes, grid, strict=True) if np.any(span))
            for grid in grids
        }
        pairs = itertools.product(sets, sets)
        return max((math.prod(sizes[a] for a in {*p, *q}) for p, q in pairs), default=1)

    def varying(self, block: BlockGram) -> set[int]:
        """Axes along which rows of the block are not all constant."""
        if any(len(term.indices) > 1 for term in self.reduction.terms):
            return set(block.axes)
        grids = self._grids(block).values()
        return {a for i, a in enumerate(block.axes) if any(np.any(grid[i]) for grid in grids)}

    def is_full(self, block: BlockGram) -> bool:
        """Whether one product already has all the rows that there could be."""
        grids = self._grids(block).values()
        return any(math.prod(map(len, grid)) == block.dimension for grid in grids)

    def _active(self, index: tuple[int, ...], block: BlockGram) -> bool:
        pairs = tuple((i, i) for i in index)
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
        work(50 * OBJECT * len(means) * math.prod(shape))
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

    def _differences(self, a: int, index: int, part: int) -> Integers:
        """(rows, …): F summed below a node's first child minus F below each of its others."""
        tree = self.reduction.axes[a].tree
        members, nest = tree.members(part), tree.existing(part)
        allocate(2 * len(members) * self.reduction.axes[a].factors[index].shape[0])
        values = self.reduction.axes[a].factors[index].to_sparse()[:, members].toarray()
        below = values.reshape(len(values), nest.outer, nest.n, nest.inner).sum(axis=3)
        return np.asarray(below[:, :, :1] - below[:, :, 1:]).reshape(len(values), -1)


def sketch(vectors: Integers, axis: int, columns: int) -> Integers:
    """(vectors, columns): every vector against random ones modulo p.

    Random Kronecker vectors are in general position, so as many of them as the rank keep it, and
    rows over many cells need not be written out.
    """
    size = vectors.shape[1]
    borrow(3 * size * columns)
    stream = hashlib.shake_256(b"dhdmm row sketch" + axis.to_bytes(4, "big"))
    random = np.frombuffer(stream.digest(8 * size * columns), "<u8") % np.uint64(PRIME)
    return multiply_modulo(vectors % PRIME, random.astype(np.int64).reshape(size, columns))


def sketched(basis: Basis, sketches: Sequence[Integers], columns: int) -> Integers:
    """Rows of B through random Kronecker vectors, which keep their rank (but for chance)."""
    K = np.ones((len(basis.ids), columns), np.int64)
    for i, seen in enumerate(sketches):
        K = K * seen[basis.ids[:, i]] % PRIME
    weighed = K * (basis.coefficients % PRIME)[:, None] % PRIME
    return np.asarray(np.add.reduceat(weighed, basis.starts[:-1]) % PRIME)

"""The optimum over all strategies on symmetric blocks, rounded to integers.

q: mass of the dual weights d per orbit of cells; X: the strategy's AᵀA, scaled to max X_uu = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis, select
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import LARGEST_ROWS, MeasuredAxis
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.optimum import Climb, Dual, DualBlock, Optimum
from dhdmm.strategy.sensitivity import largest_by_orbit
from dhdmm.strategy.symmetry import BlockGram, Reduction

EQUALISING_STEPS = 15
NEARLY_EQUAL = 1e-3
"""How far columns may exceed the mean while blocks are left that will equalise them anew."""
NEARLY_FIXED = 1.05
"""How far a column may exceed the mean at weights that hardly move any more."""

Unit = Callable[[Floats], float]


def _parts(block: BlockGram, builder: BasisBuilder) -> list[tuple[Basis, Integers | slice]]:
    """A block's basis, by coordinates that no query brings together: the states of a country."""
    basis = builder.basis(block)
    if len(block.axes) != 1 or not basis.is_plain:
        return [(basis, slice(None))]
    met = csr_array(sum(np.abs(G) for _, (G,) in block.summands) != 0)
    count, part = connected_components(met, directed=False)
    if count == 1:
        return [(basis, slice(None))]
    (a,) = block.axes
    first = np.argmax(builder.books[a].vectors[basis.ids[:, 0]] != 0, axis=1)
    found = [(np.flatnonzero(part[first] == i), np.flatnonzero(part == i)) for i in range(count)]
    return [(select(basis, rows), columns) for rows, columns in found if len(rows)]


def _whole(block: BlockGram, builder: BasisBuilder) -> list[tuple[Basis, Integers | slice]]:
    return [(builder.basis(block), slice(None))]


def _require_few(blocks: Sequence[BlockGram], bases: Sequence[Basis]) -> None:
    parts = zip(blocks, bases, strict=True)
    rows = sum(block.multiplicity * basis.rows for block, basis in parts)
    if rows > LARGEST_ROWS:
        raise StrategyError(
            f"the workload takes {rows:,} measured sums, more than {LARGEST_ROWS:,}",
            hint="ask for fewer tables, for tables of fewer attributes, or of coarser values",
        )


class SymmetricProblem:
    """The dual problem on symmetric blocks, and the way back to integer bases."""

    together = True
    """Whether copies of a block are one, and parts that no query joins are blocks."""

    def __init__(self, reduction: Reduction, builder: BasisBuilder) -> None:
        self.reduction = reduction
        parts_of = _parts if self.together else _whole
        blocks = reduction.blocks(self.together)
        split = [(block, *part) for block in blocks for part in parts_of(block, builder)]
        if not split:
            raise StrategyError("the workload asks nothing: all its queries are zero")
        self.blocks, self.bases, self._columns = zip(*split, strict=True)
        _require_few(self.blocks, self.bases)
        self.axes = tuple(
            MeasuredAxis(axis.merged, axis.orbit, book.extra)
            for axis, book in zip(reduction.axes, builder.books, strict=True)
        )
        self._long = reduction.trivial_axes(())
        sizes = [reduction.axes[a].sizes.astype(np.float64) for a in self._long]
        others = {*range(len(reduction.axes))} - {*self._long}
        alike = math.prod(float(reduction.axes[a].sizes[0]) for a in others)
        volume = reduce(np.multiply.outer, sizes, np.full((), alike))
        self._cells = np.arange(volume.size).reshape(volume.shape)
        vectors = [book.vectors for book in builder.books]
        self.B = [
            basis.dense([vectors[a] for a in block.axes])[:, columns]
            for block, basis, columns in split
        ]
        duals = [
            DualBlock(self._root(i), self._block_cells(block)[columns], block.multiplicity)
            for i, (block, _, columns) in enumerate(split)
        ]
        self.dual = Dual(duals, volume.ravel(), reduction.objective)

    def _block_cells(self, block: BlockGram) -> Integers:
        fixed = dict(block.residuals)
        index = tuple(fixed.get(a, slice(None)) for a in self._long)
        return self._cells[index].ravel()

    def _lengths(self, block: BlockGram) -> Floats:
        """√(merged cells) of each coordinate: B's values on orbits → orthonormal coordinates."""
        fixed = dict(block.residuals)
        axes = [axis.sizes for a, axis in enumerate(self.reduction.axes) if a not in fixed]
        alike = math.prod(float(sizes[0]) for sizes in axes if len(sizes) == 1)
        long = [sizes for sizes in axes if len(sizes) > 1]
        return np.asarray(np.sqrt(reduce(np.multiply.outer, long, np.full((), alike)).ravel()))

    def _scaled(self, i: int) -> Floats:
        """B in orthonormal coordinates."""
        return np.asarray(self.B[i] * self._lengths(self.blocks[i])[self._columns[i]])

    @memoised
    def _factored(self, i: int) -> tuple[Floats, Floats]:
        """Q, R with QR = Bᵀ in orthonormal coordinates."""
        Q, R = np.linalg.qr(self._scaled(i).T)
        return Q, R

    @memoised
    def _inverse(self, i: int) -> Floats:
        """B⁺ in orthonormal coordinates: Q R⁻ᵀ."""
        Q, R = self._factored(i)
        return np.asarray(linalg.solve_triangular(R, Q.T).T)

    def _root(self, i: int) -> Floats:
        """R with V = RᵀR on the block, of as many rows as B."""
        block, columns = self.blocks[i], self._columns[i]
        Q, _ = self._factored(i)
        if len(block.axes) == 1:
            V = sum(c * G[columns][:, columns] for c, (G,) in block.summands)
            H, trace = Q.T @ V @ Q, float(np.trace(V))
        else:
            H, trace = Q.T @ block.apply(Q), block.trace
        if not np.isclose(np.trace(H), trace, rtol=1e-9):
            raise StrategyError("an integer basis of the workload was not found")
        return np.asarray(np.linalg.cholesky((H + H.T) / 2).T @ Q.T)

    def real_block(self, i: int, q: Floats, largest: float) -> RealBlock:
        """X(d) / largest = Bᵀ TᵀT B on block i."""
        block, dual = self.blocks[i], self.dual.blocks[i]
        inverse = self._inverse(i)
        half = self.dual.half(dual, q) @ inverse
        S = half.T @ half / largest
        return RealBlock(
            tuple((a, o, int(self.reduction.axes[a].sizes[o])) for a, o in block.residuals),
            block.axes,
            self.bases[i],
            np.asarray(np.linalg.cholesky((S + S.T) / 2).T, np.float64),
            dual.R @ inverse,
            (self.B[i] * q[dual.cells]) @ self.B[i].T,
            block.others,
        )

    def round(self, optimum: Optimum, scale: float) -> list[Rounded]:
        """Integer blocks at one scale, coarse ones first.

        Contrasts take up part of the scale, so blocks with many residuals round coarsely and shift
        column norms. After each stage the fixed point runs on with the rounded blocks held, so that
        the finer blocks make the columns equal again.
        """
        q, unit = optimum.q, self._unit(optimum)
        done: dict[int, Rounded] = {}
        counts = sorted({len(block.residuals) for block in self.blocks}, reverse=True)
        for count in counts:
            if done:
                excess = 0.0 if count == counts[-1] else NEARLY_EQUAL
                q = self._equalise(q, unit, done, scale, excess)
            largest = unit(q)
            for i, block in enumerate(self.blocks):
                if len(block.residuals) == count:
                    at_once = q is optimum.q
                    real = self._best(i, optimum) if at_once else self.real_block(i, q, largest)
                    done[i] = Rounder(real, optimum.achieved, self.dual.objective).round(scale)
        return [done[i] for i in range(len(self.blocks))]

    @memoised
    def _best(self, i: int, optimum: Optimum) -> RealBlock:
        """At the optimum itself, from which every scale begins."""
        return self.real_block(i, optimum.q, self._unit(optimum)(optimum.q))

    @memoised
    def _unit(self, optimum: Optimum) -> Unit:
        """max X_uu at weights near q, the unit that all blocks are in.

        It hardly changes near a fixed point. Weights that have far to go take it with them: else
        blocks that are rounded late would be in another unit than those that are done.
        """
        q = optimum.q
        X = self.dual.evaluate(q)[1]
        largest = float(X.max())
        if largest <= NEARLY_FIXED * float(q @ X):
            return lambda _: largest
        return lambda moved: float(self.dual.evaluate(moved)[1].max())

    def _equalise(
        self, q: Floats, unit: Unit, done: dict[int, Rounded], scale: float, excess: float
    ) -> Floats:
        """The fixed point from q on, until no column's share exceeds the mean by more."""
        if q.size == 1:
            return q
        norms = largest_by_orbit(self.axes, [rounded.block for rounded in done.values()])
        if norms is None:
            return q
        blocks = [block for i, block in enumerate(self.dual.blocks) if i not in done]
        open_, climb = replace(self.dual, blocks=blocks), Climb(q)
        for _ in range(EQUALISING_STEPS):
            X = norms.ravel() / scale**2 + open_.evaluate(climb.q)[1] / unit(climb.q)
            x = self.dual.objective.gradient(X, float(climb.q @ X))
            if x.max() <= 1 + excess:
                break
            climb.step(x)
        return climb.q

"""The optimum over all strategies on symmetric blocks, rounded to integers.

q: mass of the dual weights d per orbit of cells; X: the strategy's AᵀA, scaled to max X_uu = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from dhdmm.errors import StrategyError
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import MeasuredAxis
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.optimum import Climb, Dual, DualBlock, Optimum
from dhdmm.strategy.sensitivity import largest_by_orbit
from dhdmm.strategy.symmetry import BlockGram, Reduction

EQUALISING_STEPS = 15
NEARLY_EQUAL = 1e-3
"""How far columns may exceed the mean while blocks are left that will equalise them anew."""
NEARLY_FIXED = 1.05
"""How far a column may exceed the mean at weights that hardly move any more."""

Unit = Callable[[Floats], float]


class SymmetricProblem:
    """The dual problem on symmetric blocks, and the way back to integer bases."""

    def __init__(self, reduction: Reduction, builder: BasisBuilder) -> None:
        self.reduction, self.blocks = reduction, reduction.blocks()
        if not self.blocks:
            raise StrategyError("the workload asks nothing: all its queries are zero")
        self.bases = [builder.basis(block) for block in self.blocks]
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
        self.B = [
            basis.dense([builder.books[a].vectors for a in block.axes])
            for block, basis in zip(self.blocks, self.bases, strict=True)
        ]
        duals = [
            DualBlock(self._root(block, B), self._block_cells(block), block.multiplicity)
            for block, B in zip(self.blocks, self.B, strict=True)
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
        return np.sqrt(reduce(np.multiply.outer, long, np.full((), alike)).ravel())

    def _root(self, block: BlockGram, B: Integers) -> Floats:
        """R with V = RᵀR on the block, of as many rows as B."""
        Q = np.linalg.qr((B * self._lengths(block)).T)[0]
        VQ = block.apply(Q)
        H = Q.T @ VQ
        if not np.isclose(np.trace(H), block.trace, rtol=1e-9):
            raise StrategyError("an integer basis of the workload was not found")
        return np.asarray(np.linalg.cholesky((H + H.T) / 2).T @ Q.T)

    def real_block(self, i: int, q: Floats, largest: float) -> RealBlock:
        """X(d) / largest = Bᵀ TᵀT B on block i."""
        block, dual = self.blocks[i], self.dual.blocks[i]
        inverse = np.linalg.pinv(self.B[i] * self._lengths(block))
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
        q = optimum.q
        unit = self._unit(q)
        done: dict[int, Rounded] = {}
        counts = sorted({len(block.residuals) for block in self.blocks}, reverse=True)
        for count in counts:
            if done:
                excess = 0.0 if count == counts[-1] else NEARLY_EQUAL
                q = self._equalise(q, unit, done, scale, excess)
            largest = unit(q)
            for i, block in enumerate(self.blocks):
                if len(block.residuals) == count:
                    real = self.real_block(i, q, largest)
                    done[i] = Rounder(real, optimum.achieved, self.dual.objective).round(scale)
        return [done[i] for i in range(len(self.blocks))]

    def _unit(self, q: Floats) -> Unit:
        """max X_uu at weights near q, the unit that all blocks are in.

        It hardly changes near a fixed point. Weights that have far to go take it with them: else
        blocks that are rounded late would be in another unit than those that are done.
        """
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

"""`optimise(workload)`: the door of this package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from threadpoolctl import threadpool_limits

from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis, BasisBuilder
from dhdmm.strategy.blocks import StrategyAxis
from dhdmm.strategy.integer import LARGEST_LOSS, RealBlock, Rounder, scales
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.optimum import Dual, DualBlock
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import BlockGram, Reduction, reduce_workload
from dhdmm.study.workload import Workload


def optimise(workload: Workload, *, seconds: float = 60.0) -> Strategy:
    """The integer strategy of least expected error for `workload`, with rank(W) rows.

    `seconds` bounds the search for the real optimum; the certificate says what was reached.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        return exact_strategy(workload, reduce_workload(workload), seconds)


def exact_strategy(workload: Workload, reduction: Reduction, seconds: float) -> Strategy:
    """The optimum over all strategies, by symmetric blocks."""
    builder = BasisBuilder(reduction)
    blocks = reduction.blocks()
    bases = [builder.basis(block) for block in blocks]
    problem = SymmetricProblem(reduction, builder, blocks, bases)
    optimum = problem.dual.solve(seconds)
    real = problem.real_blocks(optimum.q)
    axes = tuple(
        StrategyAxis(axis.merged, axis.orbit, book.vectors)
        for axis, book in zip(reduction.axes, builder.books, strict=True)
    )
    bound = math.sqrt(optimum.bound / workload.queries)
    return round_strategy(axes, real, optimum.achieved, workload, bound)


class SymmetricProblem:
    """The dual problem on symmetric blocks, and the way back to integer bases."""

    def __init__(
        self,
        reduction: Reduction,
        builder: BasisBuilder,
        blocks: Sequence[BlockGram],
        bases: Sequence[Basis],
    ) -> None:
        self.reduction, self.blocks, self.bases = reduction, blocks, bases
        sizes = [axis.sizes.astype(np.float64) for axis in reduction.axes]
        volume = reduce(np.multiply.outer, sizes)
        self._cells = np.arange(volume.size).reshape(volume.shape)
        self.B = [
            basis.dense([builder.books[a].vectors for a in block.axes])
            for block, basis in zip(blocks, bases, strict=True)
        ]
        duals = [
            DualBlock(self._root(block, B), self._block_cells(block), block.multiplicity)
            for block, B in zip(blocks, self.B, strict=True)
        ]
        self.dual = Dual(duals, volume.ravel())

    def _block_cells(self, block: BlockGram) -> Integers:
        fixed = dict(block.residuals)
        index = tuple(fixed.get(a, slice(None)) for a in range(self._cells.ndim))
        return self._cells[index].ravel()

    def _lengths(self, block: BlockGram) -> Floats:
        """√(merged cells) of each coordinate: B's values on orbits → orthonormal coordinates."""
        fixed = dict(block.residuals)
        sizes = [axis.sizes for a, axis in enumerate(self.reduction.axes) if a not in fixed]
        return np.sqrt(reduce(np.multiply.outer, sizes, np.ones(())).ravel())

    def _root(self, block: BlockGram, B: Integers) -> Floats:
        """R with V = RᵀR on the block, of as many rows as B."""
        Q = np.linalg.qr((B * self._lengths(block)).T)[0]
        VQ = block.apply(Q)
        H = Q.T @ VQ
        if not np.isclose(np.trace(H), block.trace, rtol=1e-9):
            raise StrategyError("an integer basis of the workload was not found")
        return np.asarray(np.linalg.cholesky((H + H.T) / 2).T @ Q.T)

    def real_blocks(self, q: Floats) -> list[RealBlock]:
        """X(d) = Bᵀ TᵀT B on every block, scaled to max X_uu = 1."""
        largest = self.dual.evaluate(q)[1].max()
        found = []
        for block, basis, B, dual in zip(
            self.blocks, self.bases, self.B, self.dual.blocks, strict=True
        ):
            scaled = B * self._lengths(block)
            inverse = np.linalg.pinv(scaled)
            S = inverse.T @ self.dual.matrix(dual, q) @ inverse / largest
            sizes = self.reduction.axes
            found.append(
                RealBlock(
                    tuple((a, o, int(sizes[a].sizes[o])) for a, o in block.residuals),
                    block.axes,
                    basis,
                    B.astype(np.float64),
                    np.linalg.cholesky((S + S.T) / 2).T,
                    dual.R @ inverse,
                    q[dual.cells],
                )
            )
        return found


def round_strategy(
    axes: tuple[StrategyAxis, ...],
    real: Sequence[RealBlock],
    achieved: float,
    workload: Workload,
    bound: float,
) -> Strategy:
    """The smallest integer scale whose loss is at most LARGEST_LOSS."""
    rounders = [Rounder(block, achieved) for block in real]
    loss = math.inf
    for scale in scales():
        rounded = [rounder.round(scale) for rounder in rounders]
        strategy = Strategy(axes, tuple(r.block for r in rounded), workload, bound)
        error = math.fsum(r.error for r in rounded) * strategy.sensitivity_squared
        loss = math.sqrt(error / achieved) - 1
        if loss <= LARGEST_LOSS:
            return strategy
    raise StrategyError(f"no integer scale keeps the loss below {LARGEST_LOSS:.2%}: {loss:.2%}")

"""The optimum over all strategies on symmetric blocks, rounded to integers.

Dual weights have one number per different column: of orbits of cells on which all rows agree, one
is kept. Where even these are too many, weights are put on few of them at a time: the optimum needs
no more, and all columns are looked at to see which are still too long (columns.py).

q: mass of the dual weights d per column; X: the strategy's AᵀA, scaled to max X_uu = 1; C: (r, r)
with V = (CB)ᵀ(CB) on a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import MeasuredAxis, require_few_rows
from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.climb import Climb, Judged, ascend, floored
from dhdmm.strategy.columns import Columns, TooManyColumns
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.matrix import Floats, Integers, multiply
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.optimum import BoxDual, Dual, DualBlock, Optimum, inverse_half
from dhdmm.strategy.parts import inside_residuals, parts_of
from dhdmm.strategy.sensitivity import largest_by_orbit
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.watch import Watch

LARGEST_LOSS = 0.0029
"""Rounding may cost this much."""
FIRST_SCALE = 2.0**12
FIRST_COLUMNS = 2000
"""How many have weight at first, but for two of each row."""
LEAST_SHARE = 1e-3
"""Of the mean weight: columns with less are left out when others join."""
EQUALISING_STEPS = 15
NEARLY_EQUAL = 1e-3
"""How far columns may exceed the mean while blocks are left that will equalise them anew."""
NEARLY_FIXED = 1.05
"""How far achieved may exceed the bound at weights that hardly move any more."""
LONG_ENOUGH = 5e-3
"""How far columns may exceed the mean when the search for longer ones ends."""


class SymmetricProblem:
    """The dual problem on symmetric blocks, and the way back to integer bases."""

    most, first, finest = LARGEST_LOSS, FIRST_SCALE, FIRST_SCALE
    optimum: Optimum
    """What `solve` found."""
    together = True
    """Whether copies of a block are one, and its parts are solved apart."""
    dual: Dual | BoxDual

    def __init__(self, reduction: Reduction) -> None:
        self.reduction, self.builder = reduction, BasisBuilder(reduction)
        self.blocks = reduction.blocks(self.together)
        if not self.blocks:
            raise StrategyError("the workload asks nothing: all its queries are zero")
        self.cells: Integers | Columns | Boxes | None = self._different_cells()

    @property
    def is_small(self) -> bool:
        """Whether the optimum over all strategies can be computed."""
        return self.cells is not None

    def _different_cells(self) -> Integers | Columns | Boxes | None:
        """Orbits of all different cells; their columns if they are too many; None if these are."""
        orbits, long = math.prod(self.reduction.orbit_shape), len(self._long)
        ranks = [self.builder.rank_bound(block) for block in self.blocks]
        if long > 1 and not self._fits(ranks, [1] * len(ranks)):
            return None
        if orbits <= (sizes.FEW_CELLS if long > 1 else sizes.ORBITS):
            cells = self._every_cell()
        elif long <= 1:
            return None
        else:
            tables, columns = self._tables(), None
            with suppress(TooManyColumns):
                columns = Columns.of(tables)
            if columns is None or not self._fits(ranks, [columns.most] * len(ranks)):
                alone = len(self.blocks) == 1 and not self.blocks[0].residuals
                few = alone and ranks[0] <= sizes.ROWS_OVER_AXES
                return (Boxes.of(tables) or columns) if few else None
            cells = columns.all_codes()
        seen = [int(inside_residuals(self.reduction, block, cells).sum()) for block in self.blocks]
        return cells if long <= 1 or self._fits(ranks, seen) else None

    def _fits(self, ranks: Sequence[int], cells: Sequence[int]) -> bool:
        both = list(zip(ranks, cells, strict=True))
        step = sum(rank**2 * max(rank, size) for rank, size in both)
        return step <= sizes.STEP and sum(r * n for r, n in both) <= sizes.MATRICES

    def _tables(self) -> list[Integers]:
        """For every attribute (products of all blocks, orbits); a residual sees its orbit only."""
        found: list[list[Integers]] = [[] for _ in self.reduction.axes]
        for block in self.blocks:
            ids, fixed = self.builder.basis(block).ids, dict(block.residuals)
            for a, axis in enumerate(self.reduction.axes):
                own = np.ones((len(ids), len(axis.sizes)), np.int64)
                if a in block.axes:
                    own = self.builder.books[a].vectors[ids[:, block.axes.index(a)]]
                elif a in fixed:
                    mine = np.arange(len(axis.sizes)) == axis.tree.orbit_of(fixed[a])
                    own = np.tile(mine, (len(ids), 1)) * 1
                found[a].append(own)
        return [np.concatenate(parts) for parts in found]

    def _every_cell(self) -> Integers:
        """(orbits of cells, attributes)"""
        shape = self.reduction.orbit_shape
        found = np.zeros((math.prod(shape), len(shape)), np.int64)
        long = np.indices([shape[a] for a in self._long])  # of which NumPy has no more than 64
        found[:, self._long] = long.reshape(len(self._long), len(found)).T
        return found

    @property
    def _long(self) -> tuple[int, ...]:
        """Attributes of several orbits."""
        return self.reduction.trivial_axes(())

    def solve(self, watch: Watch) -> None:
        self._prepare()
        self.optimum = self._optimum(watch)

    def _optimum(self, watch: Watch) -> Optimum:
        if isinstance(self.cells, Boxes) and len(self.parts[0].C) > sizes.BOXES_BY_COLUMNS:
            mixing = self.parts[0].C @ self.parts[0].rows.basis.written_out
            self.dual = BoxDual(self.cells, np.asarray(mixing), self.reduction.objective)
            return self.dual.solve(watch)
        if isinstance(self.cells, Columns | Boxes):
            return self._solve_by_columns(self.cells, watch)
        assert self.cells is not None
        return self._use(self.cells).solve(watch)

    def _prepare(self) -> None:
        """The rows of every block, and V in them."""
        require_few_rows(sum(b.multiplicity * self.builder.basis(b).rows for b in self.blocks))
        self.parts = [
            part for b in self.blocks for part in parts_of(self.builder, b, self.together)
        ]

    def _use(self, cells: Integers) -> Dual:
        """The dual with weights on these columns."""
        self.codes = cells
        sizes = np.stack([x.sizes[cells[:, a]] for a, x in enumerate(self.reduction.axes)], axis=1)
        self.B, self._lengths, blocks = [], [], []
        for part in self.parts:
            mine = part.cells(cells)
            fixed = dict(part.block.residuals)
            free = [a for a in range(sizes.shape[1]) if a not in fixed]
            self.B.append(part.rows.at(cells[mine]))
            self._lengths.append(np.sqrt(sizes[mine][:, free].prod(axis=1, dtype=float)))
            R = part.C @ self.B[-1] * self._lengths[-1]
            blocks.append(DualBlock(R, mine, part.block.multiplicity))
        self.dual = Dual(blocks, sizes.prod(axis=1, dtype=float), self.reduction.objective)
        return self.dual

    def _solve_by_columns(self, columns: Columns | Boxes, watch: Watch) -> Optimum:
        """Weights on few columns; those that are too long join until no column is."""
        (part,), objective = self.parts, self.reduction.objective
        dual = self._use(columns.holding(max(2, FIRST_COLUMNS // len(part.C))))
        q, every, longest = dual.uniform(), columns.sample, 2.0
        mixing = part.C @ part.rows.basis.written_out
        while True:
            # weights on these columns need not be better than the choice of columns is
            reached = dual.solve(watch, q, max(LONG_ENOUGH / 4, (longest - 1) / 10))
            q = reached.q
            half = inverse_half(dual.weighed(0, q)) @ mixing
            F = dual.evaluate(q)[0]
            found = list(columns.largest(half.T @ half, every))
            norms, cells = (np.concatenate(part) for part in zip(*found, strict=True))
            longest = float(norms.max()) / F
            if every == 1:
                watch.report(objective.figure(longest))
            if longest <= 1 + LONG_ENOUGH or watch.is_over:
                if every == 1 or watch.is_over:
                    break
                every = max(every // 4, 1)
            new = np.argsort(-norms)[: 3 * len(mixing)]
            new, kept = new[norms[new] > F * (1 + LONG_ENOUGH / 2)], q > LEAST_SHARE / len(q)
            dual = self._use(np.concatenate([self.codes[kept], cells[new]]))
            q = floored(np.concatenate([q[kept], np.full(len(new), 0.1 / max(len(new), 1))]))
        return replace(reached, achieved=objective.value([F], longest * F))

    def real_block(self, i: int, q: Floats, largest: float) -> RealBlock:
        """X(d) / largest = Bᵀ TᵀT B on block i."""
        part, M = self.parts[i], self.dual.weighed(i, q)
        T = np.linalg.qr(inverse_half(M) @ part.C)[1] / math.sqrt(largest)
        trees = [axis.tree for axis in self.reduction.axes]
        standard = [(a, number, trees[a].existing(number)) for a, number in part.block.residuals]
        sizes = [self.reduction.axes[a].sizes[trees[a].orbit_of(n)] for a, n, _ in standard]
        half = np.linalg.solve(part.C, M) * float(math.prod(sizes))
        return RealBlock(
            tuple(standard),
            part.rows.axes,
            part.rows.basis,
            T * np.where(np.diag(T) < 0, -1.0, 1.0)[:, None],
            part.C,
            np.asarray(np.linalg.solve(part.C, half.T)),
            part.block.others,
        )

    def round(self, scale: float) -> list[Rounded]:
        """Integer blocks at one scale, coarse ones first.

        Contrasts take up part of the scale, so blocks with many residuals round coarsely and shift
        column norms. After each stage the fixed point runs on with the rounded blocks held, so that
        the finer blocks make the columns equal again.
        """
        q, done = self.optimum.q, dict[int, Rounded]()
        counts = sorted({len(block.residuals) for block in self.blocks}, reverse=True)
        for count in counts:
            if done:
                q = self._equalise(q, done, scale, 0.0 if count == counts[-1] else NEARLY_EQUAL)
            at_once = q is self.optimum.q
            unit = None if at_once else self._unit(q)
            for i, part in enumerate(self.parts):
                if len(part.block.residuals) == count:
                    real = self.real_block(i, q, unit) if unit else self._best(i)
                    rounder = Rounder(real, self.optimum.achieved, self.reduction.objective)
                    done[i] = rounder.round(scale)
        return [done[i] for i in range(len(self.parts))]

    @memoised
    def _best(self, i: int) -> RealBlock:
        """At the optimum itself, from which every scale begins."""
        return self.real_block(i, self.optimum.q, self._unit(self.optimum.q))

    def longest(self, rounded: Sequence[Rounded]) -> float | None:
        """The longest column of rounded blocks, of those with weight where not all are seen."""
        if not isinstance(self.cells, Columns | Boxes):
            return None
        T, rows = rounded[0].block.sides[0].triangle, self.parts[0].rows
        if isinstance(self.dual, BoxDual):
            A = multiply(T, rows.basis.written_out)
            return float(self.dual.boxes.norms(multiply(A.T, A).astype(np.float64)).max())
        A = T @ self.B[0]
        return float(np.einsum("iu,iu->u", A, A).max())

    def _unit(self, q: Floats) -> float:
        """max X_uu at weights near the optimum's, the unit that all blocks are in.

        It hardly changes near a fixed point. Weights that have far to go take it with them: else
        blocks that are rounded late would be in another unit than those that are done.
        """
        is_fixed = self.optimum.achieved <= NEARLY_FIXED * self.optimum.bound
        return self._largest if is_fixed else self.dual.longest(q)

    @cached_property
    def _largest(self) -> float:
        return self.dual.longest(self.optimum.q)

    def _equalise(self, q: Floats, done: dict[int, Rounded], scale: float, excess: float) -> Floats:
        """The fixed point from q on, until no column's share exceeds the mean by more."""
        if q.size == 1:
            return q
        norms = largest_by_orbit(self.axes, [rounded.block for rounded in done.values()])
        if norms is None:
            return q
        own = norms[tuple(self.codes[:, self._long].T)] / scale**2
        assert isinstance(self.dual, Dual)
        blocks = [block for i, block in enumerate(self.dual.blocks) if i not in done]
        others = replace(self.dual, blocks=blocks)

        def judge(q: Floats) -> Judged[None]:
            X = own + others.evaluate(q)[1] / self._unit(q)
            x = others.objective.gradient(X, float(q @ X))
            return Judged(x, float(x.max()), 1.0, None)

        return np.asarray(ascend(Climb(q), judge, Watch(), excess, EQUALISING_STEPS).q)

    @property
    def bound(self) -> float:
        return self.optimum.bound

    @property
    def achieved(self) -> float:
        return self.optimum.achieved

    @property
    def share(self) -> float:
        """Of the time, for the climb; with all columns on a list rounding takes longer."""
        return 0.8 if isinstance(self.cells, Columns | Boxes) else 0.6

    @property
    def axes(self) -> tuple[MeasuredAxis, ...]:
        return self.builder.measured_axes

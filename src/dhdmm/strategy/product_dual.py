"""Strategies for workloads with too many cells: dual weights that are a product, d = ⊗ d_a.

Every component finds its best X for d by itself, and the sum of their contributions is F(d) of the
strategies that do not mix components. d climbs by the mean squared column given each attribute's
value. A component of too many rows is mended by cutting its longest axis, see cut.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dhdmm.errors import StrategyError
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import MeasuredAxis
from dhdmm.strategy.bound import SAFETY, ProductBound
from dhdmm.strategy.components import Component, Split, TooLarge, TooWide
from dhdmm.strategy.cut import cut_axis
from dhdmm.strategy.integer import Rounded
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.optimum import Climb
from dhdmm.strategy.symmetry import Reduction

LARGEST_SIDE = 1500
"""Rows of a component's side, unless it is an axis that cannot be cut."""
DIMENSIONS = 6
"""Of the part that is kept of a cut axis."""
STEPS = 25
NEARLY_EQUAL = 2e-4


class Splitting:
    """Every block of a workload in sides, axes cut as far as that needs."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        while True:
            self.builder = BasisBuilder(self.reduction)
            try:
                self.splits = [
                    Split.of(self.reduction, self.builder, block, LARGEST_SIDE)
                    for block in self.reduction.blocks()
                ]
                return
            except TooLarge as error:
                self._cut(error.axes)
            except TooWide:
                self.reduction = replace(self.reduction, leaders=True)

    def _cut(self, candidates: Sequence[int]) -> None:
        axes = list(self.reduction.axes)
        longest = max(candidates, key=lambda a: len(axes[a].sizes), default=None)
        if longest is None or len(axes[longest].sizes) <= 2 * DIMENSIONS:
            raise StrategyError(
                "the workload couples too many queries with each other",
                hint="ask for fewer tables that cross conditions on several attributes",
            )
        axes[longest] = cut_axis(axes[longest], DIMENSIONS)
        self.reduction = replace(self.reduction, axes=tuple(axes))

    @property
    def rank(self) -> int | None:
        """rank(W); None where cutting may have made more rows than that."""
        cuts = [(a, axis.cut) for a, axis in enumerate(self.reduction.axes) if axis.cut]
        for term in self.reduction.terms:
            for index in term.indices:
                for a, cut in cuts:
                    rows = len(self.builder.books[a].spanning(index[a]))
                    is_full = rows == self.reduction.orbit_shape[a] and len(term.indices) == 1
                    if index[a] not in cut.inside and not is_full:
                        return None
        return sum(split.rank(self.builder) for split in self.splits)


class ProductDual:
    """The components of a workload, and dual weights for which they are solved."""

    def __init__(self, reduction: Reduction) -> None:
        found = Splitting(reduction)
        self.reduction, self.builder = found.reduction, found.builder
        if not found.splits:
            raise StrategyError("the workload asks nothing: all its queries are zero")
        self.components = [
            Component.of(self.reduction, self.builder, split) for split in found.splits
        ]
        self.d: list[Floats] = [axis.sizes / axis.sizes.sum() for axis in self.reduction.axes]

    @property
    def total(self) -> float:
        """F(d) of strategies that do not mix components."""
        return math.fsum(component.contribution for component in self.components)

    def solve(self, seconds: float) -> None:
        """Climb until columns are nearly equal on average, or the time is over."""
        deadline = time.monotonic() + seconds
        climbs = {a: Climb(d) for a, d in enumerate(self.d) if len(d) > 1}
        for step in range(STEPS):
            for component in self.components:
                component.solve(self.d)
            excess = self._excess()
            largest = max((float(x.max()) for x in excess.values()), default=0.0)
            if largest <= 1 + NEARLY_EQUAL or time.monotonic() > deadline or step == STEPS - 1:
                break
            for a, x in excess.items():
                climbs[a].step(x)
                self.d[a] = climbs[a].q

    def _excess(self) -> dict[int, Floats]:
        """For every axis: the mean squared column given the value's orbit, over the mean of all."""
        total = self.total
        found = {a: np.ones(len(d)) for a, d in enumerate(self.d) if len(d) > 1}
        for component in self.components:
            share = self.reduction.objective.gradient(np.array(component.contribution), total)
            for a, x in component.marginals(self.d).items():
                if a in found:
                    found[a] += share * (x - 1)
        return found

    @property
    def bound(self) -> float:
        """From the components themselves where no axis is cut, or from the workload."""
        roots = [ProductBound(self.reduction, self.d).value]
        if all(axis.cut is None for axis in self.reduction.axes):
            exact = (component.root_trace for component in self.components)
            roots.append(math.fsum(exact) * (1 - SAFETY))
        return self.reduction.objective.bound(max(roots))

    def round(self, scale: float) -> list[Rounded]:
        """Integer blocks at one scale."""
        total = self.total
        return [component.round(scale, total) for component in self.components]

    @property
    def axes(self) -> tuple[MeasuredAxis, ...]:
        return tuple(
            MeasuredAxis(axis.merged, axis.orbit, book.extra)
            for axis, book in zip(self.reduction.axes, self.builder.books, strict=True)
        )

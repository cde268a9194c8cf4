"""Strategies for workloads with too many cells: dual weights that are a product, d = ⊗ d_a.

Every component finds its best X for d by itself, and the sum of their contributions is F(d) of the
strategies that do not mix components. d climbs by the mean squared column given each attribute's
value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from dhdmm.effort import OBJECT, work
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import MeasuredAxis, require_few_rows
from dhdmm.strategy.bound import SAFETY, ProductBound
from dhdmm.strategy.climb import Climb, Judged, ascend
from dhdmm.strategy.integer import Rounded
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.sides import Component
from dhdmm.strategy.split import split
from dhdmm.strategy.symmetry import BlockGram, Reduction
from dhdmm.strategy.watch import Watch

LARGEST_LOSS = 0.0015
"""Rounding may cost this much: entries are products of small ones."""
FIRST_SCALE, FINEST_SCALE, FINEST_SCALE_OF_CUT = 2.0**15, 2.0**36, 2.0**26
STEPS = 25
NEARLY_EQUAL = 2e-4
SMALLEST_SHARE = 1e-4
"""No value's weight falls below this part of the average."""


class ProductDual:
    """The components of a workload, and dual weights for which they are solved."""

    share, most, first = 0.5, LARGEST_LOSS, FIRST_SCALE
    achieved = None

    def __init__(
        self, reduction: Reduction, builder: BasisBuilder, blocks: Sequence[BlockGram]
    ) -> None:
        self.reduction, self.builder = reduction, builder
        splits = [part for block in blocks for part in split(self.builder, block)]
        require_few_rows(sum(part.rows for part in splits))
        found = (Component.of(reduction, self.builder, split) for split in splits)
        self.components = [component for component in found if component.is_needed]
        self.d: list[Floats] = [axis.sizes / axis.sizes.sum() for axis in reduction.axes]

    @property
    def total(self) -> float:
        """F(d) of strategies that do not mix components."""
        return math.fsum(component.contribution for component in self.components)

    def solve(self, watch: Watch) -> None:
        """Climb until columns are nearly equal on average, or the time is over."""
        long = [a for a, d in enumerate(self.d) if len(d) > 1]
        if not long:
            self._solve_for([])
            return
        cuts = tuple(np.cumsum([len(self.d[a]) for a in long])[:-1].tolist())
        climb = Climb(np.concatenate([self.d[a] for a in long]), cuts, SMALLEST_SHARE)

        def judge(q: Floats) -> Judged[None]:
            self._solve_for(zip(long, np.split(q, cuts), strict=True))
            excess = self._excess()
            x = np.concatenate([excess[a] for a in long])
            return Judged(x, self.total * float(x.max()), self.total, None)

        peak = ascend(climb, judge, Watch(watch.left), NEARLY_EQUAL, STEPS)
        if peak.q is not climb.q:
            self._solve_for(zip(long, np.split(peak.q, cuts), strict=True))

    def _solve_for(self, d: Iterable[tuple[int, Floats]]) -> None:
        """All components, for these weights of attributes."""
        for a, own in d:
            self.d[a] = own
        for component in self.components:
            work(OBJECT)
            component.solve(self.d)

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
    def finest(self) -> float:
        """If blocks fell into components, large entries take long to add up."""
        blocks = {component.block.residuals for component in self.components}
        return FINEST_SCALE if len(blocks) == len(self.components) else FINEST_SCALE_OF_CUT

    def longest(self, rounded: Sequence[Rounded]) -> None:
        """All columns are looked at."""

    @cached_property
    def bound(self) -> float:
        """From the components themselves where these are exact, else from the workload."""
        equal = [axis.sizes / axis.sizes.sum() for axis in self.reduction.axes]
        if all(component.split.is_exact for component in self.components):
            root = self._roots(self.d)
        elif all(component.split.is_closed for component in self.components):
            root = max(self._roots(equal), ProductBound(self.reduction, self.d).value)
        else:
            root = ProductBound(self.reduction, self.d).value
        return self.reduction.objective.bound(root)

    def _roots(self, d: Sequence[Floats]) -> float:
        return math.fsum(component.root_trace(d) for component in self.components) * (1 - SAFETY)

    def round(self, scale: float) -> list[Rounded]:
        """Integer blocks at one scale."""
        total = self.total
        return [component.round(scale, total) for component in self.components]

    @property
    def axes(self) -> tuple[MeasuredAxis, ...]:
        return self.builder.measured_axes

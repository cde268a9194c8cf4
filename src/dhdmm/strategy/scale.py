"""The smallest integers that lose next to nothing: the last step of every way to a strategy."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dhdmm.effort import TooLong
from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import drop_unused_vectors
from dhdmm.strategy.objective import Largest, Objective
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.watch import Watch
from dhdmm.study.workload import Workload

if TYPE_CHECKING:
    from dhdmm.strategy.exact import SymmetricProblem
    from dhdmm.strategy.product_dual import ProductDual

LARGEST_SCALE, ROOT = 2.0**40, math.sqrt(2)


@dataclass(frozen=True, eq=False)
class ScaleSearch:
    """Finds the smallest scale, to a factor √2, whose rounding loses no more than it may.

    A problem that is solved has a real strategy with its certificate: `axes`, the `bound`, the
    value that it `achieved` (None if that is seen by rounding at the `finest` scale only), how much
    it may lose at `most`, and the `first` scale to try. It can `round`, and knows the `longest`
    column of rounded blocks where looking at all takes long.
    """

    workload: Workload
    objective: Objective
    solved: SymmetricProblem | ProductDual
    watch: Watch

    def smallest(self) -> Strategy:
        if self.solved.achieved is not None:
            return self._smallest(self.solved.achieved)
        achieved, finest = self._at(self.solved.finest)
        try:
            return self._smallest(achieved)
        except TooLong:
            return finest

    def _smallest(self, achieved: float) -> Strategy:
        def at(scale: float) -> tuple[float, Strategy]:
            value, strategy = self._at(scale)
            return self.objective.figure(value / achieved) - 1, strategy

        most, scale, failed = self.solved.most, self.solved.first, 1 / ROOT
        loss, best = at(scale)
        while loss > most:
            if scale >= LARGEST_SCALE:
                raise StrategyError(f"no integer scale keeps the loss below {most:.2%}")
            scale, failed = 2 * scale, scale
            loss, best = at(scale)
        with suppress(TooLong):  # what was found is good enough
            while (by := self._steps(scale, failed, loss)) and not self.watch.is_over:
                smaller = scale / ROOT**by
                smaller_loss, strategy = at(smaller)
                if smaller_loss <= most:
                    scale, loss, best = smaller, smaller_loss, strategy
                else:
                    failed = smaller
        return best

    def _steps(self, scale: float, failed: float, loss: float) -> int:
        """By √2 so often may the scale shrink, if the loss grows as much: half-way to what failed.

        It grows at least as much, so where not even one step is left there is no use in trying.
        """
        between = round(math.log(scale / failed, ROOT)) - 1
        room = math.log(self.solved.most / loss, ROOT) if loss > 0 else between
        return min(math.floor(room), (between + 1) // 2)

    def _at(self, scale: float) -> tuple[float, Strategy]:
        """The value of the objective when rounded at this scale."""
        rounded = self.solved.round(scale)
        parts = drop_unused_vectors(self.solved.axes, [r.block for r in rounded])
        strategy = Strategy(*parts, self.workload, self._shown_bound, self.objective)
        if isinstance(self.objective, Largest):
            value = strategy.error**2
        else:
            largest = self.solved.longest(rounded) or strategy.sensitivity_squared
            value = self.objective.value((r.trace * r.block.copies for r in rounded), largest)
        self.watch.report(self.objective.figure(value / self.solved.bound))
        return value, strategy

    @cached_property
    def _shown_bound(self) -> float:
        return self.objective.figure(self.objective.average(self.workload, self.solved.bound))

"""`optimise(workload)`: the entry point of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from dhdmm.errors import StrategyError
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import MeasuredAxis, drop_unused_vectors
from dhdmm.strategy.maximise import TooManyCells
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import Reduction, reduce_workload
from dhdmm.study.workload import Workload

if TYPE_CHECKING:
    from dhdmm.strategy.integer import Rounded

LARGEST_EXACT = 3000
"""Orbits of cells up to which the exact path is always taken."""
LARGEST_DUAL = 20_000_000
"""Rank times orbits of cells up to which it is taken too: the dual works in rank × rank."""
LARGEST_LOSS = 0.0029
"""Rounding may cost this much of the real strategy's root-mean-square error."""
FIRST_SCALE, FIRST_RESIDUAL_SCALE, FINEST_SCALE, LARGEST_SCALE = 2.0**12, 2.0**15, 2.0**26, 2.0**40


def optimise(
    workload: Workload, *, seconds: float = 60.0, objective: Objective = TOTAL_SQUARED_ERROR
) -> Strategy:
    """Find the integer strategy of least expected error for a workload.

    It is the optimum over all strategies, with rank(W) rows, unless the workload has too many
    orbits of cells; then it is a good one, and its `ratio` says how good.

    Args:
        workload: The queries.
        seconds: The longest time to search for the real-valued optimum.
        objective: What to minimise: by default the total squared error.

    Returns:
        A strategy that answers the workload, with the lower bound on its error.

    Raises:
        StrategyError: No strategy was found whose sensitivity can be computed.

    Example:
        >>> from dhdmm.study.workload import Workload
        >>> optimise(Workload.from_kronecker([(1.0, [[[1, 0], [0, 1]]])]))
        <Strategy measurements=2 cells=2>
    """
    with threadpool_limits(limits=1, user_api="blas"):
        reduction = reduce_workload(workload, objective)
        builder = BasisBuilder(reduction)
        if _is_small(reduction, builder):
            return _exact(workload, reduction, builder, seconds)
        return _residual(workload, reduction)


def rank(workload: Workload) -> int | None:
    """rank(W): the fewest rows of any strategy; None where finding it would take too long."""
    reduction = reduce_workload(workload)
    builder = BasisBuilder(reduction)
    if not _is_small(reduction, builder):
        from dhdmm.strategy.residual import rank_by_components  # brings scipy.linalg

        return rank_by_components(reduction)
    return sum(block.multiplicity * builder.basis(block).rows for block in reduction.blocks())


def _is_small(reduction: Reduction, builder: BasisBuilder) -> bool:
    """Whether the optimum over all strategies can be computed."""
    orbits = math.prod(reduction.orbit_shape)
    return orbits <= LARGEST_EXACT or orbits * builder.rank_bound() <= LARGEST_DUAL


def _exact(
    workload: Workload, reduction: Reduction, builder: BasisBuilder, seconds: float
) -> Strategy:
    """The optimum over all strategies, by symmetric blocks."""
    from dhdmm.strategy.exact import SymmetricProblem  # brings scipy.linalg

    problem = SymmetricProblem(reduction, builder)
    optimum = problem.dual.solve(seconds)
    round_at = partial(problem.round, optimum)
    search = _ScaleSearch(workload, reduction.objective, optimum.bound, problem.axes, round_at)
    return search.smallest(optimum.achieved, FIRST_SCALE)


def _residual(workload: Workload, reduction: Reduction) -> Strategy:
    """A good strategy by components of attribute sets: equal dual weights, or equalising ones."""
    from dhdmm.strategy.residual import ResidualProblem  # brings scipy.linalg

    problem = ResidualProblem(reduction)
    choices = [problem.uniform, problem.equalised()]
    bound = max(problem.bound(d) for d in choices)
    found: list[tuple[float, _ScaleSearch]] = []
    for d in choices:
        round_at = partial(problem.round, problem.solve(d))
        search = _ScaleSearch(workload, reduction.objective, bound, problem.axes, round_at)
        with suppress(TooManyCells):
            found.append((search.value(FINEST_SCALE)[0], search))
    if not found:
        raise StrategyError("no strategy was found whose sensitivity can be computed")
    achieved, best = min(found, key=lambda pair: pair[0])
    return best.smallest(achieved, FIRST_RESIDUAL_SCALE)


@dataclass(frozen=True, eq=False)
class _ScaleSearch:
    """Finds the smallest scale, to a factor √2, whose rounding loses at most LARGEST_LOSS."""

    workload: Workload
    objective: Objective
    bound: float
    axes: tuple[MeasuredAxis, ...]
    round_at: Callable[[float], Sequence[Rounded]]

    def value(self, scale: float) -> tuple[float, Strategy]:
        """Of the objective when rounded at this scale."""
        rounded = self.round_at(scale)
        parts = drop_unused_vectors(self.axes, [r.block for r in rounded])
        bound = self.objective.figure(self.objective.per_query(self.workload, self.bound))
        strategy = Strategy(*parts, self.workload, bound, self.objective)
        traces = (r.trace for r in rounded)
        return self.objective.value(traces, strategy.sensitivity_squared), strategy

    def smallest(self, achieved: float, first: float) -> Strategy:
        def loss_at(scale: float) -> tuple[float, Strategy]:
            value, strategy = self.value(scale)
            return self.objective.figure(value / achieved) - 1, strategy

        scale = first
        loss, best = loss_at(scale)
        while loss > LARGEST_LOSS and scale < LARGEST_SCALE:
            scale *= 2
            loss, best = loss_at(scale)
        if loss > LARGEST_LOSS:
            raise StrategyError(f"no integer scale keeps the loss below {LARGEST_LOSS:.2%}")
        factor = _room(loss) if scale == first else 1
        while factor > 1:
            smaller_loss, smaller = loss_at(scale / factor)
            if smaller_loss <= LARGEST_LOSS:
                scale, loss, best = scale / factor, smaller_loss, smaller
            factor = min(_room(loss), factor // 2)
        if math.sqrt(2) * loss > LARGEST_LOSS:  # the loss grows at least as the scale shrinks
            return best
        smaller_loss, smaller = loss_at(scale / math.sqrt(2))
        return smaller if smaller_loss <= LARGEST_LOSS else best


def _room(loss: float) -> int:
    """The power of two that a scale may shrink by if half the scale means twice the loss."""
    return int(2 ** math.floor(math.log2(LARGEST_LOSS / max(loss, LARGEST_LOSS / FIRST_SCALE))))

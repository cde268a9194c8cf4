"""`optimise(workload)`: the door of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from threadpoolctl import threadpool_limits

from dhdmm.errors import StrategyError
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import StrategyAxis, drop_unused_vectors
from dhdmm.strategy.exact import SymmetricProblem
from dhdmm.strategy.integer import Rounded
from dhdmm.strategy.maximise import TooManyCells
from dhdmm.strategy.residual import ResidualProblem, rank_by_components
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import Reduction, reduce_workload
from dhdmm.study.workload import Workload


class Roundable(Protocol):
    def round(self, scale: float, total: float) -> Rounded: ...


LARGEST_EXACT = 3000
"""Orbits of cells up to which the exact path is always taken."""
LARGEST_DUAL = 20_000_000
"""Rank times orbits of cells up to which it is taken too: the dual works in rank × rank."""
LARGEST_LOSS = 0.0029
"""Rounding may cost this much of the real strategy's root-mean-square error."""
FIRST_SCALE, FIRST_RESIDUAL_SCALE, FINEST_SCALE, LARGEST_SCALE = 2.0**12, 2.0**15, 2.0**26, 2.0**40


def optimise(workload: Workload, *, seconds: float = 60.0) -> Strategy:
    """The integer strategy of least expected error for `workload`.

    It is the optimum over all strategies, with rank(W) rows, unless the workload has too many
    orbits of cells; then it is a good one, and `ratio` says how good. `seconds` bounds the search
    for the real optimum.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        reduction = reduce_workload(workload)
        builder = BasisBuilder(reduction)
        if _is_small(reduction, builder):
            return _exact(workload, reduction, builder, seconds)
        return _residual(workload, reduction)


def rank(workload: Workload) -> int | None:
    """rank(W): the fewest rows of any strategy; None where finding it would take too long."""
    reduction = reduce_workload(workload)
    builder = BasisBuilder(reduction)
    if not _is_small(reduction, builder):
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
    blocks = reduction.blocks()
    if not blocks:
        raise StrategyError("the workload asks nothing: all its queries are zero")
    problem = SymmetricProblem(reduction, builder, blocks, [builder.basis(b) for b in blocks])
    optimum = problem.dual.solve(seconds)
    search = _ScaleSearch(
        workload, optimum.bound, problem.axes, lambda scale: problem.round(optimum, scale)
    )
    return search.smallest(optimum.achieved, FIRST_SCALE)


def _residual(workload: Workload, reduction: Reduction) -> Strategy:
    """A good strategy by components of attribute sets: equal dual weights, or equalising ones."""
    problem = ResidualProblem(reduction)
    choices = [problem.uniform, problem.equalised()]
    bound = max(problem.bound(d) for d in choices)
    found: list[tuple[float, _ScaleSearch]] = []
    for d in choices:
        blocks = problem.solve(d)
        total = math.fsum(block.contribution for block in blocks)

        def round_at(
            scale: float, blocks: Sequence[Roundable] = blocks, total: float = total
        ) -> list[Rounded]:
            return [block.round(scale, total) for block in blocks]

        search = _ScaleSearch(workload, bound, problem.axes, round_at)
        with suppress(TooManyCells):
            found.append((search.error(FINEST_SCALE)[0], search))
    if not found:
        raise StrategyError("no strategy was found whose sensitivity can be computed")
    achieved, best = min(found, key=lambda pair: pair[0])
    return best.smallest(achieved, FIRST_RESIDUAL_SCALE)


class _ScaleSearch:
    """Finds the smallest scale, to a factor √2, whose rounding loses at most LARGEST_LOSS."""

    def __init__(
        self,
        workload: Workload,
        bound: float,
        axes: tuple[StrategyAxis, ...],
        round_at: Callable[[float], Sequence[Rounded]],
    ) -> None:
        self.workload, self.axes, self.round_at = workload, axes, round_at
        self.bound = math.sqrt(bound / workload.queries)

    def error(self, scale: float) -> tuple[float, Strategy]:
        """Total squared error at sensitivity 1 when rounded at this scale."""
        rounded = self.round_at(scale)
        parts = drop_unused_vectors(self.axes, [r.block for r in rounded])
        strategy = Strategy(*parts, self.workload, self.bound)
        return math.fsum(r.error for r in rounded) * strategy.sensitivity_squared, strategy

    def smallest(self, achieved: float, first: float) -> Strategy:
        def loss_at(scale: float) -> tuple[float, Strategy]:
            error, strategy = self.error(scale)
            return math.sqrt(error / achieved) - 1, strategy

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

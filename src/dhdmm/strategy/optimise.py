"""`optimise(workload)`: the door of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from threadpoolctl import threadpool_limits

from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import BasisBuilder
from dhdmm.strategy.blocks import drop_unused_vectors
from dhdmm.strategy.exact import SymmetricProblem
from dhdmm.strategy.integer import Rounded
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import Reduction, reduce_workload
from dhdmm.study.workload import Workload

LARGEST_LOSS = 0.0029
"""Rounding may cost this much of the real strategy's root-mean-square error."""
FIRST_SCALE, LARGEST_SCALE = 2.0**10, 2.0**40


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
    problem = SymmetricProblem(reduction, builder, blocks, [builder.basis(b) for b in blocks])
    optimum = problem.dual.solve(seconds)
    bound = math.sqrt(optimum.bound / workload.queries)

    def strategy(rounded: Sequence[Rounded]) -> Strategy:
        parts = drop_unused_vectors(problem.axes, [r.block for r in rounded])
        return Strategy(*parts, workload, bound)

    return smallest_scale(lambda scale: problem.round(optimum, scale), strategy, optimum.achieved)


def smallest_scale(
    round_at: Callable[[float], Sequence[Rounded]],
    strategy: Callable[[Sequence[Rounded]], Strategy],
    achieved: float,
) -> Strategy:
    """The smallest scale, to a factor √2, whose rounding loses at most LARGEST_LOSS."""

    def good_enough(scale: float) -> Strategy | None:
        rounded = round_at(scale)
        found = strategy(rounded)
        error = math.fsum(r.error for r in rounded) * found.sensitivity_squared
        return found if math.sqrt(error / achieved) - 1 <= LARGEST_LOSS else None

    scale = FIRST_SCALE
    best = good_enough(scale)
    while best is None and scale < LARGEST_SCALE:
        scale *= 2
        best = good_enough(scale)
    if best is None:
        raise StrategyError(f"no integer scale keeps the loss below {LARGEST_LOSS:.2%}")
    if scale == FIRST_SCALE:
        while scale > 1 and (smaller := good_enough(scale / 2)) is not None:
            scale, best = scale / 2, smaller
    return good_enough(scale / math.sqrt(2)) or best

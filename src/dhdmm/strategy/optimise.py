"""`optimise(workload)`: the entry point of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from dhdmm.errors import StrategyError
from dhdmm.strategy.block_basis import BasisBuilder, TooLarge
from dhdmm.strategy.blocks import MeasuredAxis, drop_unused_vectors
from dhdmm.strategy.maximise import TooManyCells
from dhdmm.strategy.objective import Largest, Objective, chosen_objective
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import Reduction, reduce_workload
from dhdmm.study.workload import Workload

if TYPE_CHECKING:
    from dhdmm.strategy.integer import Rounded

LONGEST_AXIS = 3000
"""Orbits of cells up to which the exact path is taken if they are those of one attribute."""
LARGEST_STEP, LARGEST_MATRICES = 3e9, 2e7
"""Operations of a step of the exact path, and entries of its matrices, otherwise."""
LARGEST_LOSS = 0.0029
"""Rounding may cost this much of the real strategy's error."""
LARGEST_LOSS_OF_PRODUCTS = 0.0015
"""The same for products, whose entries are products of small ones."""
FIRST_SCALE, FIRST_RESIDUAL_SCALE, LARGEST_SCALE = 2.0**12, 2.0**15, 2.0**40
FINEST_SCALE, FINEST_SCALE_OF_PRODUCTS = 2.0**26, 2.0**36


def optimise(
    workload: Workload,
    *,
    seconds: float = 60.0,
    objective: str | Objective = "total",
    targets: Mapping[str, float] | None = None,
) -> Strategy:
    """Find the integer strategy of least expected error for a workload.

    It is the optimum over all strategies, with rank(W) rows, unless the workload has too many
    orbits of cells; then it is a good one, and its `ratio` says how good.

    Args:
        workload: The queries.
        seconds: The longest time to search for the real-valued optimum.
        objective: What to minimise: "total", the sum of squared errors; "per-table", the same with
            every table counted alike; "max", the largest standard error of any answer.
        targets: The largest standard error that answers of a table may have, by the table's name;
            only ratios matter here. Minimises the largest error relative to its target; tables
            without one are measured with a small part of the budget.

    Returns:
        A strategy that answers the workload, with the lower bound on its error.

    Raises:
        StrategyError: No strategy was found whose sensitivity can be computed.
        StudyError: There is no such objective, or no such table.

    Example:
        >>> from dhdmm.study.workload import Workload
        >>> optimise(Workload.from_kronecker([(1.0, [[[1, 0], [0, 1]]])]))
        <Strategy measurements=2 cells=2>
    """
    import scipy.linalg  # noqa: F401  # before the limit, which is for libraries that are there

    chosen = chosen_objective(objective, targets)
    with threadpool_limits(limits=1, user_api="blas"):
        if isinstance(chosen, Largest):
            return _largest(workload, chosen, seconds)
        return _least_total(workload, chosen, seconds)


def _least_total(workload: Workload, objective: Objective, seconds: float) -> Strategy:
    """The least sum of squared errors for the objective's weights."""
    reduction = reduce_workload(workload, objective)
    if _is_small(reduction):
        return _exact(workload, reduction, seconds)
    try:
        return _by_products(workload, reduction, seconds)
    except TooLarge:
        return _residual(workload, reduction)


def _largest(workload: Workload, objective: Largest, seconds: float) -> Strategy:
    """The least largest variance: over all strategies, or by weights of terms."""
    from dhdmm.strategy.query_classes import by_twins  # brings scipy.linalg
    from dhdmm.strategy.reweighted import STEPS as REWEIGHTINGS
    from dhdmm.strategy.reweighted import reweighted
    from dhdmm.strategy.saddle import SaddleProblem

    objective.require_few(workload)
    weights = objective.weights(workload)
    reduction = replace(by_twins(reduce_workload(workload)), objective=objective)
    if not _is_small(reduction):
        each = seconds / REWEIGHTINGS
        return reweighted(workload, objective, lambda w, by: _least_total(w, by, each))
    problem = SaddleProblem(reduction, BasisBuilder(reduction), weights)
    optimum = problem.solve(seconds)
    round_at = partial(problem.round, optimum)
    search = _ScaleSearch(workload, objective, optimum.bound, problem.axes, round_at)
    return search.smallest(optimum.achieved, FIRST_RESIDUAL_SCALE)


def rank(workload: Workload) -> int | None:
    """rank(W): the fewest rows of any strategy; None where it is not known."""
    reduction = reduce_workload(workload)
    if not _is_small(reduction):
        from dhdmm.strategy.product_dual import LARGEST_SIDE  # brings scipy.linalg
        from dhdmm.strategy.residual import rank_by_components
        from dhdmm.strategy.sides import Split

        builder = BasisBuilder(reduction)
        try:
            splits = [
                Split.of(reduction, builder, block, LARGEST_SIDE) for block in reduction.blocks()
            ]
            return sum(split.rank(builder) for split in splits)
        except TooLarge:
            return rank_by_components(reduction)
    builder = BasisBuilder(reduction)
    return sum(block.multiplicity * builder.basis(block).rows for block in reduction.blocks())


def _is_small(reduction: Reduction) -> bool:
    """Whether the optimum over all strategies can be computed."""
    lengths = [orbits for orbits in reduction.orbit_shape if orbits > 1]
    if len(lengths) <= 1:
        return math.prod(lengths) <= LONGEST_AXIS
    if math.prod(lengths) > LARGEST_MATRICES:
        return False
    builder, blocks = BasisBuilder(reduction), reduction.blocks()
    sizes = [(builder.rank_bound(block), block.dimension) for block in blocks]
    step = sum(rank**2 * dimension for rank, dimension in sizes)
    return step <= LARGEST_STEP and sum(rank * n for rank, n in sizes) <= LARGEST_MATRICES


def _exact(workload: Workload, reduction: Reduction, seconds: float) -> Strategy:
    """The optimum over all strategies, by symmetric blocks."""
    from dhdmm.strategy.exact import SymmetricProblem  # brings scipy.linalg

    problem = SymmetricProblem(reduction, BasisBuilder(reduction))
    optimum = problem.dual.solve(seconds)
    round_at = partial(problem.round, optimum)
    search = _ScaleSearch(workload, reduction.objective, optimum.bound, problem.axes, round_at)
    return search.smallest(optimum.achieved, FIRST_SCALE)


def _by_products(workload: Workload, reduction: Reduction, seconds: float) -> Strategy:
    """The best strategy that is a product on every block, for dual weights that are a product."""
    from dhdmm.strategy.product_dual import ProductDual  # brings scipy.linalg

    problem = ProductDual(reduction)
    problem.solve(seconds)
    objective = reduction.objective
    search = _ScaleSearch(
        workload, objective, problem.bound, problem.axes, problem.round, LARGEST_LOSS_OF_PRODUCTS
    )
    achieved, _ = search.value(FINEST_SCALE_OF_PRODUCTS)
    return search.smallest(achieved, FIRST_RESIDUAL_SCALE)


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
    """Finds the smallest scale, to a factor √2, whose rounding loses at most `most`."""

    workload: Workload
    objective: Objective
    bound: float
    axes: tuple[MeasuredAxis, ...]
    round_at: Callable[[float], Sequence[Rounded]]
    most: float = LARGEST_LOSS

    def value(self, scale: float) -> tuple[float, Strategy]:
        """Of the objective when rounded at this scale."""
        rounded = self.round_at(scale)
        parts = drop_unused_vectors(self.axes, [r.block for r in rounded])
        bound = self.objective.figure(self.objective.average(self.workload, self.bound))
        strategy = Strategy(*parts, self.workload, bound, self.objective)
        if isinstance(self.objective, Largest):
            return strategy.error**2, strategy
        traces = (r.trace * r.block.copies for r in rounded)
        return self.objective.value(traces, strategy.sensitivity_squared), strategy

    def smallest(self, achieved: float, first: float) -> Strategy:
        def loss_at(scale: float) -> tuple[float, Strategy]:
            value, strategy = self.value(scale)
            return self.objective.figure(value / achieved) - 1, strategy

        scale = first
        loss, best = loss_at(scale)
        while loss > self.most and scale < LARGEST_SCALE:
            scale *= 2
            loss, best = loss_at(scale)
        if loss > self.most:
            raise StrategyError(f"no integer scale keeps the loss below {self.most:.2%}")
        factor = self._room(loss) if scale == first else 1
        while factor > 1:
            smaller_loss, smaller = loss_at(scale / factor)
            if smaller_loss <= self.most:
                scale, loss, best = scale / factor, smaller_loss, smaller
            factor = min(self._room(loss), factor // 2)
        if math.sqrt(2) * loss > self.most:  # the loss grows at least as the scale shrinks
            return best
        smaller_loss, smaller = loss_at(scale / math.sqrt(2))
        return smaller if smaller_loss <= self.most else best

    def _room(self, loss: float) -> int:
        """The power of two that a scale may shrink by if half the scale means twice the loss."""
        return int(2 ** math.floor(math.log2(self.most / max(loss, self.most / FIRST_SCALE))))

"""`optimise(workload)`: the entry point of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.effort import TooLong, within
from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import (
    Block,
    MeasuredAxis,
    Side,
    drop_unused_vectors,
)
from dhdmm.strategy.dyadic import require_few_values
from dhdmm.strategy.objective import Largest, Objective, chosen_objective
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.strategy.tree import Tree
from dhdmm.strategy.watch import Report, Watch, nobody
from dhdmm.study.factor import Ranges, is_total
from dhdmm.study.workload import Workload
from dhdmm.threads import one_blas_thread

if TYPE_CHECKING:
    from dhdmm.strategy.exact import SymmetricProblem
    from dhdmm.strategy.integer import Rounded

LARGEST_LOSS = 0.0029
"""Rounding may cost this much of the real strategy's error."""
LARGEST_LOSS_OF_PRODUCTS = 0.0015
"""The same for products, whose entries are products of small ones."""
REACH, BITS = (5, 3), (11, 8)
"""Neighbours on both sides that T·H of dyadic.py looks at, and bits of its diagonal: up to
`sizes.IN_DETAIL` values, where together they cost a quarter of a percent, and beyond."""
LATEST, SHORTEST = 1.8, 10.0
"""A search is given up after so many times its seconds, but not before so many seconds."""
FIRST_SCALE, FIRST_RESIDUAL_SCALE, LARGEST_SCALE = 2.0**12, 2.0**15, 2.0**40
FINEST_SCALE, FINEST_SCALE_OF_PRODUCTS = 2.0**26, 2.0**36


def optimise(
    workload: Workload,
    *,
    seconds: float = 60.0,
    objective: str | Objective = "total",
    targets: Mapping[str, float] | None = None,
    report: Report = nobody,
) -> Strategy:
    """Find the integer strategy of least expected error for a workload.

    It is the optimum over all strategies, with rank(W) rows, unless the workload has too many
    orbits of cells; then it is a good one, and its `ratio` says how good.

    Args:
        workload: The queries.
        seconds: About how long to search; a larger workload takes a little longer to round.
        objective: What to minimise: "total", the sum of squared errors; "per-table", the same with
            every table counted alike; "max", the largest standard error of any answer.
        targets: The largest standard error that answers of a table may have, by the table's name;
            only ratios matter here. Minimises the largest error relative to its target; tables
            without one are measured with a small part of the budget.
        report: Called with the ratio of the best strategy so far to the best bound, while it
            searches.

    Returns:
        A strategy that answers the workload, with the lower bound on its error.

    Raises:
        StrategyError: No strategy was found whose sensitivity can be computed, or none in less
            than twice the time (ten seconds, if that is more).
        StudyError: There is no such objective, or no such table.

    Example:
        >>> from dhdmm.study.workload import Workload
        >>> optimise(Workload.from_kronecker([(1.0, [[[1, 0], [0, 1]]])]))
        <Strategy measurements=2 cells=2>
    """
    import scipy.linalg  # noqa: F401  # before the limit, which is for libraries that are there

    chosen, watch = chosen_objective(objective, targets), Watch(seconds, report)
    end = within(max(LATEST * seconds, SHORTEST))
    with one_blas_thread(), _in_words(), end:
        if isinstance(chosen, Largest):
            return _largest(workload, chosen, watch)
        return _least_total(workload, chosen, watch)


def _least_total(workload: Workload, objective: Objective, watch: Watch) -> Strategy:
    """The least sum of squared errors for the objective's weights."""
    from dhdmm.strategy.exact import SymmetricProblem  # brings scipy.linalg

    long = _long_ranges(workload)
    if long is not None:
        with within(math.inf):  # it ends by itself, with a strategy
            return _by_halves(workload, objective, long, watch)
    problem = SymmetricProblem(reduce_workload(workload, objective))
    if problem.is_small:
        return _exact(workload, problem, watch)
    return _by_products(workload, problem, watch)


def _largest(workload: Workload, objective: Largest, watch: Watch) -> Strategy:
    """The least largest variance: over all strategies, or by weights of terms."""
    from dhdmm.strategy.query_classes import by_twins  # brings scipy.linalg
    from dhdmm.strategy.reweighted import STEPS as REWEIGHTINGS
    from dhdmm.strategy.reweighted import reweighted
    from dhdmm.strategy.saddle import SaddleProblem

    objective.require_few(workload)
    weights = objective.weights(workload)
    reduction = replace(by_twins(reduce_workload(workload)), objective=objective)
    problem = SaddleProblem(reduction)
    if not problem.is_small:
        share = 1 / REWEIGHTINGS  # of the time left at each
        return reweighted(workload, objective, lambda w, by: _least_total(w, by, watch.part(share)))
    optimum = problem.solve_for(weights, watch)
    round_at = partial(problem.round, optimum)
    search = _ScaleSearch(
        workload, objective, optimum.bound, problem.axes, round_at, LARGEST_LOSS, watch
    )
    return search.smallest(optimum.achieved, FIRST_RESIDUAL_SCALE)


@contextmanager
def _in_words() -> Iterator[None]:
    """What numerical libraries complain about, as an error of ours."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise StrategyError(
            f"no strategy was found for these queries: {error}",
            hint="ask for fewer tables at once, or coarser ones",
        ) from error
    except TooLong as error:
        raise StrategyError(
            error.what,
            hint="allow more seconds, ask for fewer tables at once, or coarser ones",
        ) from error
    except MemoryError as error:
        raise StrategyError(
            "the strategy for these queries needs more memory than this machine has",
            hint="ask for fewer tables at once, or coarser ones",
        ) from error


def rank(workload: Workload) -> int | None:
    """rank(W): the fewest rows of any strategy; None where it is not known."""
    from dhdmm.strategy.exact import SymmetricProblem  # brings scipy.linalg
    from dhdmm.strategy.split import split

    long = _long_ranges(workload)
    if long is not None:
        return workload.schema.shape[long]
    problem = SymmetricProblem(reduce_workload(workload))
    if problem.is_small:
        return sum(b.multiplicity * problem.builder.basis(b).rows for b in problem.blocks)
    parts = [part for block in problem.blocks for part in split(problem.builder, block)]
    return sum(part.rows for part in parts) if all(part.is_minimal for part in parts) else None


def _long_ranges(workload: Workload) -> int | None:
    """The attribute, if all prefixes or all ranges of a long one are all that is asked."""
    if len(workload.terms) > 1 or len(workload.terms[0].products) > 1:
        return None
    (product,) = workload.terms[0].products
    asked = [a for a, factor in enumerate(product.factors) if not is_total(factor)]
    if len(asked) != 1:
        return None
    factor = product.factors[asked[0]]
    if not isinstance(factor, Ranges) or factor.size <= sizes.WRITTEN_OUT:
        return None
    return asked[0] if factor.is_prefixes or factor.is_every else None


def _by_halves(workload: Workload, objective: Objective, a: int, watch: Watch) -> Strategy:
    """For prefixes or ranges of one attribute that is too long for a matrix of its values."""
    from dhdmm.strategy.dyadic_optimum import Line, optimum, rounded  # brings scipy.linalg

    (product,) = workload.terms[0].products
    factor, shape = product.factors[a], workload.schema.shape
    require_few_values(shape[a])
    is_long = shape[a] > sizes.IN_DETAIL
    found = optimum(Line(shape[a], factor.shape[0] > shape[a]), REACH[is_long], watch)
    axes = []
    for b, size in enumerate(shape):
        merged = np.arange(size) if b == a else np.zeros(size, np.int64)
        orbits = merged[-1] + 1
        tree = Tree.flat(np.arange(orbits))
        axes.append(MeasuredAxis(merged, tree, np.zeros((0, orbits), np.int64)))
    basis = Basis.plain(1 + np.arange(shape[a])[:, None])
    block = Block((), (Side((a,), basis, rounded(found.matrix, BITS[is_long])),))
    weight = objective.weights(workload)[0] * abs(float(product.coefficient))
    bound = objective.figure(objective.average(workload, objective.bound(weight * found.bound)))
    strategy = Strategy(tuple(axes), (block,), workload, bound, objective)
    watch.report(found.ratio)
    return strategy


def _exact(workload: Workload, problem: SymmetricProblem, watch: Watch) -> Strategy:
    """The optimum over all strategies, by symmetric blocks."""
    optimum = problem.solve(watch.part(0.6 if problem.largest_known is None else 0.8))
    round_at, objective = partial(problem.round, optimum), problem.reduction.objective
    search = _ScaleSearch(
        workload, objective, optimum.bound, problem.axes, round_at, LARGEST_LOSS, watch
    )
    if problem.largest_known is not None:
        search = replace(search, largest=problem.largest_known)
    return search.smallest(optimum.achieved, FIRST_SCALE)


def _by_products(workload: Workload, given: SymmetricProblem, watch: Watch) -> Strategy:
    """The best strategy that is a product on every component, for weights that are a product."""
    from dhdmm.strategy.product_dual import ProductDual  # brings scipy.linalg

    problem = ProductDual(given.reduction, given.builder, given.blocks)
    problem.solve(watch.part(0.5))
    objective = given.reduction.objective
    most = LARGEST_LOSS_OF_PRODUCTS
    search = _ScaleSearch(
        workload, objective, problem.bound, problem.axes, problem.round, most, watch
    )
    achieved, finest = search.value(FINEST_SCALE if problem.is_cut else FINEST_SCALE_OF_PRODUCTS)
    try:
        return search.smallest(achieved, FIRST_RESIDUAL_SCALE)
    except TooLong:
        return finest


@dataclass(frozen=True, eq=False)
class _ScaleSearch:
    """Finds the smallest scale, to a factor √2, whose rounding loses at most `most`."""

    workload: Workload
    objective: Objective
    bound: float
    axes: tuple[MeasuredAxis, ...]
    round_at: Callable[[float], Sequence[Rounded]]
    most: float
    watch: Watch
    largest: Callable[[Sequence[Rounded]], float] | None = None
    """The longest column as far as it is known, where all columns take long."""

    def value(self, scale: float) -> tuple[float, Strategy]:
        """Of the objective when rounded at this scale."""
        rounded = self.round_at(scale)
        parts = drop_unused_vectors(self.axes, [r.block for r in rounded])
        bound = self.objective.figure(self.objective.average(self.workload, self.bound))
        strategy = Strategy(*parts, self.workload, bound, self.objective)
        if isinstance(self.objective, Largest):
            value = strategy.error**2
        else:
            largest = self.largest(rounded) if self.largest else strategy.sensitivity_squared
            value = self.objective.value((r.trace * r.block.copies for r in rounded), largest)
        self.watch.report(self.objective.figure(value / self.bound))
        return value, strategy

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
        with suppress(TooLong):  # what was found is good enough
            best = self._smaller(loss_at, (scale, loss, best), scale == first)
        return best

    def _smaller(
        self,
        loss_at: Callable[[float], tuple[float, Strategy]],
        found: tuple[float, float, Strategy],
        is_first: bool,
    ) -> Strategy:
        """At a smaller scale than one that is fine enough, where that is, too."""
        scale, loss, best = found
        factor = self._room(loss) if is_first else 1
        while factor > 1 and not self.watch.is_over:
            smaller_loss, smaller = loss_at(scale / factor)
            if smaller_loss <= self.most:
                scale, loss, best = scale / factor, smaller_loss, smaller
            factor = min(self._room(loss), factor // 2)
        if (
            self.watch.is_over or math.sqrt(2) * loss > self.most
        ):  # the loss grows at least as the scale shrinks
            return best
        smaller_loss, smaller = loss_at(scale / math.sqrt(2))
        return smaller if smaller_loss <= self.most else best

    def _room(self, loss: float) -> int:
        """The power of two that a scale may shrink by if half the scale means twice the loss."""
        return int(2 ** math.floor(math.log2(self.most / max(loss, self.most / FIRST_SCALE))))

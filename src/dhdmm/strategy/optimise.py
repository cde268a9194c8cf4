"""`optimise(workload)`: the entry point of this package."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
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
    from dhdmm.strategy.product_dual import ProductDual

REACH, BITS = (5, 3), (11, 8)
"""Neighbours on both sides that T·H of dyadic.py looks at, and bits of its diagonal: up to
`sizes.IN_DETAIL` values, where together they cost a quarter of a percent, and beyond."""
LATEST, SHORTEST = 1.8, 10.0
"""A search is given up after so many times its seconds, but not before so many seconds."""


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
    from dhdmm.strategy.product_dual import ProductDual

    long = _long_ranges(workload)
    if long is not None:
        with within(math.inf):  # it ends by itself, with a strategy
            return _by_halves(workload, objective, long, watch)
    problem = SymmetricProblem(reduce_workload(workload, objective))
    if problem.is_small:
        return _solved(workload, objective, problem, watch)
    products = ProductDual(problem.reduction, problem.builder, problem.blocks)
    return _solved(workload, objective, products, watch)


def _largest(workload: Workload, objective: Largest, watch: Watch) -> Strategy:
    """The least largest variance: over all strategies, or by weights of terms."""
    from dhdmm.strategy.query_classes import by_twins  # brings scipy.linalg
    from dhdmm.strategy.saddle import REWEIGHTINGS, SaddleProblem, reweighted

    objective.require_few(workload)
    reduction = replace(by_twins(reduce_workload(workload)), objective=objective)
    problem = SaddleProblem(reduction, objective.weights(workload))
    if problem.is_small:
        return _solved(workload, objective, problem, watch)
    share = 1 / REWEIGHTINGS  # of the time left at each
    return reweighted(workload, objective, lambda w, by: _least_total(w, by, watch.part(share)))


def _solved(
    workload: Workload,
    objective: Objective,
    problem: SymmetricProblem | ProductDual,
    watch: Watch,
) -> Strategy:
    """The problem's optimum in integers."""
    from dhdmm.strategy.scale import ScaleSearch  # brings scipy.linalg

    problem.solve(watch.part(problem.share))
    return ScaleSearch(workload, objective, problem, watch).smallest()


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

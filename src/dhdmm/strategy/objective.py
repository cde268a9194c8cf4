"""What a strategy is judged by: one number made of its answers' variances, the smaller the better.

The code that optimises, rounds, bounds or describes a strategy takes everything that follows from
this choice from an `Objective`:

- `total`: the total squared error of the weighted queries, max_u X_uu · tr(V X⁺);
- `per-table`: the same with every table's mean squared error in place of its sum;
- `max`: the largest variance of any weighted query, max_u X_uu · max_i w_i X⁺ w_iᵀ;
- targets: `max` with the queries of a table weighted by 1/target, those of other tables not judged.

X = AᵀA; V = WᵀW, rows of W weighted; d: dual weights, F(d) = ‖W D^½‖_*, see optimum.py. A block b
has the *trace* tr(V_b X_b⁺) and the *mean* Σ_u d_u X^b_uu.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dhdmm.effort import allocate
from dhdmm.errors import StrategyError, StudyError
from dhdmm.strategy import sizes
from dhdmm.strategy.contrast import Contrast, Nest, contrasts, well_balanced
from dhdmm.strategy.matrix import Floats
from dhdmm.study.names import nearest
from dhdmm.study.workload import Workload

if TYPE_CHECKING:
    from dhdmm.strategy.reconstruction import Reconstruction
    from dhdmm.study.spec import Study


@dataclass(frozen=True)
class Objective:
    """The total squared error; another objective overrides what it counts differently."""

    name: ClassVar[str] = "total"
    words: ClassVar[str] = "error"
    """What `figure` is, for people."""

    def weights(self, workload: Workload) -> Sequence[float]:
        """What the queries of every term are multiplied by in W."""
        return [term.weight for term in workload.terms]

    def value(self, traces: Iterable[float], largest: float) -> float:
        """Of a strategy with these blocks and this largest X_uu; rescaling X does not change it."""
        return math.fsum(traces) * largest

    def share(self, trace: float, value: float) -> float:
        """What a block's trace adds to the value, relative to it, when the largest X_uu is 1."""
        return trace / value

    def bound(self, root: float) -> float:
        """No strategy has a smaller value, whatever d is; `root` is F(d) or less."""
        return root**2

    def gradient(self, columns: Floats, mean: float) -> Floats:
        """Of log bound by the dual weights, from X_uu and their mean: nowhere over 1 at best."""
        return columns / mean

    def scale(self, trace: float, mean: float) -> float:
        """What multiplies a block's X when all are scaled best: its trace and mean become equal."""
        return math.sqrt(trace / mean)

    def contribution(self, trace: float, mean: float) -> float:
        """That trace and mean: the value of all blocks scaled best is the bound of their sum."""
        return math.sqrt(trace * mean)

    def cost(self, columns: Floats, traces: Floats) -> Floats:
        """Of a rounded block by its share of both; in the real strategy they are equal."""
        return columns + traces

    def noise(self, contrast: Contrast) -> float:
        """What counts of the noise that a contrast leaves."""
        return contrast.inverse_trace

    def contrasts(self, nest: Nest) -> Sequence[Contrast]:
        """Those to choose from, where a block has several rows."""
        return well_balanced(nest)

    def average(self, workload: Workload, value: float) -> float:
        """A value for one query."""
        return value / workload.queries

    def judge(self, workload: Workload, reconstruction: Reconstruction) -> float:
        """The average value of a strategy whose largest X_uu is 1, from its answers' variances."""
        weights = self.weights(workload)
        totals = [reconstruction.total_variance(term) for term in workload.terms]
        squared = math.fsum(w**2 * total for w, total in zip(weights, totals, strict=True))
        return self.average(workload, self.value([squared], 1))

    def figure(self, value: float) -> float:
        """A value, or the quotient of two, as it is shown: in units of a standard error."""
        return math.sqrt(value)


@dataclass(frozen=True)
class PerTable(Objective):
    """The mean over tables of their mean squared error; every term is a table."""

    name: ClassVar[str] = "per-table"
    words: ClassVar[str] = "error, with every table counted alike,"

    def weights(self, workload: Workload) -> Sequence[float]:
        return [term.weight / math.sqrt(term.queries) for term in workload.terms]

    def average(self, workload: Workload, value: float) -> float:
        return value / len(workload.terms)


@dataclass(frozen=True)
class Weighted(Objective):
    """The total squared error for weights that are given."""

    given: tuple[float, ...]

    def weights(self, workload: Workload) -> Sequence[float]:
        return self.given

    def average(self, workload: Workload, value: float) -> float:
        return value


@dataclass(frozen=True)
class Largest(Objective):
    """The largest variance of any query."""

    name: ClassVar[str] = "max"
    words: ClassVar[str] = "largest error of any answer"

    def cost(self, columns: Floats, traces: Floats) -> Floats:
        """Other blocks do not make up for a query's noise in this one."""
        return np.maximum(columns, traces)

    def noise(self, contrast: Contrast) -> float:
        return contrast.largest_inverse

    def contrasts(self, nest: Nest) -> Sequence[Contrast]:
        return contrasts(nest)

    def average(self, workload: Workload, value: float) -> float:
        return value

    def require_few(self, workload: Workload) -> None:
        """Refuse what would have too many variances."""
        if workload.queries > sizes.JUDGED:
            raise StrategyError(
                f"{workload.queries:,} queries are too many to look at the error of each",
                hint=f"ask for at most {sizes.JUDGED:,}, or choose 'objective: per-table'",
            )

    def judge(self, workload: Workload, reconstruction: Reconstruction) -> float:
        return max(self.by_term(workload, reconstruction))

    def by_term(self, workload: Workload, reconstruction: Reconstruction) -> list[float]:
        """The largest weighted variance of every term, 0 of those that are not judged."""
        found = []
        for term, weight in zip(workload.terms, self.weights(workload), strict=True):
            allocate(4 * term.queries if weight else 0)
            largest = float(reconstruction.variances(term).max()) if weight else 0.0
            found.append(weight**2 * largest)
        return found


@dataclass(frozen=True)
class LargestByTarget(Largest):
    """The largest variance of any query of some tables, each relative to its target squared."""

    name: ClassVar[str] = "targets"
    words: ClassVar[str] = "largest error relative to its target"

    tables: tuple[tuple[str, float], ...] = ()
    """The standard error that answers of a table may have, by the table's name."""

    def weights(self, workload: Workload) -> Sequence[float]:
        wanted, names = dict(self.tables), [item.name for item in workload.items]
        for name in wanted:
            if name not in names:
                raise StudyError(f"there is no table '{name}'", hint=nearest(name, names))
        tables = [(1 / wanted[i.name] if i.name in wanted else 0.0, i) for i in workload.items]
        return [weight for weight, item in tables for _ in item.terms]


TOTAL_SQUARED_ERROR = Objective()
OBJECTIVES = {one.name: one for one in (TOTAL_SQUARED_ERROR, PerTable(), Largest())}


def objective_of(study: Study) -> Objective:
    """What the study says is to be minimised."""
    return chosen_objective(study.model.objective, study.targets)


def chosen_objective(
    name: str | Objective, targets: Mapping[str, float] | None = None
) -> Objective:
    """The objective of this name, or the one of these targets."""
    if targets:
        if name not in (TOTAL_SQUARED_ERROR.name, TOTAL_SQUARED_ERROR):
            raise StudyError("targets are an objective of their own", hint="leave the other out")
        return LargestByTarget(tuple(sorted(targets.items())))
    if isinstance(name, Objective):
        return name
    if name not in OBJECTIVES:
        raise StudyError(f"'{name}' is no objective", hint=nearest(name, list(OBJECTIVES)))
    return OBJECTIVES[name]

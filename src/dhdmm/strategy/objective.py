"""What a strategy is judged by: one number made of its answers' variances, the smaller the better.

The code that optimises, rounds, bounds or describes a strategy takes everything that follows from
this choice from an `Objective`. Today there is one: the total squared error of the weighted
queries, max_u X_uu · tr(V X⁺), shown as their root mean square.

X = AᵀA; V = WᵀW, rows of W weighted; d: dual weights, F(d) = ‖W D^½‖_*, see optimum.py. A block b
has the *trace* tr(V_b X_b⁺) and the *mean* Σ_u d_u X^b_uu.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dhdmm.strategy.matrix import Floats
from dhdmm.study.workload import Workload


@dataclass(frozen=True)
class Objective:
    """The total squared error; another objective overrides what it counts differently."""

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

    def per_query(self, workload: Workload, value: float) -> float:
        return value / workload.queries

    def of_totals(self, workload: Workload, totals: Sequence[float]) -> float:
        """The value per query, from the sum of the unweighted answers' variances of each term."""
        weights = self.weights(workload)
        squared = math.fsum(w**2 * total for w, total in zip(weights, totals, strict=True))
        return self.per_query(workload, squared)

    def figure(self, value: float) -> float:
        """A value, or the quotient of two, as it is shown: in units of a standard error."""
        return math.sqrt(value)


TOTAL_SQUARED_ERROR = Objective()

"""The local model: every participant reports one record through an ε-private randomiser.

A report is about one of M tables, chosen at random with public chances π_t, and is divided by π_t:
unbiased. With z_i the randomiser's estimate for participant i, a query of table t has variance

    Σ_i ( (Var z_i + w_i²)/π_t − w_i² ),        w_i the record's true contribution,

which for a cell of a marginal and π_t = 1/M is M·n·v + n·f·(M − 1), f the cell's share. What a
table is (a term of the workload, an item, or all of it), and which randomiser each has, is chosen
for the smallest total variance over uniform records: public knowledge. Queries that every record
answers alike, such as the total, cost nothing: reports can be counted.

Not here, and better still: weighing overlapping tables against each other afterwards, and
randomisers optimised for the workload.

The shuffle model is the same mechanism at a larger ε₀ (see amplification.py). Replacing one record
by another is protected. Simulated with a NumPy generator over records that are not secret.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from dhdmm.errors import StrategyError
from dhdmm.strategy.matrix import Floats
from dhdmm.study.attributes import Codes
from dhdmm.study.workload import Term, Workload
from research.baselines.patterns import PatternTable, pattern_table
from research.baselines.randomisers import Randomiser, candidates

Chances = Literal["equal", "best"]
"""π_t = 1/M, or π_t in proportion to the root of the table's total variance, which is best."""


@dataclass(frozen=True, eq=False)
class ReportedTable:
    """One table and how it is reported on by whoever draws it."""

    table: PatternTable
    randomiser: Randomiser | None
    """None where there is nothing to find out."""
    chance: float = 1.0

    def second_moments(self, counts: Floats) -> Floats:
        """Σ_i E[z_i²] for every query, from the number of participants with each pattern."""
        table, Q = self.table, self.table.Q
        if self.randomiser is None:
            return np.zeros(table.queries)
        squared = Q.multiply(Q)
        squares = squared @ counts
        variance = self.randomiser.total_variance(
            Q.sum(axis=1), squared.sum(axis=1), Q @ counts, squares, round(float(counts.sum()))
        )
        return np.asarray(np.where(table.known, 0.0, variance + squares))

    def variances(self, counts: Floats) -> Floats:
        Q = self.table.Q
        squares = np.where(self.table.known, 0.0, Q.multiply(Q) @ counts)
        return np.asarray(self.second_moments(counts) / self.chance - squares)

    def cost(self, reports: int) -> float:
        """Total second moment over uniform records."""
        uniform = np.full(self.table.patterns, reports / self.table.patterns)
        return float(self.second_moments(uniform).sum())


@dataclass(frozen=True, eq=False)
class LocalMechanism:
    """Everybody's reports, and the answers to the whole workload from them."""

    epsilon: float
    reports: tuple[ReportedTable, ...]
    places: tuple[slice, ...]
    """Where each table's queries stand in the workload."""

    @property
    def queries(self) -> int:
        return sum(report.table.queries for report in self.reports)

    @cached_property
    def randomisers(self) -> tuple[str, ...]:
        return tuple(r.randomiser.name for r in self.reports if r.randomiser)

    def variances(self, codes: Codes) -> Floats:
        """Of every answer, exact for these records, one a participant."""
        found = np.empty(self.queries)
        for report, place in zip(self.reports, self.places, strict=True):
            own = np.bincount(report.table.of(codes), minlength=report.table.patterns)
            found[place] = report.variances(own.astype(np.float64))
        return found

    def uniform_cost(self, participants: int) -> float:
        """Total second moment of all answers over uniform records."""
        return sum(report.cost(participants) / report.chance for report in self.reports)

    def expected_rmse(self, codes: Codes) -> float:
        return math.sqrt(float(self.variances(codes).mean()))

    def answers(self, codes: Codes, generator: np.random.Generator) -> Floats:
        """One simulated collection: every participant draws a table and reports."""
        chances = [report.chance if report.randomiser else 0.0 for report in self.reports]
        drawn = generator.choice(len(chances), size=len(codes), p=chances)
        found = np.empty(self.queries)
        for t, (report, place) in enumerate(zip(self.reports, self.places, strict=True)):
            table = report.table
            found[place] = len(codes) * table.Q[:, [0]].toarray().ravel()  # right where known
            if report.randomiser is not None:
                own = table.of(codes[drawn == t])
                estimate = table.answers(report.randomiser.estimate(own, generator))
                found[place] = np.where(table.known, found[place], estimate / report.chance)
        return found


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A workload's tables, divided in several ways; mechanisms differ only in ε."""

    divisions: tuple[tuple[PatternTable, ...], ...]

    @classmethod
    def of(cls, workload: Workload) -> LocalModel:
        """By term, by item, and all in one; divisions that are too large are left out."""
        ways: list[Sequence[tuple[Term, ...]]] = [
            [(term,) for term in workload.terms],
            [item.terms for item in workload.items],
            [workload.terms],
        ]
        found = tuple(division for way in ways if (division := _division(workload, way)))
        if not found:
            raise StrategyError("the workload's tables are too large for local reports")
        return cls(found)

    def mechanism(
        self, epsilon: float, participants: int, chances: Chances = "equal"
    ) -> LocalMechanism:
        """The division with the smallest total variance, each table with its best randomiser."""
        designs = [_design(tables, epsilon, participants, chances) for tables in self.divisions]
        return min(designs, key=lambda design: design.uniform_cost(participants))


def _division(
    workload: Workload, way: Sequence[tuple[Term, ...]]
) -> tuple[PatternTable, ...] | None:
    try:
        return tuple(pattern_table(workload, terms) for terms in way)
    except StrategyError:
        return None


def _design(
    tables: Sequence[PatternTable], epsilon: float, participants: int, chances: Chances
) -> LocalMechanism:
    chosen = [_best(table, epsilon, participants) for table in tables]
    costs = np.array([report.cost(participants) for report in chosen])
    shares = np.sqrt(costs) if chances == "best" else (costs > 0).astype(np.float64)
    shares /= shares.sum() or 1.0
    reports = tuple(
        ReportedTable(report.table, report.randomiser, float(share) or 1.0)
        for report, share in zip(chosen, shares, strict=True)
    )
    ends = np.cumsum([table.queries for table in tables]).tolist()
    places = tuple(slice(e - t.queries, e) for e, t in zip(ends, tables, strict=True))
    return LocalMechanism(epsilon, reports, places)


def _best(table: PatternTable, epsilon: float, participants: int) -> ReportedTable:
    if table.known.all():
        return ReportedTable(table, None)
    options = [ReportedTable(table, option) for option in candidates(table.patterns, epsilon)]
    return min(options, key=lambda report: report.cost(participants))

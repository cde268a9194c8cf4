"""The budget that a wanted error takes, and errors beside what the answers may be.

The strategy for targets of tables is the one with the smallest largest error relative to its target
(`LargestByTarget` in strategy/objective.py): no other reaches them all with a smaller ρ, but for
its `ratio` squared. A plan's standard errors are proportional to 1/√ρ but for rounding, so a few
plans find the least ρ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import PrivacyError, StudyError
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import draft
from dhdmm.planning.plan import REPORTED_DELTA, ExpectedError
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.coverage import ROWS
from dhdmm.study.names import nearest
from dhdmm.study.persons import MARKED
from dhdmm.study.spec import Study
from dhdmm.study.workload import Term

ATTEMPTS = 8
CLOSE = 1e-3
"""How far below the target an error may stay."""
ALL_COUNTED = np.array([1.0, 0.0])
"""A guess is of a table that loses no row."""
ALL_FIRST = np.array([0.0, 1.0])
"""And in which every record is another person's."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """Errors that are wanted: the largest of a table by its name, and of all queries together."""

    tables: Mapping[str, float]
    rmse: float | None = None

    @classmethod
    def parse(cls, written: list[str], rmse: float | None = None) -> Targets:
        """Of texts such as "wards: 5"."""
        tables = {}
        for text in written:
            name, _, number = (part.strip() for part in text.rpartition(":"))
            try:
                tables[name] = float(number)
            except ValueError:
                tables[name] = math.nan
            if not (name and 0 < tables[name] < math.inf):
                raise StudyError(f"{text!r} is no target", hint='write "TABLE: ERROR": "wards: 5"')
        return cls(tables, rmse)

    def missed_by(self, expected: ExpectedError) -> float:
        """The largest ratio of an error to its target: 1 where all are just met."""
        by_item = expected.by_item()
        for name in self.tables:
            if name not in by_item:
                raise StudyError(f"the study has no table '{name}'", hint=nearest(name, by_item))
        ratios = [float(by_item[name].max()) / wanted for name, wanted in self.tables.items()]
        return max([*ratios, *([] if self.rmse is None else [expected.rmse / self.rmse])])


def study_for(
    study: Study, strategy: Strategy, targets: Targets, participants: int | None = None
) -> Study:
    """The study with the smallest ε, to four digits, at which a plan meets the targets."""
    number = participants or participants_allowed(study.aggregation)[1]
    delta = study.privacy.delta or REPORTED_DELTA
    rho = float(draft(study, strategy).plan(number).rho)
    for _ in range(ATTEMPTS):
        asked = study.with_privacy(rho=float(f"{rho:.9g}"), epsilon=None, delta=None)
        plan = draft(asked, strategy).plan(number)
        missed = targets.missed_by(plan.expected_error())
        if 1 - CLOSE <= missed <= 1:
            break
        rho *= (missed * (1 + CLOSE / 4)) ** 2
    else:
        raise PrivacyError(
            f"no budget was found for these targets; ρ = {rho:.4g} misses them by {missed:.4g}",
            hint="leave one out, or ask for larger errors",
        )
    epsilon = epsilon_promised([plan.noise], delta)
    return study.with_privacy(rho=None, epsilon=_up(epsilon), delta=delta)


def _up(value: float) -> float:
    """Four significant digits, rounded up."""
    scale = 10.0 ** (3 - math.floor(math.log10(value)))
    return math.ceil(value * scale) / scale


def guessed_answers(study: Study, total: float) -> Floats:
    """What the answers are if `total` records fall on all cells alike, in the workload's order."""
    parts = total * study.workload.schema.units
    return np.concatenate([parts * _shares(term, study) for term in study.workload.terms])


def _shares(term: Term, study: Study) -> Floats:
    """The part of the records that each row of the term counts."""
    beside = {id(ROWS): ALL_COUNTED, id(MARKED): ALL_FIRST}
    even = [
        beside.get(id(attribute), np.full(attribute.size, 1 / attribute.size))
        for attribute in study.workload.schema.attributes
    ]
    found = np.zeros(term.queries)
    for product in term.products:
        part = np.ones(1)
        for factor, records in zip(product.factors, even, strict=True):
            part = np.multiply.outer(part, factor.dot(records)).ravel()
        found += float(product.coefficient) * part
    return found

"""The studies of the evaluation, and their variations."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

from dhdmm.planning.draft import plan
from dhdmm.planning.plan import Plan
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from research.paper.settings import CORRUPT_FRACTION, DELTA, MAX_DROPOUT, SEMI_HONEST

EXAMPLES = Path(__file__).parents[2] / "examples"
TITLES = {"adult-5": "Adult, 2-way marginals", "census-sf1": "Census SF1"}


@cache
def study(name: str) -> Study:
    return Study.load(EXAMPLES / name / "study.yaml")


@cache
def strategy(name: str) -> Strategy:
    return optimise(study(name).workload)


def varied(
    base: Study,
    participants: int,
    *,
    epsilon: float = 1.0,
    theta: float = CORRUPT_FRACTION,
    max_dropout: float = MAX_DROPOUT,
    threat_model: str = SEMI_HONEST,
    records: int = 1,
    relation: str = "zero-out",
    validation: str = "none",
) -> Study:
    """The same questions, asked of others at another price."""
    promised = base.with_privacy(
        epsilon=epsilon, delta=DELTA, corrupt_fraction=theta, relation=relation
    )
    return promised.with_aggregation(
        participants=participants,
        max_dropout=max_dropout,
        threat_model=threat_model,
        max_records_per_participant=records,
        validation=validation,
    )


def planned(name: str, participants: int, **variation: Any) -> Plan:
    """A plan with the study's one strategy, optimised once for all variations."""
    return plan(varied(study(name), participants, **variation), strategy=strategy(name))


def counting(cells: int) -> Study:
    """How many records each of `cells` cells holds: a strategy of so many rows.

    Two attributes, as nearly equal as the number allows: the optimiser keeps matrices of an
    attribute's values squared.
    """
    shorter = max(d for d in range(1, math.isqrt(cells) + 1) if cells % d == 0)
    return Study.from_text(
        f"""
study: {cells} cells
schema:
  row:    {{type: integer, range: [1, {shorter}]}}
  column: {{type: integer, range: [1, {cells // shorter}]}}
workload:
  - {{name: counts, by: [row, column]}}
privacy: {{unit: record, epsilon: 1.0, delta: {DELTA}, corrupt_fraction: {CORRUPT_FRACTION}}}
aggregation: {{participants: 100, max_records_per_participant: 1}}
""",
        "counting.yaml",
    )

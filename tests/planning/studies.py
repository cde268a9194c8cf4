"""Small studies and plans that the tests of planning and of participants share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dhdmm.planning.draft import draft
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.document import write
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.protocol.network import roster_of

SCHEMA = {"value": {"type": "integer", "range": [0, 4]}}
WORKLOAD = [{"name": "prefixes", "ranges": {"of": "value", "kind": "prefix"}}]
PRIVACY = {"unit": "record", "epsilon": 1.0, "delta": 1e-5, "corrupt_fraction": 0.1}
AGGREGATION = {
    "threat_model": "malicious",
    "participants": 12,
    "max_dropout": 0.1,
    "max_records_per_participant": 3,
}


def study(
    privacy: dict[str, Any] | None = None,
    aggregation: dict[str, Any] | None = None,
    schema: dict[str, Any] = SCHEMA,
    workload: list[Any] = WORKLOAD,
) -> Study:
    """Prefixes of five values among twelve participants, with some keys changed; None removes."""
    values = {
        "study": "planned",
        "schema": schema,
        "workload": workload,
        "privacy": _without_none(PRIVACY | (privacy or {})),
        "aggregation": AGGREGATION | (aggregation or {}),
    }
    return Study.from_text(write(values))


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


@cache
def planned() -> Plan:
    """The plan that everybody agrees with."""
    return make_plan(study(), roster=roster_of(12))


def replanned(participants: int = 12, **sections: Any) -> Plan:
    """An honest plan for the study with other sections, from the same strategy."""
    changed = study(**sections)
    roster = roster_of(participants)
    return draft(changed, planned().strategy).plan(participants, roster.digest)


def with_triangle(strategy: Strategy, T: np.ndarray) -> Strategy:
    """The same strategy with the T of its only side replaced: A′ = T over the values."""
    (block,) = strategy.blocks
    (side,) = block.sides
    return replace(strategy, blocks=(replace(block, sides=(replace(side, T=T),)),))


def records(*values: int) -> Histogram:
    return Histogram.of_records(np.array(values, np.int64).reshape(-1, 1))

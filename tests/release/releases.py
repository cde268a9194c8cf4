"""Releases for the tests: a real plan of a small study, a seeded table, seeded rounded noise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dhdmm
from dhdmm.release.release import Release
from dhdmm.strategy.strategy import Histogram

STUDY = """
study: small
schema:
  sex:   {type: category, values: [Female, Male]}
  age:   {type: integer, range: [0, 29]}
  value: {type: number, edges: [0, 10, 20, 50]}
groupings:
  band: {of: age, edges: [0, 10, 20, 30]}
workload:
  - {name: everyone, total: true}
  - name: parts
    terms: [{by: [sex]}, {by: [band]}, {by: [age], where: "sex = 'Female'"}, {total: true}]
  - {name: crossed, by: [sex, band], with_totals: [sex, band]}
  - {name: adults, by: [sex], where: "age >= 18"}
  - {name: cut, by: [band], where: "age >= 18"}
  - {name: coupled, terms: [{by: [sex], where: "age >= 18 OR value < 10"}, {by: [sex]}]}
  - {name: prefixes, ranges: {of: age, kind: prefix}, by: [sex]}
  - {name: intervals, ranges: {of: age, kind: all}}
  - {name: spread, by: [sex, value, band]}
  - {name: cube, sql: "SELECT sex, value, COUNT(*) FROM data GROUP BY CUBE (sex, value)"}
"""
TERMS = """
privacy: {unit: record, epsilon: 2.0, delta: 1e-5, corrupt_fraction: 0.05}
aggregation:
  {threat_model: semi-honest, participants: 60, max_dropout: 0.1, max_records_per_participant: 100}
"""


ROUNDS = [400, pytest.param(1000, marks=pytest.mark.soak)]
"""In which the intervals are counted that hold the truth."""


def slack(rounds: int) -> float:
    """So near to 95 % is the coverage over so many rounds, but for a probability of 0.4 %."""
    return 0.02 * (1000 / rounds) ** 0.5


def study_of(items: str, values: str = "[Female, Male]") -> str:
    """A study of one attribute with these items."""
    return f"""
study: named
schema:
  sex: {{type: category, values: {values}}}
workload:
{items}
"""


@cache
def plan_of(text: str = STUDY) -> dhdmm.Plan:
    return dhdmm.plan(dhdmm.Study.from_text(text + TERMS), participants=60)


def records(plan: dhdmm.Plan, rng: np.random.Generator, count: int = 3000) -> Histogram:
    sizes = plan.study.schema.shape
    codes = np.stack([rng.binomial(size - 1, 0.4, count) for size in sizes], axis=1)
    return Histogram(codes, np.ones(count, np.int64))


def release_of(text: str = STUDY, seed: int = 1, survivors: int = 57) -> Release:
    plan, rng = plan_of(text), np.random.default_rng(seed)
    truth = plan.strategy.measure(records(plan, rng))
    deviation = float(survivors * plan.participant_variance) ** 0.5
    noise = np.rint(rng.normal(0, deviation, truth.shape)).astype(np.int64)
    return Release(plan, bytes(range(16)), survivors, truth + noise)

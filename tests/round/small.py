"""A study small enough to run many times, and people for it."""

import numpy as np

from dhdmm.planning.draft import plan
from dhdmm.planning.plan import Plan
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

TEXT = """
study: small
schema:
  age: {{type: integer, range: [0, 9]}}
  sex: {{type: category, values: [F, M]}}
workload:
  - {{name: both, by: [age, sex]}}
  - {{name: young, ranges: {{of: age, kind: prefix}}}}
privacy: {{unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: {corrupt}}}
aggregation:
  threat_model: {threat_model}
  participants: {participants}
  max_dropout: {dropout}
  max_records_per_participant: 50
  validation: {validation}
"""


DEFAULTS = {
    "threat_model": "malicious",
    "participants": 12,
    "corrupt": 0.1,
    "dropout": 0.1,
    "validation": "none",
}


def small_text(**changes: object) -> str:
    return TEXT.format(**(DEFAULTS | changes))


def small_plan(**changes: object) -> Plan:
    return plan(Study.from_text(small_text(**changes)))


def people(count: int, seed: int = 0) -> list[Histogram]:
    """One histogram a participant; the first has no records at all."""
    generator = np.random.default_rng(seed)
    sizes = [0, *generator.integers(1, 50, count - 1)]
    return [
        Histogram.of_records(
            np.stack([generator.integers(0, 10, size), generator.integers(0, 2, size)], axis=1)
        )
        for size in sizes
    ]

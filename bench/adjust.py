"""Adjusted answers and made-up records beside raw answers: errors in one run, time and memory.

    python -m bench.adjust [adult.csv]

With the coded UCI Adult data the first two studies have its records, otherwise made-up ones.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np

import dhdmm
from dhdmm.release.release import Release
from dhdmm.study.factor import Integers
from dhdmm.study.histogram import Histogram

EXAMPLES = Path(__file__).parent.parent / "examples"
WIDE = 15
"""Attributes of ten values: 10¹⁵ cells."""
RECORDS = 48_842


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    rng = np.random.default_rng(1)
    for name in ("adult-5", "adult-14"):
        study = dhdmm.Study.load(EXAMPLES / name / "study.yaml")
        codes = _made_up(study.schema.shape, rng) if data is None else _adult(data, name)
        _compare(f"{name}, {'made-up' if data is None else 'UCI Adult'}", study, codes, rng)
    study = dhdmm.Study.from_text(_wide())
    _compare("10¹⁵ cells, all pairs", study, _made_up(study.schema.shape, rng), rng)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory {peak:.2f} GB")


def _compare(
    title: str,
    study: dhdmm.Study,
    codes: Integers,
    rng: np.random.Generator,
) -> None:
    plan = dhdmm.plan(study)
    exact = plan.strategy.measure(Histogram(codes, np.ones(len(codes), np.int64)))
    truth = plan.strategy.reconstruct(exact)
    deviation = float(plan.participants * plan.participant_variance) ** 0.5
    noise = np.rint(rng.normal(0, deviation, len(exact))).astype(np.int64)
    release = Release(plan, bytes(16), plan.participants, exact + noise)
    found = {"raw": release.answers, "cut at 0": np.maximum(release.answers, 0)}
    print(f"{title}: {len(truth):,} answers")
    for words, rules in (("adjusted", {"nonnegative": True}), ("records", {"integers": True})):
        start = time.process_time()
        found[words] = release.adjusted(**rules).answers
        print(f"  {words}: {time.process_time() - start:.1f} s of processor time")
    for words, answers in found.items():
        error = np.sqrt(np.mean((answers - truth) ** 2))
        print(f"  {words:10} root-mean-square error {error:6.2f}")


def _made_up(shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Records whose attributes lean the same way."""
    leaning = rng.normal(size=(RECORDS, 1))
    mixed = 0.6 * leaning + 0.8 * rng.normal(size=(RECORDS, len(shape)))
    share = 1 / (1 + np.exp(1 + 1.5 * mixed))
    return np.asarray(np.minimum((share * shape).astype(np.int64), np.array(shape) - 1))


def _adult(path: Path, name: str) -> Integers:
    rows = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    if name == "adult-14":
        return rows
    age, years, race, sex, hours = (rows[:, column] for column in (0, 3, 7, 8, 11))
    bins = np.clip((hours + 1) // 5, 0, 19)
    return np.column_stack([np.clip(age - 1, 0, 74), years, race, sex, bins])


def _wide() -> str:
    attributes = "\n".join(f"  q{i}: {{type: integer, range: [0, 9]}}" for i in range(WIDE))
    return f"""
study: wide
schema:
{attributes}
workload:
  - {{name: pairs, marginals: {{ways: 2}}}}
privacy: {{unit: record, epsilon: 1.0, delta: 1e-5, corrupt_fraction: 0.05}}
aggregation:
  {{threat_model: malicious, participants: 1000, max_dropout: 0.05,
   max_records_per_participant: 100}}
"""


if __name__ == "__main__":
    main()

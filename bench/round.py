"""A whole round of Census SF1 on this machine: time, bytes and memory, one record a participant.

`seconds` is wall time with all cores, for the round alone: planning is on a line of its own.
Memory is the most that the coordinator's process ever held, up to and including that line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from dhdmm.cohort.usage import peak_bytes
from dhdmm.planning.draft import plan as make_plan
from dhdmm.runner import enrol, run_round
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

STUDY = Path(__file__).parents[1] / "examples" / "census-sf1" / "study.yaml"
SIZES = (100, 1000)
DROPOUT = 0.05


def people(study: Study, count: int) -> list[Histogram]:
    random = np.random.default_rng(count)
    shape = study.schema.shape
    return [Histogram.of_records(random.integers(0, shape, (1, len(shape)))) for _ in range(count)]


def report(study: Study, strategy: Strategy, count: int) -> None:
    plan = make_plan(study, participants=count, strategy=strategy)
    costs = run_round(enrol(plan), people(study, count), dropout=DROPOUT).costs
    print(
        f"{plan.threat_model:>12}{count:>8,}{costs.seconds:>9.1f}{costs.participant_ms:>9.1f}"
        f"{costs.coordinator_s:>9.2f}{costs.participant_sent_bytes / 1000:>9.1f}"
        f"{costs.participant_received_bytes / 1000:>9.1f}"
        f"{peak_bytes() / 1e6:>8.0f}",
        flush=True,
    )


def main() -> None:
    started = perf_counter()
    study = Study.load(STUDY)
    strategy = make_plan(study).strategy
    planning = perf_counter() - started
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f};"
        f" {strategy.rows:,} rows, planned in {planning:.1f} s; {DROPOUT:.0%} drop out"
    )
    print(
        f"{'':>12}{'people':>8}{'seconds':>9}{'ms each':>9}{'coord s':>9}{'kB sent':>9}"
        f"{'received':>9}{'MB':>8}"
    )
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    for model in ("semi-honest", "malicious"):
        for size in sizes:
            report(study.with_aggregation(threat_model=model), strategy, size)


if __name__ == "__main__":
    main()

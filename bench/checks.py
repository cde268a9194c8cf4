"""What a participant computes from a plan: the check by parts, row spaces, replacing, measuring.

Everything is processor time of one thread, with ratios to the first row: a fixed loop over arrays,
by which figures of busy and idle machines can be compared. Each figure is the least of several.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.wide import ADULT_14, CPS, tables
from dhdmm.client.checked import KeptChecks
from dhdmm.cohort.usage import peak_bytes
from dhdmm.participant import policy
from dhdmm.participant.policy import Policy, review_preview
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.strategy.asked import nothing_more
from dhdmm.strategy.membership import Membership
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.histogram import Histogram
from dhdmm.study.models import StudyModel
from dhdmm.study.spec import Study
from dhdmm.study.workload import Workload
from dhdmm.threads import SAID

EXAMPLES = Path(__file__).parents[1] / "examples"
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
"""Sizes as of the Loans table in the literature on marginals, from memory: a shape, no data."""
RECORDS = 1_000_000
ANYTHING = Policy(threat_models=["malicious", "semi-honest"], max_epsilon=1e6)
LEAST_OF = 7


def milliseconds(call: Callable[[], Any], times: int = LEAST_OF) -> float:
    found = []
    for _ in range(times):
        start = process_time()
        call()
        found.append(process_time() - start)
    return 1000 * min(found)


def fixed_loop() -> int:
    """Small arrays and Python objects, as in a check."""
    total = 0
    for i, j in product(range(40), range(40)):
        total += int((np.arange(200) * i % (j + 1)).sum())
    return total


def report(name: str, call: Callable[[], Any], unit: float, times: int = LEAST_OF) -> None:
    spent = milliseconds(call, times)
    print(f"{name:<44}{spent:>10.1f}{spent / unit:>9.2f}", flush=True)


def report_check(unit: float) -> None:
    """A plan of Census SF1 for 3,000 participants, as `join` checks it."""
    study = Study.load(EXAMPLES / "census-sf1" / "study.yaml")
    encoded = make_plan(study, participants=3000).to_bytes()
    read = Plan.from_bytes(encoded)
    fresh = read.strategy.to_bytes(), read.study.canonical_bytes()
    report_plan("SF1", encoded, unit)
    report("    study", lambda: Study.from_canonical_bytes(fresh[1]).workload, unit)
    report("    strategy", lambda: Strategy.from_bytes(fresh[0]), unit)
    report("    sensitivity", lambda: Strategy.from_bytes(fresh[0]).sensitivity_squared, unit)
    report("    what is measured", lambda: policy._measured(read, ANYTHING, None), unit)  # type: ignore[arg-type]
    with TemporaryDirectory() as folder:
        kept = KeptChecks(Path(folder) / "checked")
        review_preview(encoded, ANYTHING, kept)
        report("  after a restart", lambda: review_preview(encoded, ANYTHING, kept), unit)
    one = Histogram.of_records(np.zeros((1, len(read.strategy.shape)), np.int64))
    report("  measuring one record", lambda: read.strategy.measure(one), unit)


def report_plan(name: str, encoded: bytes, unit: float) -> None:
    """The first check in a new process, as `join` makes it, and a later one in this process."""
    rows = Plan.from_bytes(encoded).strategy.rows
    print(f"{name}, {len(encoded):,} bytes of plan, {rows:,} rows")
    runs = [_in_a_new_process(encoded) for _ in range(LEAST_OF)]
    names = "  the study's models are built", "  first check"
    for what, found in zip(names, zip(*runs, strict=True), strict=True):
        print(f"{what:<44}{min(found):>10.1f}{min(found) / unit:>9.2f}", flush=True)
    report("  a later check", lambda: review_preview(encoded, ANYTHING), unit)


def _in_a_new_process(encoded: bytes) -> list[float]:
    command = [sys.executable, "-c", "from bench.checks import first; first()"]
    environment = {**os.environ, SAID: "1"}  # as the command `dhdmm` says it
    printed = subprocess.run(
        command, input=encoded, capture_output=True, check=True, env=environment
    ).stdout
    return [float(number) for number in printed.split()]


def first() -> None:
    """Prints milliseconds to build the models of a study, and to check the plan given as input.

    What both import is imported before: that is measured by `bench join`.
    """
    for name in ("dhdmm.client.join", "scipy.sparse"):
        import_module(name)
    encoded = sys.stdin.buffer.read()
    print(milliseconds(partial(StudyModel.model_rebuild, force=True), 1))
    print(milliseconds(lambda: review_preview(encoded, ANYTHING), 1))


def marginals_study(sizes: Sequence[int], workload: str) -> Study:
    """Of integer attributes a0, a1, …"""
    schema = ", ".join(f"a{i}: {{type: integer, range: [0, {n - 1}]}}" for i, n in enumerate(sizes))
    return Study.from_text(f"""
study: bench
schema: {{{schema}}}
workload: [{{name: tables, {workload}}}]
privacy: {{unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}}
aggregation: {{participants: {{min: 100, max: 3000}}, max_records_per_participant: 100}}
""")


def report_other_plans(unit: float) -> None:
    for name, study in (
        ("pairs of Adult-14", marginals_study(ADULT_14, "marginals: {ways: 2}")),
        ("pairs of Loans", marginals_study(LOANS, "marginals: {ways: 2}")),
        ("ranges of 1,024 values", marginals_study((1024,), "ranges: {of: a0, kind: all}")),
    ):
        report_plan(name, make_plan(study, participants=3000).to_bytes(), unit)


def report_row_space(name: str, workload: Workload, unit: float) -> None:
    strategy = optimise(workload)

    def compare() -> None:
        space = Membership(strategy.axes, strategy.blocks, b"seed")
        assert space.contains(*workload.terms)
        nothing_more(space, workload.terms)

    report(f"row space of {name}", compare, unit, 3)


def report_replacing(name: str, workload: Workload, unit: float) -> None:
    encoded = optimise(workload).to_bytes()
    read = [Strategy.from_bytes(encoded) for _ in range(2)]
    report(f"replacing, {name}", lambda: read.pop().replace_sensitivity_squared, unit, 2)


def report_measuring(unit: float) -> None:
    strategy = optimise(Study.load(EXAMPLES / "adult-14" / "study.yaml").workload)
    random = np.random.default_rng(1)
    codes = np.stack([random.integers(0, n, RECORDS) for n in strategy.shape], axis=1)
    histogram = Histogram.of_records(codes)
    before, measured = peak_bytes(), strategy.measure(histogram)
    report(
        f"measuring {RECORDS:,} records of Adult-14", lambda: strategy.measure(histogram), unit, 3
    )
    more = (peak_bytes() - before) / 2**20
    print(f"  {more:.0f} MB more at its most; digest {sha256(measured.tobytes()).hexdigest()[:16]}")


def main() -> None:
    with threadpool_limits(limits=1, user_api="blas"):
        unit = milliseconds(fixed_loop)
        print(f"{'':<44}{'ms':>10}{'ratio':>9}")
        report("a fixed loop", fixed_loop, unit)
        report_check(unit)
        report_other_plans(unit)
        report_row_space("3-way Adult-14", tables(ADULT_14, 3, (), Ranges.each), unit)
        report_row_space("3-way Loans", tables(LOANS, 3, (), Ranges.each), unit)
        report_replacing("CPS 2-way, prefixes", tables(CPS, 2, (0, 1), Ranges.prefixes), unit)
        report_measuring(unit)


if __name__ == "__main__":
    main()

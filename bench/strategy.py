"""Every preset from its file to an integer strategy: error, bound, time, memory, plan.

Each workload has a process of its own, so that its peak memory is its own. Seconds are processor
time from reading the file to the integer strategy; a check is what a participant does with the
bytes of a plan: read them, see that the queries can be answered, recompute sensitivity and promise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from bench.wide import WIDE
from dhdmm.cohort.usage import peak_bytes
from dhdmm.planning.draft import plan
from dhdmm.planning.plan import Plan
from dhdmm.strategy.objective import OBJECTIVES
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from dhdmm.study.workload import Workload

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMERIC = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
FOR_OBJECTIVES = ("SF1", "Adult-5, 2-way", "Adult-14, 2-way", "AllRange 256", "Prefix 256")
LONGEST, LONGEST_WIDE = 900, 120
"""Seconds before a preset, or a wide workload, is given up."""


def example(path: str) -> Callable[[], Study]:
    return lambda: Study.load(EXAMPLES / path)


def mixed() -> Study:
    """All two-way tables of Adult-14, every range of its numeric attributes, prefixes by sex."""
    ranges = [f"  - {{name: {a}, ranges: {{of: {a}, kind: all}}}}" for a in NUMERIC]
    prefixes = [
        f"  - {{name: {a} by sex, ranges: {{of: {a}, kind: prefix}}, by: [sex]}}" for a in NUMERIC
    ]
    text = (EXAMPLES / "adult-14/study.yaml").read_text(encoding="utf-8")
    more = "\n".join(["workload:", *ranges, *prefixes])
    return Study.from_text(text.replace("workload:", more))


PRESETS: dict[str, Callable[[], Study]] = {
    "SF1": example("census-sf1/study.yaml"),
    "SF1 x 51 states": example("census-sf1-states/study.yaml"),
    "Adult-5, 2-way": example("adult-5/study.yaml"),
    "Adult-14, 2-way": example("adult-14/study.yaml"),
    "AllRange 256": example("ranges/all-256.yaml"),
    "AllRange 1024": example("ranges/all-1024.yaml"),
    "Prefix 256": example("ranges/prefix-256.yaml"),
    "Adult-14 + ranges": mixed,
}


def measure(load: Callable[[], Study]) -> dict[str, Any]:
    """One workload's figures; run in a fresh process."""
    start = process_time()
    study = load()
    strategy = optimise(study.workload)
    seconds = process_time() - start
    peak = peak_bytes() / 2**20
    encoded = plan(study, strategy=strategy).to_bytes()
    start = process_time()
    read = Plan.from_bytes(encoded)
    assert read.sensitivity_squared
    assert read.promise.epsilon > 0
    check_milliseconds = (process_time() - start) * 1000
    return {
        "queries": study.workload.queries,
        "rows": strategy.rows,
        "rmse": strategy.rmse,
        "bound": strategy.lower_bound,
        "ratio": strategy.ratio,
        "seconds": seconds,
        "peak_megabytes": peak,
        "plan_bytes": len(encoded),
        "check_milliseconds": check_milliseconds,
    }


def measure_wide(load: Callable[[], Workload]) -> dict[str, Any]:
    """The same for a workload without a study; the check is that of the strategy alone."""
    start = process_time()
    workload = load()
    strategy = optimise(workload)
    seconds = process_time() - start
    peak, encoded = peak_bytes() / 2**20, strategy.to_bytes()
    start = process_time()
    assert Strategy.from_bytes(encoded).sensitivity_squared
    return {
        "queries": workload.queries,
        "rows": strategy.rows,
        "rmse": strategy.rmse,
        "bound": strategy.lower_bound,
        "ratio": strategy.ratio,
        "seconds": seconds,
        "peak_megabytes": peak,
        "plan_bytes": len(encoded),
        "check_milliseconds": (process_time() - start) * 1000,
    }


def measure_objectives(load: Callable[[], Study]) -> dict[str, Any]:
    """The workload's largest variance, and mean over tables, by each objective's strategy."""
    workload, found = load().workload, {}
    for name in OBJECTIVES:
        start = process_time()
        strategy = optimise(workload, objective=name)
        found[name] = {
            "seconds": process_time() - start,
            "largest": float(strategy.variances().max()) * strategy.sensitivity_squared,
            "rmse": strategy.rmse,
            "per_table": strategy.over(workload, OBJECTIVES["per-table"]).error,
            "ratio": strategy.ratio,
            "entry_bits": strategy.max_entry.bit_length(),
        }
    return found


def measure_apart(name: str, *more: str) -> dict[str, Any] | str:
    """The figures from a process of their own, or why there are none."""
    longest = LONGEST if name in PRESETS else LONGEST_WIDE
    command = [sys.executable, "-m", "bench.strategy", "--only", name, *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=longest, check=False)
    except subprocess.TimeoutExpired:
        return f"not finished after {longest} s"
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return reason[-1][:60]
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    names = [*PRESETS, *WIDE]
    options.add_argument("--only", choices=names, help="measure here and print JSON")
    options.add_argument("--wide", action="store_true", help="workloads beyond the presets")
    options.add_argument("--objectives", action="store_true", help="the presets by each objective")
    given = options.parse_args()
    if given.objectives:
        if given.only:
            print(json.dumps(measure_objectives(PRESETS[given.only])))
        else:
            draw_objectives()
        return
    if given.only:
        is_preset = given.only in PRESETS
        figures = measure(PRESETS[given.only]) if is_preset else measure_wide(WIDE[given.only])
        print(json.dumps(figures))
        return
    print("Error: root mean square per weighted query at L2 sensitivity 1 and noise 1")
    print(
        f"{'workload':<17}{'queries':>14}{'rows':>9}{'error':>8}{'bound':>8}{'ratio':>7}"
        f"{'s':>5}{'MB':>5}{'kB':>5}{'ms':>6}"
    )
    for name in WIDE if given.wide else PRESETS:
        found = measure_apart(name)
        print(f"{name:<17}{' ' + found if isinstance(found, str) else row(found)}", flush=True)
    print("s, MB: processor time, peak memory for the strategy; kB, ms: a plan and its check")


def draw_objectives() -> None:
    print("At L2 sensitivity 1 and noise 1; ratio: of the objective's own error to its bound")
    print(
        f"{'workload':<17}{'objective':<10}{'largest variance':>17}{'rms':>9}{'per table':>10}"
        f"{'ratio':>8}{'bits':>5}{'s':>7}"
    )
    for name in FOR_OBJECTIVES:
        found = measure_apart(name, "--objectives")
        if isinstance(found, str):
            print(f"{name:<17}{found}", flush=True)
            continue
        for objective, one in found.items():
            print(
                f"{name:<17}{objective:<10}{one['largest']:>17.2f}{one['rmse']:>9.4f}"
                f"{one['per_table']:>10.4f}{one['ratio']:>8.4f}{one['entry_bits']:>5}"
                f"{one['seconds']:>7.1f}",
                flush=True,
            )


def row(found: dict[str, Any]) -> str:
    return (
        f"{found['queries']:>14,}{found['rows']:>9,}{found['rmse']:>8.4f}{found['bound']:>8.4f}"
        f"{found['ratio']:>7.4f}{found['seconds']:>5.1f}{found['peak_megabytes']:>5.0f}"
        f"{found['plan_bytes'] / 1000:>5.0f}{found['check_milliseconds']:>6.0f}"
    )


if __name__ == "__main__":
    main()

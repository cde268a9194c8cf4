"""What a coordinator takes as participants become more: Census SF1, 5 % silent before their input.

The coordinator is the real one with real messages; participants are simplified: they
leave out what it does not see (`--engine coordinator` of `dhdmm simulate`). Microseconds are of its
processor, for one participant: to open each phase, to take the answer, to close the phase divided
by n. The exponent is the slope of least squares through (log n, log seconds), and its seconds
without the optimisation, which does not depend on n. The model's seconds are counted operations at
fixed unit costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise

import dhdmm
from bench.simulation import MODELS, STUDY, measured_and_modelled
from dhdmm.simulation.trace import Trace
from dhdmm.study.spec import Study
from research.paper.complexity import exponent

SIZES = (1_000, 10_000, 100_000)


def steps(trace: Trace) -> Iterator[tuple[str, float]]:
    """Microseconds a participant."""
    scale = 1e6 / trace.participants
    for row, phase in enumerate(trace.phases):
        name = phase.removeprefix("collecting-")
        yield f"{name}: open", scale * float(trace.opening_seconds[row].sum())
        yield f"{name}: take", scale * float(trace.taking_seconds[row].sum())
        yield f"{name}: close", scale * float(trace.closing_seconds[row])
    yield "release", scale * trace.release_seconds


def report(sizes: list[int], traces: list[tuple[Trace, Trace]]) -> None:
    measured = [dict(steps(trace)) for trace, _ in traces]
    counted = [dict(steps(trace)) for _, trace in traces]
    print(f"{'':<16}" + "".join(f"{n:>12,}{'':>7}" for n in sizes))
    for step in measured[0]:
        if max(row[step] for row in measured) >= 1:
            show(step, [row[step] for row in measured], [row[step] for row in counted])
    totals = [[sum(row.values()) for row in rows] for rows in (measured, counted)]
    show("in all", *totals)
    for by, each in zip(("measured", "counted"), totals, strict=True):
        seconds = [n * microseconds / 1e6 for n, microseconds in zip(sizes, each, strict=True)]
        print(f"  {by}: {growth(sizes, seconds)}")


def show(step: str, measured: list[float], counted: list[float]) -> None:
    cells = [(each, by / each) for each, by in zip(measured, counted, strict=True)]
    print(f"{step:<16}" + "".join(f"{each:>12.1f}{ratio:>7.2f}" for each, ratio in cells))


def growth(sizes: list[int], seconds: list[float]) -> str:
    """Exponents from each size to the next, and over all."""
    spans = dict.fromkeys([*pairwise(range(len(sizes))), (0, len(sizes) - 1)])
    return "; ".join(
        f"{sizes[a]:,} to {sizes[b]:,}: n^{exponent(sizes[a : b + 1], seconds[a : b + 1]):.3f}"
        for a, b in spans
        if a < b
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, nargs="+", default=list(SIZES))
    options.add_argument("--models", nargs="+", default=list(MODELS))
    chosen = options.parse_args()
    study, sizes = Study.load(STUDY), sorted(chosen.participants)
    strategy = dhdmm.plan(study).strategy
    for model in chosen.models:
        traces = []
        for n in sizes:
            asked = study.with_aggregation(threat_model=model, participants=n)
            plan = dhdmm.plan(asked, strategy=strategy)
            traces.append(measured_and_modelled(plan, "coordinator"))
        print(f"\n{model}: µs a participant, and the model's over them")
        report(sizes, traces)


if __name__ == "__main__":
    main()

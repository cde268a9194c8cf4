"""Simulated rounds of Census SF1: what they cost and take, and the compute model beside them.

The first table is of whole simulations, one record a participant, 5 % silent before their input,
participants on 1 Mbit/s and the coordinator on 1 Gbit/s with 100 ms. The second sets the model's
seconds (fixed unit costs) over the measured ones, phase by phase: on the machine whose costs they
are, and at rest, it would say 1. The third measures those unit costs here that are single calls.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import dhdmm
from bench.primitives import COORDINATES, composed_keys, composed_masks, microseconds
from dhdmm.planning.plan import Plan
from dhdmm.secagg.costs import MICROSECONDS
from dhdmm.simulation.engines import Engine
from dhdmm.simulation.model import put_modelled_seconds
from dhdmm.simulation.network import Network
from dhdmm.simulation.population import population_for, silent_ones
from dhdmm.simulation.recorder import TraceRecorder
from dhdmm.simulation.simulate import execute
from dhdmm.simulation.trace import Trace
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study

STUDY = Path(__file__).parents[1] / "examples" / "census-sf1" / "study.yaml"
SIZES = (100, 1000)
MODELS = ("semi-honest", "malicious")
DROPOUT = 0.05
NETWORK = Network(participant_mbps=1, coordinator_mbps=1000, latency_ms=100)
SINGLE = {
    "key pair": "key pair",
    "agree": "agreement",
    "channel key": "derivation",
    "seal": "seal",
    "sign": "signature",
    "verify": "verification",
}
BULK = {"mask 2^32": "mask word", "pack 2^32": "packed word", "unpack 2^32": "unpacked word"}


def report(study: Study, strategy: Strategy, size: int) -> None:
    plan = dhdmm.plan(study, participants=size, strategy=strategy)
    simulation = dhdmm.simulate(plan, dropout=DROPOUT, network=NETWORK, seed=size)
    s = simulation.summary()
    kilobytes = (s["participant_sent_bytes"] + s["participant_received_bytes"]) / 1000
    print(
        f"{s['threat_model']:>12}{size:>9,}{s['degree']:>5}{s['participant_ms']:>8.1f}"
        f"{s['coordinator_s']:>9.2f}{s['total_s']:>9.1f}{kilobytes:>8.1f}{s['wall_s']:>9.1f}"
        f"{s['cpu_s']:>9.1f}{s['peak_bytes'] / 1e6:>8.0f}  {'exact' if s['sum_correct'] else '?'}",
        flush=True,
    )


def measured_and_modelled(plan: Plan, engine: Engine) -> tuple[Trace, Trace]:
    """The same round twice: seconds as measured, and from counts."""
    population = population_for(plan, 1, None, 0)
    counted = plan.method.counted(population.plan.round(population.round_id))
    trace = Trace.empty(plan.method.phases, plan.participants)
    recorder = TraceRecorder(trace, lambda _done, _of: None, counted)
    execute(population, recorder, silent_ones(DROPOUT, plan, 0), engine, None)
    modelled = deepcopy(recorder.trace)
    put_modelled_seconds(modelled, counted, plan.strategy.rows)
    return recorder.trace, modelled


def ratios(measured: Trace, modelled: Trace) -> Iterator[str]:
    for p, name in enumerate(measured.phases):
        participant = [t.participant_seconds[p].sum() for t in (modelled, measured)]
        coordinator = [t.coordinator_seconds_in(p) for t in (modelled, measured)]
        yield (
            f"{name.removeprefix('collecting-'):>12}"
            f"{1000 * participant[1] / measured.participants:>12.2f}"
            f"{participant[0] / participant[1]:>8.2f}"
            f"{coordinator[1]:>12.3f}{coordinator[0] / coordinator[1]:>8.2f}"
        )


def unit_costs() -> dict[str, float]:
    """Microseconds, of those that are one call of ours."""
    costs = {SINGLE[name]: microseconds(work) for name, work in composed_keys() if name in SINGLE}
    for name, work in composed_masks():
        if name in BULK:
            costs[BULK[name]] = microseconds(work) / COORDINATES
    return costs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, nargs="+", default=list(SIZES))
    options.add_argument("--models", nargs="+", default=list(MODELS))
    chosen = options.parse_args()
    study = Study.load(STUDY)
    strategy = dhdmm.plan(study).strategy
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'':>12}{'people':>9}{'k':>5}{'ms':>8}{'coord s':>9}{'total s':>9}{'kB':>8}"
        f"{'wall s':>9}{'cpu s':>9}{'MB':>8}  sum"
    )
    for model in chosen.models:
        for size in chosen.participants:
            report(study.with_aggregation(threat_model=model), strategy, size)
    for model in chosen.models:
        size = min(chosen.participants)
        plan = dhdmm.plan(
            study.with_aggregation(threat_model=model), participants=size, strategy=strategy
        )
        print(f"\n{model}, {size:,}: participant ms, model/measured; coordinator s, the same")
        print("\n".join(ratios(*measured_and_modelled(plan, "processes"))))
    print("\nunit costs, µs: here, and in the model")
    for name, cost in unit_costs().items():
        print(f"  {name:<16}{cost:>12.4f}{MICROSECONDS[name]:>12.4f}")


if __name__ == "__main__":
    main()

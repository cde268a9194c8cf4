"""Units of work about time and traffic: simulated rounds, each executed once for all networks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dhdmm.simulation.engines import Engine
from dhdmm.simulation.network import Network
from dhdmm.simulation.records import uniform_records
from dhdmm.simulation.result import Simulation
from dhdmm.simulation.simulate import simulate
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from research.baselines.central import exact_answers
from research.paper import published, studies
from research.paper.item import Found, Row
from research.paper.settings import MODELS, Settings
from research.paper.work import Result, Unit

NETWORKS = {
    "unlimited": Network(),
    "participants 1 Mbps": Network(participant_mbps=1, latency_ms=100),
    "coordinator 1000 Mbps": Network(coordinator_mbps=1000, latency_ms=100),
    "coordinator 100 Mbps": Network(coordinator_mbps=100, latency_ms=100),
    "participants 1, coordinator 100 Mbps": Network(
        participant_mbps=1, coordinator_mbps=100, latency_ms=100
    ),
}
"""All but the first with 100 ms of latency each way."""

EXECUTED, COORDINATOR, COUNTED = "measured", "coordinator measured", "counted"
"""How a round's figures come about. In the second participants' operations are counted; their
traffic, in all three, is that of real messages."""
ENGINES: dict[str, Engine] = {EXECUTED: "processes", COORDINATOR: "coordinator", COUNTED: "model"}

MEASURED = (
    "participant_ms",
    "coordinator_s",
    "optimisation_s",
    "plan_check_ms",
    "total_s",
    "participant_kb",
    "coordinator_mb",
    "participant_all_kb",
    "participant_all_ms",
    "rounds_s",
)


def round_of(
    settings: Settings,
    participants: int,
    threat_model: str,
    *,
    records: int = 1,
    repetition: int = 0,
    dropout: float = 0.0,
    engine: Engine = "processes",
    **variation: Any,
) -> Unit:
    """A round of Census SF1, unless the settings say otherwise."""
    seed = settings.seed + repetition
    study = partial(
        _varied, settings.simulated, participants, threat_model, records=records, **variation
    )
    return Unit(
        "simulation",
        {
            "study": settings.simulated,
            "participants": participants,
            "threat_model": threat_model,
            "records": records,
            "dropout": dropout,
            "seed": seed,
            "engine": engine,
            **variation,
        },
        lambda: _simulated(study(), seed, records, dropout, engine),
    )


def counting(settings: Settings, rows: int, threat_model: str) -> Unit:
    """A round that measures so many cells."""
    n, seed = settings.rows_participants, settings.seed
    parameters = {"rows": rows, "participants": n, "threat_model": threat_model, "seed": seed}
    return Unit(
        "counting",
        parameters,
        lambda: _simulated(
            studies.varied(studies.counting(rows), n, threat_model=threat_model), seed
        ),
    )


def _varied(name: str, participants: int, threat_model: str, **variation: Any) -> Study:
    base = studies.study(name)
    return studies.varied(base, participants, threat_model=threat_model, **variation)


def by_participants(
    settings: Settings, models: Sequence[str] = MODELS, *, counted: bool = False
) -> Iterator[tuple[str, int, str, list[Unit]]]:
    """For every model and size the rounds with one record each, and how they are made.

    Up to the paper's sizes they are executed, repeatedly; larger ones once, the coordinator alone.
    If asked for, those follow that are not executed.
    """
    sizes = {EXECUTED: settings.participants, COORDINATOR: settings.more_participants}
    if counted:
        sizes[COUNTED] = settings.counted_participants
    for threat_model in models:
        for by, participants in sizes.items():
            times = settings.repetitions if by == EXECUTED else 1
            for n in participants:
                make = partial(round_of, settings, n, threat_model, engine=ENGINES[by])
                yield threat_model, n, by, [make(repetition=i) for i in range(times)]


def averages(found: Found) -> list[Row]:
    """Means and standard deviations over the repetitions, with the paper's figures beside them."""
    rows = [averaged(results) | labels for labels, results in found]
    return [row | published.beside(row["threat_model"], row["participants"]) for row in rows]


def averaged(found: Sequence[Result]) -> Row:
    """The mean of every figure over repetitions, and of the measured ones their spread."""
    row: Row = {"repetitions": len(found)}
    for key, first in found[0].items():
        values = [result[key] for result in found]
        if isinstance(first, bool):
            row[key] = all(values)
        elif all(value == first for value in values):
            row[key] = first
        elif isinstance(first, int | float):
            row[key] = float(np.mean(values))
    for key in MEASURED:
        values = [result[key] for result in found]
        row[f"{key}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return row


def _simulated(
    study: Study, seed: int, records: int = 1, dropout: float = 0.0, engine: Engine = "processes"
) -> Result:
    before = agreement_us()
    simulation = simulate(
        study, records_per_participant=records, dropout=dropout, seed=seed, engine=engine
    )
    summary = simulation.summary()
    kept = {key: summary[key] for key in summary if not isinstance(summary[key], list | dict)}
    participant = kept["participant_sent_bytes"] + kept["participant_received_bytes"]
    coordinator = kept["coordinator_sent_bytes"] + kept["coordinator_received_bytes"]
    return kept | {
        "agreement_us": (before + agreement_us()) / 2,
        "participant_kb": participant / 1e3,
        "coordinator_mb": coordinator / 1e6,
        "participant_all_kb": kept["participant_bytes"] / 1e3,
        "participant_all_ms": kept["participant_ms"] + kept["plan_check_ms"],
        "rounds_s": kept["coordinator_s"] - kept["optimisation_s"],
        **{network: simulation.replay(link).total_s for network, link in NETWORKS.items()},
        **_errors(simulation, records, seed),
    }


def agreement_us(repetitions: int = 200) -> float:
    """One X25519 agreement now: by that, times compare between machines and between hours."""
    secret = X25519PrivateKey.generate()
    public = secret.public_key()
    started = time.thread_time()
    for _ in range(repetitions):
        secret.exchange(public)
    return (time.thread_time() - started) / repetitions * 1e6


def _errors(simulation: Simulation, records: int, seed: int) -> dict[str, float]:
    """The round's own error against the exact counts of its survivors, and the expected one."""
    plan, release = simulation.plan, simulation.release
    if release is None:
        return {}
    drawn = uniform_records(plan.study.schema, plan.participants, records, seed)
    held = drawn[simulation.trace.survivors].reshape(-1, drawn.shape[-1]).astype(np.int64)
    truth = exact_answers(plan.strategy, Histogram.of_records(held))
    return {
        "rmse": math.sqrt(float(np.mean((release.answers - truth) ** 2))),
        "expected_rmse": plan.expected_error(release.survivors).rmse,
    }

"""A round with two servers at scale, on this machine: real cryptography, one record each.

    python -m research.two_servers 1000 1000000

Prints processor time of participant, leader and helper, bytes, and peak memory of the leader's and
of the helper's process. The leader is in this process, with what the simulation itself keeps of a
round: its trace. The helper is in a process of its own, participants are in --workers others.
Processor time is what the operating system counts for a thread, so that other work on the machine
is not in it. Now and then it is said on stderr how far the round is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cbor2

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.helper import LocalHelper
from dhdmm.cohort.people import seeded_randomness
from dhdmm.cohort.usage import own_usage
from dhdmm.cohort.workers import read_frame, write_frame
from dhdmm.planning.plan import Plan
from dhdmm.simulation import simulate as simulation
from dhdmm.simulation.population import Population
from dhdmm.simulation.result import Simulation
from research.paper.studies import planned

SAID_EVERY = 30.0  # seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("participants", nargs="*", type=int)
    options.add_argument("--study", default="census-sf1")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--helper", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.helper:
        help_leader()
    for participants in given.participants:
        print(json.dumps(measured(given.study, participants, given.workers)), flush=True)


# ---- the helper's process -----------------------------------------------------------------------


def help_leader() -> None:
    """Answers frames on stdin; an empty one is answered with what this process has used."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    helper: LocalHelper | None = None
    while (data := read_frame(source)) is not None:
        if helper is None:
            helper = _made(cbor2.loads(data))
            write_frame(sink, b"made")
        elif data == b"used":
            write_frame(sink, cbor2.dumps([helper.seconds, *own_usage()]))
        else:
            write_frame(sink, helper(data))


def _made(opening: dict[str, Any]) -> LocalHelper:
    roster = Roster(opening["names"], opening["identities"])
    identity, randomness = Identity(opening["seed"]), seeded_randomness(opening["randomness"])
    return LocalHelper(
        Plan.from_bytes(opening["plan"]), opening["round"], roster, identity, randomness
    )


class HelperProcess:
    """Another process, asked as a helper in this one would be."""

    def __init__(self, population: Population) -> None:
        command = [sys.executable, "-m", "research.two_servers", "--helper"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        roster, identity = population.roster, population.identity
        assert identity is not None
        opening = {
            "plan": population.plan.to_bytes(),
            "round": population.round_id,
            "names": list(roster.names),
            "identities": list(roster.identities),
            "seed": identity.seed,
            "randomness": population.secret + b"helper key",
        }
        self(cbor2.dumps(opening))

    def __call__(self, request: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        write_frame(self._process.stdin, request)
        answer = read_frame(self._process.stdout)
        if answer is None:
            raise SystemExit("the helper's process ended")
        return answer

    def used(self) -> tuple[float, float, int]:
        """Processor seconds for answers, and of the process; bytes of memory at most."""
        seconds, total, peak = cbor2.loads(self(b"used"))
        self._process.kill()
        self._process.wait()
        return seconds, total, peak


# ---- the round ----------------------------------------------------------------------------------


@contextmanager
def helper_apart() -> Iterator[list[HelperProcess]]:
    """Simulated rounds have their helper in another process."""
    made, own = list[HelperProcess](), Population.helper

    def apart(population: Population) -> Any:
        made.append(HelperProcess(population))
        return made[-1]

    Population.helper = apart  # type: ignore[method-assign, assignment]
    try:
        yield made
    finally:
        Population.helper = own  # type: ignore[method-assign]


def progress() -> Callable[[int, int], None]:
    started = said = time.perf_counter()

    def say(done: int, _of: int) -> None:
        nonlocal said
        if time.perf_counter() - said >= SAID_EVERY:
            said = time.perf_counter()
            print(f"{done:,} reports after {said - started:,.0f} s", file=sys.stderr, flush=True)

    return say


def measured(study: str, participants: int, workers: int) -> dict[str, object]:
    plan = planned(study, participants, threat_model="two-servers")
    started, before = time.perf_counter(), own_usage().cpu_seconds
    with helper_apart() as helpers:
        done = simulation.simulate(
            plan, engine="processes", workers=workers, seed=1, progress=progress()
        )
        here = own_usage()
        helping, helper_total, helper_peak = helpers[0].used()
    return {
        "study": study,
        "participants": participants,
        "rows": plan.strategy.rows,
        "modulus_bits": plan.modulus.bits,
        "sum_correct": done.sum_correct,
        "wall_s": round(time.perf_counter() - started, 1),
        **_costs(done, helping),
        "leader_mb": here.peak_bytes // 10**6,
        "helper_mb": helper_peak // 10**6,
        "leader_process_s": round(here.cpu_seconds - before, 1),
        "helper_process_s": round(helper_total, 1),
        "workers_s": round(done.effort.cpu_s - (here.cpu_seconds - before), 1),
    }


def _costs(done: Simulation, helping: float) -> dict[str, object]:
    """Milliseconds and bytes of one participant, and for one."""
    trace, n = done.trace, done.plan.participants
    leading = trace.opening_seconds.sum() + trace.taking_seconds.sum() + trace.closing_seconds.sum()
    return {
        "participant_ms": round(1000 * float(trace.participant_seconds.sum()) / n, 3),
        "plan_check_s": round(trace.plan_check_seconds, 2),
        "leader_ms": round(1000 * float(leading) / n, 4),
        "helper_ms": round(1000 * helping / n, 4),
        "sent_bytes": int(trace.sent_bytes.sum()) // n,
        "received_bytes": int(trace.received_bytes.sum()) // n,
    }


if __name__ == "__main__":
    main()

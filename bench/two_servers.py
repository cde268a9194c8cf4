"""A round with two servers at scale, on this machine: real cryptography, one record each.

    python -m bench.two_servers 1000 100000

Prints processor time of participant, leader and helper, bytes and peak memory. Everything but the
strategy is executed in one process unless --workers says otherwise. Processor time is what the
operating system counts for the thread, so that other work on the machine is not in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

from dhdmm.cohort.helper import LocalHelper
from dhdmm.cohort.usage import own_usage
from dhdmm.simulation import simulate as simulation
from dhdmm.simulation.population import Population
from research.paper.studies import planned


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("participants", nargs="+", type=int)
    options.add_argument("--study", default="census-sf1")
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    for participants in given.participants:
        print(json.dumps(measured(given.study, participants, given.workers)), flush=True)


def measured(study: str, participants: int, workers: int) -> dict[str, object]:
    plan = planned(study, participants, threat_model="two-servers")
    helpers: list[LocalHelper] = []
    make = Population.helper

    def watched(self: Population) -> LocalHelper:
        helper = make(self)
        assert helper is not None
        helpers.append(helper)
        return helper

    Population.helper = watched  # type: ignore[method-assign]
    started = time.perf_counter()
    done = simulation.simulate(plan, engine="processes", workers=workers, seed=1)
    trace = done.trace
    servers = float(
        trace.opening_seconds.sum() + trace.taking_seconds.sum() + trace.closing_seconds.sum()
    )
    helper = helpers[0].seconds
    return {
        "study": study,
        "participants": participants,
        "rows": plan.strategy.rows,
        "modulus_bits": plan.modulus.bits,
        "sum_correct": done.sum_correct,
        "wall_s": round(time.perf_counter() - started, 1),
        "participant_ms": round(1000 * float(trace.participant_seconds.sum()) / participants, 3),
        "plan_check_s": round(trace.plan_check_seconds, 2),
        "leader_ms": round(1000 * (servers - helper) / participants, 4),
        "helper_ms": round(1000 * helper / participants, 4),
        "sent_bytes": int(trace.sent_bytes.sum()) // participants,
        "received_bytes": int(trace.received_bytes.sum()) // participants,
        "peak_mb_of_this_process": own_usage().peak_bytes // 10**6,
        "peak_mb_of_workers": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1000,
    }


if __name__ == "__main__":
    main()

"""Commitments and proofs: ms of processor time, alone and in batches, over the floor that is the
library's own sum of as many multiples of points; then whole rounds beside those without."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from py_arkworks_bls12381 import G1Point, Scalar

from bench.primitives import microseconds
from bench.round import DROPOUT, STUDY, people
from dhdmm.planning.draft import plan as make_plan
from dhdmm.runner import enrol, run_round
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from dhdmm.validated import workers
from dhdmm.validation.commitment import commit, draw_blinding, sum_is_committed
from dhdmm.validation.group import ORDER, bases, encode_point
from dhdmm.validation.proof import Statement
from dhdmm.validation.proving import prove
from dhdmm.validation.verification import Claim, faults

LENGTHS = (200, 3_112, 10_000)
BATCHES = (4, 20)
DEVIATION = 3.0
PARTICIPANTS = (100,)


def floor(length: int) -> float:
    """One sum of multiples by numbers of any size: what T₁ costs at the least."""
    points = list(bases(length).g)
    scalars = [Scalar(int.from_bytes(os.urandom(32), "little") % ORDER) for _ in points]
    return microseconds(lambda: G1Point.multiexp_unchecked(points, scalars)) / 1e3


def report(length: int) -> None:
    lowest = floor(length)
    noise = np.random.default_rng(0).normal(0, DEVIATION, (max(BATCHES), length)).round()
    vectors = [[int(entry) for entry in row] for row in noise]
    statement = Statement(length, int(1.2 * DEVIATION * length**0.5) + 10)
    blindings = [draw_blinding(os.urandom) for _ in vectors]
    pairs = list(zip(vectors, blindings, strict=True))
    claims = [
        Claim(b"", encode_point(commit(y, r)), prove(statement, b"", y, r, os.urandom))
        for y, r in pairs
    ]
    total = [sum(column) for column in zip(*vectors, strict=True)]
    points = [commit(y, r) for y, r in pairs]
    timed: dict[str, Callable[[], object]] = {
        "commit": partial(commit, *pairs[0]),
        "prove": partial(prove, statement, b"", *pairs[0], os.urandom),
        "verify 1": partial(faults, statement, claims[:1], os.urandom),
        "check the sum": partial(sum_is_committed, points, total, sum(blindings)),
    }
    costs = {name: microseconds(work) / 1e3 for name, work in timed.items()}
    for size in BATCHES:
        work = partial(faults, statement, claims[:size], os.urandom)
        costs[f"verify 1 of {size}"] = microseconds(work) / 1e3 / size
    size_of_proof = statement.proof_bytes / 1e3
    print(f"{length:,} entries: floor {lowest:.1f} ms; a proof of {size_of_proof:.1f} kB")
    for name, cost in costs.items():
        print(f"  {name:<16}{cost:>8.1f} ms{cost / lowest:>8.2f} floors")


def report_round(study: Study, strategy: Strategy, count: int) -> None:
    """A round at each level, one record a participant, over the one without validation."""
    base = None
    for level in ("none", "sum", "bounded"):
        asked = study.with_aggregation(validation=level, max_records_per_participant=1)
        plan = make_plan(asked, participants=count, strategy=strategy)
        outcome = run_round(enrol(plan), people(asked, count), dropout=DROPOUT)
        costs = outcome.costs
        traffic = costs.participant_sent_bytes + costs.participant_received_bytes
        found = costs.participant_ms, 1e3 * costs.coordinator_s / count, traffic / 1e3
        base = base or found
        ratios = "".join(
            f"{own:>9.1f}{own / first:>7.2f}" for own, first in zip(found, base, strict=True)
        )
        print(f"{level:>9}{count:>7,}{len(outcome.survivors):>7,}{ratios}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lengths", type=int, nargs="*", default=list(LENGTHS))
    options.add_argument("--participants", type=int, nargs="*", default=list(PARTICIPANTS))
    chosen = options.parse_args()
    for length in chosen.lengths:
        report(length)
    workers.ALONE = sys.maxsize  # all in this process, whose time is counted
    study = Study.load(STUDY)
    strategy = make_plan(study).strategy
    print(f"rounds of Census SF1, malicious, {DROPOUT:.0%} drop out; ratios are over 'none'")
    print(f"{'':>9}{'people':>7}{'alive':>7}{'ms each':>9}{'':>7}{'coord ms':>9}{'':>7}{'kB':>9}")
    for count in chosen.participants:
        report_round(study, strategy, count)


if __name__ == "__main__":
    main()

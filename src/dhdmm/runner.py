"""A whole round on this machine: all parties, real sessions, real cryptography, no network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.randomness import uniform_permutation
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.drive import drive, dropouts
from dhdmm.cohort.members import Answer, Invitation, permissive, pinned
from dhdmm.cohort.people import Enrolled, LocalSeat
from dhdmm.cohort.workers import cohorts_here
from dhdmm.errors import DataError, Refused
from dhdmm.participant.policy import Policy
from dhdmm.participant.tabulate import tabulate
from dhdmm.planning.plan import Plan
from dhdmm.release import made
from dhdmm.release.release import Release
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

Progress = Callable[[str], None]
"""Told the phase that begins."""


@dataclass(frozen=True)
class Costs:
    """What the round took. Bytes and milliseconds are means over the participants."""

    participant_ms: float
    coordinator_s: float
    participant_sent_bytes: float
    participant_received_bytes: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """A release, what it cost, and who survived (roster positions)."""

    release: Release
    costs: Costs
    survivors: tuple[int, ...]


def run(plan: Plan, tables: Sequence[Any], **tabulating: Any) -> Release:
    """A release from one table a participant: a path, pandas, polars, Arrow, DuckDB or ibis.

    Keyword arguments are those of `dhdmm.participant.tabulate.tabulate`, such as `on_unknown`.
    """
    return run_round(enrol(plan), histograms_of(plan.study, tables, **tabulating)).release


def histograms_of(
    study: Study,
    tables: Iterable[Any],
    advance: Callable[[int], None] = lambda _done: None,
    **tabulating: Any,
) -> list[Histogram]:
    """Each participant's table as a histogram, within the study's bounds.

    One table has all cores to itself; several share them, a core each. `advance` is told how many
    are done.
    """
    bound = study.aggregation.max_records_per_participant

    def count(table: Any, **also: Any) -> Histogram:
        return histogram_of(study, table, max_records=bound, **tabulating, **also)

    waiting = list(tables)
    if len(waiting) == 1:  # in this thread, where Ctrl-C reaches DuckDB
        return [count(waiting[0])]
    histograms: list[Histogram] = []
    pool = ThreadPoolExecutor(os.cpu_count())  # DuckDB works outside the interpreter's lock
    try:
        for histogram in pool.map(partial(count, threads=1), waiting):
            histograms.append(histogram)
            advance(len(histograms))
    finally:
        pool.shutdown(cancel_futures=True)
    return histograms


def histogram_of(study: Study, table: Any, **tabulating: Any) -> Histogram:
    unit = study.privacy.person
    return tabulate(table, study.schema, unit=unit, key=study.digest, **tabulating).histogram


def require_within_bound(study: Study, histograms: Iterable[Histogram]) -> None:
    """Nobody has more records than the modulus and the sensitivity allow for."""
    bound = study.aggregation.max_records_per_participant
    most = max((histogram.records for histogram in histograms), default=0)
    if most > bound:
        raise Refused(
            f"a participant has {most:,} records, max_records_per_participant is {bound:,}",
            hint="nothing is clipped: have more participants, or agree on a larger bound",
        )


def split(histogram: Histogram, parts: int) -> list[Histogram]:
    """One table's records dealt out at random among `parts` participants, for trying things out."""
    records = np.repeat(histogram.codes, histogram.counts, axis=0)
    dealt = records[uniform_permutation(os.urandom, len(records))]
    return [Histogram.of_records(dealt[part::parts]) for part in range(parts)]


@dataclass(frozen=True)
class Enrolment:
    """Who takes part in one round: `plan` is final, `identities` hold the participants' keys."""

    plan: Plan
    round_id: bytes
    roster: Roster
    identities: tuple[Identity, ...] = field(repr=False)


def enrol(plan: Plan) -> Enrolment:
    """Fresh identities for all participants, and the plan for their roster."""
    identities = tuple(Identity.generate(os.urandom) for _ in range(plan.participants))
    names = tuple(f"participant {i + 1}" for i in range(plan.participants))
    roster = Roster(names, tuple(identity.public for identity in identities))
    final = replace(plan, roster_digest=roster.digest)
    return Enrolment(final, os.urandom(16), roster, identities)


def run_round(
    enrolment: Enrolment,
    histograms: Sequence[Histogram],
    *,
    dropout: float = 0.0,
    workers: int | None = None,
    policy: Policy | None = None,
    before_inputs: Callable[[], None] = lambda: None,
    progress: Progress = lambda _phase: None,
    full_transcript: bool = False,
) -> Outcome:
    """One round with one histogram a participant.

    A `dropout` share of the participants, chosen at random, falls silent after sharing its secrets
    and before its masked input: the costliest moment for everybody else. `before_inputs` is called
    just before inputs are asked for: the moment to debit a ledger. A `full_transcript` keeps every
    message, for whoever is to recompute the sum.
    """
    started = time.perf_counter()
    plan, roster = enrolment.plan, enrolment.roster
    if len(histograms) != plan.participants:
        raise DataError(f"{len(histograms)} tables for {plan.participants} participants")
    require_within_bound(plan.study, histograms)
    invitation = Invitation(
        plan.to_bytes(), enrolment.round_id, roster, pinned(policy or permissive(plan), roster)
    )
    coordinator = CoordinatorSession(
        plan,
        enrolment.round_id,
        roster,
        os.urandom,
        archive={} if full_transcript else None,
        clock=made.now,
    )
    silent = dropouts(os.urandom, len(roster), dropout)
    pairs = enumerate(zip(enrolment.identities, histograms, strict=True))
    people = Enrolled([LocalSeat(i, identity, histogram) for i, (identity, histogram) in pairs])
    traffic = Traffic()
    with cohorts_here(invitation, people, workers) as cohorts:
        silence = {coordinator.input_phase: silent}
        drive(coordinator, cohorts, silence, traffic, before_inputs, progress)
    release = coordinator.release()
    costs = Costs(
        participant_ms=1000 * traffic.participant_seconds / len(roster),
        coordinator_s=traffic.coordinator_seconds,
        participant_sent_bytes=traffic.sent / len(roster),
        participant_received_bytes=traffic.received / len(roster),
        seconds=time.perf_counter() - started,
    )
    return Outcome(release, costs, coordinator.survivors)


@dataclass
class Traffic:
    """Totals, counted as the bytes go by; bytes as the participants see them."""

    sent: int = 0
    received: int = 0
    participant_seconds: float = 0.0
    coordinator_seconds: float = 0.0

    def opened(self, phase: str, position: int, message: bytes, seconds: float) -> None:
        self.received += len(message)
        self.coordinator_seconds += seconds

    def answered(self, phase: str, position: int, answer: Answer, seconds: float) -> None:
        self.sent += len(answer.message)
        self.participant_seconds += answer.seconds
        self.coordinator_seconds += seconds

    def closed(self, phase: str, seconds: float) -> None:
        self.coordinator_seconds += seconds

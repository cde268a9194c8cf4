"""A whole round on this machine: all parties, real sessions, real cryptography, no network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dhdmm.cohort import Cohort, Invitation, LocalCohort, Seat, WorkerCohort
from dhdmm.errors import DataError
from dhdmm.participant.policy import Policy, review
from dhdmm.planning.plan import Plan
from dhdmm.release.release import Release
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.randomness import uniform_permutation
from dhdmm.secagg.round import Roster
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.histogram import Histogram

SMALL_ROUND = 64
"""Up to here a worker process takes longer to start than the participants take to compute."""

Progress = Callable[[CoordinatorState], None]
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


def run_round(
    plan: Plan,
    histograms: Sequence[Histogram],
    *,
    dropout: float = 0.0,
    workers: int | None = None,
    policy: Policy | None = None,
    before_inputs: Callable[[bytes, Plan], None] = lambda _round_id, _plan: None,
    progress: Progress = lambda _phase: None,
) -> Outcome:
    """One round of `plan` with one histogram a participant.

    A `dropout` share of the participants, chosen at random, falls silent after sharing its secrets
    and before its masked input: the costliest moment for everybody else. `before_inputs` is called
    with the round's id just before inputs are asked for: the moment to debit a ledger.
    """
    started = time.perf_counter()
    if len(histograms) != plan.participants:
        raise DataError(f"{len(histograms)} tables for {plan.participants} participants")
    identities = [Identity.generate(os.urandom) for _ in histograms]
    names = tuple(f"participant {i + 1}" for i in range(len(histograms)))
    roster = Roster(names, tuple(identity.public for identity in identities))
    plan = replace(plan, roster_digest=roster.digest)
    invitation = Invitation(
        plan.to_bytes(), os.urandom(16), roster, pinned(policy or permissive(plan), roster)
    )
    coordinator = CoordinatorSession(plan, invitation.round_id, roster, os.urandom)
    order = uniform_permutation(os.urandom, len(roster))
    silent = order[: int(dropout * len(roster))].tolist()
    seats = [
        Seat(i, identity, histogram)
        for i, (identity, histogram) in enumerate(zip(identities, histograms, strict=True))
    ]
    with _cohorts(invitation, seats, workers) as cohorts:
        traffic = _drive(
            coordinator, cohorts, silent, lambda: before_inputs(invitation.round_id, plan), progress
        )
        cpu_seconds = sum(cohort.cpu_seconds for cohort in cohorts)
    release = coordinator.release()
    costs = Costs(
        participant_ms=1000 * cpu_seconds / len(seats),
        coordinator_s=traffic.coordinator_seconds,
        participant_sent_bytes=traffic.sent / len(seats),
        participant_received_bytes=traffic.received / len(seats),
        seconds=time.perf_counter() - started,
    )
    return Outcome(release, costs, coordinator.survivors)


def permissive(plan: Plan) -> Policy:
    """The policy of somebody who wrote the study: whatever it asks for, as long as it is safe."""
    return Policy(
        threat_models=["malicious", "semi-honest"],
        max_epsilon=plan.promise.epsilon,
        max_delta=plan.promise.delta,
        min_participants=3,
        max_honest_floor=plan.participants,
        min_corrupt_fraction=0.0,
    )


def pinned(policy: Policy, roster: Roster) -> Policy:
    return policy.model_copy(update={"rosters": [*policy.rosters, roster.digest.hex()]})


@contextmanager
def _cohorts(
    invitation: Invitation, seats: Sequence[Seat], workers: int | None
) -> Iterator[list[Cohort]]:
    """One cohort here, or one in each of several worker processes."""
    count = workers or (os.cpu_count() or 1 if len(seats) > SMALL_ROUND else 1)
    cohorts: list[Cohort] = []
    try:
        if count == 1:
            reviewed = review(invitation.plan, invitation.policy, invitation.roster)
            cohorts.append(LocalCohort(reviewed, invitation, seats))
        else:
            cohorts.extend(WorkerCohort(invitation, seats[w::count]) for w in range(count))
        yield cohorts
    finally:
        for cohort in cohorts:
            cohort.close()


@dataclass
class _Traffic:
    """Counted as the bytes go by, seen from the participants."""

    sent: int = 0
    received: int = 0
    coordinator_seconds: float = 0.0


def _drive(
    coordinator: CoordinatorSession,
    cohorts: Sequence[Cohort],
    silent: Collection[int],
    before_inputs: Callable[[], None],
    progress: Progress,
) -> _Traffic:
    """Move the bytes until the round is over; a phase ends when all who will answer have."""
    machine, traffic = coordinator.machine, _Traffic()
    for cohort in cohorts:
        cohort.send(None)
    while True:
        for cohort in cohorts:
            answers = cohort.collect()
            started = time.process_time()
            for position, answer in answers.items():
                machine.receive(position, answer)
            traffic.coordinator_seconds += time.process_time() - started
            traffic.sent += sum(map(len, answers.values()))
        started = time.process_time()
        invited = machine.close_phase()
        if machine.state is CoordinatorState.COLLECTING_INPUTS:
            before_inputs()
            invited -= set(silent)
        messages = {i: message for i in invited if (message := machine.message_for(i))}
        traffic.coordinator_seconds += time.process_time() - started
        if coordinator.over:
            return traffic
        progress(machine.state)
        traffic.received += sum(map(len, messages.values()))
        for home, cohort in enumerate(cohorts):
            cohort.send({i: m for i, m in messages.items() if i % len(cohorts) == home})

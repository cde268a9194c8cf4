"""Participants in one process. A cohort is handed messages and gives back its members' answers.

Each member is a real `ParticipantSession` with its own keys, journal and noise; only the plan's
review is shared, since it would be the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.roster import PartOfRoster, Roster
from dhdmm.cohort.people import People
from dhdmm.cohort.spool import Spool
from dhdmm.cohort.usage import Usage
from dhdmm.participant import limits
from dhdmm.participant.measure import measure_together
from dhdmm.participant.policy import Policy, Review
from dhdmm.planning.plan import Plan
from dhdmm.session.participant import ParticipantSession

Messages = Mapping[int, bytes | None]
"""By roster position; None asks for the first message."""

TOGETHER = 256
"""Members whose inputs are added up at once, where nobody is to be protected from anybody."""
RESIDENT_LIMIT = 4000
"""Up to so many seeded members of a cohort all stay in memory, at about 100 KB each."""


@dataclass(frozen=True)
class Invitation:
    """What every participant of a round is given; all of it is public."""

    plan: bytes
    round_id: bytes
    roster: Roster
    policy: Policy


def permissive(plan: Plan) -> Policy:
    """The policy of somebody who wrote the study: whatever it asks for, as long as it is safe."""
    promise = plan.promise
    return limits.permissive(
        max_epsilon=promise.epsilon, max_delta=promise.delta, max_honest_floor=plan.participants
    )


def pinned(policy: Policy, roster: Roster, helper: bytes = b"") -> Policy:
    """With this roster and this helper among those that are known."""
    update: dict[str, Any] = {"rosters": [*policy.rosters, roster.digest.hex()]}
    if helper and policy.helpers != "any":
        update["helpers"] = policy.helpers | {"helper": helper.hex()}
    return policy.model_copy(update=update)


class Answer(NamedTuple):
    """What a member said, and the processor time it took to."""

    message: bytes
    seconds: float


class Cohort(Protocol):
    """Some of a round's participants. Several batches may be sent before the first is collected."""

    def send(self, messages: Messages) -> None:
        """Hand over a batch of the coordinator's messages."""

    def collect(self) -> dict[int, Answer]:
        """The answers to the earliest batch that was not collected."""

    def total(self, positions: Iterable[int]) -> Callable[[], Vector]:
        """What seeded members' inputs add up to, found anew without any protocol; call for it."""

    def usage(self) -> Usage:
        """Of the members' process, if it is not this one."""

    def close(self) -> None: ...


class LocalCohort:
    """Members in this process.

    If there are more seeded members than `resident_limit`, all are spilled to a file between
    messages, each as its journal's bytes and the keys it has agreed on. The time to resume is not
    counted, since a real participant stays in memory.
    """

    def __init__(
        self,
        reviewed: Review,
        invitation: Invitation,
        people: People,
        resident_limit: int | None = None,
    ) -> None:
        self._reviewed, self._invitation, self._people = reviewed, invitation, people
        self._resident: dict[int, ParticipantSession] = {}
        spills = resident_limit is not None and len(people.positions()) > resident_limit
        self._spilled = Spool() if spills else None
        self._batches: list[dict[int, Answer]] = []

    def send(self, messages: Messages) -> None:
        self._batches.append(self.answer(messages))

    def answer(self, messages: Messages) -> dict[int, Answer]:
        answers = {i: self._ask(i, message) for i, message in messages.items()}
        return {i: answer for i, answer in answers.items() if answer is not None}

    def collect(self) -> dict[int, Answer]:
        return self._batches.pop(0)

    def total(self, positions: Iterable[int]) -> Callable[[], Vector]:
        plan, people = self._reviewed.plan, self._people
        total = plan.modulus.zeros(plan.strategy.rows)
        wanted = list(positions)
        for start in range(0, len(wanted), TOGETHER):
            some = wanted[start : start + TOGETHER]
            histograms = [people.seat(i).histogram for i in some]
            found = measure_together(plan, histograms, map(people.noise, some))
            plan.modulus.add(total, found)
        return lambda: plan.modulus.reduce(total)

    def usage(self) -> Usage:
        return Usage(0.0, 0)

    def close(self) -> None:
        self._resident.clear()
        if self._spilled is not None:
            self._spilled.close()

    def _ask(self, position: int, message: bytes | None) -> Answer | None:
        journal = MemoryJournal()
        session = self._resident.get(position) or self._session(position, journal)
        started = time.thread_time()
        said = session.begin() if message is None else session.receive(message)
        seconds = time.thread_time() - started
        if self._spilled is None:
            self._resident[position] = session
        else:
            written = journal.read()
            assert written is not None
            self._spilled[f"{position}"] = written[0]  # its last message has been delivered
            self._spilled[f"{position} agreed"] = session.machine.computed()
        return None if said is None else Answer(said, seconds)

    def _session(self, position: int, journal: MemoryJournal) -> ParticipantSession:
        computed = b""
        if self._spilled is not None and f"{position}" in self._spilled:
            journal.write(self._spilled[f"{position}"], b"")
            computed = self._spilled[f"{position} agreed"]
        seat = self._people.seat(position)
        session = ParticipantSession(
            self._reviewed,
            self._invitation.round_id,
            PartOfRoster.of(self._invitation.roster, position),
            position,
            seat.identity,
            seat.histogram,
            pay=_already_paid,
            randomness=self._people.randomness(position),
            noise=partial(self._people.noise, position),
            journal=journal,
        )
        session.machine.reuse(computed)
        return session


def _already_paid(_digest: bytes) -> None:
    """Whoever runs all participants debits one ledger for all of them, before asking for inputs."""

"""Participants that live together. A cohort is handed messages and gives back its members' answers.

Each member is a real `ParticipantSession` with its own keys, journal and noise; only the plan's
review is shared, since all of them would repeat it word by word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.people import People
from dhdmm.cohort.spool import Spool
from dhdmm.cohort.usage import Usage
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import Policy, Review
from dhdmm.planning.plan import Plan
from dhdmm.session.participant import ParticipantSession

Messages = Mapping[int, bytes | None]
"""By roster position; None asks for the first message."""

AWAKE = 4000
"""Seeded members of a cohort that all stay awake, at about 100 KB each."""


@dataclass(frozen=True)
class Invitation:
    """What every participant of a round is given; all of it is public."""

    plan: bytes
    round_id: bytes
    roster: Roster
    policy: Policy


def permissive(plan: Plan) -> Policy:
    """The policy of somebody who wrote the study: whatever it asks for, as long as it is safe."""
    return Policy(
        threat_models=["malicious", "semi-honest"],
        max_epsilon=plan.promise.epsilon,
        max_delta=plan.promise.delta,
        min_participants=3,
        max_honest_floor=plan.participants,
        min_corrupt_fraction=0.0,
        person_columns="any",
    )


def pinned(policy: Policy, roster: Roster) -> Policy:
    return policy.model_copy(update={"rosters": [*policy.rosters, roster.digest.hex()]})


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
        """Of the process that the members live in, if it is not this one."""

    def close(self) -> None: ...


class LocalCohort:
    """Members in this process.

    Seeded members beyond `awake` sleep between messages: each is then its journal's bytes and the
    keys it has agreed on, in a file. Waking up is not counted, since a real participant stays up.
    """

    def __init__(
        self, reviewed: Review, invitation: Invitation, people: People, awake: int | None = None
    ) -> None:
        self._reviewed, self._invitation, self._people = reviewed, invitation, people
        self._awake: dict[int, ParticipantSession] = {}
        sleepy = awake is not None and len(people.positions()) > awake
        self._asleep = Spool() if sleepy else None
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
        for i in positions:
            plan.modulus.add(total, measure(plan, people.seat(i).histogram, people.noise(i)))
        return lambda: plan.modulus.reduce(total)

    def usage(self) -> Usage:
        return Usage(0.0, 0)

    def close(self) -> None:
        self._awake.clear()
        if self._asleep is not None:
            self._asleep.close()

    def _ask(self, position: int, message: bytes | None) -> Answer | None:
        journal = MemoryJournal()
        session = self._awake.get(position) or self._session(position, journal)
        started = time.thread_time()
        said = session.begin() if message is None else session.receive(message)
        seconds = time.thread_time() - started
        if self._asleep is None:
            self._awake[position] = session
        else:
            _put_to_bed(self._asleep, position, session, journal)
        return None if said is None else Answer(said, seconds)

    def _session(self, position: int, journal: MemoryJournal) -> ParticipantSession:
        computed = b""
        if self._asleep is not None and _state_of(position) in self._asleep:
            journal.write(self._asleep[_state_of(position)], b"")
            computed = self._asleep[_agreed_of(position)]
        seat = self._people.seat(position)
        session = ParticipantSession(
            self._reviewed,
            self._invitation.round_id,
            self._invitation.roster,
            position,
            seat.identity,
            seat.histogram,
            pay=_already_paid,
            randomness=self._people.randomness(position),
            noise=partial(self._people.noise, position),
            journal=journal,
        )
        session.machine.spare(computed)
        return session


def _put_to_bed(
    beds: Spool, position: int, session: ParticipantSession, journal: MemoryJournal
) -> None:
    """Its last message has been delivered, so the state is enough."""
    written = journal.read()
    assert written is not None
    beds[_state_of(position)] = written[0]
    beds[_agreed_of(position)] = session.machine.computed()


def _state_of(position: int) -> str:
    return f"{position}"


def _agreed_of(position: int) -> str:
    return f"{position} agreed"


def _already_paid(_digest: bytes) -> None:
    """Whoever runs all participants debits one ledger for all of them, before asking for inputs."""

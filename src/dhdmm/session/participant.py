"""A data holder in one round: a reviewed plan → measure → pay → add up."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import ParticipantMachine
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import Review
from dhdmm.privacy.keystream import KeyStream
from dhdmm.session.introductions import split
from dhdmm.study.histogram import Histogram

Pay = Callable[[bytes], None]
"""Debits the budget durably for the masked input with this SHA-256; paying twice for the same
bytes costs nothing. It raises if there is no budget, and then nothing leaves."""


class ParticipantSession:
    """One participant in one round. `begin`, then `receive` what the coordinator sends.

    The reviewed plan is the only one that counts: its digest is in every key of the aggregation.
    """

    def __init__(
        self,
        review: Review,
        round_id: bytes,
        roster: KnownRoster,
        position: int,
        identity: Identity | None,
        histogram: Histogram,
        *,
        pay: Pay,
        randomness: Randomness,
        noise: Callable[[], KeyStream],
        journal: Journal,
    ) -> None:
        self._plan, self._histogram, self._roster = review.plan, histogram, roster
        self._pay, self._noise = pay, noise
        self.machine: ParticipantMachine = self._plan.method.participant(
            self._plan.round(round_id), roster, identity, position, randomness, journal
        )

    def begin(self) -> bytes | None:
        """The first message, if it has not to be told something first; after a restart, the last
        one again."""
        if self.machine.outgoing is None:
            return self.machine.begin()
        return self._paid(self.machine.outgoing)

    def receive(self, data: bytes) -> bytes | None:
        """Take a message of the coordinator; the answer, if there is one.

        The measurement is drawn once, when everything before it went well. It is journalled before
        it is paid for, and paid for before it leaves: a crash in between loses neither.
        """
        entries, proof, message = split(data)
        if entries:
            self._roster.learn(entries, proof)
        answer = self.machine.receive(message)
        if self.machine.ready_for_input:
            answer = self.machine.give_input(measure(self._plan, self._histogram, self._noise()))
        return None if answer is None else self._paid(answer)

    def _paid(self, outgoing: bytes) -> bytes:
        if self.machine.input_is_outgoing:
            self._pay(sha256(outgoing).digest())
        return outgoing

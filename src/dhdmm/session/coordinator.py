"""The coordinator of one round: add up → decode → release, with its transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256

import numpy as np

from dhdmm import formats
from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import OVER, Aggregate, CoordinatorMachine, Reply, Store, input_phase
from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import RoundAborted
from dhdmm.planning.plan import Plan
from dhdmm.release.decode import decode
from dhdmm.release.made import Made, date_of
from dhdmm.release.release import Release
from dhdmm.release.transcript import Account, Transcript
from dhdmm.session.compact import CompactRecords
from dhdmm.session.introductions import Introductions
from dhdmm.session.recorder import Recorder

Clock = Callable[[], datetime]
Helper = Callable[[bytes], bytes]
"""Answers what the second server is asked."""


class CoordinatorSession:
    """One round: `receive` messages, `close_phase` at deadlines, and in the end ask for `release`.

    It resumes from what its `store` knows of the round. The transcript is signed by `identity`, or
    by a key made for this round. With an `archive` it is a full one: the archive then holds
    every message that counted. Several sessions may share a round as coordinators may. The date at
    which the round finished is read off `clock`, once; without a clock it is not recorded.
    """

    def __init__(
        self,
        plan: Plan,
        round_id: bytes,
        roster: Roster,
        randomness: Randomness,
        store: Store | None = None,
        *,
        identity: Identity | None = None,
        archive: Store | None = None,
        shard: str = "only",
        clock: Clock | None = None,
        helper: Helper | None = None,
    ) -> None:
        self._plan, self._roster, self._clock, self._helper = plan, roster, clock, helper
        self._introductions = Introductions(roster)
        notes: Store = CompactRecords() if store is None else store
        self._recorder = Recorder(plan.method.phases, len(roster), notes, archive)
        self._round, drawn = plan.round(round_id), self._recorder.listening(randomness)
        self.machine: CoordinatorMachine = plan.method.coordinator(
            self._round, roster, drawn, notes, shard
        )
        # a secret, so not from what the recorder listens to
        self._identity = identity or Identity.generate(randomness)

    @property
    def input_phase(self) -> str:
        """The phase before which participants pay."""
        return input_phase(self._plan.method).name

    @property
    def over(self) -> bool:
        return self.machine.state in OVER

    @property
    def survivors(self) -> tuple[int, ...]:
        """Roster positions whose inputs are in the sum."""
        result = self.machine.result
        return () if result is None else tuple(result.survivors.members())

    def adds_up_to(self, total: Vector) -> bool:
        """Whether the round came to this sum."""
        result = self.machine.result
        return result is not None and np.array_equal(result.total, total)

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """These are about to be received: what is cheaper to check together is checked now."""
        self.machine.prepare(messages)

    def receive(self, position: int, data: bytes) -> Reply:
        """Take a participant's message, and note it if it counts; a departure does not."""
        state, departed = self.machine.state, len(self.machine.departed)
        reply = self.machine.receive(position, data)
        if reply is Reply.ACCEPTED and len(self.machine.departed) == departed:
            self._recorder.counted(state, position, data)
        return reply

    def consult(self) -> None:
        """Ask the helper, if it is at hand, all there is to ask it now."""
        while self._helper is not None and (request := self.machine.to_helper()) is not None:
            self.helper_answered(request, self._helper(request))

    def helper_answered(self, request: bytes, answer: bytes) -> None:
        """What the helper accepts is noted now. If it breaks the protocol, the round is over."""
        try:
            counted = self.machine.from_helper(request, answer)
        except RemoteProtocolError as error:
            self.machine.abort(error.reason)
            return
        for position, message in counted.items():
            self._recorder.counted(self.input_phase, position, message)

    def message_for(self, position: int) -> bytes | None:
        """What this participant is to be sent in this phase, as often as it asks.

        Where the plan names the roster by the root of its tree, participants need not have all of
        it: they are told who it is whose signatures they are shown.
        """
        message = self.machine.message_for(position)
        if message is None or self._plan.roster_digest != self._roster.digest:
            return message
        return self._introductions.before(message, self.machine.introduced(position))

    def close_phase(self) -> frozenset[int]:
        """The deadline has passed. Gives those who have a message now."""
        invited = self.machine.close_phase()
        if self.machine.announced is not None:
            self._recorder.announced(self.machine.announced)
        if self.machine.result is not None:
            self._recorder.finished(self._date())
        return invited

    def release(self) -> Release:
        """What the round found out; `RoundAborted` with the reason if it found nothing."""
        result = self.machine.result
        if result is None:
            raise RoundAborted(f"the round ended without a result: {self.machine.abort_reason}")
        transcript = self._transcript(result)
        account = transcript.account
        return Release(
            self._plan,
            account.round_id,
            len(result.survivors),
            account.measurement,
            transcript,
            account.made,
            len(result.unremoved),
        )

    def _date(self) -> str | None:
        return None if self._clock is None else date_of(self._clock())

    def _transcript(self, result: Aggregate) -> Transcript:
        recorder = self._recorder
        account = Account(
            version=formats.TRANSCRIPT.writes,
            made=Made.here(self._plan, recorder.date),
            protocol=self._plan.method.version,
            round_id=self._round.round_id,
            session=self._round.session,
            coins_digest=sha256(recorder.coins).digest(),
            plan=self._plan.to_bytes(),
            roster=self._roster,
            phases=recorder.phases(),
            root=recorder.root,
            inputs=self.machine.account,
            measurement=decode(self._plan, result.total),
        )
        return Transcript.seal(account, self._identity, recorder.recording())

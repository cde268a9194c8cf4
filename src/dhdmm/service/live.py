"""A round as one worker knows it, and the turns it takes. Used by one thread at a time.

A turn is one transaction: lock the round, follow what others have done, serve a batch of requests,
append what came of it, commit. Only then is anybody answered. If it fails, whatever the reason, the
session in memory is thrown away and made again from the store at the next turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256

from sqlalchemy import insert

from dhdmm.planning.plan import Plan
from dhdmm.secagg import messages
from dhdmm.secagg.collected import record_name
from dhdmm.secagg.coordinator import Reply
from dhdmm.secagg.errors import AbortReason, RemoteProtocolError
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.states import CoordinatorState
from dhdmm.service import store
from dhdmm.service.aggregation import Aggregation
from dhdmm.service.database import Database
from dhdmm.service.enrolment import close_enrolment, enrol
from dhdmm.service.problems import Problem, Reason
from dhdmm.service.requests import Abort, Close, Enrol, Outcome, Request, Upload
from dhdmm.service.roster import RosterFile
from dhdmm.service.store import ENROLLING, Agreement, Row, StoredStudy, Turn
from dhdmm.service.tables import releases

_PER_NEIGHBOUR = 128
_FIXED = 1024


class Seats:
    """The agreement of a round, read: who sits where, and how long a message may be."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.plan = Plan.from_bytes(agreement.plan)
        self.roster = RosterFile.from_bytes(agreement.roster).roster
        self.positions = {key: i for i, key in enumerate(self.roster.identities)}

    @property
    def largest_message(self) -> int:
        """No message is longer: a packed vector, and at most this much for every neighbour."""
        bits = (self.plan.modulus.value - 1).bit_length()
        vector = self.plan.strategy.rows * bits // 8 + bits
        return vector + _PER_NEIGHBOUR * len(self.roster) + _FIXED


class LiveRound:
    """One round in one worker."""

    def __init__(self, database: Database, round_id: str, identity: Identity) -> None:
        self._database, self._identity, self._id = database, identity, round_id
        self._aggregation: Aggregation | None = None
        with database.reading() as connection:
            row, agreement = (
                store.read_row(connection, round_id),
                store.read_agreement(connection, round_id),
            )
            study = store.read_study(connection, row.study) if row else None
            enrolled = store.has_enrolments(connection, round_id)
        if row is None or study is None:
            raise store.StoreError(f"the store has no round {round_id}")
        self.study: StoredStudy = study
        self.row: Row = row
        self.seats: Seats | None = None if agreement is None else Seats(agreement)
        self.roster_given = agreement is not None and not enrolled
        self._coming: Seats | None = None  # agreed in this turn, and not committed yet
        self.complete = False

    def turn(self, requests: Sequence[Request]) -> list[Outcome]:
        """Serve these requests; their outcomes are durable when this returns."""
        kept, self._aggregation = self._aggregation, None  # ours again when all is committed
        self._coming = None
        with self._database.turn(self._id) as turn:
            aggregation = self._present(turn, kept)
            outcomes: list[Outcome] = []
            for request in requests:
                try:
                    outcomes.append(self._serve(turn, aggregation, request))
                except RemoteProtocolError as error:
                    outcomes.append(Problem.of(error))
                except Problem as problem:
                    outcomes.append(problem)
                if aggregation is None:
                    aggregation = self._present(turn, None)
            if aggregation is not None:
                self._write(turn, aggregation)
        self.row, self.seats = turn.row, self.seats or self._coming
        self.complete = self._is_complete(aggregation)
        self._aggregation = None if self.row.over else aggregation
        return outcomes

    def messages(self, positions: Iterable[int]) -> dict[int, bytes | None]:
        """What these participants are to be sent now."""
        if self._aggregation is None and not self.row.over:
            self.turn([])
        aggregation = self._aggregation
        if aggregation is None:
            return {i: self._farewell(i) for i in positions}
        return {i: aggregation.message_for(i) for i in positions}

    def is_behind(self) -> bool:
        """Whether another worker has been here since our last turn."""
        with self._database.reading() as connection:
            return store.read_version(connection, self._id) != self.row.version

    def write_nothing_new(self) -> bool:
        """Whether the store commits what it is given; if not, it raises."""
        self._database.write_nothing_new(self._id)
        return True

    def transcript(self) -> bytes | None:
        with self._database.reading() as connection:
            return store.read_transcript(connection, self._id)

    # Inside a turn

    def _present(self, turn: Turn, kept: Aggregation | None) -> Aggregation | None:
        """The session, up to date; there is none before the plan and after the end."""
        if turn.row.plan_digest is None or turn.row.over:
            return None
        if kept is not None:
            kept.catch_up(turn)
            return kept
        seats = self.seats or self._coming
        if seats is None:
            agreement = store.read_agreement(turn.connection, turn.row.id)
            assert agreement is not None
            seats = self._coming = Seats(agreement)
        return Aggregation(turn, seats.plan, seats.roster, self._identity, os.urandom)

    def _serve(self, turn: Turn, aggregation: Aggregation | None, request: Request) -> Outcome:
        match request:
            case Enrol():
                return enrol(turn, request, self.study)
            case Upload():
                return self._receive(turn, aggregation, request)
            case Close():
                self._close(turn, aggregation, request.state)
            case Abort():
                self._abort(turn, aggregation, request.reason)
        return None

    def _receive(self, turn: Turn, aggregation: Aggregation | None, upload: Upload) -> Reply:
        if aggregation is not None:
            return aggregation.receive(upload.position, upload.body)
        name = record_name(type(messages.decode(upload.body)), upload.position)
        known = store.read_record(turn.connection, turn.row.id, name)
        if known is not None and known.startswith(sha256(upload.body).digest()):
            return Reply.REPEATED
        raise Problem(410, Reason.OVER, "the round has ended")

    def _close(self, turn: Turn, aggregation: Aggregation | None, state: str) -> None:
        if turn.row.state != state:
            return
        if state == ENROLLING:
            close_enrolment(turn, self.study)
        elif aggregation is not None:
            aggregation.close_phase(turn)

    def _abort(self, turn: Turn, aggregation: Aggregation | None, reason: AbortReason) -> None:
        if turn.row.over:
            return
        if aggregation is None:
            turn.row.abort(reason)
        else:
            aggregation.abort(turn, reason)

    def _write(self, turn: Turn, aggregation: Aggregation) -> None:
        aggregation.write(turn)
        if turn.row.state == CoordinatorState.FINISHED:
            transcript = aggregation.release().transcript
            assert transcript is not None
            values = {"round": turn.row.id, "transcript": transcript.to_bytes()}
            turn.connection.execute(insert(releases).values(values))

    def _is_complete(self, aggregation: Aggregation | None) -> bool:
        if self.row.state == ENROLLING:
            return self.row.enrolled >= self.study.maximum
        return aggregation is not None and aggregation.complete

    def _farewell(self, position: int) -> bytes | None:
        """What there is to say after the end."""
        if self.row.reason is None or self.seats is None:
            return None
        session = self.seats.plan.round(bytes.fromhex(self.row.id)).session
        return messages.Aborted(session, position, AbortReason(self.row.reason)).encode()

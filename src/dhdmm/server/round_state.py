"""A round as one worker knows it, and the turns it takes. Used by one thread at a time.

A turn is one transaction: lock the round, follow what others have done, serve a batch of requests,
append what came of it, commit. Only then is anybody answered. If it fails, whatever the reason, the
session in memory is thrown away and made again from the store at the next turn.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import insert

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import ENROLMENT, FINISHED, STATE, Reply
from dhdmm.network.offer import Place
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.roster import RosterFile
from dhdmm.planning.plan import Plan, terms_of
from dhdmm.release import made, receipt
from dhdmm.release.transcript import Transcript
from dhdmm.server import store
from dhdmm.server.database import Database
from dhdmm.server.enrolment import close_enrolment, enrol
from dhdmm.server.logs import logger
from dhdmm.server.records import RoundRecords
from dhdmm.server.requests import (
    Abort,
    AskHelper,
    Close,
    Enrol,
    HelperAnswer,
    Outcome,
    Request,
    Upload,
)
from dhdmm.server.store import Agreement, Row, StoredStudy, Turn
from dhdmm.server.tables import releases
from dhdmm.session.coordinator import CoordinatorSession


class Seats:
    """The agreement of a round, read: who sits where, and how long a message may be."""

    def __init__(self, agreement: Agreement, round_id: str) -> None:
        self.encoded_plan = agreement.plan
        self.plan = Plan.from_bytes(agreement.plan)
        self._file = RosterFile.from_bytes(agreement.roster)
        self.roster = self._file.roster
        self.round = self.plan.round(bytes.fromhex(round_id))
        self.largest_message = self.plan.method.largest_message(self.round)
        self.terms = terms_of(self.plan)

    def place(self, position: int) -> Place | None:
        """What somebody is shown of the roster, if the plan names it by the root of its tree."""
        named = self.plan.roster_digest == self.roster.digest
        return Place.on(self._file, position) if named else None


class Running:
    """The session of a round between enrolment and end, on the records that the store has."""

    def __init__(self, turn: Turn, seats: Seats, identity: Identity) -> None:
        self._records = RoundRecords()
        self._records.load(turn)
        self._records.read_sums(turn)
        self.session = CoordinatorSession(
            seats.plan,
            bytes.fromhex(turn.row.id),
            seats.roster,
            os.urandom,
            self._records,
            identity=identity,
            shard=secrets.token_hex(8),  # nobody else's, and not one of an earlier life
            clock=made.now,
        )

    def follow(self, turn: Turn) -> None:
        """Learn what other workers have appended since this one's last turn."""
        entries = self._records.read(turn)
        if any(entry.name == STATE for entry in entries):  # sums are final when a phase is closed
            self._records.read_sums(turn)
        self.session.machine.follow((entry.name, entry.value) for entry in entries)

    def close_phase(self, turn: Turn) -> None:
        self._records.read_sums(turn)
        self.session.close_phase()
        self._note(turn.row)

    def abort(self, turn: Turn, reason: AbortReason) -> None:
        self.session.machine.abort(reason)
        self._note(turn.row)

    def write(self, turn: Turn) -> None:
        """Put everything new into the store, and the figures into the round's row."""
        self.session.machine.flush()
        if self._records.write(turn):
            self._note(turn.row)

    def _note(self, row: Row) -> None:
        machine = self.session.machine
        # after every turn, so without a pass over everybody
        present = len(machine.invited) - sum(i in machine.invited for i in machine.departed)
        row.state, row.departed = str(machine.state), len(machine.departed)
        row.invited, row.received = len(machine.invited), present - len(machine.awaited)
        row.alive = present if machine.survivors is None else len(machine.survivors)
        row.reason = None if machine.abort_reason is None else machine.abort_reason.value


class RoundState:
    """All that one worker knows of a round, used by one thread."""

    def __init__(self, database: Database, round_id: str, identity: Identity) -> None:
        self._database, self._identity, self._id = database, identity, round_id
        self._running: Running | None = None
        with database.reading() as connection:
            row = store.read_row(connection, round_id)
            agreement = store.read_agreement(connection, round_id)
            study = store.read_study(connection, row.study) if row else None
            enrolled = store.has_enrolments(connection, round_id)
        if row is None or study is None:
            raise store.StoreError(f"the store has no round {round_id}")
        self.study: StoredStudy = study
        self.row: Row = row
        self.seats: Seats | None = None if agreement is None else Seats(agreement, round_id)
        self.arrival_phase = ENROLMENT.name
        if self.seats is not None and not enrolled:  # the roster was given
            self.arrival_phase = self.seats.plan.method.phases[0].name
        """The phase in which people come."""
        self._uncommitted: Seats | None = None  # agreed in this turn, and not committed yet
        self.complete = False
        self.asks_helper = self.waits_for_helper = self.helper_key_known = False
        self.settled: int | None = None
        self._published: Transcript | None = None  # of an earlier life, when somebody asks for it

    def turn(self, requests: Sequence[Request]) -> list[Outcome]:
        """Serve these requests; their outcomes are durable when this returns."""
        kept, self._running = self._running, None  # ours again when all is committed
        self._uncommitted = None
        with self._database.turn(self._id) as turn:
            running = self._up_to_date(turn, kept)
            if running is not None:
                uploads = [request for request in requests if isinstance(request, Upload)]
                running.session.prepare((one.position, one.body) for one in uploads)
            outcomes: list[Outcome] = []
            for request in requests:
                try:
                    outcomes.append(self._serve(turn, running, request))
                except RemoteProtocolError as error:
                    logger().warning("message refused", round=self._id, reason=str(error.reason))
                    outcomes.append(Problem.of(error))
                except Problem as problem:
                    outcomes.append(problem)
                running = running or self._up_to_date(turn, None)
            if running is not None:
                running.write(turn)
            published = None
            if running is not None and turn.row.state == FINISHED.name:
                published = _publish(turn, running.session)
        self.row, self.seats = turn.row, self.seats or self._uncommitted
        self._published = published or self._published
        self._running = None if self.row.over else running
        self.complete = self._is_complete()
        self._note_helper()
        return outcomes

    def messages(self, positions: Iterable[int]) -> dict[int, bytes | None]:
        """What these participants are to be sent now."""
        if self._running is None and not self.row.over:
            self.turn([])
        if self._running is None:
            return {i: self._last_message(i) for i in positions}
        message_for = self._running.session.message_for
        return {i: message_for(i) for i in positions}

    def is_behind(self) -> bool:
        """Whether another worker has been here since our last turn."""
        with self._database.reading() as connection:
            return store.read_version(connection, self._id) != self.row.version

    def check_writable(self) -> bool:
        """Whether the store commits what it is given; if not, it raises."""
        self._database.check_writable(self._id)
        return True

    def roster_file(self) -> bytes:
        """As it was agreed on; of a million people it is too long to be kept in memory."""
        with self._database.reading() as connection:
            agreement = store.read_agreement(connection, self._id)
        assert agreement is not None
        return agreement.roster

    def transcript(self) -> bytes | None:
        with self._database.reading() as connection:
            return store.read_transcript(connection, self._id)

    # Inside a turn

    def _up_to_date(self, turn: Turn, kept: Running | None) -> Running | None:
        """The session, up to date; there is none before the plan and after the end."""
        if turn.row.plan_digest is None or turn.row.over:
            return None
        if kept is not None:
            kept.follow(turn)
            return kept
        seats = self.seats or self._uncommitted
        if seats is None:
            agreement = store.read_agreement(turn.connection, turn.row.id)
            assert agreement is not None
            seats = self._uncommitted = Seats(agreement, self._id)
        return Running(turn, seats, self._identity)

    def _serve(self, turn: Turn, running: Running | None, request: Request) -> Outcome:
        match request:
            case Upload() if running is not None:
                return running.session.receive(request.position, request.body)
            case Upload():
                return self._received_before(turn, request)
            case Enrol():
                return enrol(turn, request, self.study)
            case Close(state=ENROLMENT.name) if turn.row.state == ENROLMENT.name:
                close_enrolment(turn, self.study)
            case Close(state=state) if turn.row.state == state and running is not None:
                running.close_phase(turn)
            case AskHelper() if running is not None:
                return running.session.machine.to_helper()
            case HelperAnswer() if running is not None:
                running.session.helper_answered(request.request, request.answer)
            case Abort(reason=reason) if running is not None:
                running.abort(turn, reason)
            case Abort(reason=reason) if not turn.row.over:
                turn.row.abort(reason)
        return None

    def _received_before(self, turn: Turn, upload: Upload) -> Reply:
        """The round has ended, perhaps before the sender heard that its message had arrived."""
        assert self.seats is not None
        record = partial(store.read_record, turn.connection, turn.row.id)
        if self.seats.plan.method.was_received(record, upload.body, upload.position):
            return Reply.REPEATED
        raise Problem(410, Reason.OVER, "the round has ended")

    def _is_complete(self) -> bool:
        if self.row.state == ENROLMENT.name:
            return self.row.enrolled >= self.study.maximum
        machine = None if self._running is None else self._running.session.machine
        return machine is not None and not machine.awaited and not machine.waits_for_helper

    def _note_helper(self) -> None:
        """What a second server has to do with what happens next, if there is one."""
        machine = None if self._running is None else self._running.session.machine
        self.asks_helper = machine is not None and machine.asks_helper
        self.waits_for_helper = machine is not None and machine.waits_for_helper
        self.settled = self.settled if machine is None else machine.settled
        if machine is not None and self.seats is not None and self.seats.plan.method.has_helper:
            self.helper_key_known = machine.message_for(0) is not None

    def _last_message(self, position: int) -> bytes | None:
        """What there is to say after the end: a receipt, or why there is none."""
        if self.seats is None:
            return None
        if self.row.reason is not None:
            method, reason = self.seats.plan.method, AbortReason(self.row.reason)
            message: bytes = method.abort_message(self.seats.round, position, reason)
            return message
        if self._published is None:
            transcript = self.transcript()
            self._published = None if transcript is None else Transcript.from_bytes(transcript)
        if self._published is None or self._published.version < receipt.VERSION:
            return None
        return receipt.Receipt.of(self._published, position).to_bytes()


def _publish(turn: Turn, session: CoordinatorSession) -> Transcript:
    transcript = session.release().transcript
    assert transcript is not None
    values = {"round": turn.row.id, "transcript": transcript.to_bytes()}
    turn.connection.execute(insert(releases).values(values))
    return transcript

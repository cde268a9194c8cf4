"""What a coordinator must not forget: rounds, their logs and running sums, studies, releases.

The messages of a round are an append-only log; the running sum has one row per shard, overwritten.
Whoever changes a round does so in a *turn*: one transaction that holds the lock on the round's
row, so several workers take turns, and what is not committed did not happen.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ABORTED, ENROLMENT, OVER
from dhdmm.errors import DhdmmError
from dhdmm.network.status import Status
from dhdmm.server.runs import packed, rows_with, unpacked, value_in
from dhdmm.server.tables import agreements, enrolments, log, releases, rounds, shards, studies

Found = TypeVar("Found")

_SAVED = "saved/"
_READ_AT_ONCE = 1000


class StoreError(DhdmmError):
    """A store that cannot be opened or used."""


@dataclass
class Row:
    """A round's row: small, and read in every turn."""

    id: str
    study: str
    number: int
    state: str = ENROLMENT.name
    version: int = 1
    sequence: int = 0
    enrolled: int = 0
    invited: int = 0
    received: int = 0
    alive: int = 0
    departed: int = 0
    reason: str | None = None
    plan_digest: str | None = None
    roster_digest: str | None = None
    begun: int = 0
    ended: int | None = None
    purged: int | None = None
    occurrence: str | None = None
    registrar: str | None = None
    roster_serial: int = 0

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def missing(self) -> int:
        """Of how many at least the phase still needs to hear."""
        return self.invited - self.received - self.departed

    def abort(self, reason: AbortReason) -> None:
        """End the round before there is a session."""
        self.state, self.reason = ABORTED.name, reason.value


@dataclass(frozen=True)
class Window:
    """Which rounds are wanted: the newest first, those older than `after`, at most `limit`."""

    study: str | None = None
    running: bool = False
    after: Row | None = None
    limit: int | None = None


class LogEntry(NamedTuple):
    """One record of a round, as its log has it."""

    sequence: int
    name: str
    value: bytes


class Agreement(NamedTuple):
    """What is fixed when enrolment closes: the plan's bytes and the roster file's."""

    plan: bytes
    roster: bytes


@dataclass(frozen=True)
class StudyHead:
    """What is to be said of a study in a line."""

    digest: str
    name: str
    threat_model: str
    minimum: int
    maximum: int


@dataclass(frozen=True)
class StoredStudy(StudyHead):
    """A study with the preview of its plan that data holders review.

    The preview has the draft in it, and the figures for the fewest participants without a roster.
    """

    preview: bytes


# Statements of every turn, which take longer to put together than to execute.
_ROWS = sa.select(*(rounds.c[field.name] for field in fields(Row)))
_READ_ROW = _ROWS.where(rounds.c.id == sa.bindparam("this"))
_LOCK_ROW = _READ_ROW.with_for_update()
_WRITE_ROW = sa.update(rounds).where(rounds.c.id == sa.bindparam("this"))
_READ_LOG = (
    sa.select(log.c.sequence, log.c.name, log.c.value)
    .where((log.c.round == sa.bindparam("this")) & (log.c.sequence > sa.bindparam("last")))
    .order_by(log.c.sequence)
)
_APPEND = "INSERT INTO records (round, sequence, name, value) VALUES ({0}, {0}, {0}, {0})"
_FORGET = "DELETE FROM records WHERE round = {0} AND sequence BETWEEN {0} AND {0}"
"""As text: all that SQLAlchemy would do for a row of bytes takes longer than SQLite does."""
_PLACEHOLDER = {"sqlite": "?", "postgresql": "%s"}


class Turn:
    """A round's row, locked, and the transaction that holds the lock."""

    def __init__(self, connection: sa.Connection, row: Row) -> None:
        self.connection, self.row, self._found = connection, row, vars(row).copy()

    def log_after(self, sequence: int) -> Iterator[LogEntry]:
        return read_log(self.connection, self.row.id, sequence)

    def logged(self, sequence: int) -> bytes:
        """The value of this entry."""
        here = (log.c.round == self.row.id) & (log.c.sequence == sequence)
        return bytes(self.connection.execute(sa.select(log.c.value).where(here)).scalar_one())

    def append(self, records: Iterable[tuple[str, bytes]]) -> list[tuple[int, str]]:
        """At the end of the log; sequence and name of the rows that they have there."""
        rows = list(enumerate(packed(records), self.row.sequence + 1))
        if rows:
            entries = [(self.row.id, i, name, value) for i, (name, value) in rows]
            self._execute(_APPEND, entries)
            self.row.sequence += len(entries)
        return [(i, name) for i, (name, _) in rows]

    def forget(self, sequences: Iterable[int]) -> None:
        """Delete these rows of the log; most follow each other."""
        ranges = list[tuple[str, int, int]]()
        for sequence in sorted(sequences):
            if ranges and ranges[-1][2] == sequence - 1:
                ranges[-1] = (self.row.id, ranges[-1][1], sequence)
            else:
                ranges.append((self.row.id, sequence, sequence))
        self._execute(_FORGET, ranges)

    def _execute(self, statement: str, values: list[tuple[Any, ...]]) -> None:
        placeholder = _PLACEHOLDER[self.connection.dialect.name]
        self.connection.exec_driver_sql(statement.format(placeholder), values)

    def shards(self) -> list[tuple[str, bytes]]:
        found = sa.select(shards.c.name, shards.c.value).where(shards.c.round == self.row.id)
        return [(name, value) for name, value in self.connection.execute(found)]

    def put_shard(self, name: str, value: bytes) -> None:
        here = (shards.c.round == self.row.id) & (shards.c.name == name)
        if not self.connection.execute(sa.update(shards).where(here).values(value=value)).rowcount:
            self.connection.execute(
                sa.insert(shards).values(round=self.row.id, name=name, value=value)
            )

    def close(self) -> None:
        """Write the row if anything of it has changed."""
        if self.row.over and self.row.ended is None:
            self.row.ended = int(time.time())
        if vars(self.row) != self._found:
            self.row.version += 1
            self.connection.execute(_WRITE_ROW, vars(self.row) | {"this": self.row.id})


def status_of(row: Row, study: StudyHead, remaining_s: float | None) -> Status:
    """What everybody may know of a round."""
    known = vars(row) | {"round": row.id, "study": study.name, "study_digest": study.digest}
    asked = {"threat_model": study.threat_model, "minimum": study.minimum, "maximum": study.maximum}
    return Status.model_validate(known | asked | {"remaining_s": remaining_s})


# ---- what is read and written outside of a turn -------------------------------------------------


def read_row(connection: sa.Connection, round_id: str, *, lock: bool = False) -> Row | None:
    found = connection.execute(_LOCK_ROW if lock else _READ_ROW, {"this": round_id})
    return _one(Row, found)


def read_version(connection: sa.Connection, round_id: str) -> int:
    found = sa.select(rounds.c.version).where(rounds.c.id == round_id)
    return int(connection.execute(found).scalar_one())


def read_log(connection: sa.Connection, round_id: str, after: int = 0) -> Iterator[LogEntry]:
    options = {} if after else {"yield_per": _READ_AT_ONCE}  # a whole log may be long
    these = {"this": round_id, "last": after}
    for sequence, *row in connection.execute(_READ_LOG, these, execution_options=options):
        for name, value in unpacked(*row):
            yield LogEntry(sequence, name, value)


def read_record(connection: sa.Connection, round_id: str, name: str) -> bytes | None:
    """What the log says last under this name."""
    found = (
        sa.select(log.c.name, log.c.value)
        .where((log.c.round == round_id) & log.c.name.in_(rows_with(name)))
        .order_by(log.c.sequence.desc())
    )
    values = (value_in(row, value, name) for row, value in connection.execute(found))
    return next((value for value in values if value is not None), None)


def read_agreement(connection: sa.Connection, round_id: str) -> Agreement | None:
    found = sa.select(agreements.c.plan, agreements.c.roster).where(agreements.c.round == round_id)
    return _one(Agreement, connection.execute(found))


def has_enrolments(connection: sa.Connection, round_id: str) -> bool:
    """Whether people have taken seats by themselves; nobody has where the roster was given."""
    found = sa.select(enrolments.c.position).where(enrolments.c.round == round_id).limit(1)
    return connection.execute(found).first() is not None


def read_transcript(connection: sa.Connection, round_id: str) -> bytes | None:
    found = sa.select(releases.c.transcript).where(releases.c.round == round_id)
    value: bytes | None = connection.execute(found).scalar_one_or_none()
    return value


def was_saved(connection: sa.Connection, round_id: str, place: str) -> bool:
    """Whether the release has been at this place, even if it was moved away since."""
    return read_record(connection, round_id, _SAVED + place) is not None


def remember_saved(turn: Turn, place: str) -> None:
    """In the log of a round that is over."""
    if not was_saved(turn.connection, turn.row.id, place):
        turn.append([(_SAVED + place, b"")])


def read_study(connection: sa.Connection, digest: str) -> StoredStudy | None:
    found = sa.select(*(studies.c[field.name] for field in fields(StoredStudy)))
    return _one(StoredStudy, connection.execute(found.where(studies.c.digest == digest)))


def read_rounds(
    connection: sa.Connection, window: Window | None = None
) -> list[tuple[Row, StudyHead]]:
    """All rounds, or those in the window; the newest first."""
    window = window or Window()
    row, head = ([field.name for field in fields(kind)] for kind in (Row, StudyHead))
    age = (rounds.c.begun, rounds.c.number, rounds.c.id)
    found = (
        sa.select(*(rounds.c[name] for name in row), *(studies.c[name] for name in head))
        .join(studies, rounds.c.study == studies.c.digest)
        .order_by(*(column.desc() for column in age))
        .limit(window.limit)
    )
    if window.study is not None:
        found = found.where(rounds.c.study == window.study)
    if window.running:
        found = found.where(rounds.c.state.not_in(OVER))
    if (last := window.after) is not None:
        found = found.where(sa.tuple_(*age) < sa.tuple_(last.begun, last.number, last.id))
    rows = connection.execute(found)
    return [(Row(*values[: len(row)]), StudyHead(*values[len(row) :])) for values in rows]


def read_latest(connection: sa.Connection, study: str) -> Row | None:
    """The study's round with the highest number."""
    found = _ROWS.where(rounds.c.study == study).order_by(rounds.c.number.desc()).limit(1)
    return _one(Row, connection.execute(found))


def read_occurrence(connection: sa.Connection, study: str, occurrence: str) -> Row | None:
    mine = (rounds.c.study == study) & (rounds.c.occurrence == occurrence)
    return _one(Row, connection.execute(_ROWS.where(mine)))


def _one(kind: Callable[..., Found], result: sa.Result[Any]) -> Found | None:
    """The only row of the result as a value of this kind; None if there is no row."""
    row = result.one_or_none()
    return None if row is None else kind(*row)


def read_newest_roster(
    connection: sa.Connection, study: str, registrar: str
) -> tuple[int, str | None] | None:
    """Serial number and digest of this registrar's newest roster for studies of this name."""
    found = (
        sa.select(rounds.c.roster_serial, rounds.c.roster_digest)
        .join(studies, rounds.c.study == studies.c.digest)
        .where((studies.c.name == study) & (rounds.c.registrar == registrar))
        .order_by(rounds.c.roster_serial.desc(), rounds.c.begun.desc())
        .limit(1)
    )
    row = connection.execute(found).one_or_none()
    return None if row is None else (row[0], row[1])


def read_heads(connection: sa.Connection) -> list[StudyHead]:
    """The studies that have rounds, the one with the newest round first."""
    newest = sa.func.max(rounds.c.begun)
    columns = [studies.c[field.name] for field in fields(StudyHead)]
    found = sa.select(*columns).join(rounds, rounds.c.study == studies.c.digest).group_by(*columns)
    rows = connection.execute(found.order_by(newest.desc(), studies.c.digest))
    return [StudyHead(*row) for row in rows]


def add_study(connection: sa.Connection, study: StoredStudy) -> StoredStudy:
    """The study as the store has it; the first draft that was made of it stays."""
    if read_study(connection, study.digest) is None:
        with suppress(IntegrityError), connection.begin_nested():  # another worker was faster
            connection.execute(sa.insert(studies).values(asdict(study)))
    return read_study(connection, study.digest) or study


def lock_study(connection: sa.Connection, digest: str) -> None:
    """Nobody else begins a round of this study before the transaction ends."""
    connection.execute(
        sa.select(studies.c.digest).where(studies.c.digest == digest).with_for_update()
    )


def add_round(connection: sa.Connection, study: StudyHead, occurrence: str | None = None) -> Row:
    last = sa.select(sa.func.max(rounds.c.number)).where(rounds.c.study == study.digest)
    number = (connection.execute(last).scalar_one() or 0) + 1
    row = Row(secrets.token_hex(16), study.digest, number, occurrence=occurrence)
    row.begun = int(time.time())
    connection.execute(sa.insert(rounds).values(asdict(row)))
    return row

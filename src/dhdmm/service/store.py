"""What a coordinator must not forget, in SQLite or PostgreSQL.

The messages of a round are an append-only log; the running sum has one row a shard, overwritten.
Whoever changes a round does so in a *turn*: one transaction that holds the lock on the round's
row, so several workers take turns, and what is not committed did not happen. SQLite locks the whole
file instead of a row, writes ahead, and syncs at every commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from dhdmm.errors import DhdmmError
from dhdmm.secagg.errors import AbortReason
from dhdmm.secagg.states import CoordinatorState
from dhdmm.service.tables import agreements, log, releases, rounds, shards, studies

ENROLLING = "enrolling"
OVER = frozenset([CoordinatorState.FINISHED.value, CoordinatorState.ABORTED.value])
BUSY_SECONDS = 30
_WRITING = "dhdmm_writing"
_MIGRATION_LOCK = 0x6468646D6D  # an advisory lock's number: "dhdmm"


class StoreError(DhdmmError):
    """A store that cannot be opened or used."""


@dataclass
class Row:
    """A round's row: small, and read in every turn."""

    id: str
    study: str
    number: int
    state: str = ENROLLING
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

    @property
    def over(self) -> bool:
        return self.state in OVER

    def abort(self, reason: AbortReason) -> None:
        """End the round before there is a session."""
        self.state, self.reason = CoordinatorState.ABORTED.value, reason.value


@dataclass(frozen=True)
class Entry:
    """One record of a round, as its log has it."""

    sequence: int
    name: str
    value: bytes


@dataclass(frozen=True)
class Agreement:
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
    """A study with its draft: the plan's bytes for the fewest participants, without a roster."""

    draft: bytes


class Turn:
    """A round's row, locked, and the transaction that holds the lock."""

    def __init__(self, connection: Connection, row: Row) -> None:
        self.connection, self.row, self._found = connection, row, asdict(row)

    def log_after(self, sequence: int) -> list[Entry]:
        return list(read_log(self.connection, self.row.id, sequence))

    def append(self, records: Iterable[tuple[str, bytes]]) -> int:
        """At the end of the log; the last entry's sequence."""
        first = self.row.sequence + 1
        entries = [
            {"round": self.row.id, "sequence": i, "name": name, "value": value}
            for i, (name, value) in enumerate(records, first)
        ]
        if entries:
            self.connection.execute(insert(log), entries)
            self.row.sequence += len(entries)
        return self.row.sequence

    def shards(self) -> list[tuple[str, bytes]]:
        found = select(shards.c.name, shards.c.value).where(shards.c.round == self.row.id)
        return [(name, value) for name, value in self.connection.execute(found)]

    def put_shard(self, name: str, value: bytes) -> None:
        here = (shards.c.round == self.row.id) & (shards.c.name == name)
        if not self.connection.execute(update(shards).where(here).values(value=value)).rowcount:
            self.connection.execute(
                insert(shards).values(round=self.row.id, name=name, value=value)
            )

    def close(self) -> None:
        """Write the row if anything of it has changed."""
        if asdict(self.row) != self._found:
            self.row.version += 1
            changed = update(rounds).where(rounds.c.id == self.row.id)
            self.connection.execute(changed.values(asdict(self.row)))


class Database:
    """An open store. A connection is used by one thread at a time; there are as many as needed."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, committed at the end of the block unless it raises."""
        with (
            self._engine.connect().execution_options(**{_WRITING: True}) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def turn(self, round_id: str) -> Iterator[Turn]:
        """A turn at this round; commits at the end of the block unless it raises."""
        with self.writing() as connection:
            row = read_row(connection, round_id, lock=True)
            if row is None:
                raise StoreError(f"the store has no round {round_id}")
            turn = Turn(connection, row)
            yield turn
            turn.close()

    def migrate(self) -> None:
        """Bring an empty or older store up to date; refuse a newer one."""
        config = Config()
        config.set_main_option("script_location", "dhdmm.service:migrations")
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        try:
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                current = MigrationContext.configure(connection).get_current_revision()
                if current is not None and current not in known:
                    raise StoreError(
                        f"the store is of a newer version ({current})", hint="upgrade dhdmm"
                    )
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except DBAPIError as error:
            raise StoreError(f"the store cannot be opened: {error.orig}") from None

    def answers(self) -> bool:
        """Whether the store can be reached now."""
        try:
            with self.reading() as connection:
                connection.execute(select(1))
        except DBAPIError:
            return False
        return True


# ---- what is read and written outside of a turn -------------------------------------------------


def read_row(connection: Connection, round_id: str, *, lock: bool = False) -> Row | None:
    found = select(*(rounds.c[field.name] for field in fields(Row))).where(rounds.c.id == round_id)
    row = connection.execute(found.with_for_update() if lock else found).one_or_none()
    return None if row is None else Row(*row)


def read_version(connection: Connection, round_id: str) -> int:
    found = select(rounds.c.version).where(rounds.c.id == round_id)
    return int(connection.execute(found).scalar_one())


def read_log(connection: Connection, round_id: str, after: int = 0) -> Iterator[Entry]:
    found = (
        select(log.c.sequence, log.c.name, log.c.value)
        .where((log.c.round == round_id) & (log.c.sequence > after))
        .order_by(log.c.sequence)
    )
    for row in connection.execute(found):
        yield Entry(*row)


def read_record(connection: Connection, round_id: str, name: str) -> bytes | None:
    """What the log says last under this name."""
    found = (
        select(log.c.value)
        .where((log.c.round == round_id) & (log.c.name == name))
        .order_by(log.c.sequence.desc())
        .limit(1)
    )
    value: bytes | None = connection.execute(found).scalar_one_or_none()
    return value


def read_agreement(connection: Connection, round_id: str) -> Agreement | None:
    found = select(agreements.c.plan, agreements.c.roster).where(agreements.c.round == round_id)
    row = connection.execute(found).one_or_none()
    return None if row is None else Agreement(*row)


def read_transcript(connection: Connection, round_id: str) -> bytes | None:
    found = select(releases.c.transcript).where(releases.c.round == round_id)
    value: bytes | None = connection.execute(found).scalar_one_or_none()
    return value


def read_study(connection: Connection, digest: str) -> StoredStudy | None:
    found = select(*(studies.c[field.name] for field in fields(StoredStudy)))
    row = connection.execute(found.where(studies.c.digest == digest)).one_or_none()
    return None if row is None else StoredStudy(*row)


def read_rounds(connection: Connection, study: str | None = None) -> list[tuple[Row, StudyHead]]:
    """All rounds, or one study's, the first one first."""
    row, head = ([field.name for field in fields(kind)] for kind in (Row, StudyHead))
    found = (
        select(*(rounds.c[name] for name in row), *(studies.c[name] for name in head))
        .join(studies, rounds.c.study == studies.c.digest)
        .order_by(rounds.c.study, rounds.c.number)
    )
    chosen = found if study is None else found.where(rounds.c.study == study)
    rows = connection.execute(chosen)
    return [(Row(*values[: len(row)]), StudyHead(*values[len(row) :])) for values in rows]


def add_study(connection: Connection, study: StoredStudy) -> StoredStudy:
    """The study as the store has it; the first draft that was made of it stays."""
    if read_study(connection, study.digest) is None:
        with suppress(IntegrityError), connection.begin_nested():  # another worker was faster
            connection.execute(insert(studies).values(asdict(study)))
    return read_study(connection, study.digest) or study


def lock_study(connection: Connection, digest: str) -> None:
    """Nobody else begins a round of this study before the transaction ends."""
    connection.execute(select(studies.c.digest).where(studies.c.digest == digest).with_for_update())


def add_round(connection: Connection, study: StudyHead) -> Row:
    last = select(func.max(rounds.c.number)).where(rounds.c.study == study.digest)
    number = (connection.execute(last).scalar_one() or 0) + 1
    row = Row(secrets.token_hex(16), study.digest, number)
    connection.execute(insert(rounds).values(asdict(row)))
    return row


# ---- engines ------------------------------------------------------------------------------------


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, pool_pre_ping=True, hide_parameters=True)
    except (ArgumentError, NoSuchModuleError):
        raise StoreError(
            "this is not a store's address",
            hint="sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE",
        ) from None


def _sqlite(url: URL) -> Engine:
    """A file: several threads and processes may use it, one writes at a time."""
    if not url.database or url.database == ":memory:":
        raise StoreError("a store in memory forgets", hint="name a file: sqlite:///coordinator.db")
    Path(url.database).resolve().parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options: Mapping[str, Any] = connection.get_execution_options()
        connection.execute(text("BEGIN IMMEDIATE" if options.get(_WRITING) else "BEGIN"))

    return engine

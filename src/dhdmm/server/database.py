"""Where the store is: SQLite or PostgreSQL, opened, brought up to date, and used in turns.

SQLite locks the whole file instead of a row, writes ahead, and syncs at every commit.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from dhdmm import formats
from dhdmm.network.files import keep_private
from dhdmm.server.store import StoreError, Turn, read_row
from dhdmm.server.tables import rounds

BUSY_SECONDS = 30
CONNECT_SECONDS, ANSWER_SECONDS = 10, 30
"""After these a server that is silent is gone: for a connection, and for what was sent to it."""
NO_ROOM = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS])
_SQLITE = ("page_size=16384", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
"""The size of pages counts when a file is made: what is written most are messages of some kB."""
_WRITING = "dhdmm_writing"
_MIGRATION_LOCK = 0x6468646D6D  # an advisory lock's number: "dhdmm"


class StoreUnavailable(StoreError):
    """The store did not do what it was asked, and may do it later: it is away, full or broken."""

    def __init__(self, cause: object) -> None:
        self.cause = cause
        super().__init__(f"the store cannot be used: {cause}")


class Database:
    """An open store. A connection is used by one thread at a time; there are as many as needed."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction, committed at the end of the block unless it raises."""
        with (
            _outages_as_unavailable(),
            self._engine.connect().execution_options(**{_WRITING: True}) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with _outages_as_unavailable(), self._engine.connect() as connection:
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
        config.set_main_option("script_location", "dhdmm.server:migrations")
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        try:
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                current = MigrationContext.configure(connection).get_current_revision()
                if current is not None and current not in known:
                    number = int(current) if current.isdecimal() else current
                    formats.readable(formats.STORE, number, StoreError)
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except (StoreUnavailable, DBAPIError) as error:
            cause = error.cause if isinstance(error, StoreUnavailable) else error.orig
            raise StoreError(
                f"the store cannot be opened: {cause}",
                where=self._engine.url.render_as_string(hide_password=True),
                hint="is it reachable, and may this user write there?",
            ) from None

    def check_writable(self, round_id: str) -> None:
        """Commit a round's row as it is: raises unless the store can write."""
        with self.writing() as connection:
            same = sa.update(rounds).where(rounds.c.id == round_id).values(version=rounds.c.version)
            connection.execute(same)

    def answers(self) -> bool:
        """Whether the store can be reached now."""
        try:
            with self.reading() as connection:
                connection.execute(sa.select(1))
        except StoreUnavailable:
            return False
        return True


@contextmanager
def _outages_as_unavailable() -> Iterator[None]:
    """What is the store's fault and may pass becomes `StoreUnavailable`; other errors are ours."""
    try:
        yield
    except (DBAPIError, NoConnectionFree, OSError) as error:
        if not _is_temporary(error):
            raise
        raise StoreUnavailable(error.orig if isinstance(error, DBAPIError) else error) from error


def _is_temporary(error: DBAPIError | NoConnectionFree | OSError) -> bool:
    """Lost connections, full disks, locks, damage. Not wrong statements and broken constraints."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    if isinstance(error, DBAPIError) and not error.connection_invalidated:
        wrong_statement = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        of_the_store = isinstance(error, OperationalError | InternalError)
        return (of_the_store or type(error) is DatabaseError) and not wrong_statement
    return True


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        waiting = {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": 1000 * ANSWER_SECONDS}
        known = {key: value for key, value in waiting.items() if key not in parsed.query}
        return sa.create_engine(
            parsed, pool_pre_ping=True, hide_parameters=True, connect_args=known
        )
    except (ArgumentError, NoSuchModuleError):
        raise StoreError(
            "this is not a store's address",
            hint="sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE",
        ) from None


def _sqlite(url: sa.URL) -> sa.Engine:
    """A file: several threads and processes may use it, one writes at a time."""
    if not url.database or url.database == ":memory:":
        raise StoreError("a store in memory forgets", hint="name a file: sqlite:///coordinator.db")
    file = Path(url.database).resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        url, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None}, hide_parameters=True
    )

    @sa.event.listens_for(engine, "do_connect")
    def make_private(_dialect: Any, _record: Any, _given: Any, _options: Any) -> None:
        _keep_private(file)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in _SQLITE:
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        options: Mapping[str, Any] = connection.get_execution_options()
        connection.execute(sa.text("BEGIN IMMEDIATE" if options.get(_WRITING) else "BEGIN"))

    return engine


def _keep_private(file: Path) -> None:
    """SQLite gives its other files the mode of this one; those of earlier runs may have another."""
    if not file.exists():
        with suppress(OSError):  # SQLite tries the same, and says what is wrong
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        for suffix in ("", "-wal", "-shm"):
            keep_private(file.with_name(file.name + suffix))
    except PermissionError:
        raise StoreError(
            "other users can read the store", where=str(file), hint="chmod 600, as its owner"
        ) from None

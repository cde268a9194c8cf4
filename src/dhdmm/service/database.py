"""Where the store is: SQLite or PostgreSQL, opened, brought up to date, and used in turns.

SQLite locks the whole file instead of a row, writes ahead, and syncs at every commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from dhdmm import formats
from dhdmm.service.store import StoreError, Turn, read_row

BUSY_SECONDS = 30
_WRITING = "dhdmm_writing"
_MIGRATION_LOCK = 0x6468646D6D  # an advisory lock's number: "dhdmm"


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
                    number = int(current) if current.isdecimal() else current
                    formats.readable(formats.STORE, number, StoreError)
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

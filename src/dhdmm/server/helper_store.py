"""What a helper keeps: in a store that may be backed up, and in a place that may not.

The store has plans, rosters, signed keys and signed answers. The folder of secrets has one SQLite
file a round, with the round's key and sum; it is deleted when the answer is in the store, and
belongs on a disk that no backup and no snapshot reads.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text, insert, select, update

from dhdmm.network.files import keep_private
from dhdmm.server.database import Database
from dhdmm.server.store import StoreError

metadata = MetaData()
rounds = Table(
    "helper_rounds",
    metadata,
    Column("round", Text, primary_key=True),
    Column("format", Integer, nullable=False, server_default="1"),
    Column("leader", Text, nullable=False),
    Column("plan", LargeBinary, nullable=False),
    Column("roster", LargeBinary, nullable=False),
    Column("state", LargeBinary),
    Column("kept", LargeBinary),
)


@dataclass(frozen=True)
class Opened:
    """A round that a leader has told of."""

    leader: str
    plan: bytes
    roster: bytes


class HelperStore:
    """The part that may be backed up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.writing() as connection:
            metadata.create_all(connection)

    def find(self, round_id: str) -> Opened | None:
        columns = select(rounds.c.leader, rounds.c.plan, rounds.c.roster)
        with self._database.reading() as connection:
            row = connection.execute(columns.where(rounds.c.round == round_id)).one_or_none()
        return None if row is None else Opened(*row)

    def add(self, round_id: str, opened: Opened) -> None:
        values = {"round": round_id, **vars(opened)}
        with self._database.writing() as connection:
            connection.execute(insert(rounds).values(values))

    def names(self) -> list[str]:
        with self._database.reading() as connection:
            return list(connection.execute(select(rounds.c.round)).scalars())

    def journal(self, round_id: str) -> RoundJournal:
        return RoundJournal(self._database, round_id)


class RoundJournal:
    """A helper's journal of one round."""

    def __init__(self, database: Database, round_id: str) -> None:
        self._database, self._here = database, rounds.c.round == round_id

    def write(self, state: bytes, outgoing: bytes) -> None:
        with self._database.writing() as connection:
            connection.execute(update(rounds).where(self._here).values(state=state, kept=outgoing))

    def read(self) -> tuple[bytes, bytes] | None:
        with self._database.reading() as connection:
            found = select(rounds.c.state, rounds.c.kept).where(self._here)
            row = connection.execute(found).one_or_none()
        return None if row is None or row[0] is None else (row[0], row[1])


class SecretFile:
    """The key and the sum of one round; one process at a time has it open."""

    def __init__(self, folder: Path, round_id: str) -> None:
        self._path = folder / f"{round_id}.secret"
        self._open: sqlite3.Connection | None = None

    def load(self) -> Mapping[str, bytes]:
        if not self._path.exists():
            return {}
        return dict(self._connected().execute("SELECT name, value FROM kept"))

    def save(self, changes: Mapping[str, bytes]) -> None:
        connection = self._connected()
        with connection:
            connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", changes.items())

    def erase(self) -> None:
        """The file is overwritten, deleted, and its deletion written to the disk."""
        if self._open is not None:
            self._open.close()
            self._open = None
        if not self._path.exists():
            return
        with self._path.open("r+b") as file:
            file.write(bytes(self._path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        self._path.with_name(self._path.name + "-journal").unlink(missing_ok=True)
        self._path.unlink()
        _sync(self._path.parent)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connected(self) -> sqlite3.Connection:
        if self._open is None:
            self._open = self._opened()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        self._path.touch(mode=0o600)
        keep_private(self._path)
        connection = sqlite3.connect(self._path, timeout=0, check_same_thread=False)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA secure_delete = ON")
            with connection:
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value BLOB)"
                )
        except sqlite3.OperationalError as error:
            connection.close()
            raise StoreError(
                f"the secrets of a round cannot be used: {error}",
                where=str(self._path),
                hint="one helper has one folder of secrets for itself",
            ) from None
        _sync(self._path.parent)
        return connection


def _sync(folder: Path) -> None:
    """What was created or deleted in the folder is so after a crash, too."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The ledger's two files: an SQLite table of entries, and the anchor beside it.

The database's header names the format before anything else is read: `application_id` is
APPLICATION, `user_version` the format. Both are 0 in format 1, whose table lacks the columns that
say whom a round protects. A file of format 1 gets them with the first entry that is added to it.

The anchor holds the newest entry's number and digest, and is replaced as a whole.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from dhdmm import formats
from dhdmm.errors import Refused
from dhdmm.optional import optional_module
from dhdmm.privacy.chain import FORMATS, NEWEST, Checkpoint, Entry, Purpose
from dhdmm.privacy.protection import Protection

fcntl = optional_module("fcntl")

LOCK_SECONDS = 30.0
APPLICATION = int.from_bytes(b"dhdm")

_TABLE = """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, round_id TEXT NOT NULL,
    plan_digest TEXT NOT NULL, rho TEXT NOT NULL, input_digest TEXT NOT NULL,
    time TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL)"""
_FIRST_COLUMNS = (
    "sequence", "kind", "round_id", "plan_digest", "rho", "input_digest", "time", "previous",
    "digest",
)  # fmt: skip
_ADDED_COLUMNS = {
    "format": "INTEGER NOT NULL DEFAULT 1",
    "unit": "TEXT NOT NULL DEFAULT ''",
    "relation": "TEXT NOT NULL DEFAULT ''",
    "identifier": "TEXT NOT NULL DEFAULT ''",
    "max_records": "INTEGER NOT NULL DEFAULT 0",
    "max_participants": "INTEGER NOT NULL DEFAULT 0",
    "study": "TEXT NOT NULL DEFAULT ''",
    "participants": "INTEGER NOT NULL DEFAULT 0",
}


def connect(path: Path) -> sqlite3.Connection:
    """One connection a call: safe across threads, forks and processes."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the directory as well
    return connection


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """A full disk, a torn page or a missing file: the ledger fails closed."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        raise Refused(f"the ledger cannot be used: {error}", where=str(path)) from error


def require_private(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise Refused(
            "the ledger is open to other users", where=str(path), hint="chmod 600 and check it"
        )


# Entries.


def read_entries(connection: sqlite3.Connection, path: Path) -> list[Entry]:
    if _format(connection, path) == 1:
        rows = connection.execute(f"SELECT {', '.join(_FIRST_COLUMNS)} FROM entries ORDER BY 1")
        return [Entry(*row) for row in rows]
    present = _columns(connection)
    chosen = (
        name if name in present else kind.rpartition(" ")[2]  # its default
        for name, kind in _ADDED_COLUMNS.items()
    )
    columns = ", ".join((*_FIRST_COLUMNS, *chosen))
    rows = connection.execute(f"SELECT {columns} FROM entries ORDER BY 1")
    flat, whom = len(_FIRST_COLUMNS) + 1, len(fields(Protection))
    return [
        replace(
            Entry(*row[:flat]),
            protection=Protection(*row[flat : flat + whom]),
            purpose=Purpose(*row[flat + whom :]),
        )
        for row in rows
    ]


def _columns(connection: sqlite3.Connection) -> set[str]:
    """A ledger of an early dhdmm 0.2 says nothing of a round's purpose."""
    return {row[1] for row in connection.execute("PRAGMA table_info(entries)")}


def append(connection: sqlite3.Connection, path: Path, entry: Entry) -> None:
    if _format(connection, path) < NEWEST or not _ADDED_COLUMNS.keys() <= _columns(connection):
        _upgrade(connection)
    first = (getattr(entry, name) for name in _FIRST_COLUMNS)
    purpose = entry.purpose.study, entry.purpose.participants
    values = *first, entry.format, *entry.protection.fields, *purpose
    columns = ", ".join((*_FIRST_COLUMNS, *_ADDED_COLUMNS))
    marks = ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO entries ({columns}) VALUES ({marks})", values)


def _upgrade(connection: sqlite3.Connection) -> None:
    """To all columns of format 2, within the transaction that is open."""
    present = _columns(connection)
    for name, kind in _ADDED_COLUMNS.items():
        if name in present:
            continue
        connection.execute(f"ALTER TABLE entries ADD COLUMN {name} {kind}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {NEWEST}")


def _format(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    formats.readable(formats.LEDGER, version or FORMATS[0], partial(Refused, where=str(path)))
    if (application, version) == (APPLICATION, NEWEST):
        return NEWEST
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if (application, version) != (0, 0) or ("entries",) not in tables:
        raise Refused(
            "the file holds no ledger",
            where=str(path),
            hint="if none was ever used here, move the file away and make a new ledger",
        )
    return FORMATS[0]


# The anchor.


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def read_anchor(path: Path) -> Checkpoint | None:
    try:
        sequence, digest = beside(path, ".anchor").read_text("ascii").split()
    except FileNotFoundError:
        return None
    return Checkpoint(int(sequence), digest)


def write_anchor(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the anchor as a whole, durably: the content first, then its name."""
    target, fresh = beside(path, ".anchor"), beside(path, ".anchor.new")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"{checkpoint.sequence} {checkpoint.digest}\n")
        file.flush()
        os.fsync(file.fileno())
    _rename_durably(fresh, target)


def _rename_durably(fresh: Path, target: Path) -> None:
    fresh.replace(target)
    if os.name == "posix":
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


# A new ledger.


def publish(path: Path, opening: Entry) -> None:
    """Make both files: the whole database under another name, then the anchor, then the name.

    Until the last step there is no ledger, and what was left behind is replaced by the next
    attempt: an anchor at the first entry has seen nothing leave. From the last step on the ledger
    is complete.
    """
    with refusing(path), _alone(path):
        _require_absent(path)
        fresh = beside(path, ".new")
        for left_over in (fresh, beside(fresh, "-journal"), beside(path, "-journal")):
            left_over.unlink(missing_ok=True)  # SQLite would roll an old journal back into the new
        try:
            _write_database(fresh, opening)
            write_anchor(path, Checkpoint(opening.sequence, opening.digest))
            _rename_durably(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)


def _write_database(path: Path, opening: Entry) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLE)
        append(connection, path, opening)
        connection.execute("COMMIT")  # and the content is on the disk


def _require_absent(path: Path) -> None:
    if path.exists():
        raise Refused("cannot create the ledger: there is one already", where=str(path))
    anchor = read_anchor(path)
    if anchor is not None and anchor.sequence > 1:
        raise Refused(
            "an anchor without its ledger: the ledger was removed",
            where=str(path),
            hint="put the ledger back; a new one would forget what was spent",
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time makes a ledger; the lock of one that died is free again."""
    lock = beside(path, ".lock")
    file = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not _is_locked(file, lock):
            raise Refused(
                "another process is making this ledger", where=str(path), hint="try again"
            )
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)  # while it is held: whoever waits for it sees it is gone
    finally:
        os.close(file)


def _is_locked(file: int, lock: Path) -> bool:
    """Held by this process, and under its name still."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), lock.stat())
    except (BlockingIOError, FileNotFoundError):
        return False

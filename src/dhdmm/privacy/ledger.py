"""A participant's own budget: what is set aside, what is spent, and that nobody turned it back.

A round goes absent → reserved → debited, or reserved → cancelled; the last two are final. It is
reserved when the participant joins and debited, durably, just before its masked input leaves. A
debit is never refunded: what has left may have been seen.

Every entry carries the SHA-256 of the one before it. After each change the newest number and
digest are also written to a second file, the anchor. A broken chain, or a ledger behind its anchor
or behind a `Checkpoint` kept elsewhere, refuses everything. docs/accounting.md states the limit:
whoever restores an older copy of both files is not noticed here, only by such a checkpoint.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, fields
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from dhdmm.errors import Refused
from dhdmm.privacy.chain import (
    Checkpoint,
    Entry,
    Kind,
    State,
    conclusion,
    first_entry,
    has_reached,
    replay,
    reservation,
)

LOCK_SECONDS = 30.0
DIGEST_BYTES = 32

_SCHEMA = """CREATE TABLE entries (
    sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, round_id TEXT NOT NULL,
    plan_digest TEXT NOT NULL, rho TEXT NOT NULL, input_digest TEXT NOT NULL,
    time TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL)"""
_COLUMNS = ", ".join(field.name for field in fields(Entry))


class Ledger:
    """The budget in the file `path`. Every call verifies the whole chain first."""

    def __init__(
        self, path: Path, clock: Callable[[], datetime], shown: Checkpoint | None = None
    ) -> None:
        """Open an existing ledger; `shown` is the furthest it has been seen elsewhere."""
        self._path, self._clock, self._shown = path, clock, shown
        with self._reading():
            pass

    @classmethod
    def create(cls, path: Path, budget: Fraction, clock: Callable[[], datetime]) -> Ledger:
        """Start a ledger with a budget in ρ, readable by its owner only."""
        _require_positive(budget)
        if _anchor_path(path).exists() and not path.exists():
            raise Refused("an anchor without its ledger: the ledger was removed", where=str(path))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise Refused(f"cannot create the ledger: {error.strerror}", where=str(path)) from error
        with _refusing(path), closing(_connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_SCHEMA)
            _append(connection, first_entry(budget, clock()))
            connection.execute("COMMIT")
        ledger = cls(path, clock)
        ledger._advance_anchor()
        return ledger

    def reserve(self, plan_digest: bytes, round_id: bytes, rho: Fraction) -> None:
        """Set ρ aside for a round. Repeating it, before or after its debit, changes nothing."""
        _require_positive(rho)
        _require_digest(plan_digest)
        with self._writing() as (connection, state):
            latest = state.latest.get(round_id.hex())
            if latest is not None:
                if latest.kind == Kind.CANCEL:
                    raise self._refused(f"round {round_id.hex()} was cancelled")
                if (latest.plan_digest, latest.rho) != (plan_digest.hex(), str(rho)):
                    raise self._refused(f"round {round_id.hex()} belongs to another plan or rho")
            elif rho > state.remaining:
                raise self._refused(
                    f"the budget has {state.remaining} (about {float(state.remaining):.4g}) left "
                    f"and the round asks for rho = {rho}"
                )
            else:
                _append(connection, reservation(state, self._clock(), round_id, plan_digest, rho))

    def cancel(self, round_id: bytes) -> None:
        """Give back a reservation; only before its debit."""
        with self._writing() as (connection, state):
            latest = self._known(state, round_id)
            if latest.kind == Kind.DEBIT:
                raise self._refused(f"round {round_id.hex()} is debited and never refunded")
            if latest.kind == Kind.RESERVE:
                _append(connection, conclusion(state, self._clock(), Kind.CANCEL, latest))

    def debit(self, round_id: bytes, input_digest: bytes) -> None:
        """Spend a reservation. When this returns, the bytes with this SHA-256 may leave.

        Repeating it is allowed for the same bytes only: other bytes for the same round would
        carry fresh noise or masks, and reveal the input by their difference.
        """
        _require_digest(input_digest)
        with self._writing() as (connection, state):
            latest = self._known(state, round_id)
            if latest.kind == Kind.CANCEL:
                raise self._refused(f"round {round_id.hex()} was cancelled")
            if latest.kind == Kind.RESERVE:
                digest = input_digest.hex()
                _append(connection, conclusion(state, self._clock(), Kind.DEBIT, latest, digest))
            elif latest.input_digest != input_digest.hex():
                raise self._refused(f"round {round_id.hex()} was debited for other bytes")

    def settle(self, round_id: bytes) -> bytes | None:
        """End a round: a reservation that was not spent is given back.

        Gives the SHA-256 of the input it was debited for, if it was.
        """
        latest = self._state().latest.get(round_id.hex())
        if latest is not None and latest.kind == Kind.RESERVE:
            self.cancel(round_id)
        return self.paid_for(round_id)

    def paid_for(self, round_id: bytes) -> bytes | None:
        """The SHA-256 of the input that this round was debited for."""
        latest = self._state().latest.get(round_id.hex())
        if latest is None or latest.kind != Kind.DEBIT:
            return None
        return bytes.fromhex(latest.input_digest)

    def entries(self) -> tuple[Entry, ...]:
        return self._state().entries

    def budget(self) -> Fraction:
        return self._state().budget

    def spent(self) -> Fraction:
        """Debited, for good."""
        return self._state().total(Kind.DEBIT)

    def reserved(self) -> Fraction:
        """Set aside for rounds whose masked input has not left."""
        return self._state().total(Kind.RESERVE)

    def remaining(self) -> Fraction:
        """Neither spent nor reserved."""
        return self._state().remaining

    def checkpoint(self) -> Checkpoint:
        """What to keep elsewhere, and to pass as `shown` when the ledger is opened again."""
        return self._state().checkpoint

    # Transactions.

    def _state(self) -> State:
        with self._reading() as state:
            return state

    @contextmanager
    def _reading(self) -> Iterator[State]:
        with self._transaction("DEFERRED") as (_, state):
            yield state

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, State]]:
        with self._transaction("IMMEDIATE") as opened:
            yield opened
        self._advance_anchor()

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[tuple[sqlite3.Connection, State]]:
        """Verify, act, commit; whatever fails leaves the ledger as it was and refuses."""
        with _refusing(self._path):
            _require_private(self._path)
            with closing(_connect(self._path)) as connection:  # closing rolls back what is open
                connection.execute(f"BEGIN {mode}")
                yield connection, self._verified(connection)
                connection.execute("COMMIT")

    def _verified(self, connection: sqlite3.Connection) -> State:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY sequence")
        state = replay([Entry(*row) for row in rows])
        anchor = _read_anchor(self._path)
        if anchor is None and len(state.entries) > 1:
            raise self._refused("its anchor is missing")
        for seen in (anchor, self._shown):
            if seen is not None and not has_reached(state, seen):
                raise self._refused(
                    f"it is behind entry {seen.sequence}, which it has shown before"
                )
        return state

    def _advance_anchor(self) -> None:
        """Under the write lock and from the newest entry, so that it never moves back."""
        with self._transaction("IMMEDIATE") as (_, state):
            _write_anchor(self._path, state.checkpoint)

    def _known(self, state: State, round_id: bytes) -> Entry:
        if round_id.hex() not in state.latest:
            raise self._refused(f"round {round_id.hex()} was never reserved")
        return state.latest[round_id.hex()]

    def _refused(self, why: str) -> Refused:
        return Refused(f"the ledger refuses: {why}", where=str(self._path))


# Files.


def _append(connection: sqlite3.Connection, entry: Entry) -> None:
    marks = ", ".join("?" for _ in fields(Entry))
    connection.execute(f"INSERT INTO entries ({_COLUMNS}) VALUES ({marks})", astuple(entry))


def _connect(path: Path) -> sqlite3.Connection:
    """One connection a call: safe across threads, forks and processes."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the directory as well
    return connection


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """A full disk, a torn page or a missing file: the ledger fails closed."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        raise Refused(f"the ledger cannot be used: {error}", where=str(path)) from error


def _require_private(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise Refused(
            "the ledger is open to other users", where=str(path), hint="chmod 600 and check it"
        )


def _require_positive(rho: Fraction) -> None:
    if not isinstance(rho, Fraction) or rho <= 0:
        raise Refused(f"a budget is a positive exact fraction, not {rho!r}")


def _require_digest(digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise Refused(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")


def _anchor_path(path: Path) -> Path:
    return path.with_name(path.name + ".anchor")


def _read_anchor(path: Path) -> Checkpoint | None:
    try:
        sequence, digest = _anchor_path(path).read_text("ascii").split()
    except FileNotFoundError:
        return None
    return Checkpoint(int(sequence), digest)


def _write_anchor(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the anchor as a whole, durably: the content first, then its name."""
    target = _anchor_path(path)
    fresh = target.with_name(target.name + ".new")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"{checkpoint.sequence} {checkpoint.digest}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)
    if os.name == "posix":
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

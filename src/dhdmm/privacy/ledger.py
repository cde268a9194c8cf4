"""A participant's own budget: what is set aside, what is spent, and that nobody turned it back.

What a call does to a round, by what the round's newest entry is:

    newest entry    reserve             debit               cancel
    none            → reserve           refused             refused
    reserve         nothing changes     → debit             → cancel
    debit           nothing changes     nothing changes     refused
    cancel          refused             refused             nothing changes

A reservation needs budget that is left. To repeat one, plan and ρ must be the same; to repeat a
debit, the bytes. A round is reserved when the participant joins and debited, durably, just before
its masked input leaves. A debit is never refunded: what has left may have been seen.

Every entry carries the SHA-256 of the one before it. After each change the newest number and
digest are also written to a second file, the anchor. A broken chain, a missing anchor, or a ledger
behind its anchor or behind a `Checkpoint` kept elsewhere, refuses everything. docs/accounting.md
states the limit: whoever restores an older copy of both files is noticed by such a checkpoint only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from dhdmm.errors import Refused
from dhdmm.privacy import ledger_file
from dhdmm.privacy.chain import (
    UNSAID,
    Checkpoint,
    Entry,
    Kind,
    Purpose,
    State,
    conclusion,
    first_entry,
    has_reached,
    is_amount,
    replay,
    reservation,
)
from dhdmm.privacy.protection import Protection

DIGEST_BYTES = 32


class Ledger:
    """The budget in the file `path`. Every call verifies the whole chain first."""

    def __init__(
        self, path: Path, clock: Callable[[], datetime], shown: Checkpoint | None = None
    ) -> None:
        """Open an existing ledger; `shown` is the furthest it has been seen elsewhere."""
        self._path, self._clock, self._shown = path, clock, shown
        with self._reading():
            pass

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return self._path

    @classmethod
    def create(cls, path: Path, budget: Fraction, clock: Callable[[], datetime]) -> Ledger:
        """Start a ledger with a budget in ρ, readable by its owner only."""
        _require_positive(budget)
        ledger_file.publish(path, first_entry(budget, clock()))
        return cls(path, clock)

    def reserve(
        self,
        plan_digest: bytes,
        round_id: bytes,
        rho: Fraction,
        protection: Protection,
        purpose: Purpose = UNSAID,
    ) -> None:
        """Set ρ aside for a round. Repeating it, before or after its debit, changes nothing."""
        _require_positive(rho)
        _require_digest(plan_digest)
        if not round_id or not protection.is_possible:
            raise Refused(f"no round is named '{round_id.hex()}' and protects a {protection}")
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
                now = self._clock()
                about = protection, purpose
                entry = reservation(state, now, round_id, plan_digest, rho, *about)
                self._append(connection, entry)

    def cancel(self, round_id: bytes) -> None:
        """Give back a reservation; only before its debit."""
        with self._writing() as (connection, state):
            latest = self._known(state, round_id)
            if latest.kind == Kind.DEBIT:
                raise self._refused(f"round {round_id.hex()} is debited and never refunded")
            if latest.kind == Kind.RESERVE:
                self._append(connection, conclusion(state, self._clock(), Kind.CANCEL, latest))

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
                now, digest = self._clock(), input_digest.hex()
                self._append(connection, conclusion(state, now, Kind.DEBIT, latest, digest))
            elif latest.input_digest != input_digest.hex():
                raise self._refused(f"round {round_id.hex()} was debited for other bytes")

    def settle(self, round_id: bytes) -> bytes | None:
        """End a round: a reservation that was not spent is given back.

        Gives the SHA-256 of the input it was debited for, if it was.
        """
        latest = self.state().latest.get(round_id.hex())
        if latest is not None and latest.kind == Kind.RESERVE:
            self.cancel(round_id)
        return self.paid_for(round_id)

    def paid_for(self, round_id: bytes) -> bytes | None:
        """The SHA-256 of the input that this round was debited for."""
        latest = self.state().latest.get(round_id.hex())
        if latest is None or latest.kind != Kind.DEBIT:
            return None
        return bytes.fromhex(latest.input_digest)

    def state(self) -> State:
        """All of it, as it is at this moment."""
        with self._reading() as state:
            return state

    def entries(self) -> tuple[Entry, ...]:
        return self.state().entries

    def budget(self) -> Fraction:
        return self.state().budget

    def spent(self) -> Fraction:
        """Debited, for good."""
        return self.state().total(Kind.DEBIT)

    def reserved(self) -> Fraction:
        """Set aside for rounds whose masked input has not left."""
        return self.state().total(Kind.RESERVE)

    def remaining(self) -> Fraction:
        """Neither spent nor reserved."""
        return self.state().remaining

    def checkpoint(self) -> Checkpoint:
        """What to keep elsewhere, and to pass as `shown` when the ledger is opened again."""
        return self.state().checkpoint

    # Transactions.

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
        with ledger_file.refusing(self._path):
            ledger_file.require_private(self._path)
            with closing(ledger_file.connect(self._path)) as connection:  # rolls back what is open
                connection.execute(f"BEGIN {mode}")
                yield connection, self._verified(connection)
                connection.execute("COMMIT")

    def _verified(self, connection: sqlite3.Connection) -> State:
        state = replay(ledger_file.read_entries(connection, self._path))
        anchor = ledger_file.read_anchor(self._path)
        if anchor is None:
            raise self._refused(
                "its anchor is missing",
                "put the anchor back; if nothing was ever spent, move the ledger away and make one",
            )
        for seen in (anchor, self._shown):
            if seen is not None and not has_reached(state, seen):
                raise self._refused(
                    f"it is behind entry {seen.sequence}, which it has shown before"
                )
        return state

    def _advance_anchor(self) -> None:
        """Under the write lock and from the newest entry, so that it never moves back."""
        with self._transaction("IMMEDIATE") as (_, state):
            ledger_file.write_anchor(self._path, state.checkpoint)

    def _known(self, state: State, round_id: bytes) -> Entry:
        if round_id.hex() not in state.latest:
            raise self._refused(f"round {round_id.hex()} was never reserved")
        return state.latest[round_id.hex()]

    def _append(self, connection: sqlite3.Connection, entry: Entry) -> None:
        ledger_file.append(connection, self._path, entry)

    def _refused(self, why: str, hint: str | None = None) -> Refused:
        return Refused(f"the ledger refuses: {why}", where=str(self._path), hint=hint)


def _require_positive(rho: Fraction) -> None:
    if not isinstance(rho, Fraction) or rho <= 0:
        raise Refused(f"a budget is a positive exact fraction, not {rho!r}")
    if not is_amount(rho):
        raise Refused("a budget has too many digits to be written down")


def _require_digest(digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise Refused(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")

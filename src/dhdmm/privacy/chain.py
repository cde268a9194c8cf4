"""The ledger's entries: linked by SHA-256, replayed into a state, without any file.

A round goes absent → reserved → debited, or reserved → cancelled; the last two are final.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from dhdmm.errors import Refused

CHAIN_LABEL = "dhdmm ledger 1"


class Kind(StrEnum):
    OPEN = "open"  # rho is the whole budget
    RESERVE = "reserve"
    CANCEL = "cancel"
    DEBIT = "debit"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger; bytes are in hexadecimal, rho is an exact rational such as 1/10."""

    sequence: int
    kind: str
    round_id: str
    plan_digest: str
    rho: str
    input_digest: str
    time: str
    previous: str
    digest: str

    def expected_digest(self) -> str:
        content = json.dumps([CHAIN_LABEL, *astuple(self)[:-1]], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a ledger had come; kept elsewhere, it unmasks an older copy put in its place."""

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True)
class State:
    """A verified chain, replayed."""

    entries: tuple[Entry, ...]
    budget: Fraction
    latest: dict[str, Entry]  # of each round

    def total(self, kind: Kind) -> Fraction:
        return sum(
            (Fraction(entry.rho) for entry in self.latest.values() if entry.kind == kind),
            Fraction(0),
        )

    @property
    def remaining(self) -> Fraction:
        return self.budget - self.total(Kind.DEBIT) - self.total(Kind.RESERVE)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.entries[-1].sequence, self.entries[-1].digest)


# What each kind of entry must follow in its round; None: nothing.
FOLLOWS = {Kind.RESERVE: None, Kind.CANCEL: Kind.RESERVE, Kind.DEBIT: Kind.RESERVE}


def first_entry(budget: Fraction, time: datetime) -> Entry:
    return _linked(None, time, Kind.OPEN, "", "", budget, "")


def reservation(
    state: State, time: datetime, round_id: bytes, plan_digest: bytes, rho: Fraction
) -> Entry:
    last = state.entries[-1]
    return _linked(last, time, Kind.RESERVE, round_id.hex(), plan_digest.hex(), rho, "")


def conclusion(
    state: State, time: datetime, kind: Kind, reserved: Entry, input_digest: str = ""
) -> Entry:
    """The cancellation or debit of a reservation."""
    rho = Fraction(reserved.rho)
    last, plan_digest = state.entries[-1], reserved.plan_digest
    return _linked(last, time, kind, reserved.round_id, plan_digest, rho, input_digest)


def _linked(
    last: Entry | None,
    time: datetime,
    kind: Kind,
    round_id: str,
    plan_digest: str,
    rho: Fraction,
    input_digest: str,
) -> Entry:
    sequence, previous = (last.sequence + 1, last.digest) if last else (1, "")
    when = time.isoformat()
    bare = Entry(
        sequence, kind, round_id, plan_digest, str(rho), input_digest, when, previous, digest=""
    )
    return replace(bare, digest=bare.expected_digest())


def replay(entries: Sequence[Entry]) -> State:
    """Check every link and every step, so that a forged state cannot be reached either."""
    if not entries:
        raise Refused("the ledger is empty")
    previous = ""
    latest: dict[str, Entry] = {}
    for number, entry in enumerate(entries, start=1):
        linked = entry.sequence == number and entry.previous == previous
        if not linked or entry.digest != entry.expected_digest():
            raise Refused(f"the ledger's chain is broken at entry {number}")
        previous = entry.digest
        if not _in_turn(number, entry, latest.get(entry.round_id)):
            raise Refused(f"entry {number} of the ledger is out of turn")
        if entry.kind != Kind.OPEN:
            latest[entry.round_id] = entry
    return State(tuple(entries), Fraction(entries[0].rho), latest)


def _in_turn(number: int, entry: Entry, before: Entry | None) -> bool:
    if number == 1 or entry.kind == Kind.OPEN:
        return number == 1 and entry.kind == Kind.OPEN
    return FOLLOWS[Kind(entry.kind)] == (before.kind if before else None)


def has_reached(state: State, seen: Checkpoint) -> bool:
    return (
        1 <= seen.sequence <= len(state.entries)
        and state.entries[seen.sequence - 1].digest == seen.digest
    )

"""The ledger's entries: linked by SHA-256, replayed into a state, without any file.

`STEPS` is the whole state machine. `replay` refuses every history that this code could not have
written. Entries of format 1 do not say whom their ρ protects; a chain may begin with them and go
on in format 2, never back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from dhdmm.errors import Refused
from dhdmm.privacy.protection import NOT_RECORDED, Amount, Protection

FORMATS = (1, 2)
NEWEST = FORMATS[-1]
CHAIN_LABEL = "dhdmm ledger {format}"
LONGEST_AMOUNT = 1000  # digits of a numerator or denominator


class Kind(StrEnum):
    OPEN = "open"  # rho is the whole budget
    RESERVE = "reserve"
    CANCEL = "cancel"
    DEBIT = "debit"


KINDS = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class ChainStep:
    """What one kind of entry must follow in its round, and what it does."""

    follows: Kind | None
    frees: int  # of its ρ, into the budget that is left
    names_input: bool


STEPS = {
    Kind.RESERVE: ChainStep(follows=None, frees=-1, names_input=False),
    Kind.CANCEL: ChainStep(follows=Kind.RESERVE, frees=+1, names_input=False),
    Kind.DEBIT: ChainStep(follows=Kind.RESERVE, frees=0, names_input=True),
}


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a round is for, for whoever reads the ledger: its study, and how many take part."""

    study: str = ""
    participants: int = 0


UNSAID = Purpose()


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
    format: int = 1
    protection: Protection = NOT_RECORDED
    purpose: Purpose = UNSAID

    def expected_digest(self) -> str:
        """SHA-256 of a JSON list: the label, the fields up to `previous`, the protection, and the
        purpose if it is said."""
        fields = [CHAIN_LABEL.format(format=self.format), self.sequence, self.kind, self.round_id]
        fields += [self.plan_digest, self.rho, self.input_digest, self.time, self.previous]
        fields += self.protection.fields if self.format >= 2 else ()
        said = self.purpose != UNSAID
        fields += [self.purpose.study, self.purpose.participants] if said else []
        content = json.dumps(fields, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


class Checkpoint(NamedTuple):
    """How far a ledger had come; kept elsewhere, it unmasks an older copy put in its place."""

    sequence: int
    digest: str


@dataclass(frozen=True, slots=True)
class State:
    """A verified chain, replayed."""

    entries: tuple[Entry, ...]
    budget: Fraction
    remaining: Fraction  # neither debited nor reserved
    latest: dict[str, Entry]  # of each round

    def amounts(self, kind: Kind) -> list[Amount]:
        """Of the rounds that stand at this kind of entry: whom each protects, and its ρ."""
        standing = (entry for entry in self.latest.values() if entry.kind == kind)
        return [(entry.protection, Fraction(entry.rho)) for entry in standing]

    def total(self, kind: Kind) -> Fraction:
        return sum((rho for _, rho in self.amounts(kind)), Fraction(0))

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.entries[-1].sequence, self.entries[-1].digest)


# New entries.


def first_entry(budget: Fraction, time: datetime) -> Entry:
    return _linked(None, time, Kind.OPEN, "", "", str(budget), "", NOT_RECORDED)


def reservation(
    state: State,
    time: datetime,
    round_id: bytes,
    plan_digest: bytes,
    rho: Fraction,
    protection: Protection,
    purpose: Purpose = UNSAID,
) -> Entry:
    names = round_id.hex(), plan_digest.hex()
    return _linked(state.entries[-1], time, Kind.RESERVE, *names, str(rho), "", protection, purpose)


def conclusion(
    state: State, time: datetime, kind: Kind, reserved: Entry, input_digest: str = ""
) -> Entry:
    """The cancellation or debit of a reservation."""
    names = reserved.round_id, reserved.plan_digest, reserved.rho
    about = reserved.protection, reserved.purpose
    return _linked(state.entries[-1], time, kind, *names, input_digest, *about)


def _linked(
    last: Entry | None,
    time: datetime,
    kind: Kind,
    round_id: str,
    plan_digest: str,
    rho: str,
    input_digest: str,
    protection: Protection,
    purpose: Purpose = UNSAID,
) -> Entry:
    sequence, previous = (last.sequence + 1, last.digest) if last else (1, "")
    names = kind, round_id, plan_digest, rho, input_digest, time.isoformat()
    bare = Entry(sequence, *names, previous, "", NEWEST, protection, purpose)
    return replace(bare, digest=bare.expected_digest())


# Replay.


def replay(entries: Sequence[Entry]) -> State:
    """Check every link and every step, so that a forged state cannot be reached either."""
    if not entries:
        raise Refused("the ledger is empty")
    latest: dict[str, Entry] = {}
    remaining, last = Fraction(0), None
    for number, entry in enumerate(entries, start=1):
        faults = chain(
            _malformed(entry),
            _unlinked(entry, number, last),
            _impossible(entry, last, latest.get(entry.round_id), remaining),
        )
        for first in faults:  # later ones rely on what the earlier ones check
            raise Refused(f"the ledger's chain is broken at entry {number}: {first}")
        if entry.kind == Kind.OPEN:
            remaining = Fraction(entry.rho)
        else:
            remaining += STEPS[Kind(entry.kind)].frees * Fraction(entry.rho)
            latest[entry.round_id] = entry
        last = entry
    return State(tuple(entries), Fraction(entries[0].rho), remaining, latest)


def _malformed(entry: Entry) -> Iterator[str]:
    """What is not even of the right form: SQLite keeps whatever it is given."""
    protection = entry.protection
    texts = [entry.kind, entry.round_id, entry.plan_digest, entry.rho, entry.input_digest]
    texts += [entry.time, entry.previous, entry.digest]
    texts += [protection.unit, protection.relation, protection.identifier, entry.purpose.study]
    numbers = [entry.sequence, entry.format, protection.max_records, protection.max_participants]
    numbers.append(entry.purpose.participants)
    if not all(isinstance(t, str) for t in texts) or not all(isinstance(n, int) for n in numbers):
        yield "a field has the wrong type"
    elif entry.kind not in KINDS:
        yield "unknown kind"
    elif entry.format not in FORMATS:
        yield "unknown format"
    elif not _is_written_amount(entry.rho):
        yield "rho is no positive fraction in lowest terms"
    elif not _is_time(entry.time):
        yield "its time is none"


def _unlinked(entry: Entry, number: int, last: Entry | None) -> Iterator[str]:
    if entry.sequence != number or entry.previous != (last.digest if last else ""):
        yield "it does not follow the entry before it"
    elif entry.digest != entry.expected_digest():
        yield "its digest is of another content"


def _impossible(
    entry: Entry, last: Entry | None, before: Entry | None, remaining: Fraction
) -> Iterator[str]:
    """What no sequence of calls writes; `before` is the round's entry before this one."""
    if entry.format < (last.format if last else FORMATS[0]):
        yield "it goes back to an older format"
    if last is None or entry.kind == Kind.OPEN:
        if last is not None or entry.kind != Kind.OPEN:
            yield "out of turn"
        if entry.round_id or entry.plan_digest or entry.input_digest:
            yield "the first entry belongs to no round"
        if entry.protection != NOT_RECORDED or entry.purpose != UNSAID:
            yield "the first entry protects nobody"
        return
    step = STEPS[Kind(entry.kind)]
    if step.follows != (before.kind if before else None):
        yield "out of turn"
    if not _is_digest(entry.input_digest) if step.names_input else entry.input_digest:
        yield "the digest of an input belongs to a debit, and to each"
    if before is not None and _terms(entry) != _terms(before):
        yield "it is not for what was reserved"
    if before is None:
        yield from _impossible_reservation(entry, remaining)


def _impossible_reservation(entry: Entry, remaining: Fraction) -> Iterator[str]:
    if not re.fullmatch("([0-9a-f]{2})+", entry.round_id):
        yield "no round has this identifier"
    if not _is_digest(entry.plan_digest):
        yield "no plan has this digest"
    if entry.format == 1 and (entry.protection != NOT_RECORDED or entry.purpose != UNSAID):
        yield "format 1 does not say whom it protects"
    if entry.format >= 2 and not entry.protection.is_possible:
        yield "no study protects like this"
    if Fraction(entry.rho) > remaining:
        yield "there was not enough left"


def _terms(entry: Entry) -> tuple[str, str, Protection, Purpose]:
    return entry.plan_digest, entry.rho, entry.protection, entry.purpose


def is_amount(rho: Fraction) -> bool:
    """Positive, and short enough to be written down."""
    return rho > 0 and max(rho.numerator, rho.denominator) < 10**LONGEST_AMOUNT


def _is_written_amount(text: str) -> bool:
    """As Python writes a fraction: 1/10, never 2/20, 0.1 or -5."""
    digits = f"[1-9][0-9]{{0,{LONGEST_AMOUNT - 1}}}"
    return bool(re.fullmatch(f"{digits}(/{digits})?", text)) and str(Fraction(text)) == text


def _is_digest(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def has_reached(state: State, seen: Checkpoint) -> bool:
    return (
        1 <= seen.sequence <= len(state.entries)
        and state.entries[seen.sequence - 1].digest == seen.digest
    )

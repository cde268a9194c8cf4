"""The rounds that a participant has begun and not ended, and how each of them is ended.

A round is open here from the moment at which something of it is at stake, a seat or a reservation,
until its journal is erased. To give a round up is to settle its reservation and then to erase its
secrets. The ledger decides what a round given up has cost: a debit comes before the masked input
leaves, so a reservation that was not debited is given back, and a debit stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dhdmm import formats
from dhdmm.client.home import Home, now
from dhdmm.client.http import CoordinatorClient, RequestRefused
from dhdmm.client.journal import JOURNAL, NOTE, FileJournal
from dhdmm.client.seat import Member
from dhdmm.errors import DhdmmError
from dhdmm.network.identity import File, read_document
from dhdmm.network.status import Status
from dhdmm.privacy.chain import Entry, Kind
from dhdmm.privacy.ledger import Ledger
from dhdmm.study.spec import Study

UNKNOWN = 404


class Note(File):
    """Where a round is, and since when this participant has been in it. Nothing secret."""

    FORMAT = formats.JOINED
    round: str
    coordinator: str
    study: str
    begun: str


@dataclass(frozen=True)
class Joined:
    """An open round: its note if it has one, what the ledger says, and whether secrets are kept."""

    round_id: bytes
    note: Note | None
    newest: Entry | None
    secrets: bool

    @property
    def paid(self) -> bool:
        return self.newest is not None and self.newest.kind == Kind.DEBIT

    @property
    def rho(self) -> Fraction | None:
        """What is spent or reserved for it."""
        held = self.newest is not None and self.newest.kind in (Kind.RESERVE, Kind.DEBIT)
        return Fraction(self.newest.rho) if held and self.newest else None


def note(round_id: bytes, client: CoordinatorClient, study: Study) -> Note:
    begun = now().isoformat()
    return Note(round=round_id.hex(), coordinator=client.base, study=study.name, begun=begun)


def open_rounds(home: Home, ledgers: Sequence[Ledger]) -> list[Joined]:
    """What has a note or a journal here or is reserved in a ledger; the oldest first."""
    latest = {name: entry for one in ledgers for name, entry in one.state().latest.items()}
    reserved = {name for name, entry in latest.items() if entry.kind == Kind.RESERVE}
    files = {_round_of(path): path for path in _files(home, JOURNAL)}
    notes = {_round_of(path): read_document(Note, path) for path in _files(home, NOTE)}
    found = [
        Joined(bytes.fromhex(name), notes.get(name), latest.get(name), name in files)
        for name in {*reserved, *files, *notes}
    ]
    return sorted(found, key=lambda one: (one.note.begun if one.note else "", one.round_id))


def give_up(home: Home, ledgers: Sequence[Ledger], round_id: bytes) -> bool:
    """End this participant's part in a round; whether it has cost something.

    Refused while another process is in the round. Whoever is given up on is not told.
    """
    if round_id not in [one.round_id for one in open_rounds(home, ledgers)]:
        raise DhdmmError(
            f"no round {round_id.hex()} is open here",
            where=str(home.root),
            hint="dhdmm rounds lists those that are",
        )
    with ExitStack() as held:
        journals = [held.enter_context(journal) for journal in _journals(home, round_id)]
        paid = [ledger.settle(round_id) is not None for ledger in ledgers]
        for journal in journals:
            journal.erase()
    return any(paid)


def unfinished(
    client: CoordinatorClient, member: Member, watch: Callable[[str], None]
) -> Status | None:
    """The round to go on with at this coordinator; those that have ended without us are given up.

    A coordinator is asked about its own rounds only, and says no more than whether they are over.
    """
    for one in open_rounds(member.home, [member.ledger]):
        if one.note is None or one.note.coordinator != client.base:
            continue
        name, status = one.round_id.hex(), _status(client, one.round_id)
        if status is None:
            watch(f"the coordinator has no round {name}; dhdmm rounds --give-up {name} ends it")
        elif not status.over or (one.paid and status.finished):
            watch(f"going on with round {name}, begun here on {one.note.begun[:10]}")
            return status
        else:
            give_up(member.home, [member.ledger], one.round_id)
            cost = "its cost stays, since the input had left" if one.paid else "nothing is spent"
            watch(f"round {name} is {status.state}: {cost}; its secrets are erased")
    return None


def _status(client: CoordinatorClient, round_id: bytes) -> Status | None:
    try:
        return client.status(round_id)
    except RequestRefused as refusal:
        if refusal.status != UNKNOWN:
            raise
        return None


def _files(home: Home, suffix: str) -> list[Path]:
    return sorted(home.journals.glob(f"*{suffix}"))


def _round_of(path: Path) -> str:
    return path.stem.partition("-")[0]


def _journals(home: Home, round_id: bytes) -> Iterator[FileJournal]:
    """One for each identity of this participant that was in the round."""
    files = [*_files(home, JOURNAL), *_files(home, NOTE)]
    for stem in {path.stem for path in files if _round_of(path) == round_id.hex()}:
        yield home.journal(round_id, bytes.fromhex(stem.partition("-")[2]))

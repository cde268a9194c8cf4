"""A round's records as one worker has read them, and what it has yet to append to the log."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from dhdmm.aggregation.method import PENDING, SUM
from dhdmm.server.store import LogEntry, Turn
from dhdmm.session.compact import CompactRecords

KEPT_BYTES = 64 * 2**20
"""Of messages that wait for a helper: what is beyond is read from the log when it is their turn."""


class RoundRecords(MutableMapping[str, bytes]):
    """The store of a coordinator's session. Records are appended, shards of the sum overwritten.

    A record that is deleted is forgotten by the log, too; only the latest under its name is.
    """

    def __init__(self) -> None:
        self._known = CompactRecords()
        self._new: list[tuple[str, bytes]] = []
        self._sums: dict[str, bytes] = {}
        self._passing: dict[str, bytes | None] = {}  # yet to be forgotten; None: only in the log
        self._passing_bytes = 0
        self._places: dict[str, int] = {}  # in the log, of those
        self._forgotten: list[int] = []
        self._sequence = 0
        self._turn: Turn | None = None

    def load(self, turn: Turn) -> None:
        """All that there is."""
        for entry in turn.log_after(0):
            self._note(entry)
        self._sequence, self._turn = turn.row.sequence, turn

    def read(self, turn: Turn) -> list[LogEntry]:
        """What has been appended since the last turn."""
        entries = list(turn.log_after(self._sequence))
        for entry in entries:
            self._note(entry)
        self._sequence, self._turn = turn.row.sequence, turn
        return entries

    def _note(self, entry: LogEntry) -> None:
        if _passes(entry.name):
            self._keep(entry.name, entry.value)
            self._places[entry.name] = entry.sequence
            self._spare(entry.name)
        else:
            self._known[entry.name] = entry.value

    def read_sums(self, turn: Turn) -> None:
        self._known.update(turn.shards())

    def write(self, turn: Turn) -> bool:
        """Whether there was anything new."""
        (new, self._new), (sums, self._sums) = (self._new, []), (self._sums, {})
        if self._forgotten:
            turn.forget(self._forgotten)
            self._forgotten = []
        if new:
            for place, name in turn.append(new):
                self._sequence = place
                if _passes(name):
                    self._places[name] = place
                    self._spare(name)
            for name, value in sums.items():
                turn.put_shard(name, value)
        return bool(new)

    def __setitem__(self, name: str, value: bytes) -> None:
        if _passes(name):
            self._keep(name, value)
        else:
            self._known[name] = value
        if name.startswith(SUM):
            self._sums[name] = value
        else:
            self._new.append((name, value))

    def __getitem__(self, name: str) -> bytes:
        if not _passes(name):
            return self._known[name]
        kept = self._passing[name]
        if kept is not None:
            return kept
        assert self._turn is not None
        return self._turn.logged(self._places[name])

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._passing

    def __delitem__(self, name: str) -> None:
        if not _passes(name):
            raise TypeError("only what has passed is forgotten")
        self._passing_bytes -= len(self._passing.pop(name) or b"")
        if name in self._places:
            self._forgotten.append(self._places.pop(name))
        else:
            self._new = [(one, value) for one, value in self._new if one != name]

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from self._passing

    def __len__(self) -> int:
        return len(self._known) + len(self._passing)

    def _keep(self, name: str, value: bytes) -> None:
        self._passing_bytes += len(value) - len(self._passing.get(name) or b"")
        self._passing[name] = value

    def _spare(self, name: str) -> None:
        """The log has it: if memory holds enough of them, this one is only there."""
        if self._passing_bytes > KEPT_BYTES:
            self._passing_bytes -= len(self._passing[name] or b"")
            self._passing[name] = None


def _passes(name: str) -> bool:
    """Whether this record is kept for a while only."""
    return name.startswith(PENDING)

"""A round's records as one worker has read them, and what it has yet to append to the log."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from dhdmm.aggregation.method import PENDING, SUM
from dhdmm.server.store import LogEntry, Turn


class RoundRecords(MutableMapping[str, bytes]):
    """The store of a coordinator's session. Records are appended, shards of the sum overwritten.

    A record that is deleted is forgotten by the log, too; only the latest under its name is.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._new: list[tuple[str, bytes]] = []
        self._sums: dict[str, bytes] = {}
        self._places: dict[str, int] = {}  # in the log, of what is yet to be forgotten
        self._forgotten: list[int] = []
        self._sequence = 0

    def read(self, turn: Turn) -> list[LogEntry]:
        """What has been appended since the last turn."""
        entries = turn.log_after(self._sequence)
        self._known.update((entry.name, entry.value) for entry in entries)
        self._places.update(
            (entry.name, entry.sequence) for entry in entries if _passes(entry.name)
        )
        self._sequence = turn.row.sequence
        return entries

    def read_sums(self, turn: Turn) -> None:
        self._known.update(turn.shards())

    def write(self, turn: Turn) -> bool:
        """Whether there was anything new."""
        (new, self._new), (sums, self._sums) = (self._new, []), (self._sums, {})
        if self._forgotten:
            turn.forget(self._forgotten)
            self._forgotten = []
        if new:
            first = self._sequence + 1
            self._sequence = turn.append(new)
            self._places.update(
                (name, i) for i, (name, _) in enumerate(new, first) if _passes(name)
            )
            for name, value in sums.items():
                turn.put_shard(name, value)
        return bool(new)

    def __setitem__(self, name: str, value: bytes) -> None:
        self._known[name] = value
        if name.startswith(SUM):
            self._sums[name] = value
        else:
            self._new.append((name, value))

    def __getitem__(self, name: str) -> bytes:
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __delitem__(self, name: str) -> None:
        if not _passes(name):
            raise TypeError("only what has passed is forgotten")
        del self._known[name]
        if name in self._places:
            self._forgotten.append(self._places.pop(name))
        else:
            self._new = [(one, value) for one, value in self._new if one != name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _passes(name: str) -> bool:
    """Whether this record is kept for a while only."""
    return name.startswith(PENDING)

"""A round's records as one worker has read them, and what it has yet to append to the log."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from dhdmm.aggregation.method import PENDING, SUM
from dhdmm.server.store import LogEntry, Turn
from dhdmm.session.compact import CompactRecords

KEPT_BYTES = 64 * 2**20
"""Of messages that wait for a helper; further ones are read from the log when they are needed."""


class RoundRecords(MutableMapping[str, bytes]):
    """The store of a coordinator's session. Records are appended, shards of the sum overwritten.

    Deleting a record deletes its latest row of the log, too.
    """

    def __init__(self) -> None:
        self._known = CompactRecords()
        self._new: list[tuple[str, bytes]] = []
        self._sums: dict[str, bytes] = {}
        self._pending: dict[str, bytes | None] = {}  # deleted again later; None: only in the log
        self._pending_bytes = 0
        self._log_places: dict[str, int] = {}  # in the log, of pending records
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
        if _is_pending(entry.name):
            self._keep(entry.name, entry.value)
            self._log_places[entry.name] = entry.sequence
            self._leave_to_log(entry.name)
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
                if _is_pending(name):
                    self._log_places[name] = place
                    self._leave_to_log(name)
            for name, value in sums.items():
                turn.put_shard(name, value)
        return bool(new)

    def __setitem__(self, name: str, value: bytes) -> None:
        if _is_pending(name):
            self._keep(name, value)
        else:
            self._known[name] = value
        if name.startswith(SUM):
            self._sums[name] = value
        else:
            self._new.append((name, value))

    def __getitem__(self, name: str) -> bytes:
        if not _is_pending(name):
            return self._known[name]
        kept = self._pending[name]
        if kept is not None:
            return kept
        assert self._turn is not None
        return self._turn.logged(self._log_places[name])

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._pending

    def __delitem__(self, name: str) -> None:
        if not _is_pending(name):
            raise TypeError("only pending records can be deleted")
        self._pending_bytes -= len(self._pending.pop(name) or b"")
        if name in self._log_places:
            self._forgotten.append(self._log_places.pop(name))
        else:
            self._new = [(one, value) for one, value in self._new if one != name]

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from self._pending

    def __len__(self) -> int:
        return len(self._known) + len(self._pending)

    def _keep(self, name: str, value: bytes) -> None:
        self._pending_bytes += len(value) - len(self._pending.get(name) or b"")
        self._pending[name] = value

    def _leave_to_log(self, name: str) -> None:
        """The log has it: if memory holds enough of them, this one is only there."""
        if self._pending_bytes > KEPT_BYTES:
            self._pending_bytes -= len(self._pending[name] or b"")
            self._pending[name] = None


def _is_pending(name: str) -> bool:
    """Whether this record is kept for a while only."""
    return name.startswith(PENDING)

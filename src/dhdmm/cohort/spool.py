"""A mapping of byte strings whose long values lie in a file without a name.

For what is too much for memory and of no use after the process: the file was unlinked when it was
made, so it is gone with its owner. A value may be replaced; its place is used again if it fits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, MutableMapping

SHORT = 512
"""Up to here a value is kept in memory: its entry in the table takes as much."""


class Spool(MutableMapping[str, bytes]):
    """As a dictionary; one process, one thread."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._end = 0
        self._short: dict[str, bytes] = {}
        self._long: dict[str, tuple[int, int, int]] = {}  # offset, size, room

    def __setitem__(self, key: str, value: bytes) -> None:
        offset, _, room = self._long.pop(key, (0, 0, 0))
        self._short.pop(key, None)
        if len(value) <= SHORT:
            self._short[key] = value
            return
        if len(value) > room:
            offset, room = self._end, len(value)
            self._end += room
        _write_all(self._file.fileno(), value, offset)
        self._long[key] = offset, len(value), room

    def __getitem__(self, key: str) -> bytes:
        if key in self._long:
            offset, size, _ = self._long[key]
            return os.pread(self._file.fileno(), size, offset)
        return self._short[key]

    def __contains__(self, key: object) -> bool:
        return key in self._short or key in self._long

    def __delitem__(self, key: str) -> None:
        if self._long.pop(key, None) is None:
            del self._short[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._short
        yield from self._long

    def __len__(self) -> int:
        return len(self._short) + len(self._long)

    def close(self) -> None:
        self._file.close()


def _write_all(file: int, value: bytes, offset: int) -> None:
    written = 0
    while written < len(value):
        written += os.pwrite(file, value[written:], offset + written)

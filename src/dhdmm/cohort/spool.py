"""A mapping whose values are in a temporary file: for what is too much for memory.

The file has no name, so it is deleted when its owner ends. A value may be replaced; its place is
used again if the new value fits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, MutableMapping


class Spool(MutableMapping[str, bytes]):
    """As a dictionary; one process, one thread."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._end = 0
        self._places: dict[str, tuple[int, int, int]] = {}  # offset, size, room

    def __setitem__(self, key: str, value: bytes) -> None:
        offset, _, room = self._places.get(key, (0, 0, 0))
        if len(value) > room:
            offset, room = self._end, len(value)
            self._end += room
        self._file.seek(offset)
        self._file.write(value)
        self._places[key] = offset, len(value), room

    def __getitem__(self, key: str) -> bytes:
        offset, size, _ = self._places[key]
        self._file.seek(offset)
        return self._file.read(size)

    def __contains__(self, key: object) -> bool:
        return key in self._places  # without reading the value

    def __delitem__(self, key: str) -> None:
        del self._places[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        self._file.close()

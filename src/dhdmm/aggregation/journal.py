"""What a participant must remember is written here before anything leaves.

A message leaves only after `Journal.write` has kept the state that produced it and its exact bytes.
A participant that restarts resends those bytes or leaves the session for good.
(A journal restored from an older backup breaks this promise; keep none.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

_FIRST = b"dhdmm participant 1"  # of the first format, which ends nowhere
_NUMBERED = re.compile(rb"dhdmm memory ([1-9]\d{0,8})\n")  # of all later ones


class Journal(Protocol):
    """Durable memory of one participant in one session, readable by its owner only."""

    def write(self, state: bytes, outgoing: bytes) -> None:
        """Replace what was written before, durably and all or nothing, before returning."""

    def read(self) -> tuple[bytes, bytes] | None:
        """What `write` was last given."""


class MemoryJournal:
    """A journal as durable as its process: for embedded rounds and for tests."""

    def __init__(self) -> None:
        self._written: tuple[bytes, bytes] | None = None

    def write(self, state: bytes, outgoing: bytes) -> None:
        self._written = state, outgoing

    def read(self) -> tuple[bytes, bytes] | None:
        return self._written


class MemorySecrets:
    """A helper's secrets, as durable as its process: for embedded rounds and for tests."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load(self) -> Mapping[str, bytes]:
        return dict(self._kept)

    def save(self, changes: Mapping[str, bytes]) -> None:
        self._kept.update(changes)

    def erase(self) -> None:
        self._kept.clear()


def format_of(data: bytes) -> int | None:
    """The number of the format that a participant's state in a journal is in; None if it is none.

    >>> format_of(b"dhdmm participant 1..."), format_of(b"dhdmm memory 2\\n..."), format_of(b"")
    (1, 2, None)
    """
    numbered = _NUMBERED.match(data)
    if numbered is not None:
        return int(numbered[1])
    return 1 if data.startswith(_FIRST) else None

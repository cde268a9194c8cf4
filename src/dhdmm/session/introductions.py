"""Before a message that shows other participants' signatures goes who they are, with a proof.

    0x80 ‖ u32 count ‖ count × (u32 position, u16 length, name in UTF-8, 32 bytes Ed25519 key)
         ‖ u32 length ‖ Merkle multiproof of these places of the roster ‖ the message

Whoever has a part of the roster learns from it whose signatures to expect; the message itself is
the aggregation's, unchanged. A message without signatures comes alone: it begins with its version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import MalformedMessage
from dhdmm.aggregation.merkle import NODE_BYTES, expected_proof
from dhdmm.aggregation.roster import Entries, Entry, Roster
from dhdmm.aggregation.wire import Reader

MARK = 0x80
_COUNT = struct.Struct(">I")
_NAMED = struct.Struct(">IH")
_KEY_BYTES = 32


class Introduced(NamedTuple):
    """What stands before a message, and the message."""

    entries: Entries
    proof: bytes
    message: bytes


class Introductions:
    """Of anybody on a roster. All entries are encoded once, one after the other: each is shown to
    many, and entries here and there in memory take longer to find than to copy."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    @cached_property
    def _encoded(self) -> tuple[bytes, NDArray[np.int64]]:
        """Everybody's entry, and where each begins and the last ends."""
        named = [name.encode() for name in self._roster.names]
        entries = [
            _NAMED.pack(position, len(name)) + name + identity
            for position, (name, identity) in enumerate(
                zip(named, self._roster.identities, strict=True)
            )
        ]
        return b"".join(entries), np.cumsum([0, *map(len, entries)])

    def before(self, message: bytes, positions: Sequence[int]) -> bytes:
        """The message after an introduction of those at these positions; alone if of nobody."""
        if not positions:
            return message
        entries, starts = self._encoded
        at = np.array(positions)
        bounds = zip(starts[at].tolist(), starts[at + 1].tolist(), strict=True)
        shown = [entries[start:end] for start, end in bounds]
        proof = self._roster.tree.multiproof(positions)
        head = bytes([MARK]) + _COUNT.pack(len(positions))
        return b"".join([head, *shown, _COUNT.pack(len(proof)), proof, message])


def sizes(participants: int, introduced: NDArray[np.int64], name_bytes: int) -> NDArray[np.int64]:
    """Expected bytes before a message that introduces so many, whose names are that long."""
    each = _NAMED.size + name_bytes + _KEY_BYTES
    proofs = NODE_BYTES * expected_proof(participants, introduced)
    whole: NDArray[np.int64] = 1 + 2 * _COUNT.size + each * introduced + proofs
    return np.where(introduced > 0, whole, 0)


def split(data: bytes) -> Introduced:
    """The inverse; nothing is verified yet."""
    if data[:1] != bytes([MARK]):
        return Introduced({}, b"", data)
    reader = Reader(data[1:])
    entries: dict[int, Entry] = {}
    last = -1
    for _ in range(reader.count()):
        position, length = _NAMED.unpack(reader.take(_NAMED.size))
        name, key = reader.take(length), reader.take(_KEY_BYTES)
        if position <= last:
            raise MalformedMessage("introductions are not in the order of the roster")
        try:
            entries[position], last = Entry(name.decode(), key), position
        except UnicodeDecodeError:
            raise MalformedMessage("a name that is not text") from None
    if not entries:
        raise MalformedMessage("an introduction of nobody")
    return Introduced(entries, reader.take(reader.count()), reader.rest())

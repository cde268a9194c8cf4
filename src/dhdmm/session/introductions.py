"""Before a message that shows other participants' signatures goes who they are, with a proof.

    0x80 ‖ u32 count ‖ count × (u32 position, u16 length, name in UTF-8, 32 bytes Ed25519 key)
         ‖ u32 length ‖ Merkle multiproof of these places of the roster ‖ the message

Whoever has a part of the roster learns from it whose signatures to expect; the message itself is
the aggregation's, unchanged. A message without signatures comes alone: it begins with its version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import MalformedMessage
from dhdmm.aggregation.merkle import NODE_BYTES, expected_proof
from dhdmm.aggregation.roster import Entries, Entry, Roster

MARK = 0x80
_COUNT = struct.Struct(">I")
_NAMED = struct.Struct(">IH")
_KEY_BYTES = 32


class Introduced(NamedTuple):
    """What stands before a message, and the message."""

    entries: Entries
    proof: bytes
    message: bytes


def introduce(roster: Roster, positions: Sequence[int], message: bytes) -> bytes:
    """The message after an introduction of those at these positions; alone if there are none."""
    if not positions:
        return message
    parts = [bytes([MARK]), _COUNT.pack(len(positions))]
    for position in positions:
        name, identity = roster.entry(position)
        encoded = name.encode()
        parts += [_NAMED.pack(position, len(encoded)), encoded, identity]
    proof = roster.tree.multiproof(positions)
    return b"".join([*parts, _COUNT.pack(len(proof)), proof, message])


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
    try:
        return _split(data)
    except (struct.error, UnicodeDecodeError):
        raise MalformedMessage("an introduction that cannot be read") from None


def _split(data: bytes) -> Introduced:
    (count,), at = _COUNT.unpack_from(data, 1), 1 + _COUNT.size
    entries: dict[int, Entry] = {}
    last = -1
    for _ in range(count):
        position, length = _NAMED.unpack_from(data, at)
        at += _NAMED.size
        name, key = data[at : at + length], data[at + length : at + length + _KEY_BYTES]
        at += length + _KEY_BYTES
        if position <= last or len(key) < _KEY_BYTES:
            raise MalformedMessage("introductions are not in the order of the roster, or cut off")
        entries[position], last = Entry(name.decode(), key), position
    (length,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    if not entries or at + length > len(data):
        raise MalformedMessage("an introduction of nobody, or one that is cut off")
    return Introduced(entries, data[at : at + length], data[at + length :])

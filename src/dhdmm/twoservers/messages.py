"""Every message of a round with two servers. docs/protocol.md has them byte by byte.

Numbers continue those of secure aggregation. Between the servers the header's position is 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from dhdmm.aggregation import wire
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.identity import SIGNATURE_BYTES
from dhdmm.aggregation.messages import Aborted, Hash, Message, MessageTypes, Signature, message

__all__ = ["Aborted", "Message"]

TYPES = MessageTypes({Aborted.TYPE: Aborted})
decode, type_of = TYPES.decode, TYPES.type_of
Bytes = Annotated[bytes, wire.Blob()]
Bits = Annotated[Bitmap, wire.Bits()]


class Reported(NamedTuple):
    """A report as the helper sees it, beside its sealed seed."""

    position: int
    vector_hash: bytes
    signature: bytes


REPORTED = wire.Records(
    struct.Struct(">I32s64s"),
    Reported,
    "u32 count, count × (u32 position, 32 bytes, 64 bytes), ascending",
)


@message(TYPES, 0x11)
class HelperKey(Message):
    """Leader to participant: the helper's key of this round, signed by the helper."""

    key: Bytes
    signature: Signature


@message(TYPES, 0x12)
class Report(Message):
    """Participant to leader: all that it says."""

    sealed: Bytes
    vector: Bytes
    signature: Signature


@message(TYPES, 0x13)
class Batch(Message):
    """Leader to helper: reports without their vectors; the sealed seeds are in the same order."""

    reports: Annotated[Sequence[Reported], REPORTED]
    sealed: Bytes


@message(TYPES, 0x14)
class Accepted(Message):
    """Helper to leader: which of a batch it has added up."""

    accepted: Bits


@message(TYPES, 0x15)
class Closing(Message):
    """Leader to helper: whose reports count, and what its own sum is committed to by."""

    members: Bits
    commitment: Hash


@message(TYPES, 0x16)
class HelperSum(Message):
    """Helper to leader, once: the sum of its shares, under one root of the reports."""

    root: Hash
    vector: Bytes
    signature: Signature


@message(TYPES, 0x17)
class KeyRequest(Message):
    """Leader to helper: which key participants are to seal to."""


def vector_in(report: bytes, size: int) -> bytes:
    """The vector of a report that was decoded before, without decoding it again."""
    end = len(report) - SIGNATURE_BYTES
    return report[end - size : end]

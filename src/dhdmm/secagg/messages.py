"""Every message of both protocols, as a frozen value with one encoding.

A message begins with version, type, session and the roster position of the participant it comes
from or goes to; the fields follow in the order of the class, in the layouts its annotations name.
After the Merkle root is known, the malicious model's messages carry session' = H(session ‖ root).

A *neighbourhood* is the ordered list of neighbours in the (Proven)Neighbours message. Later
messages refer to it by bitmaps over that list and by lists that follow its order, so no position is
sent twice. Types are numbered in the order in which they occur.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

from dhdmm.aggregation import wire
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import MalformedMessage
from dhdmm.aggregation.lists import RecordTable
from dhdmm.aggregation.messages import Aborted, Hash, Message, MessageTypes, Signature, message
from dhdmm.secagg.keys import EVIDENCE_BYTES, SEAL_OVERHEAD
from dhdmm.secagg.shamir import SHARE_BYTES

__all__ = ["MESSAGES", "Aborted", "Message", "decode", "type_of"]

CIPHERTEXT_BYTES = 2 * SHARE_BYTES + SEAL_OVERHEAD  # a seed share and a mask-key share, sealed


class Direction(IntEnum):
    """Which way an edge of the malicious model's graph points, seen from the receiver."""

    OUT = 1  # the receiver chose this neighbour, which will hold the receiver's shares
    IN = 2  # this neighbour chose the receiver
    BOTH = 3


class ShareKind(IntEnum):
    """Which of a participant's two secrets a revealed share belongs to."""

    SEED = 0  # of b, for a survivor
    MASK_KEY = 1  # of sk¹, for one that dropped out


class PublicKeys(NamedTuple):
    """A neighbour's keys in the semi-honest model."""

    position: int
    mask_key: bytes  # pk¹
    channel_key: bytes  # pk²


class SignedPublicKeys(NamedTuple):
    """A neighbour's keys in the malicious model, signed by its identity."""

    position: int
    direction: int
    mask_key: bytes
    channel_key: bytes
    signature: bytes


class Reveal(NamedTuple):
    """One share of one neighbour. There is one record per neighbour, so never both kinds."""

    position: int
    kind: int
    share: bytes


Key = Annotated[bytes, wire.Fixed(32)]
Bits = Annotated[Bitmap, wire.Bits()]
Evidence = Annotated[Sequence[bytes], wire.Items(EVIDENCE_BYTES, writes_size=True)]
Ciphertexts = Annotated[Sequence[bytes], wire.Items(CIPHERTEXT_BYTES)]
NEIGHBOURS = wire.Records(
    struct.Struct(">I32s32s"), PublicKeys, "u32 count, count × (u32 position, pk¹, pk²), ascending"
)
SIGNED_NEIGHBOURS = wire.Records(
    struct.Struct(">IB32s32s64s"),
    SignedPublicKeys,
    "u32 count, count × (u32 position, u8 direction, pk¹, pk², signature), ascending",
)
REVEALS = wire.Records(
    struct.Struct(f">IB{SHARE_BYTES}s"),
    Reveal,
    f"u32 count, count × (u32 position, u8 kind, {SHARE_BYTES} bytes share), ascending",
)


TYPES = MessageTypes()


@message(TYPES, 0x01)
class Keys(Message):
    """Semi-honest step 2: the participant's public keys, pk¹ for masks and pk² for channels."""

    mask_key: Key
    channel_key: Key


@message(TYPES, 0x02)
class SignedKeys(Keys):
    """Malicious step 1: public keys signed by the participant's identity."""

    signature: Signature


@message(TYPES, 0x03)
class Root(Message):
    """Malicious step 1 ends: the Merkle root over everybody's signed keys."""

    root: Hash


@message(TYPES, 0x04)
class Choice(Message):
    """Malicious step 2: the out-neighbours the participant drew for itself."""

    out_neighbours: Annotated[tuple[int, ...], wire.Positions()]


@message(TYPES, 0x05)
class Neighbours(Message):
    """Semi-honest step 3 begins: the receiver's neighbours that sent keys."""

    neighbours: Annotated[Sequence[PublicKeys], NEIGHBOURS]


@message(TYPES, 0x06)
class ProvenNeighbours(Message):
    """Malicious step 2 ends: keys of out- and in-neighbours and one Merkle multiproof for all."""

    neighbours: Annotated[Sequence[SignedPublicKeys], SIGNED_NEIGHBOURS]
    proof: Annotated[bytes, wire.Blob()]

    def __post_init__(self) -> None:
        if not _second_fields(self.neighbours) <= {1, 2, 3}:
            raise MalformedMessage("an edge without a direction")


@message(TYPES, 0x07)
class Shares(Message):
    """Step 3: sealed shares for the present out-neighbours, in order, and a commitment to b_i."""

    seed_commitment: Hash
    ciphertexts: Ciphertexts


@message(TYPES, 0x08)
class RelayedShares(Message):
    """Step 4 begins: which neighbours have shared, and what those said who chose the receiver."""

    shared: Bits
    ciphertexts: Ciphertexts


@message(TYPES, 0x09)
class MaskedInput(Message):
    """Semi-honest step 4: y_i, packed."""

    vector: Annotated[bytes, wire.Blob()]


@message(TYPES, 0x0A)
class EvidencedInput(MaskedInput):
    """Malicious step 4: y_i, M_i over the neighbourhood, evidence to each member of M_i."""

    included: Bits
    evidence: Evidence


@message(TYPES, 0x0B)
class Survivors(Message):
    """Semi-honest step 5: who is in A2, over the roster."""

    alive: Bits


@message(TYPES, 0x0C)
class EvidencedSurvivors(Survivors):
    """Malicious step 5: A2 over the roster, "included" evidence from each alive neighbour."""

    evidence: Evidence


@message(TYPES, 0x0D)
class Acks(Message):
    """Malicious step 5: evidence to each alive in-neighbour of having accepted this bitmap."""

    evidence: Evidence


@message(TYPES, 0x0E)
class RelayedAcks(Message):
    """Malicious step 6 begins: which neighbours acked, over the neighbourhood, and their acks."""

    acked: Bits
    evidence: Evidence


@message(TYPES, 0x0F)
class Unmask(Message):
    """Step 6: one share of every neighbour whose shares the sender holds."""

    reveals: Annotated[Sequence[Reveal], REVEALS]

    def __post_init__(self) -> None:
        if not _second_fields(self.reveals) <= {0, 1}:
            raise MalformedMessage("a share of neither kind")


TYPES[Aborted.TYPE] = Aborted
MESSAGES = tuple(TYPES.values())
decode, type_of = TYPES.decode, TYPES.type_of


def _second_fields(records: Sequence[tuple[Any, ...]]) -> set[int]:
    if isinstance(records, RecordTable):
        return set(records.columns["f1"].tolist())
    return {record[1] for record in records}

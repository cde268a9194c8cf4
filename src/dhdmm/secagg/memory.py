"""What a participant must remember, and the promise that it is remembered before anything leaves.

A message leaves only after `Journal.write` has kept the state that produced it and its exact bytes.
A participant that restarts resends those bytes or leaves the session for good: it never draws again
what was already used, accepts no second root or bitmap, and never reveals the other kind of share.
(A journal restored from an older backup breaks this promise; keep none.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from dhdmm.aggregation import wire
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError
from dhdmm.aggregation.journal import format_of
from dhdmm.aggregation.lists import Encoded
from dhdmm.secagg.channels import Neighbour
from dhdmm.secagg.shamir import SHARE_BYTES
from dhdmm.secagg.states import ParticipantState


class Seen(NamedTuple):
    """A message that was acted upon: its type and the SHA-256 of its bytes."""

    type: int
    digest: bytes


class Held(NamedTuple):
    """A neighbour's two shares, seed share first."""

    position: int
    pair: bytes


_FORMAT = b"dhdmm participant 1"


@dataclass(slots=True, repr=False)
class Memory:
    """Everything from which a participant resumes. An empty field is not known yet, or erased."""

    session: Annotated[bytes, wire.Fixed(32)]
    position: Annotated[bytes, wire.Fixed(4)]
    state: Annotated[ParticipantState, wire.Word("state", ParticipantState)] = (
        ParticipantState.START
    )
    reason: Annotated[AbortReason | None, wire.Optional(wire.Word("reason", AbortReason))] = None
    seen: Annotated[
        tuple[Seen, ...], wire.Records(struct.Struct(">B32s"), Seen, "messages acted upon")
    ] = ()
    mask_secret: Annotated[bytes, wire.Blob()] = b""
    channel_secret: Annotated[bytes, wire.Blob()] = b""
    seed: Annotated[bytes, wire.Blob()] = b""
    root: Annotated[bytes, wire.Blob()] = b""
    signature: Annotated[bytes, wire.Blob()] = b""
    out_neighbours: Annotated[tuple[int, ...], wire.Positions()] = ()
    neighbours: Annotated[
        tuple[Neighbour, ...],
        wire.Records(struct.Struct(">IB32s32s"), Neighbour, "the neighbourhood"),
    ] = ()
    included: Annotated[Bitmap, wire.Bits()] = field(default=Bitmap(0, b""))
    held: Annotated[
        tuple[Held, ...],
        wire.Records(struct.Struct(f">I{2 * SHARE_BYTES}s"), Held, "shares held for others"),
    ] = ()
    alive: Annotated[Bitmap, wire.Bits()] = field(default=Bitmap(0, b""))
    _written: dict[str, tuple[object, bytes]] = field(default_factory=dict, compare=False)

    def encode(self) -> bytes:
        return _FORMAT + b"".join([self._field(name, codec) for name, codec in wire.layout(Memory)])

    def _field(self, name: str, codec: wire.Codec) -> bytes:
        """Values never change, they are replaced: one that is still there is encoded already."""
        value, (known, encoded) = getattr(self, name), self._written.get(name, (None, b""))
        if known is not value or value is None:
            encoded = codec.encode(value)
            self._written[name] = value, encoded
        return encoded

    @classmethod
    def decode(cls, data: bytes) -> Memory:
        if format_of(data) != 1:
            raise LocalProtocolError(
                f"memory format {format_of(data)}; this version reads format 1"
            )
        reader = wire.Reader(data[len(_FORMAT) :])
        fields: list[Any] = wire.decode_fields(cls, reader)
        reader.finish()
        return cls(*[_plain(value) for value in fields])


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Encoded) else value

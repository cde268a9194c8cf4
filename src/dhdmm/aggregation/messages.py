"""What all messages have in common: a header, fields in the layouts of `wire`, and one encoding.

A message begins with version, type, session and the roster position of the participant it comes
from or goes to; the fields follow in the order of the class, in the layouts its annotations name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, dataclass_transform

from dhdmm.aggregation import wire
from dhdmm.aggregation.errors import AbortReason, MalformedMessage

VERSION = 1
_HEADER = struct.Struct(">BB32sI")
HEADER_BYTES = _HEADER.size

Hash = Annotated[bytes, wire.Fixed(32)]
Signature = Annotated[bytes, wire.Fixed(64)]


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """What every message carries: the session it belongs to and the participant it concerns."""

    TYPE: ClassVar[int]

    session: bytes
    position: int

    def encode(self) -> bytes:
        header = _HEADER.pack(VERSION, self.TYPE, self.session, self.position)
        return header + wire.encode_fields(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of participant {self.position}>"


class MessageTypes(dict[int, type[Message]]):
    """The messages of a way to add up, by their numbers on the wire."""

    def decode(self, data: bytes) -> Message:
        """Read a message of any of these types, or refuse it with `MalformedMessage`."""
        reader = wire.Reader(data)
        version, code, session, position = _HEADER.unpack(reader.take(_HEADER.size))
        if version != VERSION:
            raise MalformedMessage(f"version {version} is unknown; this is version {VERSION}")
        if code not in self:
            raise MalformedMessage(f"type {code:#04x} is unknown")
        kind = self[code]
        message = kind(session, position, *wire.decode_fields(kind, reader))
        reader.finish()
        return message

    def type_of(self, data: bytes) -> type[Message] | None:
        """Of a message by its number, whatever follows."""
        return self.get(data[1]) if len(data) >= HEADER_BYTES else None


@dataclass_transform(frozen_default=True)
def message(types: MessageTypes, number: int) -> Callable[[type[Message]], Any]:
    """A class decorator: a frozen value with this number on the wire, among these types."""

    def decorate(declared: type[Message]) -> type[Message]:
        made = dataclass(frozen=True, slots=True, repr=False)(declared)
        made.TYPE = number
        types[number] = made
        return made

    return decorate


@message(MessageTypes(), 0x10)
class Aborted(Message):
    """Either way, at any time: the sender has left the session for good, and why."""

    reason: Annotated[AbortReason, wire.Word("u8 length, the reason in ASCII", AbortReason)]

"""The alphabet of the wire format: how one field of a message is written, and the strict way back.

Integers are big-endian and unsigned. Every list carries its length, so a message is decoded
without context; whether a length *fits the round* is for the state machines to say. There is one
encoding of every value: unsorted positions, set padding bits, leftover and missing bytes are
errors. docs/protocol.md describes the same layouts in words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import starmap
from operator import lt
from typing import Any, Protocol, get_type_hints

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import MalformedMessage
from dhdmm.aggregation.lists import RecordTable, Slots

_COUNT = struct.Struct(">I")
COUNT_BYTES = _COUNT.size


class Reader:
    """The bytes of one message, consumed from the left."""

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def take(self, size: int) -> bytes:
        end = self._offset + size
        if end > len(self._data):
            raise MalformedMessage("bytes are missing")
        taken, self._offset = self._data[self._offset : end], end
        return taken

    def count(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._offset)

    @property
    def finished(self) -> bool:
        return self._offset == len(self._data)

    def finish(self) -> None:
        if not self.finished:
            raise MalformedMessage("bytes are left over")


class Codec(Protocol):
    """How one field is written and read."""

    words: str  # for docs/protocol.md

    def encode(self, value: Any) -> bytes: ...

    def decode(self, reader: Reader) -> Any: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly `size` bytes."""

    size: int

    @property
    def words(self) -> str:
        return f"{self.size} bytes"

    def encode(self, value: bytes) -> bytes:
        if len(value) != self.size:
            raise MalformedMessage(f"a field of {self.size} bytes has {len(value)}")
        return value

    def decode(self, reader: Reader) -> bytes:
        return reader.take(self.size)


@dataclass(frozen=True, slots=True)
class Word:
    """One member of an enumeration of ASCII words."""

    words: str
    choices: type[StrEnum]

    def encode(self, value: StrEnum) -> bytes:
        return bytes((len(value),)) + value.encode("ascii")

    def decode(self, reader: Reader) -> StrEnum:
        (size,) = reader.take(1)
        word = reader.take(size)
        for choice in self.choices:
            if choice.encode("ascii") == word:
                return choice
        raise MalformedMessage("an unknown word")


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or None."""

    of: Codec

    @property
    def words(self) -> str:
        return f"0x00, or 0x01 and {self.of.words}"

    def encode(self, value: Any) -> bytes:
        return b"\x00" if value is None else b"\x01" + self.of.encode(value)

    def decode(self, reader: Reader) -> Any:
        (present,) = reader.take(1)
        if present > 1:
            raise MalformedMessage("neither present nor absent")
        return self.of.decode(reader) if present else None


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes of any length."""

    words = "u32 length, the bytes"

    def encode(self, value: bytes) -> bytes:
        return _COUNT.pack(len(value)) + value

    def decode(self, reader: Reader) -> bytes:
        return reader.take(reader.count())


@dataclass(frozen=True, slots=True)
class Bits:
    """A `Bitmap`."""

    words = "u32 size, ⌈size/8⌉ bytes, lowest bit first, padding zero"

    def encode(self, value: Bitmap) -> bytes:
        return _COUNT.pack(value.size) + value.data

    def decode(self, reader: Reader) -> Bitmap:
        size = reader.count()
        return Bitmap(size, reader.take((size + 7) // 8))


@dataclass(frozen=True, slots=True)
class Items:
    """A list of byte strings of one size, which may be written first."""

    size: int
    writes_size: bool = False

    @property
    def words(self) -> str:
        if self.writes_size:
            return f"u8 size ({self.size}), u32 count, count × size bytes"
        return f"u32 count, count × {self.size} bytes"

    def encode(self, value: Sequence[bytes]) -> bytes:
        return self._size_written + _COUNT.pack(len(value)) + _join(value, self.size)

    def decode(self, reader: Reader) -> Slots:
        if reader.take(len(self._size_written)) != self._size_written:
            raise MalformedMessage(f"items that are not said to have {self.size} bytes")
        return Slots(reader.take(reader.count() * self.size), self.size)

    @property
    def _size_written(self) -> bytes:
        return bytes((self.size,)) if self.writes_size else b""


@dataclass(frozen=True, slots=True)
class Records:
    """A list of records in strictly ascending order of their first field, a roster position."""

    layout: struct.Struct
    make: Callable[..., tuple[Any, ...]]
    words: str

    def encode(self, value: Sequence[tuple[Any, ...]]) -> bytes:
        if isinstance(value, RecordTable):
            return _COUNT.pack(len(value)) + value.data
        _require_ascending([record[0] for record in value])
        return _COUNT.pack(len(value)) + b"".join(starmap(self.layout.pack, value))

    def decode(self, reader: Reader) -> RecordTable:
        table = self.table(reader.take(reader.count() * self.layout.size))
        first = table.columns["f0"]
        if not (first[1:] > first[:-1]).all():
            raise MalformedMessage("positions are not in ascending order")
        return table

    def table(self, data: bytes) -> RecordTable:
        """Records that are encoded already."""
        return RecordTable(data, self.layout, self.make)


@dataclass(frozen=True, slots=True)
class Positions:
    """Roster positions in strictly ascending order."""

    words = "u32 count, count × u32, strictly ascending"

    def encode(self, value: tuple[int, ...]) -> bytes:
        _require_ascending(value)
        return _COUNT.pack(len(value)) + np.array(value, dtype=">u4").tobytes()

    def decode(self, reader: Reader) -> tuple[int, ...]:
        value = tuple(np.frombuffer(reader.take(4 * reader.count()), dtype=">u4").tolist())
        _require_ascending(value)
        return value


Layout = tuple[tuple[str, Codec], ...]


def _layout(record: type) -> Layout:
    """The fields of a dataclass whose annotations name a codec, in order."""
    hints = get_type_hints(record, include_extras=True).items()
    return tuple((name, hint.__metadata__[0]) for name, hint in hints if _is_annotated(hint))


layout: Callable[[type], Layout] = cache(_layout)


def values(record: object) -> tuple[Any, ...]:
    """The values of those fields."""
    return tuple([getattr(record, name) for name, _ in layout(type(record))])


def encode_fields(record: object) -> bytes:
    """Those fields, one after another."""
    return b"".join([codec.encode(getattr(record, name)) for name, codec in layout(type(record))])


def decode_fields(record: type, reader: Reader) -> list[Any]:
    """Their values, in order."""
    return [codec.decode(reader) for _, codec in layout(record)]


def _is_annotated(hint: object) -> bool:
    return hasattr(hint, "__metadata__")


def _require_ascending(positions: Sequence[int]) -> None:
    if not all(map(lt, positions, positions[1:])):
        raise MalformedMessage("positions are not in ascending order")


def _join(items: Sequence[bytes], size: int) -> bytes:
    if isinstance(items, Slots) and items.size == size:
        return items.data
    if not set(map(len, items)) <= {size}:
        raise MalformedMessage(f"an item is not {size} bytes long")
    return b"".join(items)

"""Vectors over Z_m: arithmetic, and their packed form on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError

_BITS = np.array([1 << bit for bit in range(8)], dtype=np.uint8)

Vector = NDArray[Any]  # of Modulus.dtype
SUMMED_TOGETHER = 257
"""So many bytes add up to less than 2^16."""
_VALUES = frozenset(1 << bits for bits in range(1, 64))


@dataclass(frozen=True)
class Modulus:
    """m = 2ᵇ with 1 ≤ b ≤ 63.

    Working vectors have `dtype`. Their words may overflow, because 2ᵇ divides 2³² and 2⁶⁴;
    `reduce` makes them residues.
    """

    value: int

    def __post_init__(self) -> None:
        if self.value not in _VALUES:
            raise LocalProtocolError(f"modulus {self.value} is not 2^b with 1 ≤ b ≤ 63")

    @cached_property
    def bits(self) -> int:
        """Bits of a residue."""
        return self.value.bit_length() - 1

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest word that holds a residue."""
        return np.dtype("<u4" if self.bits <= 32 else "<u8")

    def zeros(self, length: int) -> Vector:
        return np.zeros(length, dtype=self.dtype)

    def residues(self, integers: NDArray[np.int64]) -> Vector:
        """Signed integers modulo m."""
        return self.reduce(integers.astype(self.dtype))  # two's complement does it

    def add(self, accumulator: Vector, vector: Vector) -> None:
        """accumulator + vector in place."""
        np.add(accumulator, vector, out=accumulator)

    def reduce(self, vector: Vector) -> Vector:
        """Residues in [0, m)."""
        residues: Vector = vector & self.dtype.type(self.value - 1)
        return residues

    def signed(self, vector: Vector) -> NDArray[np.int64]:
        """The representatives in [−m/2, m/2)."""
        residues = self.reduce(vector).astype(np.uint64)
        negative = residues >= self.value // 2
        return np.where(negative, residues - np.uint64(self.value), residues).view(np.int64)


class SumRange(NamedTuple):
    """So many coordinates that follow each other, whose sums are in [low, low + 2^bits)."""

    rows: int
    low: int
    bits: int


def packed_size(modulus: Modulus, length: int) -> int:
    """Bytes of a packed vector: within 7 of ⌈length · bits / 8⌉."""
    return length * (modulus.bits // 8) + modulus.bits % 8 * _bitmap_size(length)


def pack(modulus: Modulus, vector: Vector) -> bytes:
    """Residues as planes: the lowest bytes of all values, the next bytes of all values, …, then the
    left-over high bits, one plane per bit, eight values to a byte, the first value lowest.

    Higher bits are left out, which reduces the values modulo m."""
    columns = np.ascontiguousarray(vector).view(np.uint8)
    columns = columns.reshape(len(vector), modulus.dtype.itemsize)
    whole, left_over = divmod(modulus.bits, 8)
    planes = [columns[:, byte] for byte in range(whole)]
    if left_over:
        top = columns[:, whole] & _BITS[:left_over, None]
        planes.append(np.packbits(top, axis=1, bitorder="little"))
    return b"".join(plane.tobytes() for plane in planes)


def require_packed(modulus: Modulus, length: int, packed: bytes) -> None:
    """Refuse what `pack` does not give: another size, or padding that is not zero."""
    if len(packed) != packed_size(modulus, length):
        raise RemoteProtocolError(AbortReason.MALFORMED, "masked vector of the wrong size")
    if not length % 8:
        return
    plane = _bitmap_size(length)
    ends = range(length * (modulus.bits // 8) + plane - 1, len(packed), plane)
    if any(packed[end] >> length % 8 for end in ends):
        raise RemoteProtocolError(AbortReason.MALFORMED, "padding is not zero")


def unpack(modulus: Modulus, length: int, packed: bytes) -> Vector:
    """The inverse of `pack`, strict: see `require_packed`."""
    require_packed(modulus, length, packed)
    data = np.frombuffer(packed, dtype=np.uint8)
    whole, left_over = divmod(modulus.bits, 8)
    columns = np.zeros((length, modulus.dtype.itemsize), dtype=np.uint8)
    for byte in range(whole):
        columns[:, byte] = data[byte * length : (byte + 1) * length]
    if left_over:
        planes = _high_bits(modulus, length, packed)
        bits = np.unpackbits(planes, axis=1, count=length, bitorder="little")
        columns[:, whole] = np.einsum("i,ij->j", _BITS[:left_over], bits)
    return columns.view(modulus.dtype)[:, 0]


def summed(modulus: Modulus, length: int, packed: NDArray[np.uint8]) -> Vector:
    """The sum of at most `SUMMED_TOGETHER` packed vectors, (vectors, bytes), plane by plane.

    Each has passed `require_packed`.
    """
    whole, left_over = divmod(modulus.bits, 8)
    end, total = whole * length, np.zeros(length, np.uint64)
    octets = packed[:, :end].sum(axis=0, dtype=np.uint16).reshape(whole, length)
    for byte, plane in enumerate(octets):
        total += plane.astype(np.uint64) << np.uint64(8 * byte)
    planes = packed[:, end:].reshape(len(packed), left_over, _bitmap_size(length))
    bits = np.unpackbits(planes, axis=2, count=length, bitorder="little")
    for bit, plane in enumerate(bits.sum(axis=0, dtype=np.uint16), 8 * whole):
        total += plane.astype(np.uint64) << np.uint64(bit)
    return total.astype(modulus.dtype)


def _high_bits(modulus: Modulus, length: int, packed: bytes) -> NDArray[np.uint8]:
    """The planes of single bits; none if residues are whole bytes."""
    whole, left_over = divmod(modulus.bits, 8)
    data = np.frombuffer(packed, dtype=np.uint8)[whole * length :]
    return data.reshape(left_over, _bitmap_size(length))


def _bitmap_size(length: int) -> int:
    return (length + 7) // 8

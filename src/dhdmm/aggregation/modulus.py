"""Vectors over Z_m: arithmetic, and their packed form on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError

_BITS = np.array([1 << bit for bit in range(8)], dtype=np.uint8)

Vector = NDArray[Any]  # of Modulus.dtype
Sign = Literal[1, -1]


@dataclass(frozen=True)
class Modulus:
    """m = 2ᵇ with 1 ≤ b ≤ 63, or a prime below 2⁶³.

    Working vectors have `dtype`. Modulo 2ᵇ their words are reduced lazily (overflow is harmless,
    2ᵇ divides 2³² and 2⁶⁴); modulo a prime they are residues. `reduce` makes them residues.
    """

    value: int

    def __post_init__(self) -> None:
        m = self.value
        if not 2 <= m <= 2**63 or not (self.is_power_of_two or is_prime(m)):
            raise LocalProtocolError(f"modulus {m} is neither 2^b (b ≤ 63) nor a prime below 2^63")

    @cached_property
    def is_power_of_two(self) -> bool:
        return self.value & (self.value - 1) == 0

    @cached_property
    def bits(self) -> int:
        """Bits of a residue."""
        return (self.value - 1).bit_length()

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest word that holds a residue and, modulo a prime, the sum of two."""
        small = self.bits <= (32 if self.is_power_of_two else 31)
        return np.dtype("<u4" if small else "<u8")

    def zeros(self, length: int) -> Vector:
        return np.zeros(length, dtype=self.dtype)

    def residues(self, integers: NDArray[np.int64]) -> Vector:
        """Signed integers modulo m."""
        if self.is_power_of_two:
            return self.reduce(integers.astype(self.dtype))  # two's complement does it
        return (integers % self.value).astype(self.dtype)

    def add(self, accumulator: Vector, vector: Vector, sign: Sign = 1) -> None:
        """accumulator ± vector in place."""
        if self.is_power_of_two:
            (np.add if sign > 0 else np.subtract)(accumulator, vector, out=accumulator)
            return
        m = self.dtype.type(self.value)
        accumulator += vector if sign > 0 else m - vector
        # below 2m without overflow; the word a−m wraps to a large one exactly if a < m
        np.minimum(accumulator, accumulator - m, out=accumulator)

    def reduce(self, vector: Vector) -> Vector:
        """Residues in [0, m)."""
        return vector & self.dtype.type(self.value - 1) if self.is_power_of_two else vector

    def signed(self, vector: Vector) -> NDArray[np.int64]:
        """The representatives in [−m/2, m/2)."""
        residues = self.reduce(vector).astype(np.uint64)
        negative = residues >= (self.value + 1) // 2
        return np.where(negative, residues - np.uint64(self.value), residues).view(np.int64)


def packed_size(modulus: Modulus, length: int) -> int:
    """Bytes of a packed vector: within 7 of ⌈length · bits / 8⌉."""
    return length * (modulus.bits // 8) + modulus.bits % 8 * _bitmap_size(length)


def pack(modulus: Modulus, vector: Vector) -> bytes:
    """Residues as planes: the lowest bytes of all values, the next bytes of all values, …, then the
    left-over high bits, one plane a bit, eight values to a byte, the first value lowest.

    Bits above those are not looked at: modulo 2ᵇ that is the reduction."""
    columns = np.ascontiguousarray(vector).view(np.uint8)
    columns = columns.reshape(len(vector), modulus.dtype.itemsize)
    whole, left_over = divmod(modulus.bits, 8)
    planes = [columns[:, byte] for byte in range(whole)]
    if left_over:
        top = columns[:, whole] & _BITS[:left_over, None]
        planes.append(np.packbits(top, axis=1, bitorder="little"))
    return b"".join(plane.tobytes() for plane in planes)


def unpack(modulus: Modulus, length: int, packed: bytes) -> Vector:
    """The inverse of `pack`, strict: exact size, zero padding, every value below m."""
    if len(packed) != packed_size(modulus, length):
        raise RemoteProtocolError(AbortReason.MALFORMED, "masked vector of the wrong size")
    data = np.frombuffer(packed, dtype=np.uint8)
    whole, left_over = divmod(modulus.bits, 8)
    columns = np.zeros((length, modulus.dtype.itemsize), dtype=np.uint8)
    for byte in range(whole):
        columns[:, byte] = data[byte * length : (byte + 1) * length]
    if left_over:
        planes = data[whole * length :].reshape(left_over, _bitmap_size(length))
        if length % 8 and (planes[:, -1] >> length % 8).any():
            raise RemoteProtocolError(AbortReason.MALFORMED, "padding is not zero")
        bits = np.unpackbits(planes, axis=1, count=length, bitorder="little")
        columns[:, whole] = np.einsum("i,ij->j", _BITS[:left_over], bits)
    vector = columns.view(modulus.dtype)[:, 0]
    if not modulus.is_power_of_two and (vector >= modulus.value).any():
        raise RemoteProtocolError(AbortReason.MALFORMED, "value not below the modulus")
    return vector


def _bitmap_size(length: int) -> int:
    return (length + 7) // 8


def is_prime(m: int) -> bool:
    """Miller–Rabin; with the first twelve primes as bases it decides every m below 3.1·10²³."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if m in bases:
        return True
    if m < 2 or any(m % base == 0 for base in bases):
        return False
    odd = m - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos

    def passes(base: int) -> bool:
        power = pow(base, odd, m)
        if power in (1, m - 1):
            return True
        return any((power := power * power % m) == m - 1 for _ in range(twos - 1))

    return all(passes(base) for base in bases)

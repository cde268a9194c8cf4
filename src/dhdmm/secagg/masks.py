"""Masks: a 32-byte seed stretched by AES-128-CTR into a uniform vector over Z_m, and its wire form.

The first 16 bytes of a seed are the AES key, the others the initial counter: an attacker who holds
many key streams gains nothing from matching them against one table of keys. The key stream is read
as little-endian words; the vector is the words modulo 2ᵇ, or, for a prime, the words (masked to
its bit length) that lie below it, in order. Both are exactly uniform if the key stream is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dhdmm.secagg.errors import AbortReason, LocalProtocolError, RemoteProtocolError

SEED_BYTES = 32
_CHUNK_BYTES = 1 << 16  # key stream, zeros and accumulator stay in the second-level cache together
_ZEROS = bytes(_CHUNK_BYTES)

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
        if not 2 <= m <= 2**63 or not (self.is_power_of_two or _is_prime(m)):
            raise LocalProtocolError(f"modulus {m} is neither 2^b (b ≤ 63) nor a prime below 2^63")

    @property
    def is_power_of_two(self) -> bool:
        return self.value & (self.value - 1) == 0

    @property
    def bits(self) -> int:
        """Bits of a residue."""
        return (self.value - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest word that holds a residue and, modulo a prime, the sum of two."""
        small = self.bits <= (32 if self.is_power_of_two else 31)
        return np.dtype("<u4" if small else "<u8")

    def zeros(self, length: int) -> Vector:
        return np.zeros(length, dtype=self.dtype)

    def residues(self, integers: NDArray[np.int64]) -> Vector:
        """A working vector from signed integers."""
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
        residues = self.reduce(vector).astype(np.int64)
        return np.where(residues >= (self.value + 1) // 2, residues - self.value, residues)


def add_mask(modulus: Modulus, accumulator: Vector, seed: bytes, sign: Sign) -> None:
    """accumulator ± F(seed) in place, a chunk of key stream at a time."""
    if len(seed) != SEED_BYTES:
        raise LocalProtocolError("a mask seed has 32 bytes")
    stream = Cipher(AES128(seed[:16]), CTR(seed[16:])).encryptor()
    buffer = bytearray(_CHUNK_BYTES + 15)
    done = 0
    while done < len(accumulator):
        size = min((len(accumulator) - done) * modulus.dtype.itemsize, _CHUNK_BYTES)
        stream.update_into(memoryview(_ZEROS)[:size], buffer)
        words = np.frombuffer(buffer, dtype=modulus.dtype, count=size // modulus.dtype.itemsize)
        if not modulus.is_power_of_two:
            words = words & modulus.dtype.type((1 << modulus.bits) - 1)
            words = words[words < modulus.value]
        modulus.add(accumulator[done : done + len(words)], words, sign)
        done += len(words)


def packed_size(modulus: Modulus, length: int) -> int:
    """Bytes of a packed vector."""
    return length * (modulus.bits // 8) + modulus.bits % 8 * (-(-length // 8))


def pack(modulus: Modulus, vector: Vector) -> bytes:
    """Residues as planes: the lowest bytes of all values, the next bytes, …, then the left-over
    bits of all values one plane each, eight values to a byte, the first value lowest."""
    residues = np.ascontiguousarray(modulus.reduce(vector))
    whole = modulus.bits // 8
    columns = residues.view(np.uint8).reshape(len(residues), -1)
    planes = [columns[:, byte] for byte in range(whole)]
    if modulus.bits % 8:
        top = columns[:, whole]
        planes += [
            np.packbits(top >> bit & 1, bitorder="little") for bit in range(modulus.bits % 8)
        ]
    return b"".join(plane.tobytes() for plane in planes)


def unpack(modulus: Modulus, length: int, packed: bytes) -> Vector:
    """The inverse of `pack`, strict: exact size, zero padding, every value below m."""
    if len(packed) != packed_size(modulus, length):
        raise RemoteProtocolError(AbortReason.MALFORMED, "masked vector of the wrong size")
    data = np.frombuffer(packed, dtype=np.uint8)
    whole = modulus.bits // 8
    columns = np.zeros((length, modulus.dtype.itemsize), dtype=np.uint8)
    for byte in range(whole):
        columns[:, byte] = data[byte * length : (byte + 1) * length]
    if modulus.bits % 8:
        planes = data[whole * length :].reshape(modulus.bits % 8, -1)
        if length % 8 and (planes[:, -1] >> length % 8).any():
            raise RemoteProtocolError(AbortReason.MALFORMED, "padding is not zero")
        for bit, plane in enumerate(planes):
            columns[:, whole] |= np.unpackbits(plane, count=length, bitorder="little") << bit
    vector = columns.view(modulus.dtype)[:, 0]
    if not modulus.is_power_of_two and (vector >= modulus.value).any():
        raise RemoteProtocolError(AbortReason.MALFORMED, "value not below the modulus")
    return vector


def _is_prime(m: int) -> bool:
    """Miller–Rabin with the bases that decide every m < 2⁶⁴ (Sinclair's seven are fewer, the first
    twelve primes are easier to check)."""
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

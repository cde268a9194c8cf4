"""Masks: a 32-byte seed stretched by AES-128-CTR into a uniform vector over Z_m.

The first 16 bytes of a seed are the AES key, the others the initial counter: an attacker who holds
many key streams gains nothing from matching them against one table of keys. The key stream is read
as little-endian words, of which the low bits count, as many as a residue has. What follows the last
word may be read as one little-endian number more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.modulus import Modulus, Vector

Sign = Literal[1, -1]

SEED_BYTES = 32
_CHUNK_BYTES = 1 << 17  # key stream, zeros and accumulator stay in the second-level cache together
_ZEROS = memoryview(bytes(_CHUNK_BYTES))


def add_masks(
    modulus: Modulus,
    accumulator: Vector,
    signed_seeds: Iterable[tuple[bytes, Sign]],
    following_bytes: int = 0,
) -> int:
    """accumulator + Σ ± F(seed) in place, a chunk of key stream at a time in one buffer.

    Gives Σ ± the numbers of so many bytes that follow in each key stream.
    """
    dtype, length = modulus.dtype, len(accumulator)
    size = min(length, _CHUNK_BYTES // dtype.itemsize)
    buffer = np.empty(size + 16 // dtype.itemsize, dtype)  # the library asks for a block to spare
    octets = buffer.data.cast("B")
    parts = [accumulator[start : start + size] for start in range(0, length, max(1, size))]
    chunks = [(part, buffer[: len(part)], _ZEROS[: part.nbytes]) for part in parts]
    following = 0
    for seed, sign in signed_seeds:
        if len(seed) != SEED_BYTES:
            raise LocalProtocolError("a mask seed has 32 bytes")
        stream = Cipher(AES128(seed[:16]), CTR(seed[16:])).encryptor()
        add = np.add if sign > 0 else np.subtract
        for part, masking, zeros in chunks:
            stream.update_into(zeros, octets)
            add(part, masking, part)
        if following_bytes:
            following += sign * int.from_bytes(stream.update(bytes(following_bytes)), "little")
    return following

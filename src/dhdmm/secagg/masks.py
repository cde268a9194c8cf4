"""Masks: a 32-byte seed stretched by AES-128-CTR into a uniform vector over Z_m, and its wire form.

The first 16 bytes of a seed are the AES key, the others the initial counter: an attacker who holds
many key streams gains nothing from matching them against one table of keys. The key stream is read
as little-endian words, of which the low bits count, as many as a residue has; the vector is, in
order, those that lie below m: exactly uniform if the key stream is. Modulo 2ᵇ that is all of them,
modulo a prime the more the nearer it lies to the next power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.modulus import Modulus, Sign, Vector

SEED_BYTES = 32
_CHUNK_BYTES = 1 << 17  # key stream, zeros and accumulator stay in the second-level cache together
_ZEROS = memoryview(bytes(_CHUNK_BYTES))


def add_mask(modulus: Modulus, accumulator: Vector, seed: bytes, sign: Sign) -> None:
    """accumulator ± F(seed) in place."""
    add_masks(modulus, accumulator, [(seed, sign)])


def add_masks(
    modulus: Modulus, accumulator: Vector, signed_seeds: Iterable[tuple[bytes, Sign]]
) -> None:
    """accumulator + Σ ± F(seed) in place, a chunk of key stream at a time in one buffer."""
    dtype, length = modulus.dtype, len(accumulator)
    size = min(_words_expected(modulus, length), _CHUNK_BYTES // dtype.itemsize)
    buffer = np.empty(size + 16 // dtype.itemsize, dtype)  # the library asks for a block to spare
    add = _adding_binary_words if modulus.is_power_of_two else _adding_uniform_words
    add_stream = add(modulus, accumulator, buffer[:size], buffer.data.cast("B"))
    for seed, sign in signed_seeds:
        if len(seed) != SEED_BYTES:
            raise LocalProtocolError("a mask seed has 32 bytes")
        add_stream(Cipher(AES128(seed[:16]), CTR(seed[16:])).encryptor(), sign)


AddStream = Callable[[CipherContext, Sign], None]


def _adding_binary_words(
    modulus: Modulus, accumulator: Vector, words: Vector, octets: memoryview
) -> AddStream:
    """Modulo 2ᵇ all words count, so that the chunks are the same for every key stream."""
    starts = range(0, len(accumulator), max(1, len(words)))
    parts = [accumulator[start : start + len(words)] for start in starts]
    chunks = [(part, words[: len(part)], _ZEROS[: part.nbytes]) for part in parts]

    def add_stream(stream: CipherContext, sign: Sign) -> None:
        add = np.add if sign > 0 else np.subtract
        for part, masking, zeros in chunks:
            stream.update_into(zeros, octets)
            add(part, masking, part)

    return add_stream


def _adding_uniform_words(
    modulus: Modulus, accumulator: Vector, words: Vector, octets: memoryview
) -> AddStream:
    """Modulo a prime each key stream loses other words."""
    length = len(accumulator)

    def add_stream(stream: CipherContext, sign: Sign) -> None:
        done = 0
        while done < length:
            count = min(_words_expected(modulus, length - done), len(words))
            stream.update_into(_ZEROS[: count * words.itemsize], octets)
            uniform = _uniform(modulus, words[:count])[: length - done]
            modulus.add(accumulator[done : done + len(uniform)], uniform, sign)
            done += len(uniform)

    return add_stream


def _uniform(modulus: Modulus, words: Vector) -> Vector:
    """The words that count."""
    words &= modulus.dtype.type((1 << modulus.bits) - 1)
    below = words < modulus.value
    return words if below.all() else np.compress(below, words)


def _words_expected(modulus: Modulus, wanted: int) -> int:
    """Words to draw for `wanted` accepted ones; too few cost another turn, too many are dropped."""
    return wanted if modulus.is_power_of_two else (wanted << modulus.bits) // modulus.value + 1

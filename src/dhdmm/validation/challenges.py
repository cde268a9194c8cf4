"""What a verifier would draw at random, taken from a hash of all that was said before instead.

`proof` defines the letters. Each of the three challenges hashes the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from dhdmm.validation.group import PROJECTIONS, Point, encode_point, encode_scalars
from dhdmm.validation.proof import Statement, encode_shown

CHALLENGE_BYTES = 16
Bits = NDArray[np.uint8]
_LIMB_BITS, _LIMBS = 16, 8


def hashed(purpose: str, *parts: bytes, size: int = 32) -> bytes:
    """SHAKE-256 of the parts, each preceded by its length, for one purpose."""
    framed = [len(part).to_bytes(8, "little") + part for part in (purpose.encode(), *parts)]
    return shake_256(b"dhdmm validation 1\0" + b"".join(framed)).digest(size)


def numbers(purpose: str, *parts: bytes, count: int, size: int = CHALLENGE_BYTES) -> list[int]:
    """So many, uniform below 256^size."""
    drawn = hashed(purpose, *parts, size=size * count)
    return [int.from_bytes(drawn[at : at + size], "little") for at in range(0, len(drawn), size)]


def first(statement: Statement, context: bytes, C: Point, A: Point) -> bytes:
    """A seed of β."""
    said = encode_point(C), encode_point(A)
    return hashed("first", statement.encode(), context, *said)


def second(earlier: bytes, s: list[int]) -> bytes:
    """A seed of ρ."""
    return hashed("second", earlier, encode_shown(s))


def last(earlier: bytes, offset: int, *said: Point) -> int:
    """c, of 128 bits, after T₁, T₂, Q₀ and Q₁."""
    parts = encode_scalars([offset]), *map(encode_point, said)
    return numbers("last", earlier, *parts, count=1)[0]


def linear_form(seed: bytes, bits: Bits) -> tuple[list[int], list[int]]:
    """ρ, and λ with ⟨λ, x⟩ = ⟨ρ, βv + μ⟩, from the second challenge."""
    rho = numbers("weights", seed, count=PROJECTIONS)
    return rho, weighted_rows(rho, bits) + rho


def bits_of(statement: Statement, seed: bytes) -> Bits:
    """β, from the first challenge."""
    return projections(seed, statement.length + 4)


def projections(seed: bytes, length: int) -> Bits:
    """β: 128 rows of so many bits."""
    drawn = hashed("projections", seed, size=PROJECTIONS * length // 8)
    return np.unpackbits(np.frombuffer(drawn, np.uint8)).reshape(PROJECTIONS, length)


def weighted_rows(weights: Sequence[int], bits: Bits) -> list[int]:
    """Σ_l weights_l · bits_l over the integers, for weights of 128 bits.

    In limbs of 16 bits: their sums are below 2²³, which the floats of matrix products hold exactly.
    """
    mask = 2**_LIMB_BITS - 1
    limbs = [[weight >> _LIMB_BITS * i & mask for i in range(_LIMBS)] for weight in weights]
    sums = bits.T.astype(np.float32) @ np.array(limbs, np.float32)
    low, high = (_joined(half.astype(np.int64)) for half in np.hsplit(sums, 2))
    half_bits = _LIMB_BITS * _LIMBS // 2
    return [a + (b << half_bits) for a, b in zip(low, high, strict=True)]


def _joined(limbs: NDArray[np.int64]) -> list[int]:
    """Four limbs of a column each as one number, below 2⁷²: the upper two are added as integers."""
    lower = (limbs[:, 0] + (limbs[:, 1] << _LIMB_BITS)).tolist()
    upper = (limbs[:, 2] + (limbs[:, 3] << _LIMB_BITS)).tolist()
    return [a + (b << 2 * _LIMB_BITS) for a, b in zip(lower, upper, strict=True)]

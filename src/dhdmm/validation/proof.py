"""A proof that the vector y in a commitment has ‖y‖ ≤ B, as it is written and hashed.

Letters, here and in `proving` and `verification`:

    y        the k integers that C commits to, blinded by r
    w        four integers with ‖y‖² + ‖w‖² = B²;  v = (y, w)
    μ        128 masks, uniform below L;  x = (y, w, μ)
    A        commits to (w, μ), blinded by r′
    β, s     128 rows of random bits, and s = βv + μ, which is shown
    ρ, λ     random weights, and the linear form with ⟨λ, x⟩ = ⟨ρ, s⟩ that they make of s = βv + μ
    a        a random vector as long as x;  ⟨a, v⟩, ⟨a, a⟩ are over the entries of v
    T₁, T₂   commit to a as C and A do to x
    Q₀, Q₁   commit to ⟨a, a⟩ and 2⟨a, v⟩
    c, z     the last challenge and the answer z = a + cx

docs/validation.md explains, docs/proofs.md proves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt

from dhdmm.validation.group import (
    AUXILIARY,
    POINT_BYTES,
    PROJECTIONS,
    SCALAR_BYTES,
    EncodingError,
    Point,
    decode_point,
    decode_scalars,
    encode_point,
    encode_scalars,
)

SHOWN_BYTES = 16
_POINTS = 5  # A, T₁, T₂, Q₀, Q₁
_HEAD = _POINTS * POINT_BYTES + PROJECTIONS * SHOWN_BYTES
LARGEST_LENGTH = 2**24


class StatementError(ValueError):
    """No proof can be made of this bound, or for vectors of this length."""


@dataclass(frozen=True)
class Statement:
    """‖y‖ ≤ `bound`, for integer vectors y of this `length`."""

    length: int
    bound: int

    def __post_init__(self) -> None:
        if not 0 < self.length <= LARGEST_LENGTH:
            raise StatementError(f"vectors of {self.length:,} entries")
        if self.bound <= 0 or self.reach >= 2**62:  # projections are added in 64 bits
            raise StatementError(f"a bound of {self.bound:,} on {self.length:,} entries")

    @cached_property
    def mask_bits(self) -> int:
        """L = 2^this, the largest with (k + 4) L² ≤ 2²⁵⁴ < q: squares below L² do not wrap."""
        return (254 - (self.length + 3).bit_length()) // 2

    @cached_property
    def reach(self) -> int:
        """N ≥ |⟨β, v⟩|: √(k + 4) · B by Cauchy and Schwarz."""
        return isqrt((self.length + 4) * self.bound**2) + 1

    @cached_property
    def proof_bytes(self) -> int:
        return _HEAD + SCALAR_BYTES * (self.length + AUXILIARY + 4)

    def encode(self) -> bytes:
        """For hashing. L follows from k, and is said again."""
        fields = (self.length, self.mask_bits, self.bound)
        return b"".join([field.to_bytes(16, "little") for field in fields])


@dataclass(frozen=True, repr=False)
class Proof:
    """What the prover says, in this order, a challenge after each line."""

    A: Point
    s: list[int]
    T1: Point
    T2: Point
    Q0: Point
    Q1: Point
    offset: int
    """⟨λ, a⟩."""
    z: list[int]
    z1: int
    """Of the blindings of T₁ and C; so z2 of T₂ and A, zq of Q₀ and Q₁."""
    z2: int
    zq: int

    def encode(self) -> bytes:
        points = [self.A, self.T1, self.T2, self.Q0, self.Q1]
        scalars = [self.offset, self.z1, self.z2, self.zq, *self.z]
        return b"".join([*map(encode_point, points), encode_shown(self.s), encode_scalars(scalars)])

    @classmethod
    def decode(cls, statement: Statement, encoded: bytes) -> Proof:
        """Strict: the exact size, points of the subgroup, reduced numbers; else `EncodingError`."""
        if len(encoded) != statement.proof_bytes:
            raise EncodingError(f"{len(encoded):,} bytes, {statement.proof_bytes:,} are due")
        ends = range(0, _POINTS * POINT_BYTES, POINT_BYTES)
        A, T1, T2, Q0, Q1 = (decode_point(encoded[at : at + POINT_BYTES]) for at in ends)
        starts = range(_POINTS * POINT_BYTES, _HEAD, SHOWN_BYTES)
        s = [int.from_bytes(encoded[at : at + SHOWN_BYTES], "little") for at in starts]
        offset, z1, z2, zq, *z = decode_scalars(encoded[_HEAD:])
        return cls(A, s, T1, T2, Q0, Q1, offset, z, z1, z2, zq)


def encode_shown(s: list[int]) -> bytes:
    return b"".join([shown.to_bytes(SHOWN_BYTES, "little") for shown in s])

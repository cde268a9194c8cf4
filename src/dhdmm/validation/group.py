"""The group G1 of BLS12-381: of prime order q, where nobody knows how its generators are related.

Integers stand for their residues modulo q, points are added with `+`. Nothing here pairs points:
this group was taken because its sums of many multiples are fast (ADR 35).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from py_arkworks_bls12381 import G1Point, Scalar

Point = G1Point
ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
"""q."""
POINT_BYTES, SCALAR_BYTES = 48, 32
SURPLUS_BYTES = 16
"""A number of so many bytes more than q has is, modulo q, within 2⁻¹²⁹ of uniform."""
INFINITY = Point.identity()
PROJECTIONS = 128
"""An entry that is too large passes each with probability at most ½."""
AUXILIARY = 4 + PROJECTIONS
"""So many integers more a proof commits to: four, and a mask for each projection."""


class EncodingError(ValueError):
    """Bytes that are not the encoding of a point, a residue or a proof."""


@dataclass(frozen=True, eq=False)
class Bases:
    """Independent generators: for a vector, for what a proof adds to it, for a number, to hide."""

    g: Sequence[Point]
    w: Sequence[Point]
    f: Point
    h: Point


def bases(length: int) -> Bases:
    """For vectors of this length. Takes 0.2 ms an entry the first time."""
    g, w = _hashed("g", length), _hashed("w", AUXILIARY)
    return Bases(g, w, _hashed("f", 1)[0], _hashed("h", 1)[0])


@lru_cache(maxsize=16)
def _hashed(name: str, count: int) -> list[Point]:
    """Hashed to the group (RFC 9380), so that nobody chose them."""
    tag = f"dhdmm validation 1 {name} BLS12381G1_XMD:SHA-256_SSWU_RO_".encode()
    return [Point.hash_to_curve(index.to_bytes(8, "little"), tag) for index in range(count)]


def combine(points: Sequence[Point], scalars: Sequence[int]) -> Point:
    """Σ scalar · point. Small scalars of either sign are several times as fast as any others."""
    if len(points) != len(scalars):  # the library would leave the surplus out
        raise ValueError(f"{len(points)} points for {len(scalars)} scalars")
    signed = [(s + ORDER // 2) % ORDER - ORDER // 2 for s in scalars]
    multiplied = [-p if s < 0 else p for p, s in zip(points, signed, strict=True)]
    sizes = [Scalar.from_le_bytes(abs(s).to_bytes(SCALAR_BYTES, "little")) for s in signed]
    return Point.multiexp_unchecked(multiplied, sizes)


def total(points: Iterable[Point]) -> Point:
    """Their sum."""
    return sum(points, start=INFINITY)


def encode_point(point: Point) -> bytes:
    return bytes(point.to_compressed_bytes())


def decode_point(encoded: bytes) -> Point:
    """Refuses what is not on the curve or outside of the subgroup, and infinity.

    A point outside of the subgroup would make the random weights of batched checks worthless.
    """
    try:
        point = Point.from_compressed_bytes(encoded)
    except ValueError:
        raise EncodingError("not a point of the group") from None
    if point == INFINITY:  # of which the library takes several spellings
        raise EncodingError("not a point of the group")
    return point


def encode_scalars(scalars: Iterable[int]) -> bytes:
    return b"".join([s.to_bytes(SCALAR_BYTES, "little") for s in scalars])


def decode_scalars(encoded: bytes) -> list[int]:
    """Refuses residues that are not reduced, of which the same one could be written twice."""
    starts = range(0, len(encoded), SCALAR_BYTES)
    scalars = [int.from_bytes(encoded[at : at + SCALAR_BYTES], "little") for at in starts]
    if len(encoded) % SCALAR_BYTES or max(scalars, default=0) >= ORDER:
        raise EncodingError("a number is not reduced")
    return scalars

"""A verifier as docs/validation.md describes it: integers one at a time, and nothing of dhdmm.

Points are pairs of coordinates, infinity is None. Generators are given: they are hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

Point = tuple[int, int] | None
Z = -0xD201000000010000  # the curve's parameter, from which P and Q follow
P = (Z - 1) ** 2 * (Z**4 - Z**2 + 1) // 3 + Z
Q = Z**4 - Z**2 + 1


def add(left: Point, right: Point) -> Point:
    """On y² = x³ + 4 modulo P."""
    if left is None or right is None:
        return right if left is None else left
    (x1, y1), (x2, y2) = left, right
    if x1 == x2:
        if (y1 + y2) % P == 0:
            return None
        slope = 3 * x1 * x1 * pow(2 * y1, -1, P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P)
    x3 = (slope * slope - x1 - x2) % P
    return x3, (slope * (x1 - x3) - y1) % P


def combination(points: Sequence[Point], scalars: Sequence[int]) -> Point:
    """Σ scalar · point, all doubled together."""
    result: Point = None
    for bit in reversed(range(255)):
        result = add(result, result)
        for point, scalar in zip(points, scalars, strict=True):
            if scalar % Q >> bit & 1:
                result = add(result, point)
    return result


def point(encoded: bytes) -> Point:
    """Compressed: flags in the three highest bits, then x; the third flag says y > P/2."""
    assert len(encoded) == 48
    assert encoded[0] >> 6 == 0b10
    x = int.from_bytes(encoded, "big") % 2**381
    y = pow(x**3 + 4, (P + 1) // 4, P)
    assert (y * y - x**3 - 4) % P == 0
    if (y > P // 2) != bool(encoded[0] >> 5 & 1):
        y = P - y
    return x, y


def hashed(purpose: str, *parts: bytes, size: int) -> bytes:
    data = b"dhdmm validation 1\0"
    for part in (purpose.encode(), *parts):
        data += len(part).to_bytes(8, "little") + part
    return hashlib.shake_256(data).digest(size)


def holds(
    k: int,
    bound: int,
    context: bytes,
    commitment: bytes,
    proof: bytes,
    generators: dict[str, list[bytes]],
) -> bool:
    """Whether it is a proof that the k integers in the commitment have a norm up to the bound."""
    A, T1, T2, Q0, Q1 = (proof[48 * i : 48 * i + 48] for i in range(5))
    shown = proof[240 : 240 + 2048]
    s = [int.from_bytes(shown[16 * i : 16 * i + 16], "little") for i in range(128)]
    rest = [proof[at : at + 32] for at in range(2288, len(proof), 32)]
    offset, z1, z2, zq, *z = (int.from_bytes(part, "little") for part in rest)
    mask_bits = next(m for m in range(127, 0, -1) if (k + 4) * 4**m <= 2**254)
    if len(z) != k + 132 or max([offset, z1, z2, zq, *z]) >= Q or max(s) >= 2**mask_bits:
        return False

    statement = b"".join(number.to_bytes(16, "little") for number in (k, mask_bits, bound))
    first = hashed("first", statement, context, commitment, A, size=32)
    second = hashed("second", first, shown, size=32)
    last = hashed("last", second, rest[0], T1, T2, Q0, Q1, size=16)
    c = int.from_bytes(last, "little")

    drawn = hashed("projections", first, size=16 * (k + 4))
    bits = [drawn[i // 8] >> (7 - i % 8) & 1 for i in range(128 * (k + 4))]
    weights = hashed("weights", second, size=16 * 128)
    rho = [int.from_bytes(weights[16 * i : 16 * i + 16], "little") for i in range(128)]
    form = [sum(rho[l] * bits[l * (k + 4) + j] for l in range(128)) for j in range(k + 4)] + rho
    left = sum(a * b for a, b in zip(form, z, strict=True))
    if (left - offset - c * sum(a * b for a, b in zip(rho, s, strict=True))) % Q:
        return False

    g, w, f, h = ([point(p) for p in generators[name]] for name in "gwfh")
    surplus = sum(a * a for a in z[: k + 4]) - c * c * bound * bound
    equations = [
        (T1, commitment, [*g[:k], *h], [*z[:k], z1]),
        (T2, A, [*w, *h], [*z[k:], z2]),
        (Q0, Q1, [*f, *h], [surplus, zq]),
    ]
    return all(
        add(point(said), combination([point(committed)], [c])) == combination(points, scalars)
        for said, committed, points, scalars in equations
    )

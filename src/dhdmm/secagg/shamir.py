"""Shamir sharing of 32-byte secrets, many at a time, in exact integer arithmetic.

p = 2³¹−1. A secret is L = 9 limbs of at most 30 bits, each the constant term of its own polynomial
f of degree below t (the threshold). The holder at roster position i has the L values f(x),
x = i + 1: 36 bytes.
Secrets are shared one polynomial each, so shares of b_i and of sk¹_i can be revealed separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhdmm.secagg.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.secagg.randomness import Randomness

PRIME = 2**31 - 1
SECRET_BYTES = 32
LIMB_BITS = 30
LIMBS = 9
SHARE_BYTES = 4 * LIMBS

Elements = NDArray[np.uint64]


def split(
    secrets: Sequence[bytes], threshold: int, holders: Sequence[int], randomness: Randomness
) -> list[list[bytes]]:
    """Shares of each secret for each holder: result[s][h] is 36 bytes. Any t give it, t−1 nothing.

    The coefficients above the constant term are uniform in the field: 31-bit words, of which
    2³¹−1 itself is drawn again.
    """
    if not 1 <= threshold <= len(holders) or len(set(holders)) != len(holders):
        raise LocalProtocolError(f"cannot share {threshold} of {len(holders)} holders")
    width = LIMBS * len(secrets)
    coefficients = np.empty((threshold, width), dtype=np.uint64)
    coefficients[0] = np.concatenate([_limbs(secret) for secret in secrets])
    coefficients[1:] = uniform_elements(randomness, (threshold - 1) * width).reshape(-1, width)
    values = evaluate(coefficients, np.asarray(holders) + 1)
    encoded = values.astype("<u4").tobytes()
    return [
        [
            encoded[start : start + SHARE_BYTES]
            for start in range(s * SHARE_BYTES, len(encoded), len(secrets) * SHARE_BYTES)
        ]
        for s in range(len(secrets))
    ]


def reconstruct(shares: Sequence[Mapping[int, bytes]], threshold: int) -> list[bytes]:
    """Each secret from its holders' shares (position → 36 bytes); holders may differ.

    All shares given are used: if more than t are given and they do not lie on one polynomial of
    degree below t, that is detected. With exactly t nothing can be: check the secret itself.
    """
    secrets = [b""] * len(shares)
    by_count: dict[int, list[int]] = {}
    for index, given in enumerate(shares):
        by_count.setdefault(len(given), []).append(index)
    for count, indices in by_count.items():
        if count < threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_SHARES, f"{count} of {threshold}")
        points = np.array([list(shares[i]) for i in indices]) + 1
        values = np.stack([_decode(list(shares[i].values())) for i in indices])
        limbs = interpolate(points, values, threshold)
        for index, row in zip(indices, limbs, strict=True):
            secrets[index] = _secret(row)
    return secrets


def check_share(share: bytes) -> None:
    """Refuse a share that is not 36 bytes of limbs below p."""
    _decode([share])


def uniform_elements(randomness: Randomness, count: int, prime: int = PRIME) -> Elements:
    """Independent uniform elements of the field: masked 32-bit words, rejected if not below p."""
    mask = np.uint32((1 << prime.bit_length()) - 1)
    words = np.frombuffer(randomness(4 * count), dtype="<u4") & mask
    accepted = words[words < prime]
    while accepted.size < count:
        words = np.frombuffer(randomness(4 * (count - accepted.size)), dtype="<u4") & mask
        accepted = np.concatenate([accepted, words[words < prime]])
    return accepted.astype(np.uint64)


def evaluate(coefficients: Elements, points: ArrayLike, prime: int = PRIME) -> Elements:
    """f(x) for each point and each column's polynomial: (t, L), (h,) → (h, L)."""
    return matmul_mod(
        _powers(np.asarray(points, dtype=np.uint64), len(coefficients), prime), coefficients, prime
    )


def interpolate(
    points: ArrayLike, values: Elements, threshold: int, prime: int = PRIME
) -> Elements:
    """f(0) from r ≥ t values of f, for each of m batches: (m, r), (m, r, L) → (m, L).

    Let 0 be one more point. With u_j = 1/(x_j ∏_{i≠j}(x_j − x_i)), every f of degree below t has
    Σ_j u_j x_jᵉ f(x_j) = 0 for e = 1…r−t, and −f(0)/∏(−x_i) for e = 0: the parity checks of a
    generalised Reed–Solomon code, of which the first yields the secret.
    """
    x = np.asarray(points, dtype=np.uint64)
    rows = _powers(x, x.shape[1] - threshold + 1, prime).swapaxes(1, 2)
    dual, product = _dual_weights(x, prime)
    syndromes = matmul_mod(rows * dual[:, None, :] % prime, values, prime)
    if syndromes[:, 1:].any():
        raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, "not of one polynomial")
    negative: Elements = syndromes[:, 0] * product[:, None] % prime
    return (prime - negative) % prime


def matmul_mod(left: Elements, right: Elements, prime: int = PRIME) -> Elements:
    """left @ right mod p, exactly: with `right` cut at 16 bits no sum exceeds 2⁴⁷ · rows < 2⁶⁴."""
    low, high = right & np.uint64(0xFFFF), right >> np.uint64(16)
    return (left @ low + ((left @ high % prime) << np.uint64(16))) % prime


def _powers(x: Elements, count: int, prime: int) -> Elements:
    """x⁰ … x^(count−1) along a new last axis."""
    powers = np.ones((*x.shape, count), dtype=np.uint64)
    for e in range(1, count):
        powers[..., e] = powers[..., e - 1] * x % prime
    return powers


def _dual_weights(x: Elements, prime: int) -> tuple[Elements, Elements]:
    """u_j of `interpolate`, (m, r), and ∏(−x_i), (m,)."""
    differences = (x[:, :, None] + (prime - x[:, None, :])) % prime
    diagonal = np.arange(x.shape[1])
    differences[:, diagonal, diagonal] = x
    return _inverse(_product(differences, prime), prime), _product(prime - x, prime)


def _product(factors: Elements, prime: int) -> Elements:
    """Product along the last axis."""
    while factors.shape[-1] > 1:
        half = factors.shape[-1] // 2
        paired = factors[..., :half] * factors[..., half : 2 * half] % prime
        factors = np.concatenate([paired, factors[..., 2 * half :]], axis=-1)
    return factors[..., 0]


def _inverse(x: Elements, prime: int) -> Elements:
    """x^(p−2) (Fermat)."""
    result, square, exponent = np.ones_like(x), x, prime - 2
    while exponent:
        if exponent & 1:
            result = result * square % prime
        square = square * square % prime
        exponent >>= 1
    return result


def _limbs(secret: bytes) -> Elements:
    if len(secret) != SECRET_BYTES:
        raise LocalProtocolError("a shared secret has 32 bytes")
    number = int.from_bytes(secret, "little")
    return np.array(
        [number >> (LIMB_BITS * limb) & ((1 << LIMB_BITS) - 1) for limb in range(LIMBS)],
        dtype=np.uint64,
    )


def _secret(limbs: Elements) -> bytes:
    number = sum(int(limb) << (LIMB_BITS * i) for i, limb in enumerate(limbs))
    if int(limbs.max()) >> LIMB_BITS or number >> (8 * SECRET_BYTES):
        raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, "not of a 32-byte secret")
    return number.to_bytes(SECRET_BYTES, "little")


def _decode(shares: Sequence[bytes]) -> Elements:
    """(r, L) field elements from r encoded shares."""
    if any(len(share) != SHARE_BYTES for share in shares):
        raise RemoteProtocolError(AbortReason.MALFORMED, f"a share has {SHARE_BYTES} bytes")
    values = np.frombuffer(b"".join(shares), dtype="<u4").reshape(-1, LIMBS)
    if (values >= PRIME).any():
        raise RemoteProtocolError(AbortReason.MALFORMED, "a share's limb is not below 2³¹−1")
    return values.astype(np.uint64)

"""Shamir sharing of 32-byte secrets, many at a time, in exact integer arithmetic.

p = 2³¹−1. A secret is L = 9 limbs of at most 30 bits, each the constant term of its own polynomial
f of degree below t (the threshold). The holder at roster position i has the L values f(x),
x = i + 1: 36 bytes.
Secrets are shared one polynomial each, so shares of b_i and of sk¹_i can be revealed separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.randomness import Randomness, uniform_below

PRIME = 2**31 - 1
SECRET_BYTES = 32
LIMB_BITS = 30
LIMBS = 9
SHARE_BYTES = 4 * LIMBS
_BLOCK_ELEMENTS = 1 << 19
_SMALL = 1 << 10

Elements = NDArray[np.uint64]


def split(
    secrets: Sequence[bytes], threshold: int, holders: Sequence[int], randomness: Randomness
) -> list[list[bytes]]:
    """Shares of each secret for each holder: result[s][h] is 36 bytes. Any t give it, t−1 nothing.

    The coefficients above the constant term are independent and uniform in the field.
    """
    if not 1 <= threshold <= len(holders) or len(set(holders)) != len(holders):
        raise LocalProtocolError(f"cannot share {threshold} of {len(holders)} holders")
    width = LIMBS * len(secrets)
    coefficients = np.empty((threshold, width), dtype=np.uint64)
    coefficients[0] = [limb for secret in secrets for limb in _limbs(secret)]
    bounds = np.full((threshold - 1, width), PRIME, dtype=np.uint32)
    coefficients[1:] = uniform_below(randomness, bounds)
    encoded = evaluate(coefficients, _points(holders)).astype("<u4").tobytes()
    return [
        [
            encoded[start : start + SHARE_BYTES]
            for start in range(s * SHARE_BYTES, len(encoded), len(secrets) * SHARE_BYTES)
        ]
        for s in range(len(secrets))
    ]


def reconstruct(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    holders: NDArray[Any],
    limbs: NDArray[np.uint32],
    threshold: int,
) -> list[bytes]:
    """The secrets whose shares are rows of `limbs`, (R, L): secret s has starts[s] to ends[s].

    All shares given are used: if more than t are given and they do not lie on one polynomial of
    degree below t, that is detected. With exactly t nothing can be: check the secret itself.
    """
    _require_elements(limbs)
    secrets, points = [b""] * len(starts), _points(holders)
    for indices, count in _blocks(ends - starts):
        if count < threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_SHARES, f"fewer than {threshold}")
        rows = starts[indices, None] + np.arange(count)
        found = interpolate(points[rows], limbs[rows].astype(np.uint64), threshold)
        for index, row in zip(indices.tolist(), found.tolist(), strict=True):
            secrets[index] = _secret(row)
    return secrets


def _blocks(counts: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Indices of equal count, in blocks that bound the memory of their r × r differences."""
    for count in np.unique(counts).tolist():
        indices = np.flatnonzero(counts == count)
        size = max(1, _BLOCK_ELEMENTS // max(1, count * count))
        yield from (
            (indices[start : start + size], count) for start in range(0, len(indices), size)
        )


def _points(holders: Sequence[int] | NDArray[Any]) -> Elements:
    """x = position + 1: distinct in the field, and not 0, where the secret is."""
    points = np.array(holders, dtype=np.uint64) + np.uint64(1)
    if (points >= PRIME).any():
        raise LocalProtocolError("a holder's position is beyond the field")
    return points


def evaluate(coefficients: Elements, points: Elements, prime: int = PRIME) -> Elements:
    """f(x) for each point and each column's polynomial: (t, L), (h,) → (h, L)."""
    return _matmul(_powers(points, len(coefficients), prime).T, coefficients, prime)


def interpolate(points: Elements, values: Elements, threshold: int, prime: int = PRIME) -> Elements:
    """f(0) from r ≥ t values of f, for each of m batches: (m, r), (m, r, L) → (m, L).

    Let 0 be one more point. With u_j = 1/(x_j ∏_{i≠j}(x_j − x_i)), every f of degree below t has
    Σ_j u_j x_jᵉ f(x_j) = 0 for e = 1…r−t, and −f(0)/∏(−x_i) for e = 0: the parity checks of a
    generalised Reed–Solomon code, of which the first yields the secret. They vanish for no others.
    """
    dual, product = _dual_weights(points, prime)
    checks = _mod(_powers(points, points.shape[1] - threshold + 1, prime) * dual, prime)
    syndromes = _matmul(checks.swapaxes(0, 1), values, prime)
    if syndromes[:, 1:].any():
        raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, "not of one polynomial")
    return _mod((prime - syndromes[:, 0]) * product[:, None], prime)


def _mod(x: Elements, prime: int) -> Elements:
    """x mod p in place of x.

    NumPy's division is vectorised, its remainder is not; but a small array is one call sooner done.
    """
    p = np.uint64(prime)
    if x.size < _SMALL:
        return np.remainder(x, p, x)
    multiple = x // p
    multiple *= p
    x -= multiple
    return x


def _matmul(left: Elements, right: Elements, prime: int) -> Elements:
    """left @ right mod p, exactly: (…, a, r), (…, r, b) → (…, a, b).

    Doubles are multiplied several times faster than integers, and exactly as long as sums stay
    below 2⁵³: `right` is cut into digits so short that r products do, all multiplied at once.
    """
    bits, columns = prime.bit_length(), right.shape[-1]
    digit = 53 - bits - (right.shape[-2] - 1).bit_length()
    shifts = np.arange(0, bits, digit, dtype=np.uint64)[::-1, None]  # the highest digit first
    digits = right[..., None, :] >> shifts & np.uint64((1 << digit) - 1)
    flat = digits.reshape(*right.shape[:-1], -1).astype(np.float64)
    partial = (left.astype(np.float64) @ flat).astype(np.uint64)
    product = _mod(partial[..., :columns].copy(), prime)
    for start in range(columns, partial.shape[-1], columns):
        product <<= np.uint64(digit)
        product += partial[..., start : start + columns]
        _mod(product, prime)
    return product


def _powers(x: Elements, count: int, prime: int) -> Elements:
    """x⁰ … x^(count−1) along a new first axis, the known part doubled in each turn."""
    powers = np.ones((count, *x.shape), dtype=np.uint64)
    powers[1:2] = x
    known = 2
    while known < count:
        more = powers[known : 2 * known - 1]
        _mod(np.multiply(powers[1 : len(more) + 1], powers[known - 1], more), prime)
        known += len(more)
    return powers


def _dual_weights(x: Elements, prime: int) -> tuple[Elements, Elements]:
    """u_j of `interpolate`, (m, r), and ∏(−x_i), (m,)."""
    differences = x[:, None, :] + (np.uint64(prime) - x[:, :, None])  # [m, i, j] = x_j − x_i
    diagonal = np.arange(x.shape[1])
    differences[:, diagonal, diagonal] = x
    return _inverse(_product(differences, prime), prime), _product(prime - x, prime)


def _product(factors: Elements, prime: int) -> Elements:
    """Product along axis 1, in place, of factors below 2p (so that two of them fit a word)."""
    size = factors.shape[1]
    while size > 1:
        half = (size + 1) // 2
        folded = factors[:, : size - half]
        folded *= factors[:, half:size]
        _mod(folded, prime)
        size = half
    return factors[:, 0]


def _inverse(x: Elements, prime: int) -> Elements:
    """1/x for every element, with one inversion: 1/a = b/(ab) and 1/b = a/(ab), recursively."""
    flat = x.ravel()
    if flat.size == 1:
        return np.array([pow(int(flat[0]), -1, prime)], dtype=np.uint64).reshape(x.shape)
    half = (flat.size + 1) // 2
    a, b = flat[:half], np.append(flat[half:], np.ones(flat.size % 2, dtype=np.uint64))
    both = _inverse(_mod(a * b, prime), prime)
    inverses = _mod(both * np.stack([b, a]), prime).ravel()
    return inverses[: flat.size].reshape(x.shape)


def _limbs(secret: bytes) -> list[int]:
    if len(secret) != SECRET_BYTES:
        raise LocalProtocolError("a shared secret has 32 bytes")
    number = int.from_bytes(secret, "little")
    return [number >> (LIMB_BITS * limb) & ((1 << LIMB_BITS) - 1) for limb in range(LIMBS)]


def _secret(limbs: Sequence[int]) -> bytes:
    number = sum(limb << (LIMB_BITS * i) for i, limb in enumerate(limbs))
    if max(limbs) >> LIMB_BITS or number >> (8 * SECRET_BYTES):
        raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, "not of a 32-byte secret")
    return number.to_bytes(SECRET_BYTES, "little")


def _require_elements(limbs: NDArray[np.uint32]) -> None:
    if (limbs >= PRIME).any():
        raise RemoteProtocolError(AbortReason.MALFORMED, "a share's limb is not below 2³¹−1")

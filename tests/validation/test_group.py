"""Points and residues have one spelling each, and everything else is refused."""

from __future__ import annotations

import pytest
from py_arkworks_bls12381 import G1Point

from dhdmm.validation import verification
from dhdmm.validation.commitment import sum_is_committed
from dhdmm.validation.group import (
    INFINITY,
    ORDER,
    EncodingError,
    bases,
    combine,
    decode_point,
    decode_scalars,
    encode_point,
    encode_scalars,
)
from dhdmm.validation.squares import four_squares
from tests.secagg.seeded import seeded
from tests.validation import plain
from tests.validation.claims import BLINDING, SHORT, STATEMENT, forged

COFACTOR = 0x396C8C005555E1568C00AAAB0000AAAB


def times(point: G1Point, factor: int) -> G1Point:
    """By doubling, which is right outside of the subgroup, too."""
    result = INFINITY
    for bit in f"{factor:b}":
        result = result + result
        if bit == "1":
            result = result + point
    return result


def of_order_three() -> G1Point:
    for x in range(1, 100):
        try:
            point = G1Point.from_compressed_bytes_unchecked(bytes([128]) + x.to_bytes(47, "big"))
        except ValueError:
            continue
        small = times(point, ORDER * COFACTOR // 3)
        if small != INFINITY:
            return small
    raise AssertionError("a third of all points would do")


def test_hashing_to_the_group_is_that_of_rfc_9380() -> None:
    """Its appendix J.9.1, the empty message."""
    tag = b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_"
    x = "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4"
    x += "e8cf62d9c09db0fac349612b759e79a1"
    point = G1Point.hash_to_curve(b"", tag)
    assert point.to_xy_bytes_be()[:48].hex() == x


def test_generators_differ_and_longer_vectors_have_those_of_shorter_ones() -> None:
    three, five = bases(3), bases(5)
    assert five.g[:3] == three.g
    everything = [*five.g, *five.w, five.f, five.h]
    assert len({encode_point(p) for p in everything}) == 5 + 132 + 2


def test_combinations_are_those_of_repeated_additions() -> None:
    g = bases(3).g
    assert combine(g, [2, -1, 0]) == g[0] + g[0] - g[1]
    assert combine(g, [ORDER + 1, ORDER - 1, ORDER]) == g[0] - g[1]
    half = ORDER // 2
    assert combine([g[0], g[0]], [half, half + 1]) == INFINITY


def test_a_scalar_too_few_is_an_error_and_not_left_out() -> None:
    with pytest.raises(ValueError, match="3 points for 2 scalars"):
        combine(bases(3).g, [1, 2])


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        bytes(48),
        bytes(47),
        b"\xff" * 48,
        encode_point(INFINITY),
        encode_point(INFINITY)[:-1] + b"\x01",  # which the library takes for infinity
        encode_point(bases(3).h) + b"\0",
        encode_point(of_order_three()),
        encode_point(bases(3).h + of_order_three()),
    ],
)
def test_what_is_no_point_of_the_group_is_refused(encoded: bytes) -> None:
    with pytest.raises(EncodingError):
        decode_point(encoded)


def test_a_coordinate_beyond_the_field_is_refused() -> None:
    """x + P has the bits of a second spelling of x, for the few points whose x is so small."""
    found = 0
    for x in range(1, 40):
        flagged = [(0b100 << 381) | x, (0b100 << 381) | (x + plain.P)]
        first, second = (number.to_bytes(48, "big") for number in flagged)
        try:
            G1Point.from_compressed_bytes_unchecked(first)
        except ValueError:
            continue
        found += 1
        with pytest.raises(ValueError, match="Err From Rust"):
            G1Point.from_compressed_bytes_unchecked(second)
    assert found


def test_numbers_that_are_not_reduced_are_refused() -> None:
    assert decode_scalars(encode_scalars([0, ORDER - 1])) == [0, ORDER - 1]
    for wrong in (encode_scalars([ORDER]), b"\xff" * 32, bytes(33)):
        with pytest.raises(EncodingError):
            decode_scalars(wrong)


def test_without_the_check_of_the_subgroup_a_commitment_that_spoils_the_sum_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch forgets a surplus of order 3 whenever its random weight is a multiple of 3."""
    y, w = SHORT, four_squares(STATEMENT.bound**2 - sum(x * x for x in SHORT), seeded(0))
    claim = forged(y, w, surplus=of_order_three())
    attempts = [[seeded(("weights", i)), [claim]] for i in range(12)]
    reasons = [verification.faults(STATEMENT, claims, draw) for draw, claims in attempts]
    assert reasons == [{0: "not a point of the group"}] * 12
    monkeypatch.setattr(verification, "decode_point", G1Point.from_compressed_bytes_unchecked)
    weakened = [verification.faults(STATEMENT, claims, draw) for draw, claims in attempts]
    assert {} in weakened
    C = G1Point.from_compressed_bytes_unchecked(claim.commitment)
    assert not sum_is_committed([C], y, BLINDING)

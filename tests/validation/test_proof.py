"""Proofs of true statements are accepted, and say nothing else."""

from __future__ import annotations

from math import isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.validation import challenges, proving, verification
from dhdmm.validation.commitment import commit
from dhdmm.validation.group import (
    ORDER,
    PROJECTIONS,
    Point,
    bases,
    combine,
    decode_point,
    encode_point,
)
from dhdmm.validation.proof import Proof, Statement, StatementError
from dhdmm.validation.proving import BoundExceeded, dot
from dhdmm.validation.verification import Claim, faults
from tests.secagg.seeded import seeded
from tests.validation.claims import BLINDING, SHORT, STATEMENT, accepted, honest


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=12), st.integers(1, 1000))
def test_every_short_vector_is_proved(y: list[int], room: int) -> None:
    statement = Statement(len(y), isqrt(sum(entry * entry for entry in y)) + room)
    assert accepted(honest(y=y, statement=statement, seed=str(y)), statement)


@pytest.mark.parametrize("y", [[0, 0, 0], [100, 0, 0], [0, -60, 80], [99, 14, 1]])
def test_up_to_the_bound_itself(y: list[int]) -> None:
    assert accepted(honest(y=y))


@pytest.mark.parametrize("y", [[101, 0, 0], [0, -60, 81], [99, 14, 2]])
def test_no_proof_is_made_beyond_the_bound(y: list[int]) -> None:
    with pytest.raises(BoundExceeded, match=r"longer than the bound$"):  # and not by how much
        honest(y=y)


def test_lengths_and_bounds_at_the_limits() -> None:
    widest = Statement(1, isqrt(2**124 // 5) - 1)
    assert accepted(honest(y=[-widest.bound], statement=widest), widest)
    for length, bound in [(0, 1), (2**24 + 1, 1), (1, 0), (1, -1), (1, isqrt(2**124 // 5) + 1)]:
        with pytest.raises(StatementError):
            Statement(length, bound)
    with pytest.raises(ValueError, match="another length"):
        honest(y=[1, 2])


@given(st.integers(1, 2**24))
def test_entries_that_pass_the_projections_have_squares_that_do_not_wrap(length: int) -> None:
    mask = 2 ** Statement(length, 1).mask_bits
    assert (length + 4) * mask**2 < ORDER
    assert mask > 128 * 2 * 2**62 * 2**40  # a mask is drawn again less than once in 2⁴⁰ proofs


def test_masks_are_drawn_again_near_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask of 0 would show a projection as it is."""
    drawn, masks = [], proving._masks

    def first_without(*arguments: object) -> tuple[list[int], int]:
        mu, blinding = masks(*arguments)  # type: ignore[arg-type]
        drawn.append([0, *mu[1:]] if not drawn else mu)
        return drawn[-1], blinding

    monkeypatch.setattr(proving, "_masks", first_without)
    assert accepted(honest())
    assert len(drawn) == 2


def test_whoever_may_choose_the_last_challenge_needs_no_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Zero knowledge: if the hash can be told what to say, proofs are made of the commitment alone,
    even of a false statement, with the distribution of true ones. Otherwise they are refused."""
    long, context, randomness = commit([10**6, 0, 0], BLINDING), b"simulated", seeded(0)
    simulated, c = simulate(STATEMENT, context, long, randomness)
    claim = Claim(context, encode_point(long), simulated.encode())
    assert not accepted(claim)
    monkeypatch.setattr(challenges, "last", lambda *_: c)
    assert accepted(claim)


def simulate(
    statement: Statement, context: bytes, C: Point, randomness: proving.Randomness
) -> tuple[Proof, int]:
    """Uniform s, z and A; whatever then makes the equations true."""

    def uniform(count: int, below: int = ORDER) -> list[int]:
        return [int.from_bytes(randomness(48), "little") % below for _ in range(count)]

    k, around = statement.length, bases(statement.length)
    A = combine([around.h], uniform(1))
    span = 2**statement.mask_bits - 2 * statement.reach
    s = [statement.reach + shown for shown in uniform(PROJECTIONS, span)]
    first = challenges.first(statement, context, C, A)
    second = challenges.second(first, s)
    rho, form = challenges.linear_form(second, challenges.bits_of(statement, first))
    z, (z1, z2, zq, blinding), (c,) = uniform(k + 132), uniform(4), uniform(1, 2**128)
    T1 = combine([*around.g, around.h, C], [*z[:k], z1, -c])
    T2 = combine([*around.w, around.h, A], [*z[k:], z2, -c])
    Q1 = combine([around.h], [blinding])
    surplus = dot(z[: k + 4], z[: k + 4]) - (c * statement.bound) ** 2
    Q0 = combine([around.f, around.h, Q1], [surplus, zq, -c])
    offset = (dot(form, z) - c * dot(rho, s)) % ORDER
    return Proof(A, s, T1, T2, Q0, Q1, offset, z, z1, z2, zq), c


# A machine that was set back draws the same randomness for another proof


def test_the_same_randomness_gives_other_masks_for_another_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(context: bytes) -> list[int]:
        return Proof.decode(STATEMENT, honest(context).proof).s

    def differences() -> list[int]:
        pairs = zip(shown(b"round 1"), shown(b"round 2"), strict=True)
        return [abs(a - b) for a, b in pairs]

    assert max(differences()) > 2**60 * STATEMENT.reach
    masks = proving._masks
    monkeypatch.setattr(
        proving, "_masks", lambda statement, context, C, draw: masks(statement, b"", C, draw)
    )
    assert max(differences()) <= 2 * STATEMENT.reach  # two projections of one vector, unmasked


def test_the_same_randomness_never_answers_two_challenges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """z = a + c x for two c and one a would give x away."""

    def solved() -> list[int]:
        (z, c), (other_z, other_c) = (answered(context) for context in (b"round 1", b"round 2"))
        inverse = pow(c - other_c, -1, ORDER)
        entries = [(a - b) * inverse % ORDER for a, b in zip(z, other_z, strict=True)]
        return [(entry + ORDER // 2) % ORDER - ORDER // 2 for entry in entries[:3]]

    assert solved() != SHORT
    uniform = proving._uniform
    monkeypatch.setattr(
        proving, "_uniform", lambda purpose, *seed, count: uniform(purpose, seed[0], count=count)
    )
    assert solved() == SHORT


def answered(context: bytes) -> tuple[list[int], int]:
    """z and c of an honest proof with always the same randomness."""
    claim = honest(context)
    checked = verification._check_numbers(STATEMENT, claim)
    assert decode_point(claim.commitment) == checked.C
    return checked.proof.z, checked.c


# Batches


@pytest.mark.slow
def test_bad_proofs_among_two_hundred_are_found_and_the_others_hold() -> None:
    claims = [honest(b"seat %d" % i, [i % 50, -i % 50, 7], r=i + 1, seed=i) for i in range(200)]
    assert faults(STATEMENT, claims, seeded(0)) == {}
    proof = bytearray(claims[17].proof)
    proof[-1 - 32 * 135 - 32] ^= 1  # of zq: only the equations between points notice
    claims[17] = claims[17]._replace(proof=bytes(proof))
    claims[121] = claims[121]._replace(context=b"seat 122")
    claims[199] = claims[199]._replace(proof=b"")
    assert faults(STATEMENT, claims, seeded(0)) == {
        17: "the answer does not fit the commitments",
        121: "the projections are not those of the committed vector",
        199: f"0 bytes, {STATEMENT.proof_bytes:,} are due",
    }


def test_no_claims_have_no_faults() -> None:
    assert faults(STATEMENT, [], seeded(0)) == {}

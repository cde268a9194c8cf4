"""What provers with another program try, and the weakened verifier that each would succeed with."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from dhdmm.validation import challenges, proving, verification
from dhdmm.validation import proof as proofs
from dhdmm.validation.commitment import commit, sum_is_committed
from dhdmm.validation.group import (
    ORDER,
    Point,
    bases,
    encode_point,
)
from dhdmm.validation.proof import Proof, Statement
from dhdmm.validation.squares import four_squares
from dhdmm.validation.verification import Claim, faults
from tests.secagg.seeded import seeded
from tests.validation.claims import (
    BLINDING,
    SHORT,
    STATEMENT,
    accepted,
    forged,
    honest,
    projected,
    squares_modulo_q,
)

LONG = [10**6, 0, 0]
WRAPPED = [ORDER // 2 - 5, 3, 0]
Patch = pytest.MonkeyPatch
first = challenges.first  # as it is, while another one takes its place


def reason(claim: Claim) -> str:
    return faults(STATEMENT, [claim], seeded("weights"))[0]


# Longer vectors


def test_a_long_vector_without_squares_that_fill_it_up(monkeypatch: Patch) -> None:
    claim = forged(LONG, [1, 2, 3, 4])
    assert reason(claim) == "the answer does not fit the commitments"
    monkeypatch.setattr(verification, "_weights", lambda draw: (*weights_of_two(draw), 0))
    assert accepted(claim)  # without the equation of the squares


def weights_of_two(draw: proving.Randomness) -> tuple[int, int]:
    return int.from_bytes(draw(16), "little"), int.from_bytes(draw(16), "little")


@pytest.mark.parametrize("y", [LONG, WRAPPED])
def test_squares_that_add_up_to_the_bound_modulo_q(y: list[int], monkeypatch: Patch) -> None:
    w = squares_modulo_q(STATEMENT.bound**2 - sum(entry * entry for entry in y))
    claim = forged(y, w)
    assert reason(claim) == "the projections are not those of the committed vector"
    monkeypatch.setattr(verification, "_require_linear_form", lambda *_: None)
    assert accepted(claim)  # without the projections


def test_projections_of_a_vector_that_wraps_are_out_of_range(monkeypatch: Patch) -> None:
    """The limit of entries: L − 1 may pass, above it each projection is a coin's toss."""
    limit = 2**STATEMENT.mask_bits
    y = [2 * limit, 0, 0]
    w = squares_modulo_q(STATEMENT.bound**2 - y[0] ** 2)
    monkeypatch.setattr(proofs, "SHOWN_BYTES", 32)  # so that it can say the truth
    monkeypatch.setattr(proofs, "_HEAD", proofs._POINTS * 48 + 128 * 32)
    statement = Statement(STATEMENT.length, STATEMENT.bound)
    claim = forged(y, w, statement=statement, shown_modulo=ORDER)
    assert faults(statement, [claim], seeded(0)) == {0: "a projection is out of range"}
    monkeypatch.setattr(verification, "_require_shown_in_range", lambda *_: None)
    assert accepted(claim, statement)


def test_masks_chosen_after_the_projections(monkeypatch: Patch) -> None:
    """Whoever knows β before it commits to its masks chooses those that undo the projections."""

    def without_masks(statement: Statement, context: bytes, C: Point, A: Point) -> bytes:
        return first(statement, context, C, bases(3).h)

    C = commit(WRAPPED, BLINDING)
    w = squares_modulo_q(STATEMENT.bound**2 - sum(entry * entry for entry in WRAPPED))
    bits = challenges.bits_of(STATEMENT, without_masks(STATEMENT, b"seat", C, bases(3).h))
    undone = [(2**100 - p) % ORDER for p in projected(bits, [*WRAPPED, *w])]
    assert not accepted(forged(WRAPPED, w, context=b"seat", masks=undone))
    weaken_first_challenge(monkeypatch, without_masks)
    assert accepted(forged(WRAPPED, w, context=b"seat", masks=undone))


def weaken_first_challenge(monkeypatch: Patch, weakened: object) -> None:
    monkeypatch.setattr(challenges, "first", weakened)


# What belongs to others


@pytest.mark.parametrize("context", [b"round 1, seat 5", b"round 2, seat 4", b"", b"round 1, sea"])
def test_a_proof_of_another_seat_or_round(context: bytes, monkeypatch: Patch) -> None:
    moved = honest()._replace(context=context)
    assert not accepted(moved)
    weaken_first_challenge(
        monkeypatch, lambda statement, context, C, A: first(statement, b"", C, A)
    )
    assert accepted(honest()._replace(context=context))


def test_a_proof_of_a_looser_bound(monkeypatch: Patch) -> None:
    looser = Statement(STATEMENT.length, STATEMENT.bound + 1)
    assert not accepted(honest(statement=looser))
    assert accepted(honest(statement=looser), looser)


def test_a_commitment_that_takes_the_others_away() -> None:
    """C* = Com(Y*; R*) − Σ of the others' passes the check of the sum, whatever Y* is. No proof of
    the forger's fits it: it would have to know what is in the others'."""
    others = [commit([1, 2, 3], 5), commit([4, 5, 6], 7)]
    wanted, blinding = [10**6, -(10**6), 0], 99
    rogue = commit(wanted, blinding) - others[0] - others[1]
    assert sum_is_committed([*others, rogue], wanted, blinding)
    for y, r in [([0, 0, 0], 0), (wanted, blinding), (SHORT, BLINDING)]:
        w = squares_modulo_q(STATEMENT.bound**2 - sum(entry * entry for entry in y))
        claim = forged(y, w)._replace(commitment=encode_point(rogue))
        assert not accepted(claim)
        surplus = rogue - commit(y, BLINDING)  # hashed as it should be, answered for y
        assert not accepted(forged(y, four_squares_of_rest(y), surplus=surplus)), r


def four_squares_of_rest(y: list[int]) -> tuple[int, ...]:
    rest = STATEMENT.bound**2 - sum(entry * entry for entry in y)
    return four_squares(rest, seeded(0)) if rest >= 0 else squares_modulo_q(rest)


# Second spellings


def test_more_numbers_than_are_due(monkeypatch: Patch) -> None:
    """They would count in some equations and not in others."""
    claim = honest()
    for surplus in (1, 32, 64):
        longer = claim._replace(proof=claim.proof + bytes(surplus))
        assert reason(longer).endswith("are due")
        assert not accepted(claim._replace(proof=claim.proof[:-surplus]))
    lax = Statement(STATEMENT.length, STATEMENT.bound)
    monkeypatch.setitem(vars(lax), "proof_bytes", len(claim.proof) + 32)
    longer = claim._replace(proof=claim.proof + bytes(32))
    with pytest.raises(ValueError, match="zip"):
        accepted(longer, lax)
    monkeypatch.setattr(verification, "dot", lambda a, b: proving.dot(a[: len(b)], b[: len(a)]))
    monkeypatch.setattr(
        verification, "zip", lambda a, b, strict: zip(a, b, strict=False), raising=False
    )
    assert accepted(longer, lax)  # a verifier that asks for no lengths has two proofs for one


def test_numbers_that_are_not_reduced(monkeypatch: Patch) -> None:
    claim = honest()
    decoded = Proof.decode(STATEMENT, claim.proof)
    place = next(i for i, z in enumerate(decoded.z) if z + ORDER < 2**256)
    z = [entry + ORDER * (i == place) for i, entry in enumerate(decoded.z)]
    second = claim._replace(proof=Proof(**(vars(decoded) | {"z": z})).encode())
    assert reason(second) == "a number is not reduced"
    monkeypatch.setattr(proofs, "decode_scalars", decode_any_scalars)
    assert accepted(second)


def decode_any_scalars(encoded: bytes) -> list[int]:
    return [int.from_bytes(encoded[at : at + 32], "little") for at in range(0, len(encoded), 32)]


@pytest.mark.slow
def test_a_thousand_mutated_proofs_are_refused() -> None:
    """Bits turned, bytes replaced, pieces cut out, doubled or moved."""
    chance, claim = random.Random(0), honest()
    for _ in range(1000):
        mutated = bytearray(claim.proof)
        match chance.randrange(5):
            case 0:
                mutated[chance.randrange(len(mutated))] ^= 1 << chance.randrange(8)
            case 1:
                at = chance.randrange(len(mutated) - 32)
                mutated[at : at + 32] = chance.randbytes(32)
            case 2:
                del mutated[chance.randrange(len(mutated)) :]
            case 3:
                at = chance.randrange(0, len(mutated) - 96, 16)
                mutated[at : at + 96] = mutated[at + 48 : at + 96] + mutated[at : at + 48]
            case _:
                mutated[chance.randrange(len(mutated)) :] += chance.randbytes(chance.randrange(64))
        if bytes(mutated) != claim.proof:
            assert not accepted(claim._replace(proof=bytes(mutated)))


def test_mutated_commitments_are_refused() -> None:
    claim = honest()
    for bit in range(8 * len(claim.commitment)):
        mutated = bytearray(claim.commitment)
        mutated[bit // 8] ^= 1 << bit % 8
        assert not accepted(claim._replace(commitment=bytes(mutated)))


# Hostile sizes


@pytest.mark.parametrize("size", [0, 1, 47, 10**7])
def test_proofs_of_another_size_cost_nothing(size: int, monkeypatch: Patch) -> None:
    """Nothing of them is decoded, and no copy is made."""
    points: list[bytes] = []
    monkeypatch.setattr(proofs, "decode_point", points.append)
    claims_of_size = [honest()._replace(proof=bytes(size))] * 20
    tracemalloc.start()
    found = faults(STATEMENT, claims_of_size, seeded(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 20
    assert not points
    assert peak < 200_000


def test_a_batch_all_of_whose_proofs_are_bad_is_checked_at_most_twice_each(
    monkeypatch: Patch,
) -> None:
    """Halving has fewer than 2n nodes."""
    calls: list[int] = []
    monkeypatch.setattr(
        verification, "_equations_hold", lambda _statement, batch, _draw: calls.append(len(batch))
    )
    assert len(faults(STATEMENT, [honest()] * 32, seeded(0))) == 32
    assert len(calls) == 63


def test_a_proof_says_nothing_in_its_repr() -> None:
    assert str(Proof.decode(STATEMENT, honest().proof).z[0]) not in repr(
        Proof.decode(STATEMENT, honest().proof)
    )

"""Checking proofs, many at once: the equations between numbers one by one, those between points all
together, each multiplied by a random weight; `proof` defines the letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dhdmm.aggregation.randomness import Randomness
from dhdmm.validation import challenges
from dhdmm.validation.group import (
    INFINITY,
    ORDER,
    EncodingError,
    Point,
    bases,
    combine,
    decode_point,
)
from dhdmm.validation.proof import Proof, Statement
from dhdmm.validation.proving import dot

_WEIGHT_BYTES = 16
"""A batch with a false equation passes with probability 2⁻¹²⁸."""


class Claim(NamedTuple):
    """A commitment and the proof about it, as they came, and the context they must be for."""

    context: bytes
    commitment: bytes
    proof: bytes


class Refused(ValueError):
    """A proof does not hold; the text says where."""


@dataclass(frozen=True, repr=False)
class _Checked:
    """A proof of which only the equations between points are left to be checked."""

    C: Point
    proof: Proof
    c: int
    surplus: int
    """⟨z, z⟩ − c²B², which Q₀ + c Q₁ must commit to."""


def faults(statement: Statement, claims: Sequence[Claim], randomness: Randomness) -> dict[int, str]:
    """Which claims do not hold, and why.

    Args:
        statement: What each is a proof of.
        claims: Of whoever they are from: nothing about their bytes is taken for granted.
        randomness: Of the operating system: a prover that foresees it can pass a false proof.

    Returns:
        Reasons, by the place of the claim. Every other claim holds.
    """
    found, checked = dict[int, str](), dict[int, _Checked]()
    for place, claim in enumerate(claims):
        try:
            checked[place] = _check_numbers(statement, claim)
        except (Refused, EncodingError) as error:
            found[place] = str(error)
    false = _false_equations(statement, checked, randomness)
    return found | dict.fromkeys(false, "the answer does not fit the commitments")


def _check_numbers(statement: Statement, claim: Claim) -> _Checked:
    """All but the equations between points, or `Refused`."""
    C, proof = decode_point(claim.commitment), Proof.decode(statement, claim.proof)
    _require_shown_in_range(statement, proof)
    first = challenges.first(statement, claim.context, C, proof.A)
    second = challenges.second(first, proof.s)
    c = challenges.last(second, proof.offset, proof.T1, proof.T2, proof.Q0, proof.Q1)
    rho, form = challenges.linear_form(second, challenges.bits_of(statement, first))
    _require_linear_form(proof, rho, form, c)
    v = proof.z[: statement.length + 4]
    return _Checked(C, proof, c, (dot(v, v) - (c * statement.bound) ** 2) % ORDER)


def _require_shown_in_range(statement: Statement, proof: Proof) -> None:
    """0 ≤ s_l < L."""
    if any(shown >> statement.mask_bits for shown in proof.s):
        raise Refused("a projection is out of range")


def _require_linear_form(proof: Proof, rho: list[int], form: list[int], c: int) -> None:
    """⟨λ, z⟩ = ⟨λ, a⟩ + c ⟨ρ, s⟩."""
    if (dot(form, proof.z) - proof.offset - c * dot(rho, proof.s)) % ORDER:
        raise Refused("the projections are not those of the committed vector")


def _false_equations(
    statement: Statement, checked: dict[int, _Checked], randomness: Randomness
) -> list[int]:
    """Those whose equations do not hold: all at once, then by halves."""
    if not checked or _equations_hold(statement, list(checked.values()), randomness):
        return []
    if len(checked) == 1:
        return list(checked)
    places = list(checked)
    halves = places[: len(places) // 2], places[len(places) // 2 :]
    return [
        place
        for half in halves
        for place in _false_equations(statement, {i: checked[i] for i in half}, randomness)
    ]


def _equations_hold(
    statement: Statement, checked: Sequence[_Checked], randomness: Randomness
) -> bool:
    """T₁ + cC = Com(z of y; z₁), T₂ + cA = Com(z of w and μ; z₂), Q₀ + cQ₁ = Com(surplus; z_q)."""
    around, k = bases(statement.length), statement.length
    sums, f, h = [0] * (k + len(around.w)), 0, 0
    points, scalars = list[Point](), list[int]()
    for C, proof, c, surplus in ((one.C, one.proof, one.c, one.surplus) for one in checked):
        w1, w2, w3 = _weights(randomness)
        for part, weight in ((slice(0, k), w1), (slice(k, None), w2)):
            pairs = zip(sums[part], proof.z[part], strict=True)
            sums[part] = [total + weight * z for total, z in pairs]
        f += w3 * surplus
        h += w1 * proof.z1 + w2 * proof.z2 + w3 * proof.zq
        points += [proof.T1, C, proof.T2, proof.A, proof.Q0, proof.Q1]
        scalars += [-w1, -w1 * c, -w2, -w2 * c, -w3, -w3 * c]
    bases_of_all = [*around.g, *around.w, around.f, around.h]
    return combine([*bases_of_all, *points], [*sums, f, h, *scalars]) == INFINITY


def _weights(randomness: Randomness) -> tuple[int, int, int]:
    """One for each equation."""
    w1, w2, w3 = (int.from_bytes(randomness(_WEIGHT_BYTES), "little") for _ in range(3))
    return w1, w2, w3

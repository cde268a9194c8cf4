"""Making a proof: commit, be challenged with projections, answer; `proof` defines the letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhdmm.aggregation.randomness import Randomness
from dhdmm.validation import challenges
from dhdmm.validation.challenges import Bits, numbers
from dhdmm.validation.commitment import commit
from dhdmm.validation.group import (
    ORDER,
    PROJECTIONS,
    SCALAR_BYTES,
    SURPLUS_BYTES,
    Bases,
    Point,
    bases,
    combine,
    encode_point,
    encode_scalars,
)
from dhdmm.validation.proof import SHOWN_BYTES, Proof, Statement
from dhdmm.validation.squares import four_squares


class BoundExceeded(ValueError):
    """The vector is longer than the bound, so there is no proof."""


def prove(
    statement: Statement, context: bytes, y: Sequence[int], r: int, randomness: Randomness
) -> bytes:
    """A proof about C = Σ y_j g_j + r h, valid with this context only.

    Args:
        statement: The bound, and the length of y.
        context: Says whose commitment this is and what for. A verifier uses its own.
        y: The integers committed to.
        r: Their blinding.
        randomness: Of the operating system.

    Returns:
        The proof, encoded. What it says but that the statement is true is uniformly random.

    Raises:
        BoundExceeded: ‖y‖ > B.
    """
    room = statement.bound**2 - sum(entry * entry for entry in y)
    if len(y) != statement.length:
        raise ValueError(f"a vector of {len(y):,} entries, the statement is about another length")
    if room < 0:
        raise BoundExceeded("the vector is longer than the bound")
    around, C = bases(statement.length), commit(y, r)
    v = [*y, *four_squares(room, randomness)]
    while True:
        mu, r_aux = _masks(statement, context, C, randomness)
        A = commit_auxiliary(around, [*v[statement.length :], *mu], r_aux)
        first = challenges.first(statement, context, C, A)
        bits = challenges.bits_of(statement, first)
        s = _masked_projections(bits, v, mu)
        if _tells_nothing(statement, s):
            return answer(bits, first, A, s, [*v, *mu], (r, r_aux), randomness).encode()


def _masks(
    statement: Statement, context: bytes, C: Point, randomness: Randomness
) -> tuple[list[int], int]:
    """μ below L, and r′.

    From fresh randomness together with what the proof is about: a machine that was set back and
    draws the same again uses it for the same proof, or gets other masks.
    """
    about = randomness(32), statement.encode(), context, encode_point(C)
    surplus = 8 * SHOWN_BYTES - statement.mask_bits
    wide = numbers("masks", *about, count=PROJECTIONS, size=SHOWN_BYTES)
    return [mask >> surplus for mask in wide], _uniform("blinding", *about, count=1)[0]


def _masked_projections(bits: Bits, v: list[int], mu: list[int]) -> list[int]:
    """s = βv + μ; the statement's limits keep βv in 64 bits."""
    projected = (bits.astype(np.int64) @ np.array(v, np.int64)).tolist()
    return [p + mask for p, mask in zip(projected, mu, strict=True)]


def _tells_nothing(statement: Statement, s: list[int]) -> bool:
    """Every s_l in [N, L − N), which each mask in it reaches for every v: then s is uniform there.

    Fails once in 2⁴⁰ times and more.
    """
    N, L = statement.reach, 2**statement.mask_bits
    return all(N <= shown < L - N for shown in s)


def answer(
    bits: Bits,
    first: bytes,
    A: Point,
    s: list[int],
    x: list[int],
    blindings: tuple[int, int],
    randomness: Randomness,
) -> Proof:
    """The rest of the proof, after s: of ⟨λ, x⟩ = ⟨ρ, s⟩ and ⟨v, v⟩ = B² modulo q."""
    second, ends = challenges.second(first, s), bits.shape[1]
    _, form = challenges.linear_form(second, bits)
    # as for the masks: never the same a with two challenges
    seed = randomness(32), second, encode_scalars(e % ORDER for e in (*x, *blindings))
    *a, s1, s2, u0, u1 = _uniform("answer", *seed, count=len(x) + 4)
    around = bases(ends - 4)
    T1 = combine([*around.g, around.h], [*a[: ends - 4], s1])
    T2 = commit_auxiliary(around, a[ends - 4 :], s2)
    Q0 = combine([around.f, around.h], [dot(a[:ends], a[:ends]), u0])
    Q1 = combine([around.f, around.h], [2 * dot(a[:ends], x[:ends]), u1])
    offset = dot(form, a)
    c = challenges.last(second, offset, T1, T2, Q0, Q1)
    z = [(ai + c * xi) % ORDER for ai, xi in zip(a, x, strict=True)]
    r, r_aux = blindings
    z1, z2, zq = (s1 + c * r) % ORDER, (s2 + c * r_aux) % ORDER, (u0 + c * u1) % ORDER
    return Proof(A, s, T1, T2, Q0, Q1, offset, z, z1, z2, zq)


def commit_auxiliary(around: Bases, numbers: Sequence[int], blinding: int) -> Point:
    """To (w, μ), under generators of their own."""
    return combine([*around.w, around.h], [*numbers, blinding])


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    """⟨left, right⟩ modulo q."""
    return sum(a * b for a, b in zip(left, right, strict=True)) % ORDER


def _uniform(purpose: str, *seed: bytes, count: int) -> list[int]:
    drawn = numbers(purpose, *seed, count=count, size=SCALAR_BYTES + SURPLUS_BYTES)
    return [number % ORDER for number in drawn]

"""Honest claims, and what a prover with another program would send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhdmm.validation import challenges, proving
from dhdmm.validation.commitment import commit
from dhdmm.validation.group import INFINITY, ORDER, PROJECTIONS, Point, bases, encode_point
from dhdmm.validation.proof import Statement
from dhdmm.validation.verification import Claim, faults
from tests.secagg.seeded import seeded

STATEMENT = Statement(length=3, bound=100)
SHORT, BLINDING = [60, -30, 7], 123456789


def honest(
    context: bytes = b"round 1, seat 4",
    y: Sequence[int] = SHORT,
    r: int = BLINDING,
    statement: Statement = STATEMENT,
    seed: object = 0,
) -> Claim:
    proof = proving.prove(statement, context, y, r, seeded(seed))
    return Claim(context, encode_point(commit(y, r)), proof)


def accepted(claim: Claim, statement: Statement = STATEMENT) -> bool:
    return not faults(statement, [claim], seeded("weights"))


def forged(
    y: Sequence[int],
    w: Sequence[int],
    *,
    statement: Statement = STATEMENT,
    context: bytes = b"round 1, seat 4",
    masks: Sequence[int] = [2**100] * PROJECTIONS,
    surplus: Point = INFINITY,
    shown_modulo: int | None = None,
) -> Claim:
    """The honest program's steps with any (y, w), masks, and surplus in the commitment.

    What is shown is cut to the range, whatever it should be, or taken modulo something else.
    """
    C = commit(y, BLINDING) + surplus
    A = proving.commit_auxiliary(bases(statement.length), [*w, *masks], 1)
    first = challenges.first(statement, context, C, A)
    bits, v = challenges.bits_of(statement, first), [*y, *w]
    true = [(p + m) % ORDER for p, m in zip(projected(bits, v), masks, strict=True)]
    s = [shown % (shown_modulo or 2**statement.mask_bits) for shown in true]
    x, randomness = [*v, *masks], seeded("forger")
    proof = proving.answer(bits, first, A, s, x, (BLINDING, 1), randomness)
    return Claim(context, encode_point(C), proof.encode())


def projected(bits: np.ndarray, v: Sequence[int]) -> list[int]:
    """βv, in integers of any size."""
    return [sum(x for bit, x in zip(row, v, strict=True) if bit) for row in bits.tolist()]


def squares_modulo_q(number: int) -> tuple[int, int, int, int]:
    """a, b, 0, 0 with a² + b² = number modulo q."""
    for a in range(1, 200):
        if (b := root_modulo_q(number - a * a)) is not None:
            return a, b, 0, 0
    raise AssertionError("half of all numbers have a root")


def root_modulo_q(number: int) -> int | None:
    """By Tonelli and Shanks."""
    number %= ORDER
    if pow(number, (ORDER - 1) // 2, ORDER) != 1:
        return None
    odd, twos = ORDER - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    c = pow(7, odd, ORDER)  # 7 generates the field's units
    root, left = pow(number, (odd + 1) // 2, ORDER), pow(number, odd, ORDER)
    while left != 1:
        order, power = 0, left
        while power != 1:
            power, order = power * power % ORDER, order + 1
        factor = pow(c, 1 << (twos - order - 1), ORDER)
        root, c, twos = root * factor % ORDER, factor * factor % ORDER, order
        left = left * c % ORDER
    return root

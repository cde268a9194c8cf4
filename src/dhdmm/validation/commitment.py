"""A commitment to an integer vector y is C = Σ y_j g_j + r h (Pedersen). Commitments add up.

Whoever knows r and can guess y can check the guess: r is added up as secretly as y, modulo q, and
only Σ r becomes known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dhdmm.aggregation.randomness import Randomness
from dhdmm.validation.group import (
    ORDER,
    SCALAR_BYTES,
    SURPLUS_BYTES,
    Point,
    bases,
    combine,
    total,
)


def draw_blinding(randomness: Randomness) -> int:
    """r, uniform modulo q."""
    return int.from_bytes(randomness(SCALAR_BYTES + SURPLUS_BYTES), "little") % ORDER


def commit(vector: Sequence[int], blinding: int) -> Point:
    """C = Σ y_j g_j + r h."""
    around = bases(len(vector))
    return combine([*around.g, around.h], [*vector, blinding])


def sum_is_committed(commitments: Iterable[Point], vector: Sequence[int], blinding: int) -> bool:
    """Whether Σ C_i is the commitment to these sums of vectors and of blindings."""
    return commit(vector, blinding) == total(commitments)

"""A commitment to an integer vector y is C = Σ y_j g_j + r h (Pedersen). Commitments add up.

r must add up inside the same sums as y, modulo m, and those sums are public. So it travels as J
limbs ρ_j, uniform in [0, 2^ℓ), and r = Σ t_j ρ_j modulo q with weights t_j that nobody chose. The
digits of r would not do: their sums say more about the single r than Σ r does.
docs/validation.md has the bound, ADR 35 the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_256

from dhdmm.aggregation.randomness import Randomness
from dhdmm.validation.group import ORDER, Point, bases, combine, total

HIDING_BITS = 64
"""All limb sums together tell at most 2⁻⁶⁴ about the commitments of a round."""
_LARGEST_LIMB_BITS = 56


class BlindingError(ValueError):
    """The modulus leaves no room for limbs."""


@dataclass(frozen=True)
class Limbs:
    """J = `count` limbs of ℓ = `bits` bits."""

    count: int
    bits: int

    @classmethod
    def for_sums(cls, summands: int, modulus: int) -> Limbs:
        """The fewest whose sums stay below the modulus, n (2^ℓ − 1) < m, and hide each r:

        J (ℓ − 1) ≥ log₂ q + 2 (64 + log₂ n), by the leftover hash lemma.
        """
        bits = min(_LARGEST_LIMB_BITS, ((modulus - 1) // summands + 1).bit_length() - 1)
        if bits < 2:
            raise BlindingError(f"a modulus of {modulus:,} for {summands:,} summands")
        entropy = ORDER.bit_length() + 2 * (HIDING_BITS + (summands - 1).bit_length())
        return cls(-(-entropy // (bits - 1)), bits)

    def draw(self, randomness: Randomness) -> list[int]:
        """ρ, uniform."""
        size = -(-self.bits // 8)
        drawn, surplus = randomness(size * self.count), 8 * size - self.bits
        return [
            int.from_bytes(drawn[at : at + size], "little") >> surplus
            for at in range(0, len(drawn), size)
        ]

    def blinding(self, limbs: Sequence[int]) -> int:
        """r = Σ t_j ρ_j modulo q."""
        if len(limbs) != self.count:
            raise ValueError(f"{len(limbs)} limbs, {self.count} are due")
        return sum(t * limb for t, limb in zip(_weights(self.count), limbs, strict=True)) % ORDER


@lru_cache(maxsize=8)
def _weights(count: int) -> list[int]:
    """t: 384 bits modulo q are within 2⁻¹²⁹ of uniform."""
    drawn = shake_256(b"dhdmm validation 1 limb weights").digest(48 * count)
    return [
        int.from_bytes(drawn[at : at + 48], "little") % ORDER for at in range(0, len(drawn), 48)
    ]


def commit(vector: Sequence[int], blinding: int) -> Point:
    """C = Σ y_j g_j + r h."""
    around = bases(len(vector))
    return combine([*around.g, around.h], [*vector, blinding])


def sum_is_committed(commitments: Iterable[Point], vector: Sequence[int], blinding: int) -> bool:
    """Whether Σ C_i is the commitment to these sums of vectors and of blindings."""
    return commit(vector, blinding) == total(commitments)

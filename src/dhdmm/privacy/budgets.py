"""A budget as people say it: ε at a δ for all rounds together, and how many rounds it buys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dhdmm.errors import PrivacyError
from dhdmm.privacy.zcdp import Conversion

LARGEST_CKS_RHO = 100
"""Beyond it ε is above 170 and no promise; the simpler conversion says so without a solver."""
DEFAULT_DELTA = 1e-6
WRITTEN = "write epsilon=3,delta=1e-6, or rho=0.5"


@dataclass(frozen=True)
class Budget:
    """ρ for all rounds together, and the δ at which its ε is stated.

    Example:
        >>> budget = Budget.parse("epsilon=3,delta=1e-6")
        >>> f"{float(budget.rho):.3f} {budget.epsilon:.3f}"
        '0.185 3.000'
    """

    rho: Fraction
    delta: float = DEFAULT_DELTA

    @classmethod
    def parse(cls, text: str) -> Budget:
        """A budget as a command line has it: epsilon and delta, or rho with or without a delta."""
        pairs = [part.partition("=") for part in text.split(",")]
        said = {key.strip(): value.strip() for key, _, value in pairs}
        known = set(said) in ({"epsilon", "delta"}, {"rho", "delta"}, {"rho"})
        if not known or len(said) != len(pairs):
            raise PrivacyError(f"{text!r} is no budget", hint=WRITTEN)
        numbers = {key: _positive(value) for key, value in said.items()}
        delta = float(numbers.get("delta", Fraction(repr(DEFAULT_DELTA))))
        if delta >= 1:
            raise PrivacyError(f"delta is below 1, not {delta:g}", hint=WRITTEN)
        rho = numbers.get("rho")
        return cls(rho or Conversion.CKS.rho(float(numbers["epsilon"]), delta), delta)

    @property
    def epsilon(self) -> float:
        """ε of all rounds that stay within the budget, however they are chosen."""
        return epsilon_within(self.rho, self.delta)


def epsilon_within(total: Fraction, delta: float) -> float:
    """ε of any rounds, each chosen in view of the earlier ones, that stay within a fixed total ρ.

    Such rounds together are zCDP with that total (Feldman, Zrnic 2021), so the conversion must be
    one that holds for every zCDP mechanism.
    """
    if not total:
        return 0.0
    conversion = Conversion.CKS if total <= LARGEST_CKS_RHO else Conversion.PAPER
    return conversion.epsilon(total, delta)


def rounds_left(remaining: Fraction, rho: Fraction) -> int:
    """How many more rounds of this cost the budget pays for."""
    return math.floor(remaining / rho)


def buys(remaining: Fraction, rho: Fraction) -> str:
    """The same in words.

    >>> buys(Fraction(1, 10), Fraction(1, 25)), buys(Fraction(1, 10), Fraction(1, 5))
    ('2 more rounds like this one', 'no more round like this one')
    """
    number = rounds_left(remaining, rho)
    if number == 0:
        return "no more round like this one"
    return f"{number:,} more round{'s' * (number > 1)} like this one"


def _positive(text: str) -> Fraction:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    if not (number.is_finite() and 0 < number < 10**9):
        raise PrivacyError(f"{text!r} is no positive number", hint=WRITTEN)
    return Fraction(number)

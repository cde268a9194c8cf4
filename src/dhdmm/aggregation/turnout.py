"""How many participants may be corrupt, and how many must remain, whatever the way to add up."""

from __future__ import annotations

import math
from fractions import Fraction

from dhdmm.aggregation.method import ParameterError

MINIMUM_PARTICIPANTS = 3  # of two, each learns the other's input from the sum
MAXIMUM_PARTICIPANTS = 1_000_000


def counts(
    participants: int, corrupt_fraction: Fraction | float, max_dropout: Fraction | float
) -> tuple[int, int]:
    """(c, s): corrupt participants max(1, ⌊γn⌋) and fewest survivors ⌈(1−δ)n⌉."""
    if not MINIMUM_PARTICIPANTS <= participants <= MAXIMUM_PARTICIPANTS:
        raise ParameterError(
            f"{participants} participants: a round needs {MINIMUM_PARTICIPANTS} to "
            f"{MAXIMUM_PARTICIPANTS} (the sum of two reveals each to the other)"
        )
    corrupt = math.floor(_exact(corrupt_fraction, "corrupt fraction") * participants)
    dropped = math.floor(_exact(max_dropout, "dropout") * participants)
    return max(1, corrupt), participants - dropped


def _exact(fraction: Fraction | float, name: str) -> Fraction:
    """The decimal a person wrote: 0.29 means 29/100, not the binary number just below it."""
    if not 0 <= fraction < 1:  # also refuses NaN
        raise ParameterError(f"the {name} must be at least 0 and below 1, not {fraction}")
    return fraction if isinstance(fraction, Fraction) else Fraction(repr(float(fraction)))

"""From the sum in Z_m back to integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.modulus import Vector
from dhdmm.planning.plan import Plan


def decode(plan: Plan, total: Vector) -> NDArray[np.int64]:
    """M̂ = A′x + noise as signed integers: the representatives nearest to zero.

    The plan's modulus leaves a sum outside (−m/2, m/2) a probability of at most 2⁻⁶⁴.
    """
    return plan.modulus.signed(total)

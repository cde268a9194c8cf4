"""Confidence intervals from exact standard errors.

An answer's error is a fixed linear combination of many discrete Gaussians, normal for all purposes
here: its excess over the normal is below the bound of docs/accounting.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dhdmm.errors import DhdmmError

Floats = NDArray[np.float64]

DEFAULT_LEVEL = 0.95


def half_width(standard_errors: Floats, level: float = DEFAULT_LEVEL, joint: int = 1) -> Floats:
    """z·σ with Pr[|error| > z·σ] = 1 − level; for `joint` answers together, Bonferroni's z.

    >>> half_width(np.array([1.0, 2.0])).round(3).tolist()
    [1.96, 3.92]
    """
    if not 0 < level < 1:
        raise DhdmmError(f"a confidence level is between 0 and 1, not {level}")
    return np.asarray(-ndtri((1 - level) / (2 * joint)) * standard_errors)

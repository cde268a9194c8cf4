"""The little numerical analysis that accounting needs, on plain floats.

SciPy has all of it, but to import it takes longer than everything else that a participant computes
before it joins a round.
"""

from __future__ import annotations

import math
from collections.abc import Callable

GOLDEN = (math.sqrt(5) - 1) / 2


def erfcx(x: float) -> float:
    """e^{x²}·erfc(x) for x ≥ 0, to the last digits; from 10 on by its asymptotic series."""
    if x < 10:
        head = math.floor(x * 2**20) / 2**20  # its square is exact
        return math.exp(head * head) * math.exp((x - head) * (x + head)) * math.erfc(x)
    u, total = 1 / (2 * x * x), 1.0
    for k in range(29, 0, -2):
        total = 1 - k * u * total
    return total / (x * math.sqrt(math.pi))


def sign_change(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the function's sign changes between low and high: the end on the side of `high`.

    A straight line through both ends says where to look next. An end that stays twice counts half
    (the Illinois rule). Where three steps have not halved the interval its middle comes next, so
    that it shrinks whatever the function is.
    """
    at_low, at_high, moved = function(low), function(high), ""
    assert (at_low > 0) != (at_high > 0)
    widths = [math.inf] * 3
    while (width := high - low) > (least := 1e-13 * max(abs(low), abs(high)) + 1e-15):
        x = high - at_high * width / (at_high - at_low)
        x = min(max(x, low + least / 2), high - least / 2)
        if width > widths[-3] / 2:
            x = (low + high) / 2
        widths.append(width)
        at_x = function(x)
        if (at_x > 0) == (at_high > 0):
            at_low /= 2 if moved == "high" else 1
            high, at_high, moved = x, at_x, "high"
        else:
            at_high /= 2 if moved == "low" else 1
            low, at_low, moved = x, at_x, "low"
    return high


def minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The least value found between low and high by golden sections, of one with one valley."""
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > 1e-6:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - GOLDEN * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + GOLDEN * (high - low)
            at_b = function(b)
    return min(at_a, at_b)

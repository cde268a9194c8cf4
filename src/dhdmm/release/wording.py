"""Numbers and labels as people read them: rounded by their error, and safe to print."""

from __future__ import annotations

import math

SIGNIFICANT = 2
"""Digits of a standard error worth reading; its answer is written to the same place."""
MOST_DECIMALS = 6


def decimals(standard_error: float) -> int:
    """How many decimals show two digits of the standard error.

    >>> decimals(3.21), decimals(0.0456), decimals(120.0)
    (1, 3, 0)
    """
    if not (math.isfinite(standard_error) and standard_error > 0):
        return 0
    return min(max(SIGNIFICANT - 1 - math.floor(math.log10(standard_error)), 0), MOST_DECIMALS)


def number(value: float, places: int) -> str:
    """The number with thousands separated; what rounds to zero has no sign.

    >>> number(1234.56, 1), number(-0.04, 1), number(-2.5, 1)
    ('1,234.6', '0.0', '−2.5')
    """
    text = f"{value:,.{places}f}"
    if text.startswith("-"):
        return "−" + text[1:] if any(digit in "123456789" for digit in text) else text[1:]
    return text


def printable(text: str, width: int | None = None) -> str:
    """The text on one line without control characters, cut to `width` characters.

    Labels come from somebody's study file: they must not move a cursor or start a new line.

    >>> printable("a\\x1b[2Jb"), printable("Amer-Indian-Eskimo", 8)
    ('a�[2Jb', 'Amer-In…')
    """
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return safe if width is None or len(safe) <= width else safe[: width - 1] + "…"

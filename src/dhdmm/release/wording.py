"""Numbers and labels as people read them: rounded by their error, and safe to print."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

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

    >>> number(1234.56, 1), number(-0.04, 1), number(-2.5, 1), number(-math.inf, 1)
    ('1,234.6', '0.0', '−2.5', '−∞')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    text = f"{value:,.{places}f}"
    if text.startswith("-"):
        return "−" + text[1:] if any(digit in "123456789" for digit in text) else text[1:]
    return text


UNITS_OF_TIME = {"D": "days", "h": "hours"}


def moment_or_number(value: float, places: int, times: str = "") -> str:
    """A number; or the day ("D") or hour ("h") that it counts since 1970-01-01.

    >>> moment_or_number(19800.0, 0, "D"), moment_or_number(475200.0, 0, "h")
    ('2024-03-18', '2024-03-18 00:00')
    """
    if not times:
        return number(value, places)
    if times == "D":
        return str(date(1970, 1, 1) + timedelta(days=round(value)))
    return (datetime(1970, 1, 1) + timedelta(hours=round(value))).isoformat(" ", "minutes")


def printable(text: str, width: int | None = None) -> str:
    """The text on one line without control characters, cut to `width` characters.

    Labels come from somebody's study file: they must not move a cursor or start a new line.

    >>> printable("a\\x1b[2Jb"), printable("Amer-Indian-Eskimo", 8)
    ('a�[2Jb', 'Amer-In…')
    """
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return safe if width is None or len(safe) <= width else safe[: width - 1] + "…"


def figure(value: float | None) -> str:
    """Four digits; a dash for what is not known.

    >>> figure(1234.5678), figure(0.05), figure(2.5e8), figure(None)
    ('1,235', '0.0500', '2.5e+08', '–')
    """
    if value is None:
        return "–"
    if value >= 1e7:
        return f"{value:.3g}"
    places = max(0, 3 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{min(places, 4)}f}"


def large(count: int | None) -> str:
    """Exact while it can be read.

    >>> large(3_112), large(641_263_392_000_000_000)
    ('3,112', '6.41e+17')
    """
    if count is None:
        return "–"
    return f"{count:,}" if count < 10**10 else f"{count:.2e}"


def byte_size(count: int | None) -> str:
    """Three digits in the largest decimal unit.

    >>> byte_size(512), byte_size(10_113), byte_size(4_500_000_000_000_000_000)
    ('512 B', '10.1 kB', '4.5 EB')
    """
    if count is None:
        return "–"
    power = min((len(str(count)) - 1) // 3, 6)
    return f"{count / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"


def moment(at: int | str | None) -> str:
    """A time of the Unix era, or as a release has it, to the minute.

    >>> moment("2026-01-02T03:04:05Z"), moment(1767323045), moment(None)
    ('2 January 2026, 03:04 UTC', '2 January 2026, 03:04 UTC', 'at an unknown time')
    """
    if at is None:
        return "at an unknown time"
    then = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    return f"{then.day} {then:%B %Y, %H:%M} UTC"


def day(at: int | str | None) -> str:
    """The date alone.

    >>> day("2026-01-02T03:04:05Z")
    '2 January 2026'
    """
    return moment(at).partition(",")[0]

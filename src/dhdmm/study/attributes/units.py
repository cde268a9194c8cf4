"""The units of the calendar, of moments in bulk: NumPy's datetime64, of any of its units.

Weeks are those of ISO 8601: they begin on Monday, and the first of a year has its first Thursday.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.study.attributes.base import Codes

Moments = NDArray[np.datetime64]
Moment = Any
"""A datetime64, whose unit a type checker cannot know."""
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def _day(moments: Moments) -> Codes:
    """Days since 1970-01-01, a Thursday."""
    return np.asarray(moments.astype("M8[D]").astype(np.int64))


def _month(moments: Moments) -> Codes:
    """Months since 1970-01."""
    return np.asarray(moments.astype("M8[M]").astype(np.int64))


def _year(moments: Moments) -> Codes:
    return np.asarray(moments.astype("M8[Y]").astype(np.int64) + 1970)


def _monday(moments: Moments) -> Codes:
    """The day on which the week begins."""
    return _day(moments) - _weekday(moments)


def _weekday(moments: Moments) -> Codes:
    """0 for Monday."""
    return (_day(moments) + 3) % 7


def _thursday(moments: Moments) -> Moments:
    """Of the same week: the year of it is the year of the week."""
    return np.asarray((_monday(moments) + 3).astype("M8[D]"))


def _day_of_year(moments: Moments) -> Codes:
    return _day(moments) - _day(moments.astype("M8[Y]")) + 1


def _week_of_year(moments: Moments) -> Codes:
    return (_day_of_year(_thursday(moments)) - 1) // 7 + 1


def _hour(moments: Moments) -> Codes:
    return np.asarray(moments.astype("M8[h]").astype(np.int64) % 24)


PARTS: dict[str, Callable[[Moments], Codes]] = {
    "year": _year,
    "isoyear": lambda moments: _year(_thursday(moments)),
    "quarter": lambda moments: _month(moments) % 12 // 3 + 1,
    "month": lambda moments: _month(moments) % 12 + 1,
    "week": _week_of_year,
    "day": lambda moments: _day(moments) - _day(moments.astype("M8[M]")) + 1,
    "doy": _day_of_year,
    "dow": lambda moments: (_weekday(moments) + 1) % 7,
    "isodow": lambda moments: _weekday(moments) + 1,
    "hour": _hour,
}
"""What EXTRACT may ask for: whole numbers, as DuckDB has them."""

STARTS: dict[str, Callable[[Moments], Moments]] = {
    "hour": lambda moments: moments.astype("M8[h]"),
    "day": lambda moments: moments.astype("M8[D]"),
    "week": lambda moments: np.asarray(_monday(moments).astype("M8[D]")),
    "month": lambda moments: moments.astype("M8[M]"),
    "quarter": lambda moments: np.asarray((_month(moments) // 3 * 3).astype("M8[M]")),
    "year": lambda moments: moments.astype("M8[Y]"),
}
"""When the unit that holds a moment begins, as DATE_TRUNC has it."""

CYCLES: dict[str, tuple[str, Callable[[int], str]]] = {
    "weekday": ("isodow", lambda number: DAYS[number - 1]),
    "month of year": ("month", lambda number: MONTHS[number - 1]),
    "hour": ("hour", lambda number: f"{number:02}:00"),
}
"""Units that come again: the part that tells them apart, and what its values are called."""


def unit_label(unit: str, start: Moment) -> str:
    day = np.array([start])
    match unit:
        case "week":
            return f"{PARTS['isoyear'](day)[0]}-W{_week_of_year(day)[0]:02}"
        case "quarter":
            return f"{_year(day)[0]}-Q{PARTS['quarter'](day)[0]}"
        case _:
            return str(start)

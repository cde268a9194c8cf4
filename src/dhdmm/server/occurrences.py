"""Periods of the calendar, in UTC, that a recurring study's rounds are named after."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

Every = Literal["day", "week", "month"]


def occurrence_at(every: Every, moment: datetime) -> str:
    """The name of the period that a moment is in.

    >>> moment = datetime(2027, 1, 2, 23, tzinfo=UTC)
    >>> [occurrence_at(every, moment) for every in ("day", "week", "month")]
    ['2027-01-02', '2026-W53', '2027-01']
    """
    if every == "week":
        year, week, _ = moment.isocalendar()
        return f"{year}-W{week:02}"
    return moment.strftime("%Y-%m-%d" if every == "day" else "%Y-%m")


def now() -> datetime:
    return datetime.now(UTC)

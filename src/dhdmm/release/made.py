"""What made a release: which dhdmm, when, in which formats. It is stored, and shown as stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeGuard

from dhdmm import formats

if TYPE_CHECKING:
    from dhdmm.planning.plan import Plan

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FIRST = dict.fromkeys(("study", "strategy", "plan", "transcript"), 1)
"""The formats of dhdmm 0.1.0, which did not store them."""


@dataclass(frozen=True)
class Made:
    """The dhdmm that decoded the sums, the date at which it did, and the formats in use.

    The date is UTC, by the clock of the coordinator; None if it was not recorded.
    """

    dhdmm: str
    date: str | None
    formats: Mapping[str, int]

    @classmethod
    def here(cls, plan: Plan, date: str | None = None) -> Made:
        """By this version, from this plan."""
        numbers = formats_of(plan) | {"transcript": formats.TRANSCRIPT.writes}
        return cls(formats.this_version(), date, numbers)

    @property
    def words(self) -> str:
        """For people.

        >>> Made("0.1.0", None, FIRST).words
        'made by dhdmm 0.1.0, date not recorded'
        >>> Made("0.2.0", "2026-01-02T03:04:05Z", FIRST).words
        'made by dhdmm 0.2.0, 2026-01-02 03:04:05 UTC'
        """
        date = self.date
        when = "date not recorded" if date is None else f"{date[:10]} {date[11:-1]} UTC"
        return f"made by dhdmm {self.dhdmm}, {when}"


def formats_of(plan: Plan) -> dict[str, int]:
    return {
        "study": plan.study.format,
        "strategy": plan.strategy.format,
        "plan": plan.format,
    }


def now() -> datetime:
    return datetime.now(UTC)


def date_of(moment: datetime) -> str:
    """To the second, in UTC.

    >>> date_of(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_date(value: Any) -> TypeGuard[str | None]:
    return value is None or (type(value) is str and _DATE.fullmatch(value) is not None)


def are_formats(value: Any) -> TypeGuard[dict[str, int]]:
    """A number for each kind."""
    return (
        type(value) is dict
        and value.keys() == FIRST.keys()
        and all(type(number) is int and 1 <= number < 2**31 for number in value.values())
    )

"""What a data holder should know about its own table: which rows are counted, which are not, why.

None of it is protected by noise: it stays with the data holder, and what refuses a table says
counts, never values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dhdmm.errors import Refused
from dhdmm.study.models import PersonModel

ACCEPTED_LOSS = 0.01
"""The share of rows that may be left out without anybody having said so."""
ACCEPTED_TRUNCATION = 0.1
"""The share of rows beyond a study's bound on persons of which the same holds."""
NEARLY_UNIQUE, FEW_ROWS = 0.95, 20
"""An identifier with more different values than this part of the rows, if they are not few."""


class RowsLeftOut(UserWarning):
    """Some rows of a table are not in the answers; see `dhdmm.check`."""


@dataclass(frozen=True)
class Report:
    """What the data holder should know. Not for anybody else, so its `repr` shows nothing.

    Attributes:
        rows: How many rows the table has.
        unknown: Rows with an unknown value, by attribute; a row may count for several.
        dropped: Rows that were left out, for an unknown value or because they name no person.
        persons: Different identifiers among the rows that have one; None if persons are not
            bounded.
        persons_truncated: Persons with more records than the bound.
        records_truncated: Records beyond the bound, which were left out.
        nobody: Rows that name no person, where persons are bounded.
        clipped: Counted rows whose value of a measured column is beyond its range, by attribute;
            they count as the end of the range.
    """

    rows: int = field(repr=False)
    unknown: Mapping[str, int] = field(repr=False)
    dropped: int = field(repr=False)
    persons: int | None = field(repr=False)
    persons_truncated: int = field(repr=False)
    records_truncated: int = field(repr=False)
    nobody: int = field(default=0, repr=False)
    clipped: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def left_out(self) -> int:
        """Rows that are not in the answers, for whatever reason."""
        return self.dropped + self.records_truncated

    @property
    def counted(self) -> int:
        """Rows that are in the answers."""
        return self.rows - self.left_out

    @property
    def loss(self) -> float:
        """The share of the rows that are left out."""
        return self.left_out / self.rows if self.rows else 0.0

    @classmethod
    def total(cls, reports: Sequence[Report]) -> Report:
        """Several tables as one.

        Args:
            reports: Those of the tables; the tables' persons are taken to be different ones.

        Returns:
            Their sums.
        """

        def added(name: str) -> int:
            return sum(getattr(report, name) or 0 for report in reports)

        def by_attribute(name: str) -> Mapping[str, int]:
            together: Counter[str] = Counter()
            for report in reports:
                together.update(getattr(report, name))
            return dict(together)

        return cls(
            rows=added("rows"),
            unknown=by_attribute("unknown"),
            dropped=added("dropped"),
            persons=None if all(report.persons is None for report in reports) else added("persons"),
            persons_truncated=added("persons_truncated"),
            records_truncated=added("records_truncated"),
            nobody=added("nobody"),
            clipped=by_attribute("clipped"),
        )

    def figures(self) -> dict[str, Any]:
        """The counts as plain values, for programs of the data holder.

        Returns:
            What `dhdmm check --json` prints under `rows`.
        """
        totals = {"counted": self.counted, "left_out": self.left_out, "loss": self.loss}
        return {"rows": self.rows} | totals | asdict(self)

    def words(self) -> Iterator[str]:
        """What is counted and what is not, in lines: all in the first, then the reasons.

        Returns:
            An iterator over the lines.
        """
        if not self.left_out:
            yield f"{_rows(self.rows)}, all counted"
        else:
            yield (
                f"{_rows(self.rows)}: {self.counted:,} counted,"
                f" {self.left_out:,} left out ({percent(self.loss)})"
            )
        if self.dropped:
            for name, rows in self.unknown.items():
                if rows:
                    yield f"{name}: missing or outside the domain in {_rows(rows)}"
            if self.nobody:
                yield f"no person is named in {_rows(self.nobody)}"
        if self.records_truncated:
            yield (
                f"{self.persons_truncated:,} persons have more records than the study counts:"
                f" {_rows(self.records_truncated)} left out"
            )
        for name, rows in self.clipped.items():
            if rows:
                yield f"{name}: beyond the study's range in {_rows(rows)}, counted as its end"

    def identifier_warning(self, unit: PersonModel) -> str | None:
        """A warning for the data holder if the column of identifiers looks like a row number.

        Args:
            unit: What the study says of persons.

        Returns:
            The warning; None if there is nothing to warn of.
        """
        if self.persons is None or self.rows < FEW_ROWS:
            return None
        if self.persons <= NEARLY_UNIQUE * self.rows:
            return None
        return (
            f"'{unit.column}' has {self.persons:,} different values in {self.rows:,} rows:"
            " does it identify persons, or visits? Only what it identifies is protected"
        )


def require_accepted(report: Report, accept_loss: float, where: str | None = None) -> None:
    """Refuse when more rows are left out than somebody has accepted.

    What a study's bound on persons cuts off was decided by the study: up to `ACCEPTED_TRUNCATION`
    it is said, and no reason to refuse.
    """
    truncation = max(accept_loss, ACCEPTED_TRUNCATION)
    if (
        report.dropped <= accept_loss * report.rows
        and report.records_truncated <= truncation * report.rows
    ):
        return
    first, *reasons = report.words()
    enough = max(report.dropped, report.records_truncated) / report.rows
    raise Refused(
        f"{first}; that is more than is accepted. {'; '.join(reasons)}",
        where=where,
        hint="dhdmm check shows which values and how to map them (--columns);"
        f" or accept it: --accept-loss {percent(enough, up=True).replace(' ', '')},"
        " accept_loss in Python",
    )


def percent(share: float, up: bool = False) -> str:
    """A share for people; rounded up where it becomes a limit.

    >>> percent(0.487), percent(0.0004), percent(0.48701, up=True)
    ('48.7 %', '0.04 %', '48.8 %')
    """
    places = 1 if share >= 0.001 or share == 0 else 2
    scale = 10**places
    scaled = 100 * share * scale
    rounded = math.ceil(scaled) if up else round(scaled)
    return f"{rounded / scale:g} %"


def _rows(number: int) -> str:
    return f"{number:,} row" if number == 1 else f"{number:,} rows"

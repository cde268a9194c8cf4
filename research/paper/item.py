"""What a table or figure is: a name, what the paper shows, its work, its rows, its picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from research.paper.settings import Settings
from research.paper.work import Result, Results, Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
"""Flat and JSON-like: one line of the CSV file."""
Needed = tuple[Row, list[Unit]]
"""The labels of a row, and the units of work that it comes from."""
Found = Sequence[tuple[Row, list[Result]]]
"""The same with the units' results."""


@dataclass(frozen=True)
class Column:
    """A column of the printed table; the CSV file has all of a row."""

    key: str
    header: str
    digits: int | None = None
    """Significant digits of a number."""

    def text(self, row: Row) -> str:
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        if self.digits is None or isinstance(value, str):
            return f"{value:,}" if isinstance(value, int) else str(value)
        return significant(float(value), self.digits)


@dataclass(frozen=True)
class PaperItem:
    """One table or figure of the paper."""

    name: str
    title: str
    paper: str
    """What the paper shows, and where we differ."""
    needed: Callable[[Settings], Iterable[Needed]]
    rows: Callable[[Found], list[Row]]
    columns: tuple[Column, ...]
    draw: Callable[[Sequence[Row]], Figure]
    remarks: Callable[[Sequence[Row]], Iterable[str]] = lambda _rows: ()
    """What the rows say, in sentences with their numbers."""

    @property
    def about(self) -> tuple[str, str]:
        """How the text about the paper begins, where the paper has the item; and that text."""
        return "" if self.title.endswith("(not in the paper)") else "In the paper:", self.paper

    def units(self, settings: Settings) -> list[Unit]:
        return [unit for _, units in self.needed(settings) for unit in units]

    def compute(self, settings: Settings, results: Results) -> list[Row]:
        """The rows, once all units have results."""
        needed = self.needed(settings)
        return self.rows([(labels, [results[u.name] for u in units]) for labels, units in needed])


def significant(value: float, digits: int) -> str:
    """
    >>> significant(1234.5, 3), significant(0.012345, 3), significant(9.387e-86, 3)
    ('1,230', '0.0123', '9.39e-86')
    """
    if value == 0 or not math.isfinite(value):
        return str(value)
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 <= magnitude <= 12:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - magnitude)
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}".replace("-", "−")


def group(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def studies_of(rows: Sequence[Row]) -> list[str]:
    """The studies that the rows are about, in order."""
    return list(dict.fromkeys(row["study"] for row in rows))

"""A raw column of a participant's table: what it holds, how it is read, and how it is coded.

DuckDB's part is text, a warehouse's part are methods of ibis expressions: neither is imported here.
Attribute i is read as xi, a value of the attribute's type, and coded as ki.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dhdmm.study.document import plain_scalar

UNKNOWN = -1
"""The code of a value outside the domain, or of a missing one, once rows are counted."""
FIRST_STEP = 3
"""The code of the lowest step of a measured column, before records are divided; codes below it are
the two ends and the missing value."""
MISSING_TEXTS = ("", "nan", "nat", "na", "n/a", "#n/a", "<na>", "null", "none")
"""What programs write for a missing value, between blanks and in lower case."""
ISO_DATE = re.compile(r"\d{4}-[01]\d-[0-3]\d")
MOST_TEXTS = 50
"""Different texts of a column that a draft lists."""

Expression = Any
"""A column expression of ibis, of any backend; ibis has no types that a checker could use."""


class ColumnKind(Enum):
    """What a column holds, in the words of an error message."""

    FIELD = "CSV text"  # not typed: the study says how it is read
    TEXT = "text"
    INTEGER = "integers"
    REAL = "numbers"
    BOOLEAN = "true and false"
    NULL = "nothing but missing values"
    MIXED = "values of several types"
    DATE = "dates"
    TIMESTAMP = "dates with times"
    ZONED = "times with a time zone"
    SCALAR = "times of day, UUIDs or enumerations"
    OTHER = "another type"


@dataclass(frozen=True, eq=False)
class Reading:
    """What an attribute needs of its column, in an error message; its type in ibis and in DuckDB.

    `sql` is how DuckDB reads a kind of column; one that is absent is of the wrong type. NULL stands
    for a value that is missing, or not of the type.
    """

    words: str
    ibis_type: str
    duckdb_type: str
    sql: Mapping[ColumnKind, str]

    def of(self, kind: ColumnKind) -> str | None:
        return f"NULL::{self.duckdb_type}" if kind is ColumnKind.NULL else self.sql.get(kind)


_INTEGER, _REAL, _WORDS = ColumnKind.INTEGER, ColumnKind.REAL, (ColumnKind.FIELD, ColumnKind.TEXT)
"""Text is read like a field of a CSV file: the same table gives the same counts in either form."""
WHOLE_FLOAT = "CASE WHEN {0} = floor({0}) THEN TRY_CAST({0} AS BIGINT) END"
_WHOLE_TEXT = (
    "CASE WHEN TRY_CAST({0} AS DOUBLE) = floor(TRY_CAST({0} AS DOUBLE))"
    " THEN TRY_CAST({0} AS BIGINT) END"
)
_WHOLE = {
    _INTEGER: "TRY_CAST({0} AS BIGINT)",
    _REAL: WHOLE_FLOAT,
    **dict.fromkeys(_WORDS, _WHOLE_TEXT),
}
WHOLE = Reading("integers", "int64", "BIGINT", _WHOLE)
_DOUBLE = dict.fromkeys((_INTEGER, _REAL, *_WORDS), "TRY_CAST({0} AS DOUBLE)")
REAL = Reading("numbers", "float64", "DOUBLE", _DOUBLE)
_VARCHAR = dict.fromkeys(_WORDS, "coalesce(trim({0}::VARCHAR), '')")
TEXT = Reading("text", "string", "VARCHAR", _VARCHAR)
_BOOLEAN = {
    ColumnKind.BOOLEAN: "{0}",
    **dict.fromkeys(_WORDS, "TRY_CAST(trim({0}::VARCHAR) AS BOOLEAN)"),
}
TRUTH = Reading("true and false", "boolean", "BOOLEAN", _BOOLEAN)


@dataclass(frozen=True)
class Coding:
    """One attribute's part of DuckDB's query: no text of a study is ever part of the SQL.

    `code` is SQL for ki, NULL outside the domain; `join` brings in the columns of `domain`, a small
    table called domaini, by column; `steps` replace ki one after the other.
    """

    code: str
    domain: Mapping[str, Any] | None = None
    join: str = ""
    steps: tuple[str, ...] = ()


def search(low: int, high: int, among: Callable[[int, int], Expression]) -> Expression:
    """Binary search for the code low ≤ c < high: `among(low, middle)` holds if c < middle."""
    if high - low == 1:
        return low
    middle = (low + high) // 2
    return among(low, middle).ifelse(search(low, middle, among), search(middle, high, among))


@dataclass
class SeenColumn:
    """What is remembered of a column while a table is read for a draft."""

    name: str
    most: int = MOST_TEXTS
    kinds: set[type] = field(default_factory=set)
    low: float = math.inf
    high: float = -math.inf
    texts: dict[str, set[str]] = field(default_factory=dict)
    """The spellings of all that differ by more than case, if there are no more than `most`."""
    empty: int = 0
    dates: tuple[str, str] | None = None
    """The first and the last, if every text is a date in ISO 8601."""

    def add(self, text: str, rows: int = 1) -> None:
        value = plain_scalar(text.strip())
        if value is None or text.strip().lower() in MISSING_TEXTS:
            self.empty += rows
            return
        self._add_date(text.strip())
        self.kinds.add(type(value))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.low, self.high = min(self.low, value), max(self.high, value)
        folded = text.strip().casefold()
        if folded in self.texts or len(self.texts) <= self.most:
            self.texts.setdefault(folded, set()).add(text.strip())

    @property
    def values(self) -> list[str]:
        """One spelling of each text: its own, or the lower case of several."""
        return sorted(
            next(iter(spelled)) if len(spelled) == 1 else folded
            for folded, spelled in self.texts.items()
        )

    @property
    def is_folded(self) -> bool:
        """Whether some texts differ in case alone."""
        return any(len(spelled) > 1 for spelled in self.texts.values())

    def _add_date(self, text: str) -> None:
        day = text[:10]
        if not ISO_DATE.fullmatch(day) or (self.kinds and self.dates is None):
            self.dates = None
        else:
            first, last = self.dates or (day, day)
            self.dates = min(first, day), max(last, day)

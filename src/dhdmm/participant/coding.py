"""SQL that turns a raw column into an attribute's codes: the same codes as `attribute.code(value)`.

Attribute i is read as xi, a value of the attribute's type, and coded as ki; NULL stands for a value
outside the domain, or a missing one. A column of identifiers is read as `person`, NULL for nobody.
The study's categories and edges come in as small tables: no text of a study or a table is ever
part of the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from dhdmm.errors import DataError
from dhdmm.participant.sources import Kind
from dhdmm.study.names import literal
from dhdmm.study.schema import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute

UNKNOWN = -1
"""The code of a value outside the domain, or of a missing one, once rows are counted."""


class Reading(Enum):
    """What an attribute needs of its column, in the words of an error message."""

    WHOLE = "integers"
    REAL = "numbers"
    TEXT = "text"
    TRUTH = "true and false"


BLANKS = "".join(
    chr(code)
    for first, last in (
        *((0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
        *((0x180E, 0x180E), (0x2000, 0x200D), (0x2028, 0x2029), (0x202F, 0x202F)),
        *((0x205F, 0x2060), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
    )
    for code in range(first, last + 1)
)
"""White space, and what has no width: no part of a person's identifier at either end."""
NOBODY = (
    *("", "nan", "nat", "na", "n/a", "#n/a", "<na>", "null", "none"),
    *("inf", "-inf", "infinity", "-infinity"),
)
"""Identifiers, as text between blanks and in lower case, that name no person: what programs write
for a missing value, and numbers or dates without end."""

WHOLE_FLOAT = "CASE WHEN {0} = floor({0}) THEN TRY_CAST({0} AS BIGINT) END"
WHOLE_FIELD = (
    "CASE WHEN TRY_CAST({0} AS DOUBLE) = floor(TRY_CAST({0} AS DOUBLE))"
    " THEN TRY_CAST({0} AS BIGINT) END"
)
READ: dict[tuple[Reading, Kind], str] = {
    (Reading.WHOLE, Kind.INTEGER): "TRY_CAST({0} AS BIGINT)",
    (Reading.WHOLE, Kind.REAL): WHOLE_FLOAT,
    (Reading.WHOLE, Kind.FIELD): WHOLE_FIELD,
    (Reading.WHOLE, Kind.NULL): "NULL::BIGINT",
    (Reading.REAL, Kind.INTEGER): "CAST({0} AS DOUBLE)",
    (Reading.REAL, Kind.REAL): "CAST({0} AS DOUBLE)",
    (Reading.REAL, Kind.FIELD): "TRY_CAST({0} AS DOUBLE)",
    (Reading.REAL, Kind.NULL): "NULL::DOUBLE",
    (Reading.TEXT, Kind.TEXT): "CAST({0} AS VARCHAR)",
    (Reading.TEXT, Kind.FIELD): "coalesce(trim({0}), '')",
    (Reading.TEXT, Kind.NULL): "NULL::VARCHAR",
    (Reading.TRUTH, Kind.BOOLEAN): "{0}",
    (Reading.TRUTH, Kind.FIELD): "TRY_CAST(trim({0}) AS BOOLEAN)",
    (Reading.TRUTH, Kind.NULL): "NULL::BOOLEAN",
}
"""How a column of some kind is read; a pair that is absent is a column of the wrong type."""

VALUE_READING = {int: Reading.WHOLE, str: Reading.TEXT, bool: Reading.TRUTH}


@dataclass(frozen=True)
class Coding:
    """One attribute's part of the query."""

    code: str
    domain: pa.Table | None = None
    join: str = ""
    steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, attribute: Attribute, i: int) -> Coding:
        match attribute:
            case IntegerAttribute(low=low, high=high):
                return cls(f"CASE WHEN x{i} BETWEEN {low} AND {high} THEN x{i} - ({low}) END")
            case CategoryAttribute(values=values):
                return _categories(values, i)
            case NumberAttribute(edges=edges):
                return _bins([float(edge) for edge in edges], i)
        raise AssertionError(f"no coding for {type(attribute).__name__}")


@dataclass(frozen=True)
class PersonBound:
    """At most `max_records` records of one person, named by the column at `position`."""

    position: int
    kind: Kind
    max_records: int
    unknown_rows_count: bool
    """Rows with an unknown value use up the bound, because they will be counted as "other"."""
    key: str
    """Part of every hash; hexadecimal digits, since it is part of the SQL."""


def reading_of(attribute: Attribute, column: str, kind: Kind) -> Reading:
    """What the attribute needs of its column; refuses a column that can never hold it."""
    reading = _reading(attribute)
    if (reading, kind) not in READ:
        raise DataError(
            f"column '{column}' holds {kind.value}, but '{attribute.name}' needs {reading.value}",
            hint="convert the column, or map another one to the attribute",
        )
    return reading


def read(attribute: Attribute, column: str, kind: Kind, position: int) -> str:
    """SQL for the column's value as the attribute needs it."""
    return READ[reading_of(attribute, column, kind), kind].format(f"c{position}")


def coded(readings: Sequence[str], codings: Sequence[Coding], source: str, also: str = "") -> str:
    """SELECT k0, k1, … (and what `also` reads) for every row of the source."""
    raw = ", ".join(f"{reading} AS x{i}" for i, reading in enumerate(readings))
    codes = ", ".join(f"{coding.code} AS k{i}" for i, coding in enumerate(codings))
    joins = "".join(coding.join for coding in codings)
    query = f"SELECT *, {codes} FROM (SELECT {raw}{also} FROM {source}){joins}"
    for step in (step for coding in codings for step in coding.steps):
        query = f"SELECT * REPLACE ({step}) FROM ({query})"
    return query


def person(column: str, kind: Kind) -> str:
    """SQL for the person that a column of identifiers names; NULL if it names nobody.

    Text is taken without the blanks around it. Other values are compared as they are, and 0 has no
    sign.
    """
    match kind:
        case Kind.NULL:
            return "NULL::VARCHAR"
        case Kind.INTEGER:
            return column
        case Kind.FIELD | Kind.TEXT:
            column = f"regexp_replace({column}, {literal(f'^[{BLANKS}]+|[{BLANKS}]+$')}, '', 'g')"
        case Kind.REAL:
            column = f"CASE WHEN {column} = 0 THEN abs({column}) ELSE {column} END"
    nobody = ", ".join(map(literal, NOBODY))
    return f"CASE WHEN lower(({column})::VARCHAR) NOT IN ({nobody}) THEN {column} END"


def by_cell(names: Sequence[str], rows: str) -> str:
    return (
        f"SELECT {_codes(names)}, count(*) AS total, total AS kept, 0::BIGINT AS persons,"
        f" 0::BIGINT AS persons_truncated, false AS anonymous"
        f" FROM ({rows}) GROUP BY {', '.join(names)}"
    )


def by_person(names: Sequence[str], rows: str, limit: PersonBound) -> str:
    """A person's records in the order of a hash; the first `bound` of them stay.

    The hash is of the key, the person, the record's codes, and which of the person's records with
    these codes it is. Those are interchangeable, so the histogram does not depend on the order of
    the file; and every record has its own hash, so each is as likely to stay as any other. Rows
    that will be left out for an unknown value must not use up the person's bound: they come last.
    """
    keys, bound = ", ".join(names), limit.max_records
    last = "" if limit.unknown_rows_count else f"least({keys}) = {UNKNOWN}, "
    hashed = f"md5(concat_ws(',', '{limit.key}', {_hashed_person(limit.kind)}, {keys}, copy))"
    found = f"SELECT person, {_codes(names)} FROM ({rows})"
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY person, {keys}) - 1 AS copy FROM ({found})"
    )
    ranked = (
        f"SELECT *, row_number() OVER (PARTITION BY person ORDER BY {last}{hashed}, {keys}, copy)"
        f" AS place FROM ({numbered})"
    )
    return (
        f"SELECT {keys}, count(*) AS total, count(*) FILTER (place <= {bound}) AS kept,"
        f" count(*) FILTER (place = 1) AS persons,"
        f" count(*) FILTER (place = {bound + 1}) AS persons_truncated,"
        f" person IS NULL AS anonymous FROM ({ranked}) GROUP BY {keys}, anonymous"
    )


def _hashed_person(kind: Kind) -> str:
    """The person as text that all engines write alike: 7, not 7.0 or 7.00."""
    if kind is not Kind.REAL:
        return "person::VARCHAR"
    return f"coalesce(({WHOLE_FLOAT.format('person')})::VARCHAR, person::DOUBLE::VARCHAR)"


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"coalesce({name}, {UNKNOWN})::BIGINT AS {name}" for name in names)


def _reading(attribute: Attribute) -> Reading:
    match attribute:
        case CategoryAttribute(values=values):
            return VALUE_READING[type(values[0])]
        case NumberAttribute():
            return Reading.REAL
    return Reading.WHOLE


def _categories(values: Sequence[Any], i: int) -> Coding:
    positions = pa.array(range(len(values)), pa.int64())
    domain = pa.table({f"value{i}": pa.array(values), f"position{i}": positions})
    return Coding(f"position{i}", domain, f" LEFT JOIN domain{i} ON value{i} = x{i}")


def _bins(edges: list[float], i: int) -> Coding:
    """Binary search among the bins' lower edges: ki grows by a power of two while x is not below.

    The edges are a list in a table of one row: as a constant of the query they would be copied for
    every block of rows. Beyond the list's end DuckDB reads NULL, which is not ≤ x.
    """
    lower = edges[:-1]
    domain = pa.table(
        {
            f"low{i}": [edges[0]],
            f"high{i}": [edges[-1]],
            f"lower{i}": pa.array([lower], pa.list_(pa.float64())),
        }
    )
    powers = [2**bit for bit in reversed(range((len(lower) - 1).bit_length()))]
    steps = tuple(
        f"CASE WHEN lower{i}[k{i} + {power + 1}] <= x{i} THEN k{i} + {power} ELSE k{i} END AS k{i}"
        for power in powers
    )
    inside = f"CASE WHEN x{i} BETWEEN low{i} AND high{i} THEN 0::BIGINT END"
    return Coding(inside, domain, f" CROSS JOIN domain{i}", steps)

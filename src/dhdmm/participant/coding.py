"""SQL that turns a raw column into an attribute's codes: the same codes as `attribute.code(value)`.

Attribute i is read as xi, a value of the attribute's type, and coded as ki; NULL stands for a value
outside the domain, or a missing one. The study's categories and edges come in as small tables: no
text of a study or a table is ever part of the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from dhdmm.errors import DataError
from dhdmm.participant.sources import Kind
from dhdmm.study.schema import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute

UNKNOWN = -1
"""The code of a value outside the domain, or of a missing one, once rows are counted."""


class Reading(Enum):
    """What an attribute needs of its column, in the words of an error message."""

    WHOLE = "integers"
    REAL = "numbers"
    TEXT = "text"
    TRUTH = "true and false"


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
    """At most `max_records` records of one value of the column at `position`."""

    position: int
    max_records: int
    unknown_rows_count: bool
    """Rows with an unknown value use up the bound, because they will be counted as "other"."""


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


def by_cell(names: Sequence[str], rows: str) -> str:
    return (
        f"SELECT {_codes(names)}, count(*) AS total, total AS kept, 0::BIGINT AS persons_truncated,"
        f" false AS anonymous FROM ({rows}) GROUP BY {', '.join(names)}"
    )


def by_person(names: Sequence[str], rows: str, limit: PersonBound) -> str:
    """A person's records in the order of a hash of person and cell; the first `bound` of them stay.

    Records of one person and cell are interchangeable, so the histogram does not depend on the
    order of the file; and the hash prefers no value, as an order by value would. Rows that will be
    left out for an unknown value must not use up the person's bound: they are ranked apart.
    """
    keys, bound = ", ".join(names), limit.max_records
    apart = "" if limit.unknown_rows_count else f", least({keys}) = {UNKNOWN}"
    per_cell = f"SELECT person, {_codes(names)}, count(*) AS n FROM ({rows}) GROUP BY ALL"
    ranked = (
        f"SELECT *, sum(n) OVER (PARTITION BY person{apart}"
        f" ORDER BY md5(concat_ws(',', person::VARCHAR, {keys})) ROWS UNBOUNDED PRECEDING) AS upto"
        f" FROM ({per_cell})"
    )
    return (
        f"SELECT {keys}, sum(n)::BIGINT AS total,"
        f" sum(greatest(0, least(n, {bound} - (upto - n))))::BIGINT AS kept,"
        f" count(*) FILTER (upto > {bound} AND upto - n <= {bound}) AS persons_truncated,"
        f" person IS NULL AS anonymous FROM ({ranked}) GROUP BY {keys}, anonymous"
    )


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

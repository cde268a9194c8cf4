"""SQL that turns a raw column into an attribute's codes: the same codes as `attribute.code(value)`.

Attribute i is read as xi, a value of the attribute's type, and coded as ki; NULL stands for a value
outside the domain, or a missing one. A column of identifiers is read as `person`, NULL for nobody.
The study's categories and edges come in as small tables: no text of a study or a table is ever
part of the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dhdmm.errors import DataError
from dhdmm.study.attributes import Attribute
from dhdmm.study.attributes.columns import (
    MISSING_TEXTS,
    UNKNOWN,
    WHOLE_FLOAT,
    Coding,
    ColumnKind,
)
from dhdmm.study.names import literal
from dhdmm.study.persons import AGAIN, FIRST, NO_SET, Mark, Run

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
NOBODY = (*MISSING_TEXTS, "inf", "-inf", "infinity", "-infinity")
"""Identifiers, as text between blanks and in lower case, that name no person: what programs write
for a missing value, and numbers or dates without end."""


@dataclass(frozen=True)
class PersonBound:
    """At most `max_records` records of one person, named by the column at `position`."""

    position: int
    kind: ColumnKind
    max_records: int
    unknown_rows_count: bool
    """Rows with an unknown value use up the bound, because they will be counted as "other"."""
    key: str
    """Part of every hash; hexadecimal digits, since it is part of the SQL."""
    instead: tuple[int, ...] = ()
    """The code that each attribute's unknown values will be counted as, if that is one."""
    marks: tuple[Mark, ...] = ()
    """The ways in which persons are counted."""


@dataclass(frozen=True)
class RawColumn:
    """What an attribute is read from: a column's name for people, its SQL, and what it holds."""

    name: str
    sql: str
    kind: ColumnKind


def read(attribute: Attribute, column: RawColumn) -> str:
    """SQL for the column's value as the attribute needs it; refuses one that can never hold it."""
    reading, held = attribute.reading, column.kind.value
    sql = reading.of(column.kind)
    if sql is None:
        raise DataError(
            f"column '{column.name}' holds {held}, but '{attribute.name}' needs {reading.words}",
            hint="convert the column, or map another one to the attribute",
        )
    return sql.format(column.sql)


def missing(column: str, kind: ColumnKind) -> str:
    """SQL that is true where the column holds no value."""
    match kind:
        case ColumnKind.FIELD | ColumnKind.TEXT:
            texts = ", ".join(map(literal, MISSING_TEXTS))
            return f"coalesce(lower(trim({column}::VARCHAR)), '') IN ({texts})"
        case ColumnKind.REAL:
            return f"({column} IS NULL OR isnan({column}::DOUBLE))"
        case _:
            return f"{column} IS NULL"


def coded(readings: Sequence[str], codings: Sequence[Coding], source: str, also: str = "") -> str:
    """SELECT k0, k1, … (and what `also` reads) for every row of the source."""
    raw = ", ".join(f"{reading} AS x{i}" for i, reading in enumerate(readings))
    codes = ", ".join(f"{coding.code} AS k{i}" for i, coding in enumerate(codings))
    joins = "".join(coding.join for coding in codings)
    query = f"SELECT *, {codes} FROM (SELECT {raw}{also} FROM {source}){joins}"
    for step in (step for coding in codings for step in coding.steps):
        query = f"SELECT * REPLACE ({step}) FROM ({query})"
    return query


def person(column: str, kind: ColumnKind) -> str:
    """SQL for the person that a column of identifiers names; NULL if it names nobody.

    Text is taken without the blanks around it. Other values are compared as they are, and 0 has no
    sign.
    """
    match kind:
        case ColumnKind.NULL:
            return "NULL::VARCHAR"
        case ColumnKind.INTEGER:
            return column
        case ColumnKind.FIELD | ColumnKind.TEXT:
            column = f"regexp_replace({column}, {literal(f'^[{BLANKS}]+|[{BLANKS}]+$')}, '', 'g')"
        case ColumnKind.REAL:
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
    keys = ", ".join([*names, *(f"f{m}" for m in range(len(limit.marks)))])
    return (
        f"SELECT {keys}, count(*) AS total, count(*) FILTER (place <= {bound}) AS kept,"
        f" count(*) FILTER (place = 1) AS persons,"
        f" count(*) FILTER (place = {bound + 1}) AS persons_truncated,"
        f" person IS NULL AS anonymous FROM ({_marked(ranked, limit)})"
        f" GROUP BY {keys}, anonymous"
    )


def _marked(ranked: str, limit: PersonBound) -> str:
    """The rows with f0, f1, …: for each mark whether a row is the first of its person in its group.

    The first is that of the lowest place among the rows that are in a group and satisfy the
    condition; all others are marked as seen again. Rows that are not counted come after those that
    are, so they are first only where none is counted, and then it does not matter.
    """
    for m, mark in enumerate(limit.marks):
        groups = [_set_number(_settled(a, limit), runs) for a, runs in mark.sets]
        chosen = [*(f"{group} <> {NO_SET}" for group in groups), _holds(mark, limit)]
        within = ", ".join(["person", "chosen", *groups])
        ranked = f"SELECT *, ({' AND '.join(chosen)}) AS chosen FROM ({ranked})"
        ranked = (
            f"SELECT * EXCLUDE (chosen), CASE WHEN chosen AND"
            f" row_number() OVER (PARTITION BY {within} ORDER BY place) = 1"
            f" THEN {FIRST} ELSE {AGAIN} END AS f{m} FROM ({ranked})"
        )
    return ranked


def _settled(attribute: int, limit: PersonBound) -> str:
    """The code that the row will be counted with."""
    code, instead = f"k{attribute}", limit.instead[attribute]
    return code if instead == UNKNOWN else f"if({code} = {UNKNOWN}, {instead}, {code})"


def _set_number(code: str, runs: Sequence[Run] | None) -> str:
    if runs is None:
        return code
    whens = " ".join(f"WHEN {code} BETWEEN {low} AND {high} THEN {n}" for low, high, n in runs)
    return f"CASE {whens} ELSE {NO_SET} END"


def _holds(mark: Mark, limit: PersonBound) -> str:
    """The condition over codes: its boxes, with their coefficients, add up to 1 or 0."""
    parts = []
    for coefficient, masks in mark.boxes:
        inside = [f"{_set_number(_settled(a, limit), runs)} <> {NO_SET}" for a, runs in masks]
        parts.append(f"if({' AND '.join(inside) or 'true'}, {coefficient}, 0)")
    return f"({' + '.join(parts)} = 1)"


def _hashed_person(kind: ColumnKind) -> str:
    """The person as text that all engines write alike: 7, not 7.0 or 7.00."""
    if kind is not ColumnKind.REAL:
        return "person::VARCHAR"
    return f"coalesce(({WHOLE_FLOAT.format('person')})::VARCHAR, person::DOUBLE::VARCHAR)"


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"coalesce({name}, {UNKNOWN})::BIGINT AS {name}" for name in names)

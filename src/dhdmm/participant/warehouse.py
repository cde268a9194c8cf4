"""A participant's table that stays in its warehouse: counted there by one statement, through ibis.

What leaves the warehouse is one row per group: the codes of a cell (`UNKNOWN` included) and how
many records it holds. The records stay, nothing is written, and the policies for unknown values
work on the groups as they do for any other table. Attribute i is read as xi and coded as ki, as in
`coding.py`, but in expressions that ibis writes in the warehouse's own SQL.

A study's texts become literals of that SQL, escaped by ibis. Messages of a warehouse may quote its
rows or the address with the password, so none of them is passed on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add, and_, or_
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import ibis  # type: ignore[import-untyped]
import numpy as np
from ibis.common.exceptions import IbisError, TableNotFound  # type: ignore[import-untyped]
from ibis.expr import datatypes  # type: ignore[import-untyped]
from ibis.expr.operations import DatabaseTable, SQLStringView  # type: ignore[import-untyped]
from numpy.typing import NDArray

from dhdmm.errors import DataError
from dhdmm.participant.coding import BLANKS, NOBODY, PersonBound, RawColumn, read
from dhdmm.participant.connection import unreadable
from dhdmm.participant.mapping import Column, text_of
from dhdmm.participant.sources import Source
from dhdmm.study.attributes import Attribute
from dhdmm.study.attributes.columns import (
    MISSING_TEXTS,
    UNKNOWN,
    WHOLE,
    ColumnKind,
    Expression,
    Reading,
)
from dhdmm.study.persons import AGAIN, FIRST, NO_SET, Run

Table = Any
"""A table expression of ibis, of any backend; ibis has no types that a checker could use."""

LARGEST_WHOLE = 2**63 - 1024
"""The largest floating-point number that is a 64-bit integer."""
EXPRESSION = "dhdmm_expression_{}"
"""The name of a column that the data holder's own SQL makes."""
NUMERAL = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,2})?$"
TRUE_WORDS, FALSE_WORDS = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
DRIVER_ERRORS = (
    ("psycopg", "Error"),
    ("trino.exceptions", "Error"),
    ("trino.exceptions", "HttpError"),
    ("snowflake.connector.errors", "Error"),
    ("google.api_core.exceptions", "GoogleAPIError"),
    ("pyspark.errors", "PySparkException"),
)
"""From which class a driver's errors derive; DuckDB's are known to `unreadable`."""

_ONE_STATEMENT_AT_A_TIME = Lock()
"""Tables may share a connection, and participants of an embedded round are counted in threads."""


def table(url: str, name: str, *, database: str | None = None) -> Table:
    """Open a table in a warehouse, to be counted there.

    Args:
        url: The address, such as `postgresql://reader@host/hospital` or `duckdb://a.db`.
            PostgreSQL finds a password that is not in the address where its own programs do, such
            as `~/.pgpass`.
        name: The name of the table.
        database: What PostgreSQL calls a schema, where it is not the default one.

    Returns:
        An ibis table, for `dhdmm.run` and `dhdmm.tabulate`.

    Raises:
        DataError: The warehouse or the table cannot be opened.
    """
    with _in_our_words("the warehouse cannot be opened"):
        try:
            connection = ibis.connect(url)
        except ImportError:
            scheme = urlsplit(url).scheme
            install = f"pip install 'ibis-framework[{scheme}]'"
            raise DataError(f"the driver for {scheme} is not installed", hint=install) from None
        except (ValueError, AttributeError):  # whose messages repeat the address
            hint = "give one such as postgresql://reader@host/database"
            raise DataError("this is not the address of a warehouse", hint=hint) from None
    with _in_our_words("the table cannot be opened", f"warehouse table '{name}'"):
        return connection.table(name, database=database)


@dataclass(frozen=True)
class WarehouseSource(Source):
    """A table expression, with its columns known, but none of its records."""

    table: Table = field(kw_only=True, repr=False)

    @classmethod
    def of(cls, table: Table) -> WarehouseSource:
        node = table.op()
        where = f"warehouse table '{node.name}'" if isinstance(node, DatabaseTable) else None
        return cls(tuple(table.columns), where, table=table)

    def kind(self, position: int) -> ColumnKind:
        return _kind(self.table[self.names[position]].type())

    def count(
        self,
        attributes: Sequence[Attribute],
        columns: Sequence[Column],
        positions: Sequence[int | None],
        limit: PersonBound | None,
    ) -> Mapping[str, NDArray[Any]]:
        """Codes k0, k1, … and counts by group, as `tabulate` needs them."""
        table = self._with_expressions(columns)
        raw = [*self._raw(table, attributes, columns, positions)]
        values = {
            f"x{i}": self._read(attribute, *pair)
            for i, (attribute, pair) in enumerate(zip(attributes, raw, strict=True))
        }
        missing = {
            f"m{i}": _missing(value, column.kind)
            for i, (attribute, (value, column)) in enumerate(zip(attributes, raw, strict=True))
            if attribute.missing_code is not None
        }
        also = {} if limit is None else {"person": self._person(table, limit)}
        rows = table.select(**values, **missing, **also)
        codes = {f"k{i}": _code(attribute, rows, i) for i, attribute in enumerate(attributes)}
        coded = rows.select(**codes, **{name: rows[name] for name in also})
        names = list(codes)
        groups = _by_cell(names, coded) if limit is None else _by_person(names, coded, limit)
        with _in_our_words("the table cannot be counted", self.where), _ONE_STATEMENT_AT_A_TIME:
            counted = groups.to_pyarrow()
        result = {name: counted[name].to_numpy() for name in counted.column_names}
        return _untruncated(result) if limit is None else result

    def most_frequent(
        self, attribute: Attribute, said: Column, position: int | None, most: int
    ) -> list[tuple[str | None, int]]:
        """The values that are unknown, as they stand in the table, and in how many rows."""
        table = self._with_expressions([said])
        (raw,) = self._raw(table, [attribute], [said], [position])
        seen = table[EXPRESSION.format(0)] if position is None else table[self.names[position]]
        value, column = raw
        missing = _missing(value, column.kind)
        rows = table.select(seen=seen.cast("string"), x0=self._read(attribute, *raw), m0=missing)
        unknown = rows.filter(_code(attribute, rows, 0).fill_null(UNKNOWN) == UNKNOWN)
        counted = unknown.group_by("seen").agg(total=unknown.count())
        ordered = counted.order_by([ibis.desc("total"), "seen"]).limit(most)
        return self._pairs(ordered)

    def different(self, position: int, most: int) -> list[tuple[str | None, int]]:
        """The values of a column as text, and in how many rows each is."""
        rows = self.table.select(seen=self.table[self.names[position]].cast("string"))
        counted = rows.group_by("seen").agg(total=rows.count()).order_by("seen").limit(most)
        return self._pairs(counted)

    def _pairs(self, counted: Table) -> list[tuple[str | None, int]]:
        with _in_our_words("the table cannot be counted", self.where), _ONE_STATEMENT_AT_A_TIME:
            found = counted.to_pyarrow().to_pylist()
        return [(row["seen"], row["total"]) for row in found]

    def _with_expressions(self, columns: Sequence[Column]) -> Table:
        """The table, with the data holder's own SQL as further columns."""
        made = {EXPRESSION.format(i): one.sql for i, one in enumerate(columns) if one.sql}
        if not made:
            return self.table
        more = ", ".join(f"CAST(({sql}) AS VARCHAR) AS {name}" for name, sql in made.items())
        schema = {**self.table.schema(), **dict.fromkeys(made, "string")}
        return SQLStringView(
            parent=self.table.alias("mapped_table"),
            query=f"SELECT *, {more} FROM mapped_table",
            schema=ibis.schema(schema),
        ).to_expr()

    def _raw(
        self,
        table: Table,
        attributes: Sequence[Attribute],
        columns: Sequence[Column],
        positions: Sequence[int | None],
    ) -> Iterator[tuple[Expression, RawColumn]]:
        """What each attribute is read from; the same rules as `reading.attached`."""
        for i, (attribute, said, at) in enumerate(zip(attributes, columns, positions, strict=True)):
            name = EXPRESSION.format(i) if at is None else self.names[at]
            value, kind = table[name], ColumnKind.FIELD if at is None else self.kind(at)
            if not said.is_plain and kind not in (ColumnKind.MIXED, ColumnKind.OTHER):
                value, kind = _as_text(value, said, attribute), ColumnKind.FIELD
            yield value, RawColumn(said.sql or name, "", kind)

    def _read(self, attribute: Attribute, value: Expression, column: RawColumn) -> Expression:
        """The column's value as the attribute needs it; the same rules as `coding.read`."""
        read(attribute, column)  # refuses a column that can never hold it
        reading, kind = attribute.reading, column.kind
        if kind in (ColumnKind.TEXT, ColumnKind.FIELD):
            return _of_text(value, reading)
        whole = reading is WHOLE and kind is not ColumnKind.NULL
        return _whole(value) if whole else value.cast(reading.ibis_type)

    def _person(self, table: Table, limit: PersonBound) -> Expression:
        """Whom the column names, NULL for nobody; the same rules as `coding.person`."""
        value = table[self.names[limit.position]]
        match limit.kind:
            case ColumnKind.NULL:
                return value.cast("string")
            case ColumnKind.INTEGER:
                return value
            case ColumnKind.TEXT:
                value = trim(value + "", BLANKS)  # + "": an enumeration becomes text
            case ColumnKind.REAL:
                value = (value == 0).ifelse(value.abs(), value)
        return value.cast("string").lower().isin(NOBODY).ifelse(ibis.null(), value)


def _kind(held: Any) -> ColumnKind:
    if isinstance(held, datatypes.Timestamp):
        return ColumnKind.TIMESTAMP if held.timezone is None else ColumnKind.ZONED
    for kind, types in (
        (ColumnKind.TEXT, datatypes.String),
        (ColumnKind.INTEGER, datatypes.Integer),
        (ColumnKind.REAL, (datatypes.Floating, datatypes.Decimal)),
        (ColumnKind.BOOLEAN, datatypes.Boolean),
        (ColumnKind.NULL, datatypes.Null),
        (ColumnKind.DATE, datatypes.Date),
        (
            ColumnKind.SCALAR,
            (datatypes.Temporal, datatypes.UUID, datatypes.INET, datatypes.Unknown),
        ),
    ):
        if isinstance(held, types):
            return kind
    return ColumnKind.OTHER


# ---- from a value to a code ---------------------------------------------------------------------


def _as_text(value: Expression, said: Column, attribute: Attribute) -> Expression:
    """The text that the attribute reads; the same rules as `Column.value_sql`."""
    if said.date or said.decimal or said.thousands:
        raise DataError(
            f"'{attribute.name}': date, decimal and thousands are not for a warehouse's table",
            hint="give an expression in the warehouse's SQL instead: sql",
        )
    text = trim(value.cast("string") + "", BLANKS)
    if said.missing:
        text = text.isin([text_of(one) for one in said.missing]).ifelse(ibis.null("string"), text)
    meant = said.recoding(attribute)
    if not meant:
        return text
    key = text.lower() if said.ignore_case else text
    return key.cases(*meant.items(), else_=text)


def _of_text(text: Expression, reading: Reading) -> Expression:
    """A text as what the attribute needs, NULL for what cannot be that."""
    bare = trim(text + "", " ")
    match reading.ibis_type:
        case "boolean":
            false = bare.lower().isin(FALSE_WORDS).ifelse(False, ibis.null("boolean"))
            return bare.lower().isin(TRUE_WORDS).ifelse(True, false)
        case "int64" | "float64":
            number = bare.re_search(NUMERAL).ifelse(bare, ibis.null("string")).cast("float64")
            return _whole(number) if reading is WHOLE else number
        case "date" | "timestamp":
            raise DataError(
                f"a column of text cannot be read as {reading.words} in a warehouse",
                hint="convert it in a view: warehouses differ in how they read text",
            )
    return bare.fill_null("")


def _code(attribute: Attribute, rows: Table, i: int) -> Expression:
    code, missing = attribute.warehouse_code(rows[f"x{i}"]), attribute.missing_code
    if missing is None:
        return code
    return ((code == UNKNOWN) & rows[f"m{i}"]).ifelse(missing, code)


def _missing(value: Expression, kind: ColumnKind) -> Expression:
    """Whether the column holds no value; the same rules as `coding.missing`."""
    if kind in (ColumnKind.TEXT, ColumnKind.FIELD):
        return (value + "").strip().lower().fill_null("").isin(MISSING_TEXTS)
    if value.type().is_floating():
        return value.isnull() | value.isnan()
    return value.isnull()


def _whole(x: Expression) -> Expression:
    """NULL for what is no 64-bit integer: not converted, since a warehouse may refuse to try."""
    held, nothing = x.type(), ibis.null("int64")
    if held.is_uint64():
        return (x <= ibis.literal(2**63 - 1, held)).ifelse(x.cast("int64"), nothing)
    if held.is_integer():
        return x.cast("int64")
    whole = (x == x.floor()).ifelse(x.cast("int64"), nothing)
    return x.between(-LARGEST_WHOLE, LARGEST_WHOLE).ifelse(whole, nothing)


# ---- counting -----------------------------------------------------------------------------------


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The warehouse's own function of this name."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def trim(text: str, characters: str) -> str:  # type: ignore[empty-body]
    """Text without these characters around it."""


def _by_cell(names: Sequence[str], rows: Table) -> Table:
    return rows.group_by(names).agg(total=rows.count())


def _untruncated(result: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    total = result["total"]
    nobody = {"persons": np.zeros_like(total), "persons_truncated": np.zeros_like(total)}
    return {**result, "kept": total, **nobody, "anonymous": np.zeros(len(total), bool)}


def _by_person(names: Sequence[str], rows: Table, limit: PersonBound) -> Table:
    """The same records stay as with `coding.by_person`, which explains the order."""
    keys, bound = [rows[name] for name in names], limit.max_records
    numbered = rows.mutate(copy=ibis.row_number().over(group_by=[rows.person, *keys]))
    codes = [numbered[name] for name in names]
    parts = [_hashed_person(numbered.person, limit.kind), *codes, numbered.copy]
    texts = [ibis.literal(limit.key), *(part.cast("string") for part in parts)]
    order = [md5(reduce(lambda text, more: text + "," + more, texts)), *codes, numbered.copy]
    if not limit.unknown_rows_count:
        order.insert(0, reduce(or_, (code == UNKNOWN for code in codes)))
    place = ibis.row_number().over(group_by=numbered.person, order_by=order) + 1
    ranked = _marked(names, numbered.mutate(place=place), limit)
    marks = [f"f{m}" for m in range(len(limit.marks))]
    return ranked.group_by(*names, *marks, anonymous=ranked.person.isnull()).agg(
        total=ranked.count(),
        kept=ranked.count(where=ranked.place <= bound),
        persons=ranked.count(where=ranked.place == 1),
        persons_truncated=ranked.count(where=ranked.place == bound + 1),
    )


def _marked(names: Sequence[str], rows: Table, limit: PersonBound) -> Table:
    """The same rows are the first of their persons as with `coding._marked`."""
    for m, mark in enumerate(limit.marks):
        codes = [_settled(rows[name], limit.instead[a]) for a, name in enumerate(names)]
        groups = {f"g{i}": _set_number(codes[a], runs) for i, (a, runs) in enumerate(mark.sets)}
        chosen = [group != NO_SET for group in groups.values()]
        holds = [
            reduce(
                and_,
                (_set_number(codes[a], runs) != NO_SET for a, runs in masks),
                ibis.literal(True),
            ).ifelse(coefficient, 0)
            for coefficient, masks in mark.boxes
        ]
        chosen.append(reduce(add, holds) == 1)
        found = rows.mutate(chosen=reduce(and_, chosen), **groups)
        within = [found.person, found.chosen, *(found[name] for name in groups)]
        place = ibis.row_number().over(group_by=within, order_by=found.place)
        first = (found.chosen & (place == 0)).ifelse(FIRST, AGAIN)
        rows = found.mutate(**{f"f{m}": first}).drop("chosen", *groups)
    return rows


def _settled(code: Expression, instead: int) -> Expression:
    return code if instead == UNKNOWN else (code == UNKNOWN).ifelse(instead, code)


def _set_number(code: Expression, runs: Sequence[Run] | None) -> Expression:
    if runs is None:
        return code
    return ibis.cases(*((code.between(low, high), n) for low, high, n in runs), else_=NO_SET)


def _hashed_person(person: Expression, kind: ColumnKind) -> Expression:
    """As text that all engines write alike."""
    if kind is not ColumnKind.REAL:
        return person.cast("string")
    return _whole(person).cast("string").fill_null(person.cast("float64").cast("string"))


@contextmanager
def _in_our_words(what: str, where: str | None = None) -> Iterator[None]:
    try:
        with unreadable("the table", where):
            yield
    except (IbisError, TableNotFound, *_driver_errors()) as error:
        answer = f"the warehouse answered {type(error).__name__}"
        raise DataError(what, where=where, hint=answer) from None


def _driver_errors() -> tuple[type[Exception], ...]:
    """Those of the drivers that are loaded by now: ibis loads one when it connects."""
    return tuple(
        getattr(sys.modules[module], name)
        for module, name in DRIVER_ERRORS
        if module in sys.modules
    )

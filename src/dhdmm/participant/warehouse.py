"""A participant's table that stays in its warehouse: counted there by one statement, through ibis.

What leaves the warehouse is one row a group: the codes of a cell (`UNKNOWN` included) and how many
records it holds. The records stay, nothing is written, and the policies for unknown values work on
the groups as they do for any other table. Attribute i is read as xi and coded as ki, as in
`coding.py`, but in expressions that ibis writes in the warehouse's own SQL.

A study's texts become literals of that SQL, escaped by ibis. Messages of a warehouse may quote its
rows or the address with the password, so none of them is passed on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import ibis  # type: ignore[import-untyped]
import numpy as np
from ibis.common.exceptions import IbisError, TableNotFound  # type: ignore[import-untyped]
from ibis.expr import datatypes  # type: ignore[import-untyped]
from ibis.expr.operations import DatabaseTable  # type: ignore[import-untyped]
from numpy.typing import NDArray

from dhdmm.errors import DataError
from dhdmm.participant.coding import BLANKS, NOBODY, UNKNOWN, PersonBound, Reading, reading_of
from dhdmm.participant.connection import unreadable
from dhdmm.participant.sources import Kind, Source
from dhdmm.study.schema import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute

Table = Any
"""A table expression of ibis, of any backend; ibis has no types that a checker could use."""
Value = Any
"""A column expression of ibis."""

LONGEST_LIST = 4_096
"""Values or bins of an attribute that a statement can spell out."""
LARGEST_WHOLE = 2**63 - 1024
"""The largest floating-point number that is a 64-bit integer."""
TYPES = {
    Reading.WHOLE: "int64",
    Reading.REAL: "float64",
    Reading.TEXT: "string",
    Reading.TRUTH: "boolean",
}
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
    """The table of that name in a warehouse: `postgresql://reader@host/hospital`, `duckdb://a.db`.

    database: what PostgreSQL calls a schema, where it is not the default one. PostgreSQL finds a
    password that is not in the address where its own programs do, such as `~/.pgpass`.
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

    def kind(self, position: int) -> Kind:
        return _kind(self.table[self.names[position]].type())

    def count(
        self, attributes: Sequence[Attribute], positions: Sequence[int], limit: PersonBound | None
    ) -> Mapping[str, NDArray[Any]]:
        """Codes k0, k1, … and counts by group, as `tabulate` needs them."""
        read = {
            f"x{i}": self._read(attribute, at)
            for i, (attribute, at) in enumerate(zip(attributes, positions, strict=True))
        }
        also = {} if limit is None else {"person": self._person(limit)}
        rows = self.table.select(**read, **also)
        codes = {f"k{i}": _code(a, rows[f"x{i}"]) for i, a in enumerate(attributes)}
        coded = rows.select(**codes, **{name: rows[name] for name in also})
        names = list(codes)
        groups = _by_cell(names, coded) if limit is None else _by_person(names, coded, limit)
        with _in_our_words("the table cannot be counted", self.where), _ONE_STATEMENT_AT_A_TIME:
            counted = groups.to_pyarrow()
        result = {name: counted[name].to_numpy() for name in counted.column_names}
        return _untruncated(result) if limit is None else result

    def _read(self, attribute: Attribute, position: int) -> Value:
        """The column's value as the attribute needs it; the same rules as `coding.READ`."""
        name, kind = self.names[position], self.kind(position)
        reading, value = reading_of(attribute, name, kind), self.table[name]
        if kind is Kind.NULL or reading is Reading.REAL:
            return value.cast(TYPES[reading])
        return _whole(value) if reading is Reading.WHOLE else value

    def _person(self, limit: PersonBound) -> Value:
        """Whom the column names, NULL for nobody; the same rules as `coding.person`."""
        value = self.table[self.names[limit.position]]
        match limit.kind:
            case Kind.NULL:
                return value.cast("string")
            case Kind.INTEGER:
                return value
            case Kind.TEXT:
                value = trim(value + "", BLANKS)  # + "": an enumeration becomes text
            case Kind.REAL:
                value = (value == 0).ifelse(value.abs(), value)
        return value.cast("string").lower().isin(NOBODY).ifelse(ibis.null(), value)


def _kind(held: Any) -> Kind:
    for kind, types in (
        (Kind.TEXT, datatypes.String),
        (Kind.INTEGER, datatypes.Integer),
        (Kind.REAL, (datatypes.Floating, datatypes.Decimal)),
        (Kind.BOOLEAN, datatypes.Boolean),
        (Kind.NULL, datatypes.Null),
        (Kind.SCALAR, (datatypes.Temporal, datatypes.UUID, datatypes.INET, datatypes.Unknown)),
    ):
        if isinstance(held, types):
            return kind
    return Kind.OTHER


# ---- from a value to a code ---------------------------------------------------------------------


def _whole(x: Value) -> Value:
    """NULL for what is no 64-bit integer: not converted, since a warehouse may refuse to try."""
    held, nothing = x.type(), ibis.null("int64")
    if held.is_uint64():
        return (x <= ibis.literal(2**63 - 1, held)).ifelse(x.cast("int64"), nothing)
    if held.is_integer():
        return x.cast("int64")
    whole = (x == x.floor()).ifelse(x.cast("int64"), nothing)
    return x.between(-LARGEST_WHOLE, LARGEST_WHOLE).ifelse(whole, nothing)


def _code(attribute: Attribute, x: Value) -> Value:
    match attribute:
        case IntegerAttribute(low=low, high=high):
            return x.between(low, high).ifelse(x - low, UNKNOWN)
        case CategoryAttribute(values=values):
            _require_expressible(attribute)
            code = _search(0, len(values), lambda low, middle: x.isin(values[low:middle]))
            return x.isin(values).ifelse(code, UNKNOWN)
        case NumberAttribute(edges=edges):
            _require_expressible(attribute)
            code = _search(0, attribute.size, lambda _low, middle: x < float(edges[middle]))
            return x.between(float(edges[0]), float(edges[-1])).ifelse(code, UNKNOWN)
    raise AssertionError(f"no coding for {type(attribute).__name__}")


def _search(low: int, high: int, among: Callable[[int, int], Value]) -> Value:
    """Binary search for the code low ≤ c < high: `among(low, middle)` holds if c < middle."""
    if high - low == 1:
        return ibis.literal(low)
    middle = (low + high) // 2
    return among(low, middle).ifelse(_search(low, middle, among), _search(middle, high, among))


def _require_expressible(attribute: Attribute) -> None:
    if attribute.size > LONGEST_LIST:
        raise DataError(
            f"'{attribute.name}' has {attribute.size:,} values, too many for a warehouse's SQL",
            hint=f"at most {LONGEST_LIST:,} are possible; export the columns needed as Parquet",
        )
    if isinstance(attribute, CategoryAttribute) and any("\\" in str(v) for v in attribute.values):
        raise DataError(
            f"a value of '{attribute.name}' contains a backslash",
            hint="some warehouses take it for part of their SQL; export the table as Parquet",
        )


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
    ranked = numbered.mutate(place=place)
    return ranked.group_by(*names, anonymous=ranked.person.isnull()).agg(
        total=ranked.count(),
        kept=ranked.count(where=ranked.place <= bound),
        persons=ranked.count(where=ranked.place == 1),
        persons_truncated=ranked.count(where=ranked.place == bound + 1),
    )


def _hashed_person(person: Value, kind: Kind) -> Value:
    """As text that all engines write alike."""
    if kind is not Kind.REAL:
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

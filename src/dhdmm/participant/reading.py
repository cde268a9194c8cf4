"""Which column of a table is which attribute, and SQL for what each attribute is read from."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckdb import BinderException, DuckDBPyConnection, ParserException

from dhdmm.errors import DataError
from dhdmm.participant.coding import RawColumn, missing, read
from dhdmm.participant.mapping import Column, Given, columns_of
from dhdmm.participant.sources import LocalSource, Source, open_source
from dhdmm.study.attributes.columns import Coding, ColumnKind
from dhdmm.study.models import PersonModel
from dhdmm.study.names import column, most_similar, nearest
from dhdmm.study.schema import Schema

if TYPE_CHECKING:
    from dhdmm.participant.warehouse import WarehouseSource

COLUMNS_SHOWN = 20


@dataclass(frozen=True)
class OpenTable:
    """A table that has been found, and what the data holder says of its columns."""

    source: LocalSource | WarehouseSource
    columns: tuple[Column, ...]
    """One per attribute."""
    positions: tuple[int | None, ...]
    """The column of each attribute; None where it is an expression."""
    person: str | None = None
    """The column that names persons."""

    @property
    def names(self) -> list[str]:
        """What each attribute is read from, in words."""
        return [
            (said.sql or "") if at is None else self.source.names[at]
            for said, at in zip(self.columns, self.positions, strict=True)
        ]


def open_table(
    table: Any, schema: Schema, columns: Given = None, unit: PersonModel | None = None
) -> OpenTable:
    """Find the table and the column of every attribute."""
    said = dict(columns_of(columns))
    person = None if unit is None else _person_column(unit, said)
    for name in said:
        if name not in schema.names:
            raise DataError(
                f"the study has no attribute '{name}' to map a column to",
                hint=nearest(name, schema.names),
            )
    chosen = tuple(said.get(name, Column()) for name in schema.names)
    wanted = [one.column or name for one, name in zip(chosen, schema.names, strict=True)]
    source = find(table, wanted)
    read = [name for one, name in zip(chosen, wanted, strict=True) if one.sql is None]
    found = iter(positions_of(source, read if person is None else [*read, person]))
    positions = tuple(next(found) if one.sql is None else None for one in chosen)
    return OpenTable(source, chosen, positions, person)


def _person_column(unit: PersonModel, said: dict[str, Column]) -> str:
    """The column of identifiers may have another name; it is compared as it is."""
    column = said.pop(unit.column, Column())
    if not column.is_plain:
        raise DataError(
            f"'{unit.column}' identifies persons and is compared as it is",
            hint="only another column's name can be given for it",
        )
    return column.column or unit.column


def find(table: Any, wanted: Sequence[str]) -> LocalSource | WarehouseSource:
    ibis = sys.modules.get("ibis")
    if ibis is None or not isinstance(table, ibis.Table):
        return open_source(table, wanted)
    from dhdmm.participant.warehouse import WarehouseSource  # needs an optional package

    return WarehouseSource.of(table)


def positions_of(source: Source, wanted: Sequence[str]) -> list[int]:
    """The columns of these names, each exactly or else the only one that differs in case alone."""
    found = [_candidates(source, name) for name in wanted]
    absent = [name for name, at in zip(wanted, found, strict=True) if not at]
    if absent:
        raise _absent(source, absent)
    for name, at in zip(wanted, found, strict=True):
        if len(at) > 1:
            raise DataError(f"{len(at)} columns are called '{name}'", where=source.where)
    return [at for (at,) in found]


def _candidates(source: Source, wanted: str) -> list[int]:
    exact = [at for at, name in enumerate(source.names) if name == wanted]
    folded = [at for at, name in enumerate(source.names) if name.casefold() == wanted.casefold()]
    return exact or folded


def _absent(source: Source, wanted: Sequence[str]) -> DataError:
    """Names all that are not there, and what they may be called."""
    meant = [(name, most_similar(name, source.names)) for name in wanted[:COLUMNS_SHOWN]]
    if len(wanted) == 1:
        what, guesses = (
            f"there is no column '{wanted[0]}'",
            [f"'{near}'" for _, near in meant if near],
        )
    else:
        what = f"there are no columns {_listed(wanted)}"
        guesses = [f"'{near}' for '{name}'" for name, near in meant if near]
    guess = f"did you mean {', '.join(guesses)}? " if guesses else ""
    hint = f"{guess}the columns are {_listed(source.names)}"
    return DataError(what, where=source.where, hint=hint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - COLUMNS_SHOWN
    shown = ", ".join(repr(name) for name in names[:COLUMNS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


# ---- SQL ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attached:
    """SQL for every attribute's value, for columns mi that are true where attribute i has none, and
    for the relation that they are read from."""

    readings: list[str]
    missing: str
    relation: str


def attached(
    opened: OpenTable, schema: Schema, connection: DuckDBPyConnection, also: Sequence[int] = ()
) -> Attached:
    """The table as a relation of this connection, and what every attribute is read from."""
    source = opened.source
    assert isinstance(source, LocalSource)
    readings: list[str] = []
    absent: dict[str, str] = {}
    made: dict[str, str] = {}
    for i, (attribute, said, at, name) in enumerate(
        zip(schema.attributes, opened.columns, opened.positions, opened.names, strict=True)
    ):
        kind = ColumnKind.FIELD if at is None else source.kind(at)
        if said.is_plain or kind in (ColumnKind.MIXED, ColumnKind.OTHER):
            raw = RawColumn(name, f"c{at}", kind)
        else:
            made[f"t{i}"] = said.value_sql(said.sql or f"c{at}", attribute)
            raw = RawColumn(name, f"t{i}", said.kind)
        readings.append(read(attribute, raw))  # refuses a column that can never hold it
        if attribute.missing_code is not None:
            absent[f"m{i}"] = missing(raw.sql, raw.kind)
    needed = {at for at in opened.positions if at is not None} | set(also)
    if any(said.sql for said in opened.columns):
        relation = _with_expressions(source, connection, needed, made)
    else:
        relation = source.attach(connection, sorted(needed))
        relation = f"(SELECT *, {_aliases(made)} FROM {relation})" if made else relation
    return Attached(readings, f", {_aliases(absent)}" if absent else "", relation)


def _with_expressions(
    source: LocalSource, connection: DuckDBPyConnection, needed: set[int], made: Mapping[str, str]
) -> str:
    """The data holder's own SQL sees the table's columns by their names."""
    usable = [
        at
        for at in range(len(source.names))
        if source.kind(at) not in (ColumnKind.MIXED, ColumnKind.OTHER)
    ]
    relation = source.attach(connection, sorted(needed | set(usable)))
    named = _aliases({column(source.names[at]): f"c{at}" for at in usable})
    query = f"SELECT *, {_aliases(made)} FROM (SELECT *, {named} FROM {relation})"
    try:
        connection.execute(f"SELECT * FROM ({query}) LIMIT 0")
    except (BinderException, ParserException) as error:  # about the SQL: no row was read
        what = str(error).splitlines()[0]
        raise DataError(f"the mapping's SQL: {what}", where=source.where) from None
    return f"({query})"


def _aliases(made: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for name, sql in made.items())


def prepared(connection: DuckDBPyConnection, schema: Schema) -> list[Coding]:
    """How every attribute is coded, with the tables that this takes."""
    codings = [attribute.coding(i) for i, attribute in enumerate(schema.attributes)]
    for i, coding in enumerate(codings):
        if coding.domain is not None:
            _make_domain(connection, i, coding.domain)
    return codings


def _make_domain(connection: DuckDBPyConnection, i: int, columns: Mapping[str, Any]) -> None:
    """The table of an attribute's domain; without Arrow, which is slow to import."""
    shown = ", ".join(f"unnest(${name}) AS {name}" for name in columns)
    values = {name: list(held) for name, held in columns.items()}
    connection.execute(f"CREATE TABLE domain{i} AS SELECT {shown}", values)

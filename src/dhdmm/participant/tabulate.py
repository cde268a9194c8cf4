"""A participant's table becomes its histogram: one GROUP BY, counts as 64-bit integers.

Everything happens on the participant's machine, or in its own warehouse. What the report says about
unknown values and truncated persons is for the data holder; only the histogram goes on, into the
measurement.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from dhdmm.errors import DataError, Refused
from dhdmm.participant.coding import PersonBound, by_cell, by_person, coded, missing, person, read
from dhdmm.participant.sources import LocalSource, Source, open_source
from dhdmm.study.attributes import Attribute, Codes
from dhdmm.study.attributes.columns import UNKNOWN, ColumnKind
from dhdmm.study.histogram import Counts, Histogram
from dhdmm.study.models import PersonModel
from dhdmm.study.names import nearest
from dhdmm.study.schema import Schema

if TYPE_CHECKING:
    from dhdmm.participant.warehouse import WarehouseSource

COLUMNS_SHOWN = 20
NEARLY_UNIQUE, FEW_ROWS = 0.95, 20
"""An identifier with more different values than this part of the rows, if they are not few."""


class OnUnknown(StrEnum):
    """What happens to a row with a value that is missing or outside the study's domain."""

    ERROR = "error"  # refuse the table
    DROP = "drop"  # leave the row out
    OTHER = "other"  # count the value as the attribute's category "other"


@dataclass(frozen=True)
class Report:
    """What the data holder should know. Not for anybody else, so its `repr` shows nothing.

    Attributes:
        rows: How many rows the table has.
        unknown: Rows with an unknown value, by attribute; a row may count for several.
        dropped: Rows that were left out.
        persons: Different identifiers among the rows that have one; None if persons are not
            bounded.
        persons_truncated: Persons with more records than the bound.
        records_truncated: Records beyond the bound, which were left out.
    """

    rows: int = field(repr=False)
    unknown: Mapping[str, int] = field(repr=False)
    dropped: int = field(repr=False)
    persons: int | None = field(repr=False)
    persons_truncated: int = field(repr=False)
    records_truncated: int = field(repr=False)

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


@dataclass(frozen=True)
class Tabulation:
    """A counted table.

    Attributes:
        histogram: The counts by cell, which enter the measurement.
        report: What the data holder should know; it stays with the data holder.
    """

    histogram: Histogram
    report: Report


class TableOptions(TypedDict, total=False):
    """How participants' tables are read: keyword arguments of `tabulate` that a user may choose."""

    columns: Mapping[str, str] | None
    on_unknown: OnUnknown | str
    other: Mapping[str, Any] | None


class CountOptions(TableOptions, total=False):
    """Those, and what the caller of `tabulate` decides for the user."""

    max_records: int | None
    threads: int | None


def tabulate(
    table: Any,
    schema: Schema,
    *,
    columns: Mapping[str, str] | None = None,
    on_unknown: OnUnknown | str = OnUnknown.ERROR,
    other: Mapping[str, Any] | None = None,
    unit: PersonModel | None = None,
    max_records: int | None = None,
    key: bytes = b"",
    threads: int | None = None,
) -> Tabulation:
    """Count the records of a participant's table by cell.

    Args:
        table: A path (CSV, TSV, Parquet), a pandas or polars frame, an Arrow table or reader, a
            DuckDB relation, or an ibis table, which is counted in its own warehouse.
        schema: The study's attributes.
        columns: The table's column of an attribute, where its name differs.
        on_unknown: What happens to a row with a missing value or one outside the domain: "error",
            "drop", or "other" to count it as the attribute's category "other".
        other: The category that takes an attribute's unknown values, if it is not called "other".
        unit: Bounds the records of one person, where the study protects persons.
        max_records: The study's bound; a table with more records is refused, never clipped.
        key: Decides which records of a person stay; a round uses the study's digest.
        threads: How many threads count a table on this machine.

    Returns:
        The histogram, and a report for the data holder alone.

    Raises:
        DataError: The table cannot be read or does not fit the schema.
        Refused: The table has more than `max_records` records.

    Example:
        >>> import pyarrow
        >>> table = pyarrow.table({"a0": [1, 0, 1]})
        >>> tabulate(table, Schema.of_sizes([2])).histogram.counts.tolist()
        [1, 2]
    """
    policy = OnUnknown(on_unknown)
    wanted = _column_names(schema, columns or {})
    source = _open(table, wanted)
    positions = [_position(source, name) for name in wanted]
    limit = None if unit is None else _person_bound(source, unit, policy, key)
    groups = _count(source, schema, positions, limit, threads)
    codes = groups.codes
    if policy is OnUnknown.OTHER:
        codes = _with_others(codes, schema, other or {})
    known = (codes != UNKNOWN).all(axis=1) & ~groups.anonymous
    if policy is not OnUnknown.DROP and not known.all():
        columns_used = [source.names[at] for at in positions]
        raise _unknown_values(groups, codes, columns_used, unit, policy, source.where)
    histogram = Histogram.of(codes[known], groups.kept[known])
    if max_records is not None and histogram.records > max_records:
        raise Refused(
            f"there are more than max_records_per_participant = {max_records:,} records",
            where=source.where,
            hint="nothing is clipped: agree on a larger bound, from public knowledge",
        )
    return Tabulation(histogram, _report(groups, schema, known, unit))


# ---- which table, and which column is which ----------------------------------------------------


def _open(table: Any, wanted: Sequence[str]) -> LocalSource | WarehouseSource:
    ibis = sys.modules.get("ibis")
    if ibis is None or not isinstance(table, ibis.Table):
        return open_source(table, wanted)
    from dhdmm.participant.warehouse import WarehouseSource  # needs an optional package

    return WarehouseSource.of(table)


def _column_names(schema: Schema, columns: Mapping[str, str]) -> list[str]:
    for name in columns:
        if name not in schema.names:
            raise DataError(
                f"the study has no attribute '{name}' to map a column to",
                hint=nearest(name, schema.names),
            )
    return [columns.get(name, name) for name in schema.names]


def _position(source: Source, wanted: str) -> int:
    """The column of that name; failing that, the only one that differs in case alone."""
    exact = [at for at, name in enumerate(source.names) if name == wanted]
    folded = [at for at, name in enumerate(source.names) if name.casefold() == wanted.casefold()]
    found = exact or folded
    if len(found) > 1:
        raise DataError(f"{len(found)} columns are called '{wanted}'", where=source.where)
    if not found:
        shown = ", ".join(repr(name) for name in source.names[:COLUMNS_SHOWN])
        more = ", …" if len(source.names) > COLUMNS_SHOWN else ""
        near = nearest(wanted, source.names) or ""
        guess = f"{near} " if near.startswith("did") else ""
        raise DataError(
            f"there is no column '{wanted}'",
            where=source.where,
            hint=f"{guess}the columns are {shown}{more}",
        )
    return found[0]


# ---- counting -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Groups:
    """The table's rows by code, `UNKNOWN` included: one row of these arrays per group."""

    codes: Codes
    rows: Counts
    kept: Counts
    """Rows left after truncation."""
    persons: Counts
    """Persons whose first record is in the group."""
    persons_truncated: Counts
    """Persons whose first record beyond the bound is in the group."""
    anonymous: NDArray[np.bool_]
    """Rows without a person, where the unit is the person."""


def _count(
    source: LocalSource | WarehouseSource,
    schema: Schema,
    positions: Sequence[int],
    limit: PersonBound | None,
    threads: int | None,
) -> _Groups:
    if isinstance(source, LocalSource):
        result = _count_here(source, schema, positions, limit, threads)
    else:
        result = source.count(schema.attributes, positions, limit)
    codes = np.stack([result[f"k{i}"] for i in range(len(positions))], axis=1)
    names = ("total", "kept", "persons", "persons_truncated", "anonymous")
    return _Groups(codes, *(result[name] for name in names))


def _count_here(
    source: LocalSource,
    schema: Schema,
    positions: Sequence[int],
    limit: PersonBound | None,
    threads: int | None,
) -> Mapping[str, NDArray[Any]]:
    readings = [
        read(attribute, source.names[at], source.kind(at), at)
        for attribute, at in zip(schema.attributes, positions, strict=True)
    ]
    codings = [attribute.coding(i) for i, attribute in enumerate(schema.attributes)]
    names = [f"k{i}" for i in range(len(codings))]
    also = "".join(
        f", {missing(f'c{at}', source.kind(at))} AS m{i}"
        for i, (attribute, at) in enumerate(zip(schema.attributes, positions, strict=True))
        if attribute.missing_code is not None
    )
    with source.connection(threads) as connection:
        for i, coding in enumerate(codings):
            if coding.domain is not None:
                _make_domain(connection, i, coding.domain)
        if limit is None:
            relation = source.attach(connection, positions)
            query = by_cell(names, coded(readings, codings, relation, also))
        else:
            relation = source.attach(connection, [*positions, limit.position])
            also += f", {person(f'c{limit.position}', limit.kind)} AS person"
            query = by_person(names, coded(readings, codings, relation, also), limit)
        result: dict[str, Any] = connection.execute(query).fetchnumpy()
    return result


def _make_domain(connection: DuckDBPyConnection, i: int, columns: Mapping[str, Any]) -> None:
    """The table of an attribute's domain; without Arrow, which is slow to import."""
    shown = ", ".join(f"unnest(${name}) AS {name}" for name in columns)
    values = {name: list(held) for name, held in columns.items()}
    connection.execute(f"CREATE TABLE domain{i} AS SELECT {shown}", values)


def _person_bound(source: Source, unit: PersonModel, policy: OnUnknown, key: bytes) -> PersonBound:
    position = _position(source, unit.column)
    kind = source.kind(position)
    if kind in (ColumnKind.MIXED, ColumnKind.OTHER):
        raise DataError(
            f"column '{source.names[position]}' holds {kind.value}",
            where=source.where,
            hint="convert it: a person's identifier is text, a number, a date, a time or a UUID,"
            " and of one type",
        )
    return PersonBound(position, kind, unit.max_records, policy is OnUnknown.OTHER, key.hex())


# ---- unknown values -----------------------------------------------------------------------------


def _with_others(codes: Codes, schema: Schema, other: Mapping[str, Any]) -> Codes:
    """Unknown values become the attribute's category "other", where it has one."""
    instead = [_other_code(attribute, other) for attribute in schema.attributes]
    return np.where(codes == UNKNOWN, np.array(instead, dtype=np.int64), codes)


def _other_code(attribute: Attribute, other: Mapping[str, Any]) -> int:
    if attribute.name in other:
        return attribute.code(other[attribute.name])
    code = attribute.other_code()
    return UNKNOWN if code is None else code


def _unknown_values(
    groups: _Groups,
    codes: Codes,
    columns: Sequence[str],
    unit: PersonModel | None,
    policy: OnUnknown,
    where: str | None,
) -> DataError:
    """Which columns, in how many rows; never which values."""
    affected = [(name, codes[:, i] == UNKNOWN) for i, name in enumerate(columns)]
    if unit is not None:
        affected.append((unit.column, groups.anonymous))
    counted = [(name, int(groups.rows[mask].sum())) for name, mask in affected]
    listed = "; ".join(
        f"column '{name}' in {rows:,} row{'s' * (rows > 1)}" for name, rows in counted if rows
    )
    hint = (
        "correct the table, or choose what happens with on_unknown: drop or other"
        if policy is OnUnknown.ERROR
        else "only an attribute with a category called 'other' can take them"
    )
    return DataError(
        f"values are missing or outside the study's domain: {listed}", where=where, hint=hint
    )


def _report(
    groups: _Groups, schema: Schema, known: NDArray[np.bool_], unit: PersonModel | None
) -> Report:
    unknown = groups.codes == UNKNOWN
    return Report(
        rows=int(groups.rows.sum()),
        unknown={
            name: int(groups.rows[unknown[:, i]].sum()) for i, name in enumerate(schema.names)
        },
        dropped=int(groups.rows[~known].sum()),
        persons=None if unit is None else int(groups.persons[~groups.anonymous].sum()),
        persons_truncated=int(groups.persons_truncated[known].sum()),
        records_truncated=int((groups.rows - groups.kept)[known].sum()),
    )

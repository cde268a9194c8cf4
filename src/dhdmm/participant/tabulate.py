"""A participant's table becomes its histogram: one GROUP BY, counts as 64-bit integers.

Everything happens on the participant's machine, or in its own warehouse. What the report says about
unknown values and truncated persons is for the data holder; only the histogram goes on, into the
measurement. `count_for` is the way to a round: it refuses a table that loses more rows than
somebody has accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DataError, Refused
from dhdmm.participant.coding import PersonBound, by_cell, by_person, coded, person
from dhdmm.participant.mapping import Given
from dhdmm.participant.reading import OpenTable, attached, open_table, positions_of, prepared
from dhdmm.participant.report import ACCEPTED_LOSS, Report, require_accepted
from dhdmm.participant.sources import LocalSource
from dhdmm.study.attributes import Attribute, Codes
from dhdmm.study.attributes.columns import UNKNOWN, ColumnKind
from dhdmm.study.coverage import LEFT_OUT
from dhdmm.study.division import clipped
from dhdmm.study.histogram import Counts, Histogram
from dhdmm.study.models import PersonModel
from dhdmm.study.persons import Mark
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study


class OnUnknown(StrEnum):
    """What happens to a row with a value that is missing or outside the study's domain."""

    ERROR = "error"  # refuse the table
    DROP = "drop"  # leave the row out
    OTHER = "other"  # count the value as the attribute's category "other"


@dataclass(frozen=True)
class Tabulation:
    """A counted table.

    Attributes:
        histogram: The counts by cell, which enter the measurement.
        report: What the data holder should know; it stays with the data holder.
    """

    histogram: Histogram
    report: Report
    where: str | None = field(default=None, repr=False)
    """The file or the table, for messages."""


class TableOptions(TypedDict, total=False):
    """How participants' tables are read: keyword arguments of `tabulate` that a user may choose."""

    columns: Given
    on_unknown: OnUnknown | str
    other: Mapping[str, Any] | None


def tabulate(
    table: Any,
    schema: Schema,
    *,
    columns: Given = None,
    on_unknown: OnUnknown | str = OnUnknown.ERROR,
    other: Mapping[str, Any] | None = None,
    unit: PersonModel | None = None,
    max_records: int | None = None,
    key: bytes = b"",
    threads: int | None = None,
    coverage: bool = False,
    marks: Sequence[Mark] = (),
) -> Tabulation:
    """Count the records of a participant's table by cell.

    Args:
        table: A path (CSV, TSV, Parquet), a pandas or polars frame, an Arrow table or reader, a
            DuckDB relation, or an ibis table, which is counted in its own warehouse.
        schema: The study's attributes.
        columns: For each attribute whose column differs from it, the column's name or a mapping
            with options; or the path of a mapping file. See docs/tables.md.
        on_unknown: What happens to a row with a missing value or one outside the domain: "error",
            "drop", or "other" to count it as the attribute's category "other".
        other: The category that takes an attribute's unknown values, if it is not called "other".
        unit: Bounds the records of one person, where the study protects persons.
        max_records: The study's bound; a table with more records is refused, never clipped.
        key: Decides which records of a person stay; a round uses the study's digest.
        threads: How many threads count a table on this machine.
        coverage: The histogram also counts the rows that are left out, in cells of their own.
        marks: The ways in which a study counts persons, `study.cells.marks`: the histogram tells a
            person's first record in each group from the others.

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
    opened = open_table(table, schema, columns, unit)
    source = opened.source
    instead = _others(schema, other or {}, policy)
    limit = None
    if unit is not None:
        limit = replace(
            _person_bound(opened, unit, policy, key), instead=instead, marks=tuple(marks)
        )
    groups = _count(opened, schema, limit, threads)
    codes = np.where(groups.codes == UNKNOWN, np.array(instead, np.int64), groups.codes)
    known = (codes != UNKNOWN).all(axis=1) & ~groups.anonymous
    if policy is not OnUnknown.DROP and not known.all():
        raise _unknown_values(groups, codes, opened.names, unit, policy, source.where)
    histogram = Histogram.of(np.hstack([codes, groups.marks])[known], groups.kept[known])
    if coverage:
        histogram = _with_rows_left_out(histogram, groups.kept[~known & ~groups.anonymous])
    if max_records is not None and histogram.records > max_records:
        raise Refused(
            f"there are more than max_records_per_participant = {max_records:,} records",
            where=source.where,
            hint="nothing is clipped: agree on a larger bound, from public knowledge",
        )
    return Tabulation(histogram, _report(groups, schema, known, unit), source.where)


def count_for(
    study: Study,
    table: Any,
    *,
    accept_loss: float = ACCEPTED_LOSS,
    bounded: bool = True,
    threads: int | None = None,
    **options: Unpack[TableOptions],
) -> Tabulation:
    """Count a table for a round of a study, within its bounds; refuses to lose many rows.

    Args:
        study: The study, with its sections `privacy` and `aggregation`.
        table: As in `tabulate`.
        accept_loss: The largest share of the rows that may be left out.
        bounded: Whether it is one participant's table; otherwise it will be dealt out to several.
        threads: As in `tabulate`.
        **options: How the table is read, as in `tabulate`.

    Returns:
        The histogram, and a report for the data holder alone.

    Raises:
        DataError: The table cannot be read or does not fit the study.
        Refused: More rows would be left out than accepted, or there are too many records.
    """
    counted = tabulate(
        table,
        study.schema,
        unit=study.privacy.person,
        max_records=study.aggregation.max_records_per_participant if bounded else None,
        key=study.digest,
        threads=threads,
        coverage=study.coverage is not None,
        marks=study.cells.marks,
        **options,
    )
    require_accepted(counted.report, accept_loss, counted.where)
    return counted


# ---- counting -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Groups:
    """The table's rows by code, `UNKNOWN` included: one row of these arrays per group."""

    codes: Codes
    marks: Codes
    """(groups, marks): whether its records are the first of their persons."""
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
    opened: OpenTable, schema: Schema, limit: PersonBound | None, threads: int | None
) -> _Groups:
    if isinstance(opened.source, LocalSource):
        result = _count_here(opened, schema, limit, threads)
    else:
        result = opened.source.count(schema.attributes, opened.columns, opened.positions, limit)
    codes = np.stack([result[f"k{i}"] for i in range(len(opened.columns))], axis=1)
    marked = [result[f"f{m}"] for m in range(len(limit.marks if limit else ()))]
    marks = np.array(marked, np.int64).reshape(len(marked), len(codes)).T
    names = ("total", "kept", "persons", "persons_truncated", "anonymous")
    return _Groups(codes, marks, *(result[name] for name in names))


def _count_here(
    opened: OpenTable, schema: Schema, limit: PersonBound | None, threads: int | None
) -> Mapping[str, NDArray[Any]]:
    assert isinstance(opened.source, LocalSource)
    names = [f"k{i}" for i in range(len(opened.columns))]
    with opened.source.connection(threads) as connection:
        held = [] if limit is None else [limit.position]
        found = attached(opened, schema, connection, held)
        codings = prepared(connection, schema)
        if limit is None:
            query = by_cell(names, coded(found.readings, codings, found.relation, found.missing))
        else:
            also = f"{found.missing}, {person(f'c{limit.position}', limit.kind)} AS person"
            rows = coded(found.readings, codings, found.relation, also)
            query = by_person(names, rows, limit)
        result: dict[str, Any] = connection.execute(query).fetchnumpy()
    return result


def _person_bound(
    opened: OpenTable, unit: PersonModel, policy: OnUnknown, key: bytes
) -> PersonBound:
    source = opened.source
    (position,) = positions_of(source, [opened.person or unit.column])
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


def _others(schema: Schema, other: Mapping[str, Any], policy: OnUnknown) -> tuple[int, ...]:
    """What unknown values become: the attribute's category "other", where it has one."""
    if policy is not OnUnknown.OTHER:
        return (UNKNOWN,) * len(schema.attributes)
    return tuple(_other_code(attribute, other) for attribute in schema.attributes)


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
        "dhdmm check shows which; map the columns (--columns), or choose what happens with"
        " on_unknown: drop or other"
        if policy is OnUnknown.ERROR
        else "only an attribute with a category called 'other' can take them"
    )
    return DataError(
        f"values are missing or outside the study's domain: {listed}", where=where, hint=hint
    )


def _with_rows_left_out(counted: Histogram, left_out: Counts) -> Histogram:
    """The cells of a study that asks for its coverage: see `dhdmm.study.coverage`."""
    codes = np.pad(counted.codes, ((0, 1), (0, 1)))  # COUNTED is 0, and so is the new cell's rest
    codes[-1, -1] = LEFT_OUT
    return Histogram.of(codes, np.append(counted.counts, left_out.sum()))


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
        nobody=int(groups.rows[groups.anonymous].sum()),
        clipped=clipped(schema, groups.codes[known], groups.kept[known]),
    )

"""One table of a release: one row per query, first its labels, then the answer and its error bars.

There is a column of labels for every attribute or grouping that the item names, in the schema's
order. A row that sums over an attribute says `total` there, whether `with_totals`, a term of its
own or GROUP BY CUBE asked for it. Where another column tells about the same attribute, the label is
empty. Labels are made on access, so a table of half a million rows costs nothing until it is
written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dhdmm.errors import DhdmmError
from dhdmm.release.intervals import DEFAULT_LEVEL, Floats, half_width
from dhdmm.study import sqltext
from dhdmm.study.factor import Integers
from dhdmm.study.names import nearest
from dhdmm.study.query import TOTAL, query_label, query_sql
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Axis, Item, Term
from dhdmm.summary import Summarised

if TYPE_CHECKING:
    import pandas
    import polars

    from dhdmm.release.arithmetic import Answers
    from dhdmm.release.release import Release

PREVIEWED = 5
"""Rows that a notebook shows."""
CONDITION = "condition"
STATISTICS = ("value", "standard_error", "low", "high")
JOINT = ("joint_low", "joint_high")
IN_WORDS = ("query", "sql")
TAKEN = frozenset((CONDITION, *STATISTICS, *JOINT, *IN_WORDS))
"""Columns that mean the same in every table; a label column of such a name becomes `by_…`."""


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels in a table.

    Attributes:
        name: The column's name in the table.
        attribute: The number of the attribute that the labels are about.
        header: The name of that attribute, or of a grouping of its values.
    """

    name: str
    attribute: int
    header: str

    def axis(self, term: Term) -> Axis | None:
        axis = term.axes[self.attribute]
        return axis if axis is not None and axis.header == self.header else None

    def absent(self, term: Term) -> str:
        """The label of a term that does not name this column."""
        return TOTAL if term.axes[self.attribute] is None else ""


@dataclass(frozen=True, eq=False, repr=False)
class Table(Summarised):
    """The answers to one item of the workload, in its order, with error bars.

    A release is a mapping from names to tables; `Release.query` makes one from SQL. `values`,
    `standard_errors` and `level` are the numbers; the methods give them with their labels.
    """

    schema: Schema
    item: Item
    values: Floats
    standard_errors: Floats
    level: float = DEFAULT_LEVEL
    together: int | None = None
    """With joint bounds: how many answers they hold for at once."""
    shown: int | None = None
    """Only the first rows; None for all."""
    release: Release | None = None
    """Where the answers come from, and with them their covariances."""

    def _summary(self) -> dict[str, Any]:
        return {"name": self.name, "rows": len(self), "level": self.level}

    def _preview(self) -> tuple[list[str], Iterable[tuple[Any, ...]]]:
        shown = self.head(min(PREVIEWED, len(self))).to_arrow()
        columns = [
            [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in column.to_pylist()]
            for column in shown.columns
        ]
        return shown.column_names, zip(*columns, strict=True)

    @property
    def name(self) -> str:
        """The name of the item."""
        return self.item.name

    def __len__(self) -> int:
        return self.item.queries if self.shown is None else min(self.shown, self.item.queries)

    def head(self, rows: int) -> Table:
        """The first rows; the labels of the others are not made.

        Args:
            rows: How many.

        Returns:
            A table of at most so many rows.
        """
        return replace(self, shown=max(rows, 0))

    def bounds(self, joint: int = 1) -> tuple[Floats, Floats]:
        """The ends of the confidence intervals.

        Args:
            joint: How many answers the intervals hold for at once; 1 for each by itself.

        Returns:
            The lower and the upper ends.
        """
        values, errors = self.values[: len(self)], self.standard_errors[: len(self)]
        reach = half_width(errors, self.level, joint)
        return values - reach, values + reach

    # -- arithmetic -------------------------------------------------------------------------------

    @property
    def answers(self) -> Answers:
        """All rows, to calculate with: sums, differences and quotients with exact error bars."""
        return self.select()

    def select(self, **labels: str) -> Answers:
        """The rows with these labels, to calculate with.

        Args:
            labels: What label columns must say, by their names; a column whose name is no Python
                name goes into `**{"my column": "label"}`.

        Returns:
            The rows in the table's order, with the other columns of labels.

        Raises:
            DhdmmError: There is no such column or label.

        Example:
            `table.select(sex="female") - table.select(sex="male")`
        """
        from dhdmm.release.arithmetic import Answers

        words = pa.table(self._words)
        kept = np.ones(len(self), np.bool_)
        for name, label in labels.items():
            if name not in self._words:
                raise DhdmmError(
                    f"'{self.name}' has no column '{name}'", hint=nearest(name, words.column_names)
                )
            said = np.array(words[name].to_pylist(), object)
            if label not in said:
                hint = nearest(str(label), list(dict.fromkeys(said)))
                raise DhdmmError(f"no row says '{label}' under '{name}'", hint=hint)
            kept &= said == label
        rows = np.flatnonzero(kept)
        if not len(rows):
            raise DhdmmError("no row has all of these labels")
        others = words.drop_columns(list(labels)) if labels else words
        chosen = others.take(pa.array(rows)) if others.num_columns else pa.table({})
        return Answers.of(self, rows, chosen)

    # -- labels -----------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[LabelColumn, ...]:
        """The label columns in the schema's order, groupings of one attribute as they appear."""
        headers = {
            (a, axis.header): None
            for term in self.item.terms
            for a, axis in enumerate(term.axes)
            if axis is not None
        }
        in_order = sorted(headers, key=lambda found: found[0])
        names = _free_names([header for _, header in in_order])
        return tuple(LabelColumn(name, *found) for name, found in zip(names, in_order, strict=True))

    @cached_property
    def fixed(self) -> dict[str, str]:
        """Columns of words that say the same in every row, with what they say."""
        said = {column.name: self._said(column) for column in self.columns}
        if self.has_conditions:
            said[CONDITION] = {term.condition for term in self.item.terms}
        return {name: words.pop() for name, words in said.items() if len(words) == 1}

    def varying(self) -> dict[str, list[str]]:
        """The other columns of words.

        Returns:
            What each says row by row, by its name.
        """
        return {
            name: told.to_pylist() for name, told in self._words.items() if name not in self.fixed
        }

    def _said(self, column: LabelColumn) -> set[str]:
        """Up to two different labels of the column."""
        found: set[str] = set()
        for term in self.item.terms:
            axis = column.axis(term)
            found.update(axis.labels[:2] if axis else [column.absent(term)])
            if len(found) > 1:
                break
        return found

    @cached_property
    def has_conditions(self) -> bool:
        """Whether the labels of some row do not show its condition."""
        return not all(labels_tell_condition(term) for term in self.item.terms)

    @cached_property
    def _words(self) -> dict[str, pa.Array]:
        """The columns of words, one string per row."""
        words = {
            column.name: _stacked([_term_labels(column, *part) for part in self._parts()])
            for column in self.columns
        }
        if self.has_conditions:
            parts = [pa.repeat(term.condition, rows) for term, rows in self._parts()]
            words[CONDITION] = _stacked(parts)
        return words

    def _parts(self) -> Iterator[tuple[Term, int]]:
        """The terms with how many of their rows are in the table."""
        left = len(self)
        for term in self.item.terms:
            if left <= 0:
                return
            yield term, min(term.queries, left)
            left -= term.queries

    def queries(self) -> Iterator[tuple[str, str]]:
        """Every row in words and in SQL.

        Returns:
            An iterator over pairs (label, SQL).
        """
        for term, rows in self._parts():
            for row in islice(np.ndindex(*term.row_shape), rows):
                yield query_label(term, row), query_sql(self.schema, term, row)

    # -- to other libraries and files -------------------------------------------------------------

    def to_arrow(self, *, queries: bool = False) -> pa.Table:
        """The table as an Arrow table.

        Args:
            queries: Add two columns with every row in words (`query`) and in SQL (`sql`).

        Returns:
            Columns of labels, then `value`, `standard_error`, `low` and `high`; with joint bounds
            also `joint_low` and `joint_high`.
        """
        columns = dict(self._words)
        shown = slice(len(self))
        statistics = (self.values[shown], self.standard_errors[shown], *self.bounds())
        columns |= zip(STATISTICS, map(pa.array, statistics), strict=True)
        if self.together is not None:
            columns |= zip(JOINT, map(pa.array, self.bounds(self.together)), strict=True)
        if queries:
            rows = list(self.queries())
            for i, name in enumerate(IN_WORDS):
                columns[name] = pa.array([row[i] for row in rows], pa.string())
        return pa.table(columns)

    def to_pandas(self, *, queries: bool = False) -> pandas.DataFrame:
        """The table as a pandas frame; needs `dhdmm[pandas]`.

        Args:
            queries: As in `to_arrow`.

        Returns:
            The columns of `to_arrow`.

        Raises:
            DhdmmError: pandas is not installed.
        """
        return in_pandas(self.to_arrow(queries=queries))

    def to_polars(self, *, queries: bool = False) -> polars.DataFrame:
        """The table as a polars frame; needs `dhdmm[polars]`.

        Args:
            queries: As in `to_arrow`.

        Returns:
            The columns of `to_arrow`.

        Raises:
            DhdmmError: polars is not installed.
        """
        frame: polars.DataFrame = _extra("polars").from_arrow(self.to_arrow(queries=queries))
        return frame

    def to_csv(self, path: str | Path, *, queries: bool = False) -> None:
        """Write the table as CSV: UTF-8, one header line, numbers in full precision.

        Args:
            path: The file.
            queries: As in `to_arrow`.
        """
        pa.csv.write_csv(self.to_arrow(queries=queries), str(path))

    def to_parquet(self, path: str | Path, *, queries: bool = False) -> None:
        """Write the table as a Parquet file.

        Args:
            path: The file.
            queries: As in `to_arrow`.
        """
        pa.parquet.write_table(self.to_arrow(queries=queries), str(path))


class DerivedTable(ABC):
    """A table made of released ones, in the forms that people use."""

    @abstractmethod
    def to_arrow(self) -> pa.Table: ...

    def to_pandas(self) -> pandas.DataFrame:
        """The columns of `to_arrow` as a pandas frame; needs `dhdmm[pandas]`.

        Returns:
            The frame.

        Raises:
            DhdmmError: pandas is not installed.
        """
        return in_pandas(self.to_arrow())

    def to_csv(self, path: str | Path) -> None:
        """Write the columns of `to_arrow` as CSV.

        Args:
            path: The file.
        """
        pa.csv.write_csv(self.to_arrow(), str(path))


def in_pandas(table: pa.Table) -> pandas.DataFrame:
    _extra("pandas")
    frame: pandas.DataFrame = table.to_pandas()
    return frame


def appended(table: pa.Table, columns: Mapping[str, Floats]) -> pa.Table:
    """The table with more columns, their names changed where a label column has them."""
    for wanted, column in columns.items():
        name = wanted
        while name in table.column_names:
            name += "_"
        table = table.append_column(name, pa.array(column))
    return table


def _free_names(headers: Sequence[str]) -> list[str]:
    """Names that differ by more than case, because SQL does not see case.

    >>> _free_names(["age", "Value", "by_value"])
    ['age', 'by_by_Value', 'by_value']
    """
    taken = TAKEN | {header.casefold() for header in headers if header.casefold() not in TAKEN}
    names = []
    for header in headers:
        name = header
        while name.casefold() in (TAKEN if name == header else taken):
            name = f"by_{name}"
        names.append(name)
    return names


def labels_tell_condition(term: Term) -> bool:
    """Whether the condition names only attributes whose label is exactly what it allows."""
    if not term.condition:
        return True
    told = {axis.header.casefold() for axis in term.axes if axis is not None and axis.is_fixed}
    nodes = sqltext.parse_condition(term.condition, None).walk()
    return all(node.name.casefold() in told for node in nodes if node.key == "column")


def _term_labels(column: LabelColumn, term: Term, rows: int) -> pa.Array:
    """The column's labels of the term's first rows."""
    axis = column.axis(term)
    if axis is None:
        return pa.repeat(column.absent(term), rows)
    row = np.unravel_index(np.arange(rows), term.row_shape)[column.attribute]
    return _taken(axis.labels, row)


def _taken(labels: Sequence[str], rows: Integers) -> pa.Array:
    """labels[row] for every row, each label made once."""
    needed, places = np.unique(rows, return_inverse=True)
    made = pa.array([labels[int(row)] for row in needed], pa.string())
    return made.take(pa.array(places))


def _stacked(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _extra(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError:
        raise DhdmmError(
            f"{library} is not installed", hint=f"pip install 'dhdmm[{library}]', or use to_arrow()"
        ) from None

"""One table of a release: one row per query, first its labels, then the answer and its error bars.

There is a column of labels for every attribute or grouping that the item names, in the schema's
order. A row that sums over an attribute says `total` there, whether `with_totals`, a term of its
own or GROUP BY CUBE asked for it. Where another column tells about the same attribute, the label is
empty. Labels are made on access, so a table of half a million rows costs nothing until it is
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from dhdmm.errors import DhdmmError
from dhdmm.release.frames import (
    PREVIEWED,
    STATISTICS,
    arrow_numbers,
    arrow_words,
    extra,
    in_pandas,
    preview,
)
from dhdmm.release.intervals import DEFAULT_LEVEL, Estimates, Floats, Sums, critical
from dhdmm.release.wording import moment_or_number
from dhdmm.study import sqltext
from dhdmm.study.factor import Integers
from dhdmm.study.names import nearest
from dhdmm.study.query import TOTAL, query_label, query_sql
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Axis, Item, Term, with_rows
from dhdmm.summary import Summarised

if TYPE_CHECKING:
    import pandas
    import polars

    from dhdmm.release.arithmetic import Answers
    from dhdmm.release.release import Release

Words = NDArray[np.object_]
"""A column of words. Arrow is for whoever asks for it: it takes long to get ready."""

CONDITION = "condition"
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

    Example:
        >>> table = release["by ward and sex"]  # doctest: +SKIP
        >>> table.to_csv("wards.csv")  # doctest: +SKIP
        >>> low, high = table.bounds(joint=len(table))  # doctest: +SKIP
    """

    schema: Schema
    item: Item
    numbers: Estimates
    """One per query of the item, in its order."""
    level: float = DEFAULT_LEVEL
    together: int | None = None
    """With joint bounds: how many answers they hold for at once."""
    chosen: Integers | None = None
    """The rows in this table, in its order, by their numbers in the item; None for all."""
    release: Release | None = None
    """Where the answers come from, and with them their covariances."""
    header: str = STATISTICS[0]
    others: Mapping[str, Estimates] = field(default_factory=dict)
    """Further columns of a query that asks for several; `numbers` are then called `header`."""
    note: str = ""
    """What whoever reads the rows should know."""

    def _summary(self) -> dict[str, Any]:
        return {"name": self.name, "rows": len(self), "level": self.level}

    def _preview(self) -> tuple[list[str], Iterable[tuple[Any, ...]]]:
        return preview(self.head(PREVIEWED).to_arrow())

    @property
    def name(self) -> str:
        """The name of the item."""
        return self.item.name

    def __len__(self) -> int:
        return self.item.queries if self.chosen is None else len(self.chosen)

    @property
    def rows(self) -> Integers:
        """The numbers of the rows in the item."""
        return np.arange(self.item.queries) if self.chosen is None else self.chosen

    def head(self, rows: int) -> Table:
        """The first rows; the labels of the others are not made.

        Args:
            rows: How many.

        Returns:
            A table of at most so many rows.
        """
        return replace(self, chosen=self.rows[: max(rows, 0)])

    @property
    def values(self) -> Floats:
        """The answers."""
        return self._in_rows(self.numbers.values)

    @property
    def times(self) -> str:
        """Of dates: the numbers count days ("D") or hours ("h") since 1970-01-01; else empty."""
        return self.numbers.times

    @property
    def is_linear(self) -> bool:
        """Whether the answers are counts and sums: unbiased, with symmetric intervals."""
        return isinstance(self.numbers, Sums)

    @property
    def standard_errors(self) -> Floats:
        """Of the answers; exact for counts and sums, to first order for quotients."""
        return self._in_rows(self.numbers.standard_errors)

    def _in_rows(self, column: Floats) -> Floats:
        return column if self.chosen is None else column[self.chosen]

    def bounds(self, joint: int = 1) -> tuple[Floats, Floats]:
        """The ends of the confidence intervals.

        Args:
            joint: How many answers the intervals hold for at once; 1 for each by itself.

        Returns:
            The lower and the upper ends.
        """
        low, high = self.numbers.bounds(critical(self.level, joint))
        return self._in_rows(low), self._in_rows(high)

    def written(self, numbers: Floats, places: int) -> list[str]:
        """Answers, or ends of their intervals, as people read them.

        Args:
            numbers: Some of the table's numbers.
            places: How many decimals.

        Returns:
            A text for each; a date where the numbers are dates.
        """
        return [moment_or_number(one, places, self.times) for one in numbers.tolist()]

    def separately(self) -> dict[str, Table]:
        """One table for each number that a query asks for.

        Returns:
            The tables by the names of the numbers.
        """
        columns = {self.header: self.numbers, **self.others}
        return {
            name: replace(self, numbers=numbers, header=name, others={})
            for name, numbers in columns.items()
        }

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

        kept = np.ones(len(self), np.bool_)
        for name, label in labels.items():
            if name not in self._words:
                raise DhdmmError(
                    f"'{self.name}' has no column '{name}'", hint=nearest(name, list(self._words))
                )
            said = self._words[name]
            if label not in said:
                hint = nearest(str(label), list(dict.fromkeys(said)))
                raise DhdmmError(f"no row says '{label}' under '{name}'", hint=hint)
            kept &= said == label
        rows = np.flatnonzero(kept)
        if not len(rows):
            raise DhdmmError("no row has all of these labels")
        others = {name: said[rows] for name, said in self._words.items() if name not in labels}
        return Answers.of(self, self.rows[rows], others)

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
        return {name: told.tolist() for name, told in self._words.items() if name not in self.fixed}

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
    def _words(self) -> dict[str, Words]:
        """The columns of words, one string per row."""
        names = [column.name for column in self.columns]
        words = {name: np.empty(len(self), object) for name in names}
        if self.has_conditions:
            words[CONDITION] = np.empty(len(self), object)
        for term, rows, places in self._parts():
            for column in self.columns:
                words[column.name][places] = _term_labels(column, term, rows)
            if self.has_conditions:
                words[CONDITION][places] = term.condition
        return words

    def _parts(self) -> Iterator[tuple[Term, Integers, Integers]]:
        """The terms with the rows of theirs that are in the table, and their places in it."""
        rows = self.rows
        for term, own in with_rows(self.item.terms):
            places = np.flatnonzero((rows >= own.start) & (rows < own.stop))
            if len(places):
                yield term, rows[places] - own.start, places

    def queries(self) -> Iterator[tuple[str, str]]:
        """Every row in words and in SQL.

        Returns:
            An iterator over pairs (label, SQL); no SQL where the numbers are calculated from counts
            and sums.
        """
        counted = self.header == STATISTICS[0] and self.is_linear
        ends = np.cumsum([term.queries for term in self.item.terms])
        for number in self.rows:
            place = int(np.searchsorted(ends, number, side="right"))
            term = self.item.terms[place]
            row = [int(one) for one in term.rows_of(number - (ends[place] - term.queries))]
            sql = query_sql(self.schema, term, row) if counted else ""
            yield query_label(term, row), sql

    # -- to other libraries and files -------------------------------------------------------------

    def to_arrow(self, *, queries: bool = False) -> pa.Table:
        """The table as an Arrow table.

        Args:
            queries: Add two columns with every row in words (`query`) and in SQL (`sql`).

        Returns:
            Columns of labels, then `value`, `standard_error`, `low` and `high`; with joint bounds
            also `joint_low` and `joint_high`. Where a query asks for several numbers, each has
            these columns, called `name`, `name_standard_error` and so on. Quantiles of dates are
            dates, or times, and their standard errors count days, or hours.
        """
        columns = {name: arrow_words(said) for name, said in self._words.items()}
        for header, numbers in {self.header: self.numbers, **self.others}.items():
            for statistic, column in self._statistics(numbers).items():
                name = header if statistic == STATISTICS[0] else f"{header}_{statistic}"
                times = "" if statistic == STATISTICS[1] else numbers.times
                shown = arrow_numbers(self._in_rows(column), times)
                columns[name if self.others else statistic] = shown
        if queries:
            rows = list(self.queries())
            for i, name in enumerate(IN_WORDS):
                columns[name] = arrow_words(row[i] for row in rows)
        return pa.table(columns)

    def _statistics(self, numbers: Estimates) -> dict[str, Floats]:
        bounds = numbers.bounds(critical(self.level))
        found = (numbers.values, numbers.standard_errors, *bounds)
        statistics = dict(zip(STATISTICS, found, strict=True))
        if self.together is not None:
            wider = numbers.bounds(critical(self.level, self.together))
            statistics |= zip(JOINT, wider, strict=True)
        return statistics

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
        frame: polars.DataFrame = extra("polars").from_arrow(self.to_arrow(queries=queries))
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


def _free_names(headers: Sequence[str]) -> list[str]:
    """Names that differ by more than case, because SQL does not see case.

    >>> _free_names(["age", "Value", "by_value"])
    ['age', 'by_by_Value', 'by_value']
    """
    taken = TAKEN | {header.casefold() for header in headers if header.casefold() not in TAKEN}
    names: list[str] = []
    for header in headers:
        name, used = header, TAKEN | {known.casefold() for known in names}
        while name.casefold() in (used if name == header else taken):
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


def _term_labels(column: LabelColumn, term: Term, rows: Integers) -> Words | str:
    """The column's labels of these rows of the term, each label made once."""
    axis = column.axis(term)
    if axis is None:
        return column.absent(term)
    row = term.rows_of(rows)[column.attribute]
    needed, places = np.unique(row, return_inverse=True)
    return np.array([axis.labels[int(one)] for one in needed], object)[places]

"""A dry run for the data holder: what would be counted, what would not, and how to mend it.

Nothing leaves the machine and no budget is touched. What is found quotes values of the table, so it
is for the data holder's eyes: its `repr` shows none of it.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np

from dhdmm.participant.coding import NOBODY, coded
from dhdmm.participant.mapping import Column, Given, columns_of
from dhdmm.participant.reading import OpenTable, attached, open_table, prepared
from dhdmm.participant.report import Report
from dhdmm.participant.sources import LocalSource
from dhdmm.participant.tabulate import OnUnknown, Tabulation, tabulate
from dhdmm.study.attributes import Attribute, Codes
from dhdmm.study.division import quarters
from dhdmm.study.document import inline
from dhdmm.study.histogram import Histogram
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study

VALUES_LOOKED_AT = 200
"""The most frequent unknown values of a column, from which a mapping is proposed."""
ABSENT = frozenset(NOBODY)
STAND_INS = frozenset({-1, -9, -99, -999, 99, 999, 9999})
"""Numbers that often stand for no value, where they are outside the range."""


@dataclass(frozen=True, repr=False)
class Unknown:
    """A value of the table that the study does not know.

    Attributes:
        value: As it stands in the table; None for NULL.
        rows: In how many rows.
        fix: What is probably meant, in words.
        means: The study's value that is probably meant; None if none is.
        kind: `missing`, `case`, `number`, `spelling` or `unknown`.
    """

    value: str | None
    rows: int
    fix: str
    means: str | None
    kind: str


@dataclass(frozen=True, repr=False)
class ColumnCheck:
    """One attribute's column.

    Attributes:
        attribute: The attribute's name.
        column: The table's column, or the expression that it is read from.
        rows: Rows with an unknown value.
        unknown: The most frequent ones.
        marginal: The values that are counted, with how many rows each has; in the domain's order.
    """

    attribute: str
    column: str
    rows: int
    unknown: tuple[Unknown, ...]
    marginal: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Checked:
    """What a dry run found.

    Attributes:
        report: Which rows are counted, and which are not.
        columns: What is wrong with each column, and what it holds.
        warning: About the column that identifies persons; None if there is nothing to warn of.
    """

    report: Report
    columns: tuple[ColumnCheck, ...] = field(repr=False)
    warning: str | None = None

    def proposal(self) -> str | None:
        """A mapping file that takes care of what can be guessed, to be read by a person.

        Returns:
            The file's text; None if nothing can be proposed.
        """
        lines = [line for column in self.columns for line in _proposed(column)]
        return "\n".join(["columns:", *lines, ""]) if lines else None


def check(study: Study, table: Any, *, columns: Given = None) -> Checked:
    """Count a table as a round of the study would, and say what is left out and why.

    Args:
        study: The study; its sections `privacy` and `aggregation` may be missing.
        table: As in `dhdmm.tabulate`. A stream, which can be read only once, is held in memory.
        columns: As in `dhdmm.tabulate`.

    Returns:
        The counts, the most frequent unknown values with their likely meaning, and the table's own
        marginals. All of it is confidential.

    Raises:
        DataError: The table cannot be read or does not fit the study.

    Example:
        >>> import pyarrow
        >>> study = Study.from_text('''
        ... study: answers
        ... schema: {answer: {type: category, values: ["yes", "no"]}}
        ... workload: [{name: answers, by: [answer]}]
        ... ''')
        >>> found = check(study, pyarrow.table({"answer": ["yes", "No", "yes"]}))
        >>> found.report.counted, found.columns[0].unknown[0].fix
        (2, 'no, but for case or blanks')
    """
    unit = study.model.privacy.person if study.model.privacy else None
    said, table = columns_of(columns), _readable_twice(table)
    counted = tabulate(
        table,
        study.schema,
        columns=said,
        on_unknown=OnUnknown.DROP,
        unit=unit,
        key=study.digest,
    )
    opened = open_table(table, study.schema, said, unit)
    found = [_column(opened, study.schema, i, counted) for i in range(len(study.schema.attributes))]
    warning = None if unit is None else counted.report.identifier_warning(unit)
    return Checked(counted.report, tuple(found), warning)


def _readable_twice(table: Any) -> Any:
    arrow = sys.modules.get("pyarrow")  # slow to import, and loaded if the table is a stream
    is_stream = arrow is not None and isinstance(table, arrow.RecordBatchReader)
    return table.read_all() if is_stream else table


def _column(opened: OpenTable, schema: Schema, i: int, counted: Tabulation) -> ColumnCheck:
    attribute, rows = schema.attributes[i], counted.report.unknown[schema.names[i]]
    values = _most_frequent(opened, attribute, i) if rows else []
    unknown = tuple(_explained(attribute, opened.columns[i], *one) for one in values)
    marginal = tuple(_marginal(attribute, counted.histogram, i))
    return ColumnCheck(attribute.name, opened.names[i], rows, unknown, marginal)


def _most_frequent(opened: OpenTable, attribute: Attribute, i: int) -> list[tuple[str | None, int]]:
    said, at, source = opened.columns[i], opened.positions[i], opened.source
    if not isinstance(source, LocalSource):
        return source.most_frequent(attribute, said, at, VALUES_LOOKED_AT)
    alone, one = Schema((attribute,)), OpenTable(source, (said,), (at,))
    with source.connection(None) as connection:
        found = attached(one, alone, connection)
        seen = f", {said.sql if at is None else f'c{at}'} AS seen"
        codings = prepared(connection, alone)
        rows = coded(found.readings, codings, found.relation, found.missing + seen)
        query = (
            f"SELECT seen::VARCHAR, count(*) FROM ({rows}) WHERE k0 IS NULL"
            f" GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {VALUES_LOOKED_AT}"
        )
        values: list[tuple[str | None, int]] = connection.execute(query).fetchall()
    return values


def _marginal(attribute: Attribute, histogram: Histogram, i: int) -> list[tuple[str, int]]:
    codes = histogram.codes[:, i]
    if attribute.present.divided is None:
        return _rows_by(codes, histogram, attribute.label)
    codes, labels = quarters(attribute, codes)  # its steps are too many to list
    return _rows_by(codes, histogram, lambda code: labels[code])


def _rows_by(
    codes: Codes, histogram: Histogram, label: Callable[[int], str]
) -> list[tuple[str, int]]:
    totals = np.zeros(codes.max(initial=0) + 1, np.int64)
    np.add.at(totals, codes, histogram.counts)
    return [(label(int(code)), int(totals[code])) for code in np.flatnonzero(totals)]


# ---- what is probably meant ---------------------------------------------------------------------


def _explained(attribute: Attribute, said: Column, value: str | None, rows: int) -> Unknown:
    """The first explanation that fits."""
    text = "" if value is None else value.strip()
    known = {one.casefold(): one for one in attribute.present.texts()}
    if text.casefold() in ABSENT or text in ("-", "?", "."):
        return Unknown(value, rows, "missing", None, "missing")
    if text.casefold() in known and not said.ignore_case:
        means = known[text.casefold()]
        return Unknown(value, rows, f"{means}, but for case or blanks", means, "case")
    if known:
        return _explained_text(known, value, text, rows)
    return _explained_number(attribute, value, text, rows)


def _explained_text(known: dict[str, str], value: str | None, text: str, rows: int) -> Unknown:
    """The only value that begins like it, or one that is spelled nearly so."""
    folded = text.casefold()
    begin = [one for one in known if one.startswith(folded)]
    close = begin if len(begin) == 1 else get_close_matches(folded, known, n=1)
    if close:
        return Unknown(value, rows, f"perhaps {known[close[0]]}", known[close[0]], "spelling")
    return Unknown(value, rows, "not among the study's values", None, "unknown")


def _explained_number(attribute: Attribute, value: str | None, text: str, rows: int) -> Unknown:
    for meant, kind in ((text, "unknown"), (text.replace(",", "."), "number")):
        try:
            number = float(meant)
        except ValueError:
            continue
        if kind == "number":
            return Unknown(value, rows, "a number with a decimal comma", None, kind)
        if number in STAND_INS:
            return Unknown(value, rows, "outside the range: missing?", None, "missing")
        whole = number == int(number) if math.isfinite(number) else True
        why = "outside the range" if whole else "outside the range, or not a whole number"
        return Unknown(value, rows, why, None, kind)
    return Unknown(value, rows, "not a number", None, "unknown")


def _proposed(column: ColumnCheck) -> list[str]:
    """The lines of one attribute; guesses that a person must judge are comments."""
    by_kind = Counter[str]()
    for one in column.unknown:
        by_kind[one.kind] += one.rows
    options = [] if column.column == column.attribute else [f"column: {inline(column.column)}"]
    if by_kind["case"]:
        options.append("ignore_case: true")
    if by_kind["number"]:
        options.append('decimal: ","')
    seen = {(one.value or "").strip() for one in column.unknown if one.kind == "missing"}
    absent = sorted(seen - {""})
    if absent:
        options.append(f"missing: [{', '.join(inline(text) for text in absent)}]")
    guesses = [one for one in column.unknown if one.kind == "spelling"]
    if guesses:
        pairs = (f"{inline((one.value or '').strip())}: {inline(one.means)}" for one in guesses)
        options.append(f"recode: {{{', '.join(pairs)}}}")
    if len(options) == (column.column != column.attribute):
        return []
    return [f"  {inline(column.attribute)}: {{{', '.join(options)}}}"]

"""Two releases side by side: what changed, and whether noise alone could have done it.

Every round draws its own noise, so the errors of two releases are independent, even if the same
people took part in both, and the variance of a difference is the sum of the variances. The
difference is between the records of one round and the records of the other: with the same people in
both it is their change, with other people it also shows that they are others. Error bars do not
include that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dhdmm.errors import DhdmmError
from dhdmm.release.frames import STATISTICS, DerivedTable, appended, columns_of, preview
from dhdmm.release.intervals import (
    DEFAULT_LEVEL,
    Estimates,
    Floats,
    Sums,
    critical,
)
from dhdmm.release.release import Release
from dhdmm.release.tables import IN_WORDS, Table
from dhdmm.study.factor import Integers

MEANING = (
    "Each round drew its own noise, so the standard error of a difference is exact even if the"
    " same people took part in both; of means and quantiles it is as near as theirs. It is about"
    " the noise alone: a difference may be a change, or other people taking part."
)


@dataclass(frozen=True, eq=False, repr=False)
class Difference(DerivedTable):
    """One table of the first release, and the same queries in the second.

    Differences of counts and sums have exact standard errors and intervals; those of means and
    quantiles follow from the two intervals, approximately.

    Attributes:
        name: The table's name in the first release.
        labels: The labels of the queries that both have.
        before: Their answers in the first release, with error bars.
        after: Their answers in the second.
        level: The confidence level of the intervals.
    """

    name: str
    labels: pa.Table
    before: Estimates
    after: Estimates
    level: float

    def __len__(self) -> int:
        return len(self.first)

    def _preview(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return preview(self.to_arrow())

    @property
    def first(self) -> Floats:
        """The answers in the first release."""
        return self.before.values

    @property
    def second(self) -> Floats:
        """The answers in the second release."""
        return self.after.values

    @property
    def values(self) -> Floats:
        """The differences, second minus first."""
        return self.second - self.first

    @property
    def standard_errors(self) -> Floats:
        """Of the differences."""
        return np.hypot(self.before.standard_errors, self.after.standard_errors)

    def bounds(self) -> tuple[Floats, Floats]:
        """The ends of the confidence intervals, from those of two independent answers.

        The distances to an end add up like standard errors (Zou and Donner 2008): for counts and
        sums that is exact.

        Returns:
            The lower and the upper ends.
        """
        z = critical(self.level)
        (low, high), (later_low, later_high) = self.before.bounds(z), self.after.bounds(z)
        down = np.hypot(self.second - later_low, high - self.first)
        up = np.hypot(later_high - self.second, self.first - low)
        return self.values - down, self.values + up

    @property
    def z(self) -> Floats:
        """The differences in units of their standard errors; 0 for answers that are always 0."""
        positive = np.where(self.standard_errors > 0, self.standard_errors, 1.0)
        return np.asarray(self.values / positive)

    def to_arrow(self) -> pa.Table:
        """The comparison as an Arrow table.

        Returns:
            Labels, `first`, `second`, `difference`, `standard_error`, `low`, `high` and `z`.
        """
        low, high = self.bounds()
        columns = {
            "first": self.first,
            "second": self.second,
            "difference": self.values,
            "standard_error": self.standard_errors,
            "low": low,
            "high": high,
            "z": self.z,
        }
        return appended(columns_of(self.labels), columns)


def compare(first: Release, second: Release, *, level: float = DEFAULT_LEVEL) -> list[Difference]:
    """Compare the queries that two releases both answer, table by table of the first.

    Queries are the same when their SQL is; means and quantiles, when both releases have all of a
    table's, of the same records.

    Args:
        first: The release to compare from; tables have its names.
        second: A release of another round.
        level: The confidence level of the intervals of the differences.

    Returns:
        One `Difference` per table of the first release that has a query in common.

    Raises:
        DhdmmError: Both are of the same round, or have no query in common.
    """
    if first.round_id == second.round_id:
        raise DhdmmError(
            "both releases are of the same round, so their noise is the same",
            hint="compare releases of two rounds",
        )
    found = [difference for difference in _differences(first, second, level) if len(difference)]
    if not found:
        raise DhdmmError(
            "the releases have no query in common",
            hint="ask the second one the first one's queries with `dhdmm query`",
        )
    return found


def _differences(first: Release, second: Release, level: float) -> Iterator[Difference]:
    places, derived = _places(second), dict(_derived(second))
    names = {name: key for key, name in _derived(first)}
    for name, table in _measured(first):
        if names.get(name) in derived:
            shown, other = first[name], second[derived[names[name]]]
            labels = _labels(shown.to_arrow(), shown.rows)
            yield Difference(name, labels, shown.numbers, other.numbers, level)
            continue
        asked = [sql for _, sql in table.queries()]
        here = np.array([i for i, sql in enumerate(asked) if sql in places], np.int64)
        there = np.array([places[sql] for sql in asked if sql in places], np.int64)
        before = Sums(table.values[here], table.standard_errors[here])
        after = Sums(second.answers[there], second.standard_errors[there])
        yield Difference(name, _labels(table.to_arrow(), here), before, after, level)


def _measured(release: Release) -> Iterator[tuple[str, Table]]:
    return ((name, release.measured(name)) for name in release)


def _derived(release: Release) -> Iterator[tuple[Any, str]]:
    """What a table of means or quantiles is made of and how its rows are called, and its name.

    Dates are left out, which have no difference in a column of numbers.
    """
    for name, measured in _measured(release):
        if measured.item.derived and not (table := release[name]).times:
            labels = _labels(table.to_arrow(), table.rows).to_pydict()
            said = tuple((column, *words) for column, words in labels.items())
            yield (said, tuple(sql for _, sql in measured.queries())), name


def _places(release: Release) -> dict[str, int]:
    """Every query's SQL → where its answer is; the first place, if it was asked twice."""
    found: dict[str, int] = {}
    number = 0
    for _, table in _measured(release):
        for _, sql in table.queries():
            found.setdefault(sql, number)
            number += 1
    return found


def _labels(table: pa.Table, rows: Integers) -> pa.Table:
    words = [name for name in table.column_names if name not in (*STATISTICS, *IN_WORDS)]
    if not words:
        return pa.table({"query": pa.array(["total"] * len(rows), pa.string())})
    return table.select(words).take(pa.array(rows))

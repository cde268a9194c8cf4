"""Two releases side by side: what changed, and whether noise alone could have done it.

Every round draws its own noise, so the errors of two releases are independent, even if the same
people took part in both, and the variance of a difference is the sum of the variances. The
difference is between the records of one round and the records of the other: with the same people in
both it is their change, with other people it also shows that they are others. Error bars do not
include that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dhdmm.errors import DhdmmError
from dhdmm.release.frames import STATISTICS, DerivedTable, appended, columns_of
from dhdmm.release.intervals import DEFAULT_LEVEL, Floats, half_width
from dhdmm.release.release import Release
from dhdmm.release.tables import IN_WORDS, Table
from dhdmm.study.factor import Integers

MEANING = (
    "Each round drew its own noise, so the standard error of a difference is exact even if the"
    " same people took part in both. It is about the noise alone: a difference may be a change, or"
    " other people taking part."
)


@dataclass(frozen=True, eq=False)
class Difference(DerivedTable):
    """One table of the first release, and the same queries in the second.

    Attributes:
        name: The table's name in the first release.
        labels: The labels of the queries that both have.
        first: Their answers in the first release.
        second: Their answers in the second.
        standard_errors: Of the differences.
        level: The confidence level of the intervals.
    """

    name: str
    labels: pa.Table
    first: Floats
    second: Floats
    standard_errors: Floats
    level: float

    def __len__(self) -> int:
        return len(self.first)

    @property
    def values(self) -> Floats:
        """The differences, second minus first."""
        return self.second - self.first

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
        reach = half_width(self.standard_errors, self.level)
        columns = {
            "first": self.first,
            "second": self.second,
            "difference": self.values,
            "standard_error": self.standard_errors,
            "low": self.values - reach,
            "high": self.values + reach,
            "z": self.z,
        }
        return appended(columns_of(self.labels), columns)


def compare(first: Release, second: Release, *, level: float = DEFAULT_LEVEL) -> list[Difference]:
    """Compare the queries that two releases both answer, table by table of the first.

    Queries are the same when their SQL is.

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
    places = _places(second)
    for name, table in _measured(first):
        asked = [sql for _, sql in table.queries()]
        here = np.array([i for i, sql in enumerate(asked) if sql in places], np.int64)
        there = np.array([places[sql] for sql in asked if sql in places], np.int64)
        yield Difference(
            name,
            _labels(table.to_arrow(), here),
            table.values[here],
            second.answers[there],
            np.hypot(table.standard_errors[here], second.standard_errors[there]),
            level,
        )


def _measured(release: Release) -> Iterator[tuple[str, Table]]:
    return ((name, release.measured(name)) for name in release)


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

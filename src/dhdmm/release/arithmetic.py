"""Arithmetic of released answers: sums, differences and quotients with exact error bars.

`Answers` are linear combinations of the answers of tables, also of several releases: their
variances follow from the covariances inside each release, and the noise of different rounds is
independent. `Ratios` are quotients of two of them and sums of quotients. Nothing else is needed for
shares, differences between groups, changes between releases and growth rates.

C: (rows, answers of a table), the weights of a table's answers; Σ: covariance of a table's answers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dhdmm.errors import DhdmmError
from dhdmm.release.frames import STATISTICS, DerivedTable, appended, arrow_words
from dhdmm.release.intervals import (
    DEFAULT_LEVEL,
    Estimates,
    Floats,
    Quotients,
    QuotientSums,
    Sums,
    critical,
)
from dhdmm.release.tables import Table, Words

if TYPE_CHECKING:
    from dhdmm.release.release import Release

Number = float | int


@dataclass(frozen=True, eq=False, repr=False)
class _Estimates(DerivedTable):
    """What `Answers` and `Ratios` have in common: rows with labels, values and intervals."""

    labels: dict[str, Words]
    """Columns of words, possibly none."""

    __array_ufunc__ = None  # NumPy leaves the arithmetic to this class

    @property
    @abstractmethod
    def _numbers(self) -> Estimates: ...

    @property
    def values(self) -> Floats:
        """The quotients, or their sums."""
        return self._numbers.values

    @property
    def standard_errors(self) -> Floats:
        """At most these, to first order (delta method); intervals are not made from them."""
        return self._numbers.standard_errors

    def bounds(self, level: float = DEFAULT_LEVEL, joint: int = 1) -> tuple[Floats, Floats]:
        """The ends of the confidence intervals; −∞ and ∞ where a denominator may be 0.

        Args:
            level: The confidence level.
            joint: How many rows the intervals hold for at once; 1 for each by itself.

        Returns:
            The lower and the upper ends.
        """
        return self._numbers.bounds(critical(level, joint))

    def __len__(self) -> int:
        return len(self.values)

    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """The rows as an Arrow table.

        Args:
            level: The confidence level of each interval.

        Returns:
            Labels, then `value`, `standard_error`, `low` and `high`.
        """
        numbers = (self.values, self.standard_errors, *self.bounds(level))
        statistics = dict(zip(STATISTICS, numbers, strict=True))
        words = {name: arrow_words(said) for name, said in self.labels.items()}
        return appended(words, statistics)


@dataclass(frozen=True, eq=False, repr=False)
class Answers(_Estimates):
    """Linear combinations of released answers, each with its exact standard error.

    `table.answers` are all answers of a table, `table.select(sex="female")` some of them. They can
    be added, subtracted, multiplied by numbers, divided by each other, indexed like arrays and
    summed; a single row goes with any number of rows.

    Example:
        >>> table = release["by ward and sex"]  # doctest: +SKIP
        >>> women, men = table.select(sex="female"), table.select(sex="male")  # doctest: +SKIP
        >>> (women - men).to_pandas()  # doctest: +SKIP
        >>> (women / (women + men)).to_pandas()  # doctest: +SKIP
        >>> (table.answers / table.answers.sum()).to_pandas()  # doctest: +SKIP
    """

    parts: tuple[tuple[Table, Floats], ...]
    """Tables and C; each table of each release once."""

    @classmethod
    def of(cls, table: Table, rows: NDArray[np.int64], labels: dict[str, Words]) -> Answers:
        weights = np.zeros((len(rows), table.item.queries))
        weights[np.arange(len(rows)), rows] = 1
        return cls(labels, ((table, weights),))

    @cached_property
    def values(self) -> Floats:
        """The combinations of the answers."""
        return np.asarray(sum(C @ table.numbers.values for table, C in self.parts))

    @cached_property
    def standard_errors(self) -> Floats:
        """Their standard errors, exact if all survivors followed the protocol."""
        return np.sqrt(np.maximum(self.covariances(self), 0))

    @property
    def _numbers(self) -> Sums:
        return Sums(self.values, self.standard_errors)

    def covariances(self, other: Answers) -> Floats:
        """Row by row.

        Args:
            other: As many answers.

        Returns:
            The covariance of each row with the same row of the other.
        """
        pairs = ((C @ sigma, D) for C, sigma, D in self._pairs(other))
        return sum((np.einsum("ij,ij->i", left, D) for left, D in pairs), np.zeros(len(self)))

    @property
    def covariance(self) -> Floats:
        """The covariance matrix of all rows."""
        pairs = (C @ sigma @ D.T for C, sigma, D in self._pairs(self))
        return sum(pairs, np.zeros((len(self), len(self))))

    def _pairs(self, other: Answers) -> Iterator[tuple[Floats, Floats, Floats]]:
        """C, Σ, D of the tables that share noise: those of one round."""
        for left, C in self.parts:
            for right, D in other.parts:
                if _release(left).round_id == _release(right).round_id:
                    yield C, _release(left).covariance_of(left.item, right.item), D

    # -- arithmetic -------------------------------------------------------------------------------

    def __getitem__(self, rows: Any) -> Answers:
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        parts = tuple((table, C[chosen]) for table, C in self.parts)
        return Answers({name: said[chosen] for name, said in self.labels.items()}, parts)

    def sum(self) -> Answers:
        """All rows added up.

        Returns:
            One row.
        """
        parts = tuple((table, C.sum(axis=0, keepdims=True)) for table, C in self.parts)
        return Answers({}, parts)

    def __add__(self, other: Answers) -> Answers:
        if not isinstance(other, Answers):
            return NotImplemented
        left, right = _same_length(self, other)
        weights: dict[tuple[bytes, Any], tuple[Table, Floats]] = {}
        for table, C in (*left.parts, *right.parts):
            key = _release(table).round_id, table.item
            known = weights.get(key)
            weights[key] = (table, C) if known is None else (known[0], known[1] + C)
        return Answers(left.labels, tuple(weights.values()))

    def __mul__(self, number: Number) -> Answers:
        if not isinstance(number, Number):
            return NotImplemented
        return replace(self, parts=tuple((table, C * number) for table, C in self.parts))

    __rmul__ = __mul__

    def __neg__(self) -> Answers:
        return self * -1

    def __sub__(self, other: Answers) -> Answers:
        return self + -other if isinstance(other, Answers) else NotImplemented

    def __truediv__(self, other: Answers | Number) -> Any:
        if isinstance(other, Number):
            return self * (1 / other)
        if not isinstance(other, Answers):
            return NotImplemented
        left, right = _same_length(self, other)
        return Ratios(left.labels, ((left, right),))


@dataclass(frozen=True, eq=False, repr=False)
class Ratios(_Estimates):
    """Quotients of linear combinations of released answers, and sums of such quotients.

    They can be added, subtracted and multiplied by numbers: `later / earlier - 1` is a growth rate.
    The intervals of quotients are Fieller's: they hold with their exact probability even if the
    denominator is close to 0, and then have no ends (−∞ and ∞). Those of sums of quotients, such as
    a change of a share from one round to the next, hold at least as often as they say.
    """

    parts: tuple[tuple[Answers, Answers], ...]
    """Numerators and denominators."""

    @cached_property
    def _numbers(self) -> Estimates:
        found = tuple(
            Quotients(n.values, d.values, n.covariances(n), n.covariances(d), d.covariances(d))
            for n, d in self.parts
        )
        return found[0] if len(found) == 1 else QuotientSums(found)

    def __add__(self, other: Ratios | Number) -> Ratios:
        if isinstance(other, Ratios):
            if len(self) != len(other):
                raise DhdmmError(
                    f"{len(self):,} quotients do not go with {len(other):,}",
                    hint="as many are needed on both sides",
                )
            return replace(self, parts=(*self.parts, *other.parts))
        if not isinstance(other, Number):
            return NotImplemented
        (n, d), *others = self.parts
        return replace(self, parts=((n + d * other, d), *others))

    __radd__ = __add__

    def __neg__(self) -> Ratios:
        return self * -1

    def __sub__(self, other: Ratios | Number) -> Ratios:
        return self + -other if isinstance(other, Ratios | Number) else NotImplemented

    def __mul__(self, number: Number) -> Ratios:
        if not isinstance(number, Number):
            return NotImplemented
        return replace(self, parts=tuple((n * number, d) for n, d in self.parts))

    __rmul__ = __mul__


def _release(table: Table) -> Release:
    if table.release is None:
        raise DhdmmError("this table does not belong to a release, so covariances are not known")
    return table.release


def _same_length(left: Answers, right: Answers) -> tuple[Answers, Answers]:
    if len(left) == len(right):
        return left, right
    if len(right) == 1:
        return left, right[np.zeros(len(left), np.int64)]
    if len(left) == 1:
        return left[np.zeros(len(right), np.int64)], right
    raise DhdmmError(
        f"{len(left):,} answers do not go with {len(right):,}",
        hint="as many are needed on both sides, or one",
    )

"""Distinct persons, as part of the workload: the item `persons` and COUNT(DISTINCT person).

A study whose persons may have several records has, for each breakdown in which it counts persons,
one more attribute, which no column holds: whether a record is the first of its person in its group.
A data holder marks exactly one record of each person in each group, among the records that count
and satisfy the condition; the persons are the marked records. So a record is still in one cell, and
sensitivities are what they are for any workload (ADR 42).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.errors import StudyError
from dhdmm.study.attributes.base import Attribute
from dhdmm.study.attributes.category import CategoryAttribute
from dhdmm.study.attributes.columns import FIRST_STEP
from dhdmm.study.factor import Integers, Ranges
from dhdmm.study.schema import Schema

if TYPE_CHECKING:
    from dhdmm.study.diagram import Box, Mask
    from dhdmm.study.grouping import Grouping

AGAIN, FIRST = 0, 1
"""Codes of the attribute."""
MARKED = CategoryAttribute("first of its person", ("again", "first"))
"""Of the workload's schema alone: no table has such a column, and no query can name it."""
MOST_MARKS = 16
MOST_RUNS = 1_000
"""Runs of values that a data holder's SQL compares a record with."""

Run = tuple[int, int, int]
"""First code, last code, and the number of the set that they are in."""
NO_SET = -1


@dataclass(frozen=True)
class Mark:
    """Which records are marked: the first of each person in each group.

    Marks of one study are the same if they have the same groupings, by name, and condition.
    """

    column: str
    """Whose values are the persons."""
    by: tuple[str, ...]
    condition: str
    sets: tuple[tuple[int, tuple[Run, ...] | None], ...] = field(compare=False, repr=False)
    """The sets of each attribute that is broken down; None where each value is its own set."""
    boxes: tuple[tuple[int, tuple[tuple[int, tuple[Run, ...]], ...]], ...] = field(
        compare=False, repr=False
    )
    """The condition: coefficients, and the values of each attribute; their sum is 1 or 0."""

    @property
    def words(self) -> str:
        """`by ward, where age >= 65`."""
        by = f"by {' × '.join(self.by)}" if self.by else "in all"
        return f"{by} where {self.condition}" if self.condition else by


def mark_of(
    schema: Schema, column: str, by: Sequence[Grouping], condition: str, boxes: Sequence[Box]
) -> Mark:
    """The mark of a count of persons; refuses groups that overlap."""
    sets = tuple((one.attribute, _sets(one)) for one in by)
    parts = tuple(
        (
            box.coefficient,
            tuple((a, _values(schema.attributes[a], mask)) for a, mask in box.masks.items()),
        )
        for box in boxes
    )
    runs = sum(len(one or ()) for _, one in sets)
    runs += sum(len(one) for _, masks in parts for _, one in masks)
    if runs > MOST_RUNS:
        raise StudyError(
            f"persons are counted by sets of values in {runs:,} pieces, more than {MOST_RUNS:,}",
            hint="make the sets of neighbouring values, or ask by the attribute itself",
        )
    return Mark(column, tuple(sorted(one.name for one in by)), condition, sets, parts)


def _sets(grouping: Grouping) -> tuple[Run, ...] | None:
    factor = grouping.factor
    rows, size = factor.shape
    held = factor.transpose_dot(np.ones(rows, np.int64))
    if held.max(initial=0) > 1:
        raise StudyError(
            f"the sets of '{grouping.name}' overlap, so a record may be in several groups and its"
            " person first in only some of them",
            hint="count persons by sets that do not overlap, in an item each if need be",
        )
    if isinstance(factor, Ranges) and rows == size and bool((held == 1).all()):
        return None
    numbers = factor.transpose_dot(np.arange(rows))
    return _runs(np.where(held == 1, numbers, NO_SET))


def _values(attribute: Attribute, mask: Mask) -> tuple[Run, ...]:
    """The codes that a data holder's records have; those of a measure are its steps, or missing."""
    held = np.where(mask, 0, NO_SET)
    steps = attribute.present.divided
    if steps is not None:
        absent = held[attribute.missing_code] if attribute.missing_code is not None else NO_SET
        held = np.full(FIRST_STEP + steps + 3, held[0])
        held[:FIRST_STEP] = absent
    return _runs(held)


def _runs(sets: Integers) -> tuple[Run, ...]:
    """Neighbouring codes of one set together.

    >>> _runs(np.array([0, 0, -1, 1]))
    ((0, 1, 0), (3, 3, 1))
    """
    starts = np.flatnonzero(np.diff(sets, prepend=NO_SET - 1))
    ends = np.append(starts[1:], len(sets)) - 1
    runs = zip(starts.tolist(), ends.tolist(), sets[starts].tolist(), strict=True)
    return tuple(run for run in runs if run[2] != NO_SET)

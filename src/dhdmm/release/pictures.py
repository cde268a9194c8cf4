"""How each table reads best: the decision, as values that any renderer can draw.

`plot.py` draws them with matplotlib for files, the pages draw them as SVG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.intervals import Floats
from dhdmm.release.tables import Table, is_fixed, labels_tell_condition
from dhdmm.study.factor import Factor, Integers, Ranges
from dhdmm.study.names import Lazily
from dhdmm.study.query import TOTAL
from dhdmm.study.schema import Attribute
from dhdmm.study.workload import Axis, Term

Mask = NDArray[np.bool_]

MOST_BARS = 20
MOST_LINES = 4
MOST_TICKS = 8


@dataclass(frozen=True, eq=False)
class Direction:
    """One way that a table runs: what it is called, and what its positions are called."""

    header: str
    labels: Sequence[str]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Bars:
    """Few answers: one bar each."""

    labels: Sequence[str]
    values: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Points:
    """Many answers without an order."""

    direction: Direction
    values: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Lines:
    """Answers in an order, a line each; values is (lines, positions)."""

    direction: Direction
    names: Sequence[str]
    values: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Heat:
    """A table of two directions; `totals` are no part of what is compared."""

    down: Direction
    across: Direction
    values: Floats
    errors: Floats
    totals: Mask


@dataclass(frozen=True, eq=False)
class Intervals:
    """Counts of ranges low ≤ v < high of one ordered direction."""

    ends: Direction
    low: Integers
    high: Integers
    values: Floats
    errors: Floats


Picture = Bars | Points | Lines | Heat | Intervals


@dataclass(frozen=True, eq=False)
class Panel:
    """A picture of a table, or of one term of it."""

    name: str
    title: str
    picture: Picture


def panels_of(table: Table) -> list[Panel]:
    """One picture if the rows are few, else one a term."""
    if len(table) > MOST_BARS:
        return [_term_panel(table, i) for i in range(len(table.item.terms))]
    return [item_panel(table)]


def item_panel(table: Table) -> Panel:
    """All rows if they are few, else the item's largest term."""
    terms = table.item.terms
    directions = [d for d in _directions(table, terms[0]) if len(d.direction) > 1]
    if len(table) <= MOST_BARS and not (len(terms) == 1 and len(directions) == 2):
        told = ", ".join(f"{header} {label}" for header, label in table.fixed.items())
        title = f"{table.name} ({told})" if told else table.name
        return Panel(table.name, title, _rows_picture(table))
    largest = max(range(len(terms)), key=lambda i: terms[i].queries)
    return replace(_term_panel(table, largest), name=table.name)


def _term_panel(table: Table, number: int) -> Panel:
    term = table.item.terms[number]
    start = sum(earlier.queries for earlier in table.item.terms[:number])
    rows = slice(start, start + term.queries)
    directions = [found for found in _directions(table, term) if len(found.direction) > 1]
    values, errors = (
        column[rows].reshape([len(found.direction) for found in directions])
        for column in (table.values, table.standard_errors)
    )
    name = " × ".join(found.direction.header for found in directions) or TOTAL
    title = table.name if len(table.item.terms) == 1 else f"{table.name}: {name}"
    told = [f"{axis.header} {axis.labels[0]}" for axis in term.axes if axis and is_fixed(axis)]
    if not labels_tell_condition(term):
        told = [term.condition]
    title += f" ({', '.join(told)})" if told else ""
    return Panel(name, title, _term_picture(directions, values, errors))


def _rows_picture(table: Table) -> Bars:
    """Every row a bar, named by the labels that differ."""
    columns = table.varying().values()
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    labels = [" · ".join(part for part in row if part not in ("", TOTAL)) or TOTAL for row in rows]
    return Bars(labels, table.values, table.standard_errors)


# ---- the directions of a term, and how they are drawn -------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """A direction with the factor behind it."""

    direction: Direction
    attribute: Attribute
    factor: Factor
    has_total: bool

    @property
    def runs(self) -> Ranges | None:
        """The direction's ranges of an ordered attribute, without the total."""
        if self.attribute.kind == "category" or not isinstance(self.factor, Ranges):
            return None
        rows = np.arange(len(self.direction) - self.has_total)
        return self.factor.take(rows)

    @property
    def ordered(self) -> bool:
        runs = self.runs
        return runs is not None and bool(
            np.all(np.diff(runs.low) >= 0) and np.all(np.diff(runs.high) >= 0)
        )


def _directions(table: Table, term: Term) -> list[Found]:
    factors = term.products[0].factors
    return [
        Found(Direction(axis.header, axis.labels), attribute, factor, _has_total(axis))
        for axis, attribute, factor in zip(term.axes, table.schema.attributes, factors, strict=True)
        if axis is not None
    ]


def _has_total(axis: Axis) -> bool:
    return len(axis.labels) > 1 and axis.labels[-1] == TOTAL and not axis.predicates[-1]


def _term_picture(found: Sequence[Found], values: Floats, errors: Floats) -> Picture:
    if not found:
        return Bars([TOTAL], values.reshape(1), errors.reshape(1))
    if len(found) == 1:
        return _one_way(found[0], values, errors)
    if len(found) == 2:
        return _two_way(found[0], found[1], values, errors)
    down, across = _crossed([one.direction for one in found[:-1]]), found[-1].direction
    shape = len(down), len(across)
    totals = np.zeros(shape, np.bool_)
    return Heat(down, across, values.reshape(shape), errors.reshape(shape), totals)


def _crossed(directions: Sequence[Direction]) -> Direction:
    """Several directions as one, the last of them fastest."""
    shape = [len(direction) for direction in directions]

    def label(place: int) -> str:
        rows = np.unravel_index(place, shape)
        return " · ".join(d.labels[int(row)] for d, row in zip(directions, rows, strict=True))

    header = " × ".join(direction.header for direction in directions)
    return Direction(header, Lazily(math.prod(shape), label))


def _one_way(found: Found, values: Floats, errors: Floats) -> Picture:
    direction, runs = found.direction, found.runs
    if len(values) <= MOST_BARS:
        return Bars(direction.labels, values, errors)
    if found.ordered:
        return _without_total(found, [""], values[None], errors[None])
    if runs is not None:
        attribute = found.attribute
        every = Direction(direction.header, [attribute.label(i) for i in range(attribute.size)])
        count = len(runs.low)
        return Intervals(every, runs.low, runs.high, values[:count], errors[:count])
    return Points(direction, values, errors)


def _two_way(down: Found, across: Found, values: Floats, errors: Floats) -> Picture:
    if len(down.direction) > len(across.direction):
        down, across, values, errors = across, down, values.T, errors.T
    if len(down.direction) <= MOST_LINES and len(across.direction) > MOST_TICKS and across.ordered:
        return _without_total(across, down.direction.labels, values, errors)
    totals = np.zeros(values.shape, np.bool_)
    totals[-1] |= down.has_total
    totals[:, -1] |= across.has_total
    if len(across.direction) > MOST_TICKS >= len(down.direction):
        down, across, values, errors, totals = across, down, values.T, errors.T, totals.T
    return Heat(down.direction, across.direction, values, errors, totals)


def _without_total(found: Found, names: Sequence[str], values: Floats, errors: Floats) -> Lines:
    """What runs along an ordered direction; its total is no point of the line."""
    count = len(found.direction) - found.has_total
    direction = Direction(found.direction.header, found.direction.labels[:count])
    return Lines(direction, names, values[:, :count], errors[:, :count])

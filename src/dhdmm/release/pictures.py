"""How each table reads best: the decision, as values that `dhdmm.release.charts` draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.intervals import Floats
from dhdmm.release.tables import Table, labels_tell_condition
from dhdmm.release.wording import printable
from dhdmm.study.attributes import Attribute
from dhdmm.study.attributes.base import round_ticks
from dhdmm.study.factor import Factor, Integers, Ranges
from dhdmm.study.names import LazySequence
from dhdmm.study.query import TOTAL
from dhdmm.study.workload import Term

Mask = NDArray[np.bool_]

MOST_BARS = 20
MOST_LINES = 4
MOST_TICKS = 8


@dataclass(frozen=True, eq=False)
class AxisDirection:
    """One way that a table runs: what it is called, and what its positions are called."""

    header: str
    labels: Sequence[str]
    named: Callable[[int], Sequence[int]] | None = None
    """The positions that an axis names, with room for so many; by default at round distances."""

    def __len__(self) -> int:
        return len(self.labels)

    def ticks(self, most: int) -> Sequence[int]:
        return self.named(most) if self.named else round_ticks(len(self), most)

    def first(self, most: int) -> AxisDirection:
        """As much of it as is drawn; the header says so if that is not all."""
        if len(self) <= most:
            return self
        header = f"{printable(self.header, 36)} (first {most:,} of {len(self):,})"
        return AxisDirection(header, self.labels[:most])


@dataclass(frozen=True, eq=False)
class Bars:
    """Few answers: one bar each. An error of 0 means that the number is exact."""

    labels: Sequence[str]
    values: Floats
    errors: Floats
    truth: Floats | None = None
    """What the answers would be without noise, where somebody knows it."""


@dataclass(frozen=True, eq=False)
class Points:
    """Many answers without an order."""

    direction: AxisDirection
    values: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Lines:
    """Answers in an order, a line each; values is (lines, positions)."""

    direction: AxisDirection
    names: Sequence[str]
    values: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Heat:
    """A table of two directions; `totals` are no part of what is compared."""

    down: AxisDirection
    across: AxisDirection
    values: Floats
    errors: Floats
    totals: Mask


@dataclass(frozen=True, eq=False)
class Intervals:
    """Counts of ranges low ≤ v < high of one ordered direction."""

    ends: AxisDirection
    low: Integers
    high: Integers
    values: Floats
    errors: Floats

    def grid(self, finest: int) -> Heat:
        """Where ranges begin across, where they end down; NaN where there is none.

        A long direction has only every second, third, … end.
        """
        step = -(-len(self.ends) // finest)
        labels = self.ends.labels[::step]
        chosen = (self.low % step == 0) & ((self.high - 1) % step == 0)
        where = (self.high[chosen] - 1) // step, self.low[chosen] // step
        values, errors = np.full((2, len(labels), len(labels)), np.nan)
        values[where], errors[where] = self.values[chosen], self.errors[chosen]
        across = AxisDirection(f"{self.ends.header}, from", labels)
        totals = np.zeros(values.shape, np.bool_)
        return Heat(AxisDirection("up to", labels), across, values, errors, totals)


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
        return Panel(table.name, title, rows_picture(table))
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
    told = [f"{axis.header} {axis.labels[0]}" for axis in term.axes if axis and axis.is_fixed]
    if not labels_tell_condition(term):
        told = [term.condition]
    title += f" ({', '.join(told)})" if told else ""
    return Panel(name, title, _term_picture(directions, values, errors))


def rows_picture(table: Table) -> Bars:
    """Every row a bar, named by the labels that differ."""
    columns = table.varying().values()
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    labels = [" · ".join(part for part in row if part not in ("", TOTAL)) or TOTAL for row in rows]
    return Bars(labels, table.values, table.standard_errors)


# ---- the directions of a term, and how they are drawn -------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """A direction with the factor behind it."""

    direction: AxisDirection
    attribute: Attribute
    factor: Factor
    has_total: bool

    @property
    def runs(self) -> Ranges | None:
        """The direction's ranges of an ordered attribute: no total, nothing missing."""
        if not self.attribute.present.ordered or not isinstance(self.factor, Ranges):
            return None
        along = np.arange(len(self.direction) - self.has_total)
        return self.factor.take(along[self.factor.high[along] <= self.attribute.present.size])

    @property
    def ordered(self) -> bool:
        runs = self.runs
        return runs is not None and bool(np.all(np.diff([runs.low, runs.high]) >= 0))


def _directions(table: Table, term: Term) -> list[Found]:
    factors = term.products[0].factors
    return [
        Found(AxisDirection(axis.header, axis.labels), attribute, factor, axis.has_total)
        for axis, attribute, factor in zip(term.axes, table.schema.attributes, factors, strict=True)
        if axis is not None
    ]


def _term_picture(found: Sequence[Found], values: Floats, errors: Floats) -> Picture:
    if not found:
        return Bars([TOTAL], values.reshape(1), errors.reshape(1))
    if len(found) == 1:
        return _one_way(found[0], values, errors)
    if len(found) == 2:
        return _two_way(found[0], found[1], values, errors)
    down, across = _crossed([one.direction for one in found[:-1]]), found[-1].direction
    shape = len(down), len(across)
    return Heat(down, across, values.reshape(shape), errors.reshape(shape), np.zeros(shape, bool))


def _crossed(directions: Sequence[AxisDirection]) -> AxisDirection:
    """Several directions as one, the last of them fastest."""
    shape = [len(direction) for direction in directions]

    def label(place: int) -> str:
        rows = np.unravel_index(place, shape)
        return " · ".join(d.labels[int(row)] for d, row in zip(directions, rows, strict=True))

    header = " × ".join(direction.header for direction in directions)
    return AxisDirection(header, LazySequence(math.prod(shape), label))


def _one_way(found: Found, values: Floats, errors: Floats) -> Picture:
    direction, runs = found.direction, found.runs
    if len(values) <= MOST_BARS:
        return Bars(direction.labels, values, errors)
    if found.ordered:
        return _without_total(found, [""], values[None], errors[None])
    if runs is not None:
        attribute = found.attribute.present
        every = AxisDirection(direction.header, [attribute.label(i) for i in range(attribute.size)])
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
    runs = found.runs
    assert runs is not None, "only ranges are in an order"
    count, prefixes = len(runs.low), runs.low[0] == runs.low[-1]
    named = partial(found.attribute.present.ticks, runs.high - 1 if prefixes else runs.low)
    direction = AxisDirection(found.direction.header, found.direction.labels[:count], named)
    return Lines(direction, names, values[:, :count], errors[:, :count])

"""How each table reads best: the pictures that are chosen for it.

Every answer is in some picture: what does not fit into one is cut into parts, a panel each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from dhdmm.release.derived import QuantileEstimates
from dhdmm.release.frames import places_of
from dhdmm.release.intervals import Floats, Stacked, half_width
from dhdmm.release.pictures import (
    AxisDirection,
    Bars,
    Heat,
    Lines,
    Mask,
    Panel,
    Picture,
    extremes,
    ranges_heat,
)
from dhdmm.release.tables import Table, labels_tell_condition
from dhdmm.release.wording import UNITS_OF_TIME
from dhdmm.study.attributes import Attribute
from dhdmm.study.factor import Factor, Ranges
from dhdmm.study.names import LazySequence
from dhdmm.study.query import TOTAL
from dhdmm.study.workload import Axis, Item, Term, with_rows

MOST_BARS = 20
"""Rows of a table that are bars, whatever they are about."""
SHORTEST_LINE = 9
"""Positions from which on an ordered direction is a line."""
MOST_LINES, MOST_PLOTS = 4, 12
"""Lines in a plot, and plots side by side in a part."""
MOST_ROWS, MOST_COLUMNS = 40, 16
"""Of a part: of its bars, or of its heat map."""


def panels_of(table: Table) -> list[Panel]:
    """One picture if the rows are few, else those of every term; one for each kind of answer."""
    if isinstance(table.numbers, Stacked):
        both = zip(table.item.terms, table.numbers.parts, strict=True)
        kinds = [replace(table, item=Item(table.name, (t,)), numbers=part) for t, part in both]
        return [panel for kind in kinds for panel in panels_of(kind)]
    if isinstance(table.numbers, QuantileEstimates):
        parts = [replace(table, chosen=table.rows[rows]) for rows in _cuts(len(table))]
        return [_row_panel(part) for part in parts]
    if len(table) > MOST_BARS:
        terms = range(len(table.item.terms))
        return [panel for number in terms for panel in _term_panels(table, number)]
    return [item_panel(table)]


def item_panel(table: Table) -> Panel:
    """All rows if they are few, else the beginning of the item's largest term."""
    terms = table.item.terms
    directions = [d for d in _directions(table, terms[0]) if len(d.direction) > 1]
    if isinstance(table.numbers, QuantileEstimates | Stacked):
        return panels_of(table)[0]
    if len(table) <= MOST_BARS and not (len(terms) == 1 and len(directions) == 2):
        return _row_panel(table)
    largest = max(range(len(terms)), key=lambda i: terms[i].queries)
    return replace(next(_term_panels(table, largest)), name=table.name)


def _row_panel(table: Table) -> Panel:
    told = ", ".join(f"{header} {label}" for header, label in table.fixed.items())
    title = f"{table.name} ({told})" if told else table.name
    if table.times:
        (first,) = table.written(np.array([_origin(table)]), 0)
        title += f", {UNITS_OF_TIME[table.times]} after {first}"
    return Panel(table.name, title, rows_picture(table))


def _origin(table: Table) -> float:
    """Where bars begin: at 0, and those of dates at the earliest."""
    return float(table.bounds()[0].min()) if table.times else 0.0


def _term_panels(table: Table, number: int) -> Iterator[Panel]:
    term, rows = list(with_rows(table.item.terms))[number]
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
    parts = _term_pictures(directions, values, errors)
    for i, picture in enumerate(parts):
        which = f", part {i + 1} of {len(parts)}" if len(parts) > 1 else ""
        yield Panel(name + which, title + which, picture)


def rows_picture(table: Table) -> Bars:
    """Every row a bar, named by the labels that differ."""
    columns = table.varying().values()
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    labels = [" · ".join(part for part in row if part not in ("", TOTAL)) or TOTAL for row in rows]
    directions = [d for d in _directions(table, table.item.terms[0]) if len(d.direction) > 1]
    apart = directions[0].direction.apart if len(directions) == len(table.item.terms) == 1 else 0
    plain = Bars(labels, table.values, table.standard_errors, apart=apart)
    return plain if table.is_linear else _with_ends(table, plain)


def _with_ends(table: Table, plain: Bars) -> Bars:
    """The bars with the intervals of the table, which are not symmetric."""
    low, high = table.bounds()
    places, _ = places_of(plain.errors, plain.values, low, high)
    said = zip(
        *(table.written(column, places) for column in (plain.values, low, high)), strict=True
    )
    texts = [f"{value} ({first} to {last})" for value, first, last in said]
    origin = _origin(table)
    return replace(
        plain, values=plain.values - origin, ends=(low - origin, high - origin), texts=texts
    )


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
        return self.factor.take(np.arange(len(self.direction) - self.direction.apart))

    @property
    def is_line(self) -> bool:
        runs = self.runs
        if runs is None or len(runs.low) < SHORTEST_LINE:
            return False
        return bool(np.all(np.diff([runs.low, runs.high]) >= 0))


def _directions(table: Table, term: Term) -> list[Found]:
    factors = term.products[0].factors
    return [
        Found(_direction(axis, attribute, factor), attribute, factor, axis.has_total)
        for axis, attribute, factor in zip(term.axes, table.schema.attributes, factors, strict=True)
        if axis is not None
    ]


def _direction(axis: Axis, attribute: Attribute, factor: Factor) -> AxisDirection:
    """The missing value is the last one, but for the total."""
    last = len(axis.labels) - axis.has_total - 1
    missing = (
        attribute.missing_code is not None
        and isinstance(factor, Ranges)
        and bool(factor.low[last] == attribute.missing_code)
    )
    return AxisDirection(axis.header, axis.labels, apart=axis.has_total + missing)


def _term_pictures(found: Sequence[Found], values: Floats, errors: Floats) -> list[Picture]:
    if not found:
        return [Bars([TOTAL], values.reshape(1), errors.reshape(1))]
    along = max(range(len(found)), key=lambda i: (found[i].is_line, len(found[i].direction)))
    others = values.size // len(found[along].direction)
    if found[along].is_line and (len(found) != 2 or others <= MOST_LINES * MOST_PLOTS):
        return _curves(found, along, values, errors)
    if len(found) > 1:
        return _grids(found, values, errors)
    return _one_way(found[0], values, errors)


def _one_way(found: Found, values: Floats, errors: Floats) -> list[Picture]:
    direction, runs = found.direction, found.runs
    if runs is None or len(values) <= MOST_BARS:
        cuts = [(direction.part(rows), rows) for rows in _cuts(len(values))]
        return [Bars(d.labels, values[rows], errors[rows], apart=d.apart) for d, rows in cuts]
    attribute, count = found.attribute.present, len(runs.low)
    every = AxisDirection(direction.header, LazySequence(attribute.size, attribute.label))
    return [ranges_heat(every, runs.low, runs.high, values[:count], errors[:count])]


def _curves(found: Sequence[Found], along: int, values: Floats, errors: Floats) -> list[Picture]:
    """Along the ordered direction: a line for each label of a short one, a plot for all others."""
    others = [one.direction for i, one in enumerate(found) if i != along]
    few = [i for i, one in enumerate(others) if len(one) <= MOST_LINES]
    lines = max(few, key=lambda i: len(others[i]), default=None)
    names = [""] if lines is None else list(others[lines].labels)
    beside = _crossed([one for i, one in enumerate(others) if i != lines])
    positions = _along(found[along])

    def arranged(numbers: Floats) -> Floats:
        numbers = np.moveaxis(numbers, along, -1)[..., : len(positions)]
        numbers = numbers if lines is None else np.moveaxis(numbers, lines, -2)
        return numbers.reshape(len(beside), len(names), len(positions))

    values, errors = arranged(values), arranged(errors)
    reach = half_width(errors)
    limits = float((values - reach).min()), float((values + reach).max())
    return [
        Lines(positions, beside.part(rows).labels, names, values[rows], errors[rows], limits)
        for rows in _cuts(len(beside), MOST_PLOTS)
    ]


def _along(found: Found) -> AxisDirection:
    """The positions of a line, then what is missing; a total is no point of it."""
    runs, direction = found.runs, found.direction
    assert runs is not None, "only ranges are in an order"
    prefixes = runs.low[0] == runs.low[-1]
    codes = runs.high - 1 if prefixes else runs.low
    header, labels = direction.header, list(direction.labels[: len(direction) - found.has_total])
    if prefixes:
        header = f"{header}, up to"
        labels[: len(codes)] = [found.attribute.present.label(int(code)) for code in codes]
    named = partial(found.attribute.present.ticks, codes)
    return AxisDirection(header, labels, named, len(labels) - len(codes))


def _grids(found: Sequence[Found], values: Floats, errors: Floats) -> list[Picture]:
    """A heat map, the longer direction down; of several directions, the last one across."""
    at_total = [
        np.arange(len(one.direction)) == (len(one.direction) - 1 if one.has_total else -1)
        for one in found
    ]
    totals: Mask = reduce(np.logical_or.outer, at_total)
    down, across = _crossed([one.direction for one in found[:-1]]), found[-1].direction
    shape = len(down), len(across)
    values, errors, totals = values.reshape(shape), errors.reshape(shape), totals.reshape(shape)
    if len(found) == 2 and len(across) > len(down):
        down, across, values, errors, totals = across, down, values.T, errors.T, totals.T
    limits = extremes(values, totals)
    inner = len(found[-2].direction) if len(found) > 2 else 1
    return [
        Heat(down.part(i), across.part(j), values[i, j], errors[i, j], totals[i, j], limits)
        for i in _cuts(len(down), MOST_ROWS, inner)
        for j in _cuts(len(across), MOST_COLUMNS)
    ]


def _crossed(directions: Sequence[AxisDirection]) -> AxisDirection:
    """Several directions as one, the last of them fastest."""
    if len(directions) == 1:
        return directions[0]
    shape = [len(direction) for direction in directions]

    def label(place: int) -> str:
        rows = np.unravel_index(place, shape)
        return " · ".join(d.labels[int(row)] for d, row in zip(directions, rows, strict=True))

    header = " × ".join(direction.header for direction in directions)
    return AxisDirection(header, LazySequence(math.prod(shape), label))


def _cuts(length: int, most: int = MOST_ROWS, whole: int = 1) -> list[slice]:
    """Parts of about the same length, at most `most`, and multiples of `whole` where possible.

    >>> _cuts(53), _cuts(72, 40, 12)
    ([slice(0, 27, None), slice(27, 53, None)], [slice(0, 36, None), slice(36, 72, None)])
    """
    whole = whole if whole <= most else 1
    parts = -(-length // (most // whole * whole))
    size = -(-length // (parts * whole)) * whole
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]

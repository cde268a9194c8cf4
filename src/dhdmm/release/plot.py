"""`release.plot()`: which tables to draw, how each reads best, and one page for them all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.release import panels
from dhdmm.release.intervals import Floats
from dhdmm.release.panels import Direction, plain
from dhdmm.release.tables import Table, is_fixed, labels_tell_condition
from dhdmm.study.factor import Factor, Ranges
from dhdmm.study.names import Lazily
from dhdmm.study.query import TOTAL
from dhdmm.study.schema import Attribute
from dhdmm.study.workload import Axis, Term

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dhdmm.release.release import Release

MOST_PANELS = 6
MOST_BARS = 20
MOST_LINES = 4
PANEL_SIZE = (5.6, 4.0)  # inches
DOTS_PER_INCH = 130


def plot(release: Release, item: str | None = None, path: str | Path | None = None) -> Figure:
    """The tables of the release, or of one item, on one page; no global state of matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    found = _panels(release, item)
    shown, others = found[:MOST_PANELS], found[MOST_PANELS:]
    across = math.ceil(math.sqrt(len(shown)))
    down = math.ceil(len(shown) / across)
    size = max(PANEL_SIZE[0] * across, 7.5), PANEL_SIZE[1] * down + 0.8
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    for place, panel in enumerate(shown, start=1):
        axes = figure.add_subplot(down, across, place)
        axes.spines[["top", "right"]].set_visible(False)
        panel.draw(axes)
        axes.set_title(plain(panel.title, 60), loc="left", fontsize="medium", pad=14)
    figure.suptitle(_headline(release), fontsize="large")
    figure.supxlabel(_small_print([panel.name for panel in others]), fontsize="small")
    if path is not None:
        with warnings.catch_warnings():
            # Letters that matplotlib's font lacks are drawn as boxes; the tables have them.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
            figure.savefig(path, dpi=DOTS_PER_INCH)
    return figure


def _headline(release: Release) -> str:
    facts = release.provenance()
    return (
        f"{plain(facts['study'], 40)}: ε = {facts['epsilon']:.3g}, δ = {facts['delta']:.1g},"
        f" {facts['survivors']:,} of {facts['participants']:,} participants"
    )


def _small_print(others: Sequence[str]) -> str:
    text = "error bars and bands: 95 % confidence intervals, each answer by itself"
    if others:
        names = ", ".join(plain(name, 24) for name in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        text += f"\nnot shown: {names}{more}"
    return text


# ---- what to draw -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Panel:
    name: str
    title: str
    draw: Callable[[Axes], None]


def _panels(release: Release, item: str | None) -> list[Panel]:
    """One panel an item; one a term if there is a single item."""
    tables = release.values() if item is None else [release[item]]
    if len(tables) == 1 and len(tables[0]) > MOST_BARS:
        return [_term_panel(tables[0], i) for i in range(len(tables[0].item.terms))]
    return [_item_panel(table) for table in tables]


def _item_panel(table: Table) -> Panel:
    """All rows if they are few, else the item's largest term."""
    terms = table.item.terms
    directions = [d for d in _directions(table, terms[0]) if len(d.direction) > 1]
    if len(table) <= MOST_BARS and not (len(terms) == 1 and len(directions) == 2):
        told = ", ".join(f"{header} {label}" for header, label in table.fixed.items())
        title = f"{table.name} ({told})" if told else table.name
        return Panel(table.name, title, lambda axes: _draw_rows(axes, table))
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
    return Panel(name, title, lambda axes: _draw_term(axes, directions, values, errors))


def _draw_rows(axes: Axes, table: Table) -> None:
    """Every row a bar, named by the labels that differ."""
    columns = table.varying().values()
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    labels = [" · ".join(part for part in row if part not in ("", TOTAL)) or TOTAL for row in rows]
    panels.bars(axes, labels, table.values, table.standard_errors)


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


def _draw_term(axes: Axes, found: Sequence[Found], values: Floats, errors: Floats) -> None:
    if not found:
        panels.bars(axes, [TOTAL], values.reshape(1), errors.reshape(1))
    elif len(found) == 1:
        _draw_one_way(axes, found[0], values, errors)
    elif len(found) == 2:
        _draw_two_way(axes, found[0], found[1], values, errors)
    else:
        down, across = _crossed([one.direction for one in found[:-1]]), found[-1].direction
        shape = len(down), len(across)
        totals = np.zeros(shape, np.bool_)
        panels.heat(axes, down, across, values.reshape(shape), errors.reshape(shape), totals)


def _crossed(directions: Sequence[Direction]) -> Direction:
    """Several directions as one, the last of them fastest."""
    shape = [len(direction) for direction in directions]

    def label(place: int) -> str:
        rows = np.unravel_index(place, shape)
        return " · ".join(d.labels[int(row)] for d, row in zip(directions, rows, strict=True))

    header = " × ".join(direction.header for direction in directions)
    return Direction(header, Lazily(math.prod(shape), label))


def _draw_one_way(axes: Axes, found: Found, values: Floats, errors: Floats) -> None:
    direction, runs = found.direction, found.runs
    if len(values) <= MOST_BARS:
        panels.bars(axes, direction.labels, values, errors)
    elif found.ordered:
        panels.lines(axes, *_without_total(found, [""], values[None], errors[None]))
    elif runs is not None:
        attribute = found.attribute
        every = Direction(direction.header, [attribute.label(i) for i in range(attribute.size)])
        count = len(runs.low)
        panels.intervals(axes, every, runs.low, runs.high, values[:count], errors[:count])
    else:
        panels.points(axes, direction, values, errors)


def _draw_two_way(axes: Axes, down: Found, across: Found, values: Floats, errors: Floats) -> None:
    if len(down.direction) > len(across.direction):
        down, across, values, errors = across, down, values.T, errors.T
    if (
        len(down.direction) <= MOST_LINES
        and len(across.direction) > panels.MOST_TICKS
        and across.ordered
    ):
        panels.lines(axes, *_without_total(across, down.direction.labels, values, errors))
        return
    totals = np.zeros(values.shape, np.bool_)
    totals[-1] |= down.has_total
    totals[:, -1] |= across.has_total
    if len(across.direction) > panels.MOST_TICKS >= len(down.direction):
        down, across, values, errors, totals = across, down, values.T, errors.T, totals.T
    panels.heat(axes, down.direction, across.direction, values, errors, totals)


def _without_total(
    found: Found, names: Sequence[str], values: Floats, errors: Floats
) -> tuple[Direction, Sequence[str], Floats, Floats]:
    """What runs along an ordered direction; its total is no point of the line."""
    count = len(found.direction) - found.has_total
    direction = Direction(found.direction.header, found.direction.labels[:count])
    return direction, names, values[:, :count], errors[:, :count]

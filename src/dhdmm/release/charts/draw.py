"""Pictures of tables as SVG: pure functions from a picture to an element tree.

Colours are classes of `chart.css`, so that light and dark need one drawing. Every mark has its
answer as `data-value`, its standard error as `data-error`, and a title to point at. Whiskers and
bands are 95 % intervals of single answers; counts are never on a logarithmic axis.
"""

from __future__ import annotations

import math
from xml.etree.ElementTree import Element

import numpy as np

from dhdmm.release.charts.axes import Scale, name_across, upright
from dhdmm.release.charts.svg import (
    CHARACTER,
    WIDTH,
    Drawing,
    count,
    points,
    short,
    tell,
    title,
    with_error,
)
from dhdmm.release.intervals import Floats, half_width
from dhdmm.release.pictures import Bars, Heat, Intervals, Lines, Picture, Points
from dhdmm.release.wording import decimals
from dhdmm.study.attributes.base import round_ticks

LINE_HEIGHT = 24
MOST_POINTS = 200
LARGEST_GRID = (60, 40)
"""Rows and columns of a heat map; more cannot be told apart."""
ROOM_FOR_NUMBERS = 74
"""Pixels that a cell needs for `1,234 ± 32`."""
FAINTEST = 0.05
STRONG = 0.68
"""From this opacity on, the style sheet's light ink is read more easily than its dark one."""


def draw(picture: Picture, name: str) -> Element:
    """The picture as an `svg` element; `name` is what a screen reader calls it."""
    match picture:
        case Bars():
            return _bars(picture, name)
        case Points():
            return _points(picture, name)
        case Lines():
            return _lines(picture, name)
        case Heat():
            return _heat(picture, name)
        case Intervals():
            return _heat(picture.grid(min(LARGEST_GRID)), name)


def key(picture: Picture) -> str:
    """How to read it."""
    match picture:
        case Bars() | Points():
            return "Whiskers are 95 % confidence intervals, each answer by itself."
        case Lines():
            return "Bands are 95 % confidence intervals, each answer by itself."
        case Heat() | Intervals():
            return "Stronger is more; behind ± is one standard error."


# ---- the kinds ----------------------------------------------------------------------------------


def _bars(picture: Bars, name: str) -> Element:
    """The first bar on top, its label before it and its number behind it."""
    values, errors, reach = picture.values, picture.errors, half_width(picture.errors)
    places = decimals(float(errors.min()))
    texts = [with_error(*row, places) for row in zip(values.tolist(), errors.tolist(), strict=True)]
    labels = [short(label) for label in picture.labels]
    left = 12 + CHARACTER * max(map(len, labels))
    right = WIDTH - 16 - CHARACTER * max(map(len, texts))
    low, high, kind = values - reach, values + reach, "bar"
    if picture.truth is not None:
        low, high = np.minimum(low, picture.truth), np.maximum(high, picture.truth)
        kind = "pale bar"
    across = Scale.of(low, high, left, right)
    bottom = LINE_HEIGHT * len(labels) + 8
    drawing = Drawing.of(bottom + 26, name)
    for value in across.ticks():
        drawing.line("grid", across(value), 0, across(value), bottom)
        drawing.tick(across(value), bottom + 16, value, "middle")
    for i, (label, said) in enumerate(zip(labels, texts, strict=True)):
        top, middle = LINE_HEIGHT * i + 8, LINE_HEIGHT * i + 16
        drawing.text(left - 8, middle + 4, label, "label", "end")
        bar = drawing.rectangle(kind, across(0), top, across(values[i]), top + LINE_HEIGHT - 8)
        tell(bar, values[i], errors[i], f"{picture.labels[i]}: {said}")
        if picture.truth is not None:
            ring = drawing.mark("circle", "truth", cx=across(picture.truth[i]), cy=middle, r=4)
            tell(ring, picture.truth[i], 0, f"{picture.labels[i]}: truly {count(picture.truth[i])}")
        if errors[i]:
            ends = values[i] - reach[i], values[i] + reach[i]
            drawing.whisker(*((across(end), middle) for end in ends))
        drawing.text(max(across(high[i]), across(0)) + 8, middle + 4, said, "label")
    drawing.line("zero", across(0), 0, across(0), bottom)
    return drawing.root


def _points(picture: Points, name: str) -> Element:
    direction = picture.direction.first(MOST_POINTS)
    values, errors = picture.values[: len(direction)], picture.errors[: len(direction)]
    low, high = values - half_width(errors), values + half_width(errors)
    drawing, across, upwards = upright(name, direction, low, high)
    for i, (value, error) in enumerate(zip(values.tolist(), errors.tolist(), strict=True)):
        x = across(i)
        drawing.whisker((x, upwards(low[i])), (x, upwards(high[i])))
        point = drawing.mark("circle", "point", cx=x, cy=upwards(value), r=3)
        tell(point, value, error, f"{direction.labels[i]}: {with_error(value, error)}")
    return drawing.root


def _lines(picture: Lines, name: str) -> Element:
    """A line with its band; the positions can be pointed at."""
    reach = half_width(picture.errors)
    low, high = picture.values - reach, picture.values + reach
    drawing, across, upwards = upright(name, picture.direction, low, high, picture.names)
    places = [across(i) for i in range(len(picture.direction))]
    for j, counts in enumerate(picture.values):
        edges = *map(upwards, high[j].tolist()), *map(upwards, low[j, ::-1].tolist())
        drawing.mark("polygon", f"band s{j + 1}", points=points(places + places[::-1], edges))
        heights = map(upwards, counts.tolist())
        drawn = drawing.mark("polyline", f"line s{j + 1}", points=points(places, heights))
        drawn.set("data-values", " ".join(map(repr, counts.tolist())))
        drawn.set("data-errors", " ".join(map(repr, picture.errors[j].tolist())))
        title(drawn, picture.names[j] if len(picture.names) > 1 else picture.direction.header)
    return drawing.root


def _heat(picture: Heat, name: str) -> Element:
    """Stronger is more. Totals stay without colour; what there is room for is written in."""
    down, across = picture.down.first(LARGEST_GRID[0]), picture.across.first(LARGEST_GRID[1])
    rows, columns = len(down), len(across)
    labels = [short(label) for label in down.labels]
    left = 14 + CHARACTER * max(map(len, labels))
    width, height = (WIDTH - left - 4) / columns, max(min(26.0, 560 / rows), 9.0)
    drawing = Drawing.of(height * rows + 50, name)
    strength = _strengths(picture)
    for i, j in np.ndindex(rows, columns):
        value, error = float(picture.values[i, j]), float(picture.errors[i, j])
        if math.isnan(value):
            continue
        x, y = left + j * width, 22 + i * height
        total = bool(picture.totals[i, j])
        cell = drawing.rectangle("total" if total else "cell", x, y, x + width, y + height)
        if not total:
            cell.set("fill-opacity", f"{strength[i, j]:.4f}")
        said = with_error(value, error)
        tell(cell, value, error, f"{down.labels[i]}, {across.labels[j]}: {said}")
        if width >= ROOM_FOR_NUMBERS and height > 14:
            ink = "label" if total else "strong" if strength[i, j] >= STRONG else "faint"
            drawing.text(x + width / 2, y + height / 2 + 4, said, ink, "middle")
    for i in round_ticks(rows, int(rows * height // 13) or 1):
        drawing.text(left - 8, 22 + (i + 0.5) * height + 4, labels[i], "label", "end")
    name_across(drawing, across, left, width, 16)
    drawing.text(0, 16, short(picture.down.header), "axis-name")
    below = 22 + height * rows + 18
    drawing.text(WIDTH - 4, below, short(across.header, 60), "axis-name", "end")
    if rows < len(picture.down):
        drawing.text(0, below, f"the first {rows} of {len(picture.down):,} rows", "axis-name")
    return drawing.root


def _strengths(picture: Heat) -> Floats:
    """0 or the smallest answer is faintest, the largest strongest."""
    shown = picture.values[~picture.totals & ~np.isnan(picture.values)]
    low, high = (min(shown.min(), 0.0), shown.max()) if shown.size else (0.0, 0.0)
    share = (picture.values - low) / (high - low) if high > low else np.zeros(picture.values.shape)
    return np.asarray(FAINTEST + (1 - FAINTEST) * np.clip(share, 0, 1))

"""Pictures of tables as SVG: pure functions from a picture to an element tree.

Colours are classes of the style sheet, so that dark and light pages need one drawing. Every mark
has its answer as `data-value`, its standard error as `data-error`, and a title to point at. Bars,
bands and whiskers are 95 % intervals of single answers.
"""

from __future__ import annotations

import math
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from markupsafe import Markup

from dhdmm.release.intervals import Floats, half_width
from dhdmm.release.pictures import (
    AxisDirection,
    Bars,
    Heat,
    Intervals,
    Lines,
    Picture,
    Points,
)
from dhdmm.release.wording import decimals, number, printable
from dhdmm.web.axes import Scale, name_across, name_down, part, upright
from dhdmm.web.svg import (
    CHARACTER,
    WIDTH,
    canvas,
    count,
    length,
    line,
    points,
    rectangle,
    short,
    tell,
    text,
    title,
    whisker,
    with_error,
)

LINE_HEIGHT = 24
MOST_POINTS = 200
LARGEST_GRID = (60, 40)
"""Rows and columns of a heat map; more cannot be told apart."""
ROOM_FOR_NUMBERS = 74
"""Pixels that a cell needs for `1,234 ± 32`."""
FAINTEST = 0.05
STRONG = 0.68
"""From this opacity on, the style sheet's light ink is read more easily than its dark one."""


def chart(picture: Picture, name: str) -> Markup:
    """The picture for a page; `name` is what a screen reader calls it."""
    return Markup(tostring(draw(picture, name), encoding="unicode"))


def key(picture: Picture) -> str:
    """How to read it."""
    match picture:
        case Bars() | Points():
            return "Whiskers are 95 % confidence intervals, each answer by itself."
        case Lines():
            return "Bands are 95 % confidence intervals, each answer by itself."
        case Heat() | Intervals():
            return "Stronger is more; behind ± is one standard error."


def draw(picture: Picture, name: str) -> Element:
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


# ---- the kinds ----------------------------------------------------------------------------------


def _bars(picture: Bars, name: str) -> Element:
    """The first bar on top, its label before it and its number behind it."""
    reach, places = half_width(picture.errors), decimals(float(picture.errors.min()))
    texts = [
        f"{number(value, places)} ± {number(error, places)}"
        for value, error in zip(picture.values.tolist(), picture.errors.tolist(), strict=True)
    ]
    labels = [short(label) for label in picture.labels]
    left = 12 + CHARACTER * max(map(len, labels))
    right = WIDTH - 16 - CHARACTER * max(map(len, texts))
    across = Scale.of(picture.values - reach, picture.values + reach, left, right)
    bottom = LINE_HEIGHT * len(labels) + 8
    svg = canvas(bottom + 26, name)
    for tick in across.ticks():
        line(svg, "grid", across(tick), 0, across(tick), bottom)
        text(svg, across(tick), bottom + 16, count(tick), "tick", "middle", tick)
    for i, (label, said) in enumerate(zip(labels, texts, strict=True)):
        value, error, high = picture.values[i], picture.errors[i], picture.values[i] + reach[i]
        top, middle = LINE_HEIGHT * i + 8, LINE_HEIGHT * i + 16
        text(svg, left - 8, middle + 4, label, "label", "end")
        bar = rectangle(svg, "bar", across(0), top, across(value), top + LINE_HEIGHT - 8)
        tell(bar, value, error, f"{printable(picture.labels[i])}: {said}")
        whisker(svg, [(across(value - reach[i]), middle), (across(high), middle)])
        text(svg, max(across(high), across(0)) + 6, middle + 4, said, "label")
    line(svg, "zero", across(0), 0, across(0), bottom)
    return svg


def _points(picture: Points, name: str) -> Element:
    drawn = min(len(picture.values), MOST_POINTS)
    values, errors = picture.values[:drawn], picture.errors[:drawn]
    reach = half_width(errors)
    part = f" (first {drawn:,} of {len(picture.values):,})" if drawn < len(picture.values) else ""
    direction = AxisDirection(picture.direction.header + part, picture.direction.labels[:drawn])
    svg, across, upwards = upright(name, direction, values - reach, values + reach)
    for i, (value, error) in enumerate(zip(values.tolist(), errors.tolist(), strict=True)):
        x = across(i)
        whisker(svg, [(x, upwards(value - reach[i])), (x, upwards(value + reach[i]))])
        mark = SubElement(svg, "circle", {"class": "point", "r": "3"})
        mark.set("cx", length(x))
        mark.set("cy", length(upwards(value)))
        tell(mark, value, error, f"{printable(direction.labels[i])}: {with_error(value, error)}")
    return svg


def _lines(picture: Lines, name: str) -> Element:
    """A line with its band; the positions can be pointed at."""
    reach = half_width(picture.errors)
    low, high = picture.values - reach, picture.values + reach
    svg, across, upwards = upright(name, picture.direction, low, high, picture.names)
    for j, counts in enumerate(picture.values):
        series = f"s{j + 1}"
        places = [across(i) for i in range(len(counts))]
        top = list(zip(places, map(upwards, high[j].tolist()), strict=True))
        under = list(zip(places, map(upwards, low[j].tolist()), strict=True))
        SubElement(svg, "polygon", {"class": f"band {series}", "points": points(top + under[::-1])})
        middle = list(zip(places, map(upwards, counts.tolist()), strict=True))
        drawn = SubElement(svg, "polyline", {"class": f"line {series}", "points": points(middle)})
        drawn.set("data-values", " ".join(map(repr, counts.tolist())))
        drawn.set("data-errors", " ".join(map(repr, picture.errors[j].tolist())))
        called = printable(picture.names[j]) if len(picture.names) > 1 else picture.direction.header
        title(drawn, called)
    return svg


def _heat(picture: Heat, name: str) -> Element:
    """Stronger is more. Totals stay without colour; what there is room for is written in."""
    rows, columns = (
        min(len(direction), most)
        for direction, most in zip((picture.down, picture.across), LARGEST_GRID, strict=True)
    )
    labels = [short(picture.down.labels[i]) for i in range(rows)]
    left = 14 + CHARACTER * max(map(len, labels))
    width = (WIDTH - left - 4) / columns
    height = max(min(26.0, 560 / rows), 9.0)
    svg = canvas(height * rows + 62, name)
    strength = _strengths(picture)
    for i, j in np.ndindex(rows, columns):
        value, error = float(picture.values[i, j]), float(picture.errors[i, j])
        if math.isnan(value):
            continue
        x, y = left + j * width, 22 + i * height
        total = bool(picture.totals[i, j])
        cell = rectangle(svg, "total" if total else "cell", x, y, x + width, y + height)
        if not total:
            cell.set("fill-opacity", f"{strength[i, j]:.4f}")
        place = f"{printable(picture.down.labels[i])}, {printable(picture.across.labels[j])}"
        tell(cell, value, error, f"{place}: {with_error(value, error)}")
        if width >= ROOM_FOR_NUMBERS and height > 14:
            ink = "label" if total else "strong" if strength[i, j] >= STRONG else "faint"
            text(svg, x + width / 2, y + height / 2 + 4, with_error(value, error), ink, "middle")
    name_down(svg, labels, left, height)
    name_across(svg, picture.across, columns, left, width, 16)
    text(svg, 0, 14, short(picture.down.header), "axis-name")
    below = 22 + height * rows + 18
    text(svg, WIDTH - 4, below, part(picture.across, columns), "axis-name", "end")
    if rows < len(picture.down):
        text(svg, 0, below, f"the first {rows} of {len(picture.down):,} rows", "axis-name")
    return svg


def _strengths(picture: Heat) -> Floats:
    """0 or the smallest answer is faintest, the largest strongest."""
    shown = picture.values[~picture.totals & ~np.isnan(picture.values)]
    low, high = (min(shown.min(), 0.0), shown.max()) if shown.size else (0.0, 0.0)
    share = (picture.values - low) / (high - low) if high > low else np.zeros(picture.values.shape)
    return np.asarray(FAINTEST + (1 - FAINTEST) * np.clip(share, 0, 1))

"""Pictures of tables as SVG: pure functions from a picture to an element tree.

Colours are classes of the style sheet, so that dark and light pages need one drawing. Every mark
has its answer as `data-value`, its standard error as `data-error`, and a title to point at. Bars,
bands and whiskers are 95 % intervals of single answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from markupsafe import Markup

from dhdmm.release.intervals import Floats, half_width
from dhdmm.release.pictures import (
    Bars,
    Direction,
    Heat,
    Intervals,
    Lines,
    Picture,
    Points,
)
from dhdmm.release.wording import decimals, number, printable

WIDTH = 640
LINE_HEIGHT = 24
PLOT_HEIGHT = 280
CHARACTER = 6.6
"""How wide a character of the style sheet's 12 pixels is, roughly; labels are given room by it."""
LABEL_CHARACTERS = 26
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
            return _heat(_grid(picture), name)


# ---- the kinds ----------------------------------------------------------------------------------


def _bars(picture: Bars, name: str) -> Element:
    """The first bar on top, its label before it and its number behind it."""
    reach, places = half_width(picture.errors), decimals(float(picture.errors.min()))
    texts = [
        f"{number(value, places)} ± {number(error, places)}"
        for value, error in zip(picture.values.tolist(), picture.errors.tolist(), strict=True)
    ]
    labels = [_short(label) for label in picture.labels]
    left = 12 + CHARACTER * max(map(len, labels))
    right = WIDTH - 16 - CHARACTER * max(map(len, texts))
    across = Scale.of(picture.values - reach, picture.values + reach, left, right)
    bottom = LINE_HEIGHT * len(labels) + 8
    svg = _svg(bottom + 26, name)
    for tick in across.ticks():
        _line(svg, "grid", across(tick), 0, across(tick), bottom)
        _text(svg, across(tick), bottom + 16, _count(tick), "tick", "middle", tick)
    for i, (label, text) in enumerate(zip(labels, texts, strict=True)):
        value, error, high = picture.values[i], picture.errors[i], picture.values[i] + reach[i]
        top, middle = LINE_HEIGHT * i + 8, LINE_HEIGHT * i + 16
        _text(svg, left - 8, middle + 4, label, "label", "end")
        bar = _rectangle(svg, "bar", across(0), top, across(value), top + LINE_HEIGHT - 8)
        _tell(bar, value, error, f"{printable(picture.labels[i])}: {text}")
        _whisker(svg, [(across(value - reach[i]), middle), (across(high), middle)])
        _text(svg, max(across(high), across(0)) + 6, middle + 4, text, "label")
    _line(svg, "zero", across(0), 0, across(0), bottom)
    return svg


def _points(picture: Points, name: str) -> Element:
    drawn = min(len(picture.values), MOST_POINTS)
    values, errors = picture.values[:drawn], picture.errors[:drawn]
    reach = half_width(errors)
    part = f" (first {drawn:,} of {len(picture.values):,})" if drawn < len(picture.values) else ""
    direction = Direction(picture.direction.header + part, picture.direction.labels[:drawn])
    svg, across, upwards = _upright(name, direction, values - reach, values + reach)
    for i, (value, error) in enumerate(zip(values.tolist(), errors.tolist(), strict=True)):
        x = across(i)
        _whisker(svg, [(x, upwards(value - reach[i])), (x, upwards(value + reach[i]))])
        mark = SubElement(svg, "circle", {"class": "point", "r": "3"})
        mark.set("cx", _length(x))
        mark.set("cy", _length(upwards(value)))
        _tell(mark, value, error, f"{printable(direction.labels[i])}: {_with_error(value, error)}")
    return svg


def _lines(picture: Lines, name: str) -> Element:
    """A line with its band; the positions can be pointed at."""
    reach = half_width(picture.errors)
    low, high = picture.values - reach, picture.values + reach
    svg, across, upwards = _upright(name, picture.direction, low, high, picture.names)
    for j, line in enumerate(picture.values):
        series = f"s{j + 1}"
        places = [across(i) for i in range(len(line))]
        top = list(zip(places, map(upwards, high[j].tolist()), strict=True))
        under = list(zip(places, map(upwards, low[j].tolist()), strict=True))
        SubElement(svg, "polygon", {"class": f"band {series}", "points": _path(top + under[::-1])})
        middle = list(zip(places, map(upwards, line.tolist()), strict=True))
        drawn = SubElement(svg, "polyline", {"class": f"line {series}", "points": _path(middle)})
        drawn.set("data-values", " ".join(map(repr, line.tolist())))
        drawn.set("data-errors", " ".join(map(repr, picture.errors[j].tolist())))
        called = printable(picture.names[j]) if len(picture.names) > 1 else picture.direction.header
        _title(drawn, called)
    return svg


def _heat(picture: Heat, name: str) -> Element:
    """Stronger is more. Totals stay without colour; what there is room for is written in."""
    rows, columns = (
        min(len(direction), most)
        for direction, most in zip((picture.down, picture.across), LARGEST_GRID, strict=True)
    )
    labels = [_short(picture.down.labels[i]) for i in range(rows)]
    left = 14 + CHARACTER * max(map(len, labels))
    width = (WIDTH - left - 4) / columns
    height = max(min(26.0, 560 / rows), 9.0)
    svg = _svg(height * rows + 62, name)
    strength = _strengths(picture)
    for i, j in np.ndindex(rows, columns):
        value, error = float(picture.values[i, j]), float(picture.errors[i, j])
        if math.isnan(value):
            continue
        x, y = left + j * width, 22 + i * height
        total = bool(picture.totals[i, j])
        cell = _rectangle(svg, "total" if total else "cell", x, y, x + width, y + height)
        if not total:
            cell.set("fill-opacity", f"{strength[i, j]:.4f}")
        place = f"{printable(picture.down.labels[i])}, {printable(picture.across.labels[j])}"
        _tell(cell, value, error, f"{place}: {_with_error(value, error)}")
        if width >= ROOM_FOR_NUMBERS and height > 14:
            ink = "label" if total else "strong" if strength[i, j] >= STRONG else "faint"
            _text(svg, x + width / 2, y + height / 2 + 4, _with_error(value, error), ink, "middle")
    _name_down(svg, labels, left, height)
    _name_across(svg, picture.across, columns, left, width, 16)
    _text(svg, 0, 14, _short(picture.down.header), "axis-name")
    below = 22 + height * rows + 18
    _text(svg, WIDTH - 4, below, _part(picture.across, columns), "axis-name", "end")
    if rows < len(picture.down):
        _text(svg, 0, below, f"the first {rows} of {len(picture.down):,} rows", "axis-name")
    return svg


def _strengths(picture: Heat) -> Floats:
    """0 or the smallest answer is faintest, the largest strongest."""
    shown = picture.values[~picture.totals & ~np.isnan(picture.values)]
    low, high = (min(shown.min(), 0.0), shown.max()) if shown.size else (0.0, 0.0)
    share = (picture.values - low) / (high - low) if high > low else np.zeros(picture.values.shape)
    return np.asarray(FAINTEST + (1 - FAINTEST) * np.clip(share, 0, 1))


def _grid(picture: Intervals) -> Heat:
    """Ranges as a table: where they begin across, where they end down; NaN where there is none.

    A long direction is drawn with only every second, third, … end.
    """
    step = -(-len(picture.ends) // min(LARGEST_GRID))
    labels = [picture.ends.labels[i] for i in range(0, len(picture.ends), step)]
    chosen = (picture.low % step == 0) & ((picture.high - 1) % step == 0)
    where = (picture.high[chosen] - 1) // step, picture.low[chosen] // step
    values, errors = np.full((2, len(labels), len(labels)), np.nan)
    values[where], errors[where] = picture.values[chosen], picture.errors[chosen]
    return Heat(
        Direction("up to", labels),
        Direction(f"{picture.ends.header}, from", labels),
        values,
        errors,
        np.zeros(values.shape, np.bool_),
    )


# ---- axes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Counts to pixels; 0 is always on it."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, low: Floats, high: Floats, start: float, end: float) -> Scale:
        bottom, top = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
        return cls(bottom, top if top > bottom else bottom + 1, start, end)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Four or so round numbers.

        >>> list(Scale(-3, 10, 0, 100).ticks())
        [0.0, 5.0, 10.0]
        """
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
        for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            yield i * step + 0.0


@dataclass(frozen=True)
class Places:
    """Positions 0, 1, …, to pixels."""

    count: int
    start: float
    end: float

    def __call__(self, place: int) -> float:
        return self.start + (place + 0.5) / self.count * (self.end - self.start)


def _upright(
    name: str, direction: Direction, low: Floats, high: Floats, names: Sequence[str] = ()
) -> tuple[Element, Places, Scale]:
    """An empty plot with counts upwards, positions across, and a key if there are several lines."""
    top = 30 if len(names) > 1 else 10
    bottom = top + PLOT_HEIGHT
    upwards = Scale.of(low, high, bottom, top)
    ticks = list(upwards.ticks())
    left = 12 + CHARACTER * max(len(_count(tick)) for tick in ticks)
    svg = _svg(bottom + 44, name)
    for tick in ticks:
        _line(svg, "grid" if tick else "zero", left, upwards(tick), WIDTH, upwards(tick))
        _text(svg, left - 8, upwards(tick) + 4, _count(tick), "tick", "end", tick)
    across = Places(len(direction), left, WIDTH - 6)
    width = (WIDTH - 6 - left) / len(direction)
    _name_across(svg, direction, len(direction), left, width, bottom + 17)
    _text(svg, WIDTH - 4, bottom + 36, printable(direction.header, 60), "axis-name", "end")
    if len(names) > 1:
        _key(svg, names, left)
    return svg, across, upwards


def _key(svg: Element, names: Sequence[str], left: float) -> None:
    x = left
    for j, name in enumerate(names):
        SubElement(
            svg,
            "line",
            {
                "class": f"line s{j + 1}",
                "x1": _length(x),
                "x2": _length(x + 24),
                "y1": "12",
                "y2": "12",
            },
        )
        _text(svg, x + 30, 16, _short(name), "label")
        x += 50 + CHARACTER * len(_short(name))


def _name_across(
    svg: Element, direction: Direction, count: int, left: float, width: float, y: float
) -> None:
    """As many labels as there is room for, at round distances."""
    longest = max(len(_short(direction.labels[i])) for i in range(0, count, max(count // 20, 1)))
    room = max(int(count * width // (CHARACTER * longest + 14)), 1)
    for i in range(0, count, _round_step(count, room)):
        label = _short(
            direction.labels[i], max(int(width * _round_step(count, room) / CHARACTER), 4)
        )
        x = left + (i + 0.5) * width
        half = CHARACTER * len(label) / 2
        _text(svg, min(max(x, half), WIDTH - half), y, label, "tick", "middle")


def _name_down(svg: Element, labels: Sequence[str], left: float, height: float) -> None:
    for i in range(0, len(labels), _round_step(len(labels), int(len(labels) * height // 13) or 1)):
        _text(svg, left - 8, 22 + (i + 0.5) * height + 4, labels[i], "label", "end")


def _round_step(length: int, most: int) -> int:
    """1, 2, 5, 10, 20, …: the first with at most `most` positions."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if length <= step * most:
                return step
        power *= 10


def _part(direction: Direction, shown: int) -> str:
    whole = len(direction) == shown
    header = printable(direction.header, 60)
    return header if whole else f"{header} (first {shown} of {len(direction):,})"


# ---- elements -----------------------------------------------------------------------------------


def _svg(height: float, name: str) -> Element:
    return Element(
        "svg",
        {"viewBox": f"0 0 {WIDTH} {_length(height)}", "role": "img", "aria-label": printable(name)},
    )


def _line(svg: Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = dict(zip(("x1", "y1", "x2", "y2"), map(_length, (x1, y1, x2, y2)), strict=True))
    SubElement(svg, "line", {"class": kind} | ends)


def _rectangle(svg: Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> Element:
    box = {"x": min(x1, x2), "y": min(y1, y2), "width": abs(x2 - x1), "height": abs(y2 - y1)}
    return SubElement(svg, "rect", {"class": kind} | {k: _length(v) for k, v in box.items()})


def _whisker(svg: Element, ends: Sequence[tuple[float, float]]) -> None:
    """A line with a short bar across each of its ends."""
    (x1, y1), (x2, y2) = ends
    dx, dy = (0, 4) if y1 == y2 else (4, 0)
    caps = "".join(f"M{_length(x - dx)} {_length(y - dy)}l{2 * dx} {2 * dy}" for x, y in ends)
    line = f"M{_length(x1)} {_length(y1)}L{_length(x2)} {_length(y2)}"
    SubElement(svg, "path", {"class": "whisker", "d": line + caps})


def _text(
    svg: Element,
    x: float,
    y: float,
    words: str,
    kind: str,
    anchor: str = "start",
    value: float | None = None,
) -> None:
    text = SubElement(
        svg, "text", {"class": kind, "x": _length(x), "y": _length(y), "text-anchor": anchor}
    )
    if value is not None:
        text.set("data-tick", repr(value))
    text.text = words


def _tell(mark: Element, value: float, error: float, words: str) -> None:
    mark.set("data-value", repr(float(value)))
    mark.set("data-error", repr(float(error)))
    _title(mark, words)


def _title(mark: Element, words: str) -> None:
    SubElement(mark, "title").text = words


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_length(x)},{_length(y)}" for x, y in points)


def _length(pixels: float) -> str:
    return f"{pixels:.2f}".rstrip("0").rstrip(".")


def _count(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _with_error(value: float, error: float) -> str:
    places = decimals(error)
    return f"{number(value, places)} ± {number(error, places)}"


def _short(text: str, width: int = LABEL_CHARACTERS) -> str:
    return printable(text, width)

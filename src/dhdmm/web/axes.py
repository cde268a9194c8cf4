"""Counts and positions to pixels, and what is written along the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from dhdmm.release.intervals import Floats
from dhdmm.release.pictures import AxisDirection
from dhdmm.release.wording import printable
from dhdmm.study.attributes.base import round_ticks
from dhdmm.web.svg import CHARACTER, WIDTH, canvas, count, length, line, short, text

PLOT_HEIGHT = 280


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


def upright(
    name: str, direction: AxisDirection, low: Floats, high: Floats, names: Sequence[str] = ()
) -> tuple[Element, Places, Scale]:
    """An empty plot with counts upwards, positions across, and a key if there are several lines."""
    top = 30 if len(names) > 1 else 10
    bottom = top + PLOT_HEIGHT
    upwards = Scale.of(low, high, bottom, top)
    ticks = list(upwards.ticks())
    left = 12 + CHARACTER * max(len(count(tick)) for tick in ticks)
    svg = canvas(bottom + 44, name)
    for tick in ticks:
        line(svg, "grid" if tick else "zero", left, upwards(tick), WIDTH, upwards(tick))
        text(svg, left - 8, upwards(tick) + 4, count(tick), "tick", "end", tick)
    across = Places(len(direction), left, WIDTH - 6)
    width = (WIDTH - 6 - left) / len(direction)
    name_across(svg, direction, len(direction), left, width, bottom + 17)
    text(svg, WIDTH - 4, bottom + 36, printable(direction.header, 60), "axis-name", "end")
    if len(names) > 1:
        key_of_lines(svg, names, left)
    return svg, across, upwards


def key_of_lines(svg: Element, names: Sequence[str], left: float) -> None:
    x = left
    for j, name in enumerate(names):
        SubElement(
            svg,
            "line",
            {
                "class": f"line s{j + 1}",
                "x1": length(x),
                "x2": length(x + 24),
                "y1": "12",
                "y2": "12",
            },
        )
        text(svg, x + 30, 16, short(name), "label")
        x += 50 + CHARACTER * len(short(name))


def name_across(
    svg: Element, direction: AxisDirection, count: int, left: float, width: float, y: float
) -> None:
    """As many labels as there is room for, at round distances."""
    longest = max(len(short(direction.labels[i])) for i in range(0, count, max(count // 20, 1)))
    room = max(int(count * width // (CHARACTER * longest + 14)), 1)
    ticks = direction.first(count).ticks(room)
    apart = ticks[1] - ticks[0] if len(ticks) > 1 else round_ticks(count, 1).step
    for i in ticks:
        label = short(direction.labels[i], max(int(width * apart / CHARACTER), 4))
        x = left + (i + 0.5) * width
        half = CHARACTER * len(label) / 2
        text(svg, min(max(x, half), WIDTH - half), y, label, "tick", "middle")


def name_down(svg: Element, labels: Sequence[str], left: float, height: float) -> None:
    for i in round_ticks(len(labels), int(len(labels) * height // 13) or 1):
        text(svg, left - 8, 22 + (i + 0.5) * height + 4, labels[i], "label", "end")


def part(direction: AxisDirection, shown: int) -> str:
    whole = len(direction) == shown
    header = printable(direction.header, 60)
    return header if whole else f"{header} (first {shown} of {len(direction):,})"

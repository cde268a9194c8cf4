"""Counts and positions to pixels, and what is written along the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dhdmm.release.charts.svg import CHARACTER, LABEL_CHARACTERS, WIDTH, Drawing, count, short
from dhdmm.release.intervals import Floats
from dhdmm.release.pictures import AxisDirection
from dhdmm.study.attributes.base import round_ticks

PLOT_HEIGHT = 280


@dataclass(frozen=True)
class Scale:
    """Numbers to pixels."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, low: Floats, high: Floats, start: float, end: float) -> Scale:
        """Of counts: 0 is always on it."""
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


def upright(
    name: str, direction: AxisDirection, low: Floats, high: Floats, names: Sequence[str] = ()
) -> tuple[Drawing, Scale, Scale]:
    """An empty plot with counts upwards, positions across, and a key if there are several lines."""
    top = 30 if len(names) > 1 else 10
    bottom, end = top + PLOT_HEIGHT, WIDTH - 6
    upwards = Scale.of(low, high, bottom, top)
    left = 12 + CHARACTER * max(len(count(value)) for value in upwards.ticks())
    drawing = Drawing.of(bottom + 44, name)
    for value in upwards.ticks():
        drawing.line("grid" if value else "zero", left, upwards(value), WIDTH, upwards(value))
        drawing.tick(left - 8, upwards(value) + 4, value, "end")
    name_across(drawing, direction, left, (end - left) / len(direction), bottom + 17)
    drawing.text(WIDTH - 4, bottom + 36, short(direction.header, 60), "axis-name", "end")
    if len(names) > 1:
        key_of_lines(drawing, names, left)
    return drawing, Scale(-0.5, len(direction) - 0.5, left, end), upwards


def key_of_lines(drawing: Drawing, names: Sequence[str], left: float) -> None:
    """Which line is which, above the plot."""
    room = int(((WIDTH - left) / len(names) - 50) / CHARACTER)
    for j, name in enumerate(short(name, min(room, LABEL_CHARACTERS)) for name in names):
        drawing.line(f"line s{j + 1}", left, 12, left + 24, 12)
        drawing.text(left + 30, 16, name, "label")
        left += 50 + CHARACTER * len(name)


def name_across(
    drawing: Drawing, direction: AxisDirection, left: float, width: float, y: float
) -> None:
    """As many labels as there is room for, at round distances."""
    size = len(direction)
    longest = max(len(short(direction.labels[i])) for i in range(0, size, max(size // 20, 1)))
    ticks = direction.ticks(max(int(size * width // (CHARACTER * longest + 14)), 1))
    apart = ticks[1] - ticks[0] if len(ticks) > 1 else round_ticks(size, 1).step
    for i in ticks:
        label = short(direction.labels[i], max(int(width * apart / CHARACTER), 4))
        x, half = left + (i + 0.5) * width, CHARACTER * len(label) / 2
        drawing.text(min(max(x, half), WIDTH - half), y, label, "tick", "middle")

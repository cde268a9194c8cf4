"""Counts and positions to pixels, and what is written along the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dhdmm.release.charts.svg import CHARACTER, LABEL_CHARACTERS, WIDE, Drawing, count, room, short
from dhdmm.release.pictures import AxisDirection

KEY_HEIGHT = 18
GAP = 12
"""Pixels before what stands apart."""
UPRIGHT_CHARACTERS = 16
"""Of a label that stands upright."""


@dataclass(frozen=True)
class Scale:
    """Numbers to pixels."""

    low: float
    high: float
    start: float
    end: float
    step: float
    """From one number on the axis to the next."""

    @classmethod
    def of(cls, low: float, high: float, start: float, end: float) -> Scale:
        """Of counts: 0 is always on it, and numbers on the axis are around all that is positive.

        >>> Scale.of(-3, 11, 0, 100)
        Scale(low=-3.0, high=15.0, start=0, end=100, step=5.0)
        """
        bottom, top = min(low, 0.0), max(high, 0.0)
        top = top if top > bottom else bottom + 1
        step = _step(top - bottom)
        margin = step / 5
        bottom, top = math.floor(bottom / margin) * margin, math.ceil(top / step) * step
        return cls(bottom, top, start, end, step)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """A few round numbers.

        >>> list(Scale.of(-3, 11, 0, 100).ticks())
        [0.0, 5.0, 10.0, 15.0]
        """
        first, last = math.ceil(self.low / self.step), round(self.high / self.step)
        return (i * self.step + 0.0 for i in range(first, last + 1))


def _step(extent: float) -> float:
    """1, 2 or 5 times a power of ten, at least a fifth of the extent."""
    rough = extent / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)


@dataclass(frozen=True)
class Slots:
    """Positions side by side, with a gap before those that stand apart."""

    starts: Sequence[float]
    width: float

    @classmethod
    def of(cls, size: int, apart: int, start: float, end: float) -> Slots:
        """As many as fill the room from start to end.

        >>> Slots.of(4, 1, 0, 52)
        Slots(starts=[0.0, 10.0, 20.0, 42.0], width=10.0)
        """
        gap = GAP if 0 < apart < size else 0
        width = (end - start - gap) / size
        return cls([start + width * i + gap * (i >= size - apart) for i in range(size)], width)

    @property
    def middles(self) -> list[float]:
        return [start + self.width / 2 for start in self.starts]


def key_of_lines(drawing: Drawing, names: Sequence[str]) -> None:
    """Which line is which, above the plot; one line needs no name."""
    if not height_of_key(names, drawing.width):
        return
    columns = _columns_of_key(names, drawing.width)
    for j, name in enumerate(names):
        x, y = drawing.width * (j % columns) / columns, 12 + KEY_HEIGHT * (j // columns)
        drawing.line(f"line s{j + 1}", x, y, x + 24, y)
        drawing.text(x + 30, y + 4, short(name, room(drawing.width / columns - 36)), "label")


def height_of_key(names: Sequence[str], width: float) -> float:
    rows = -(-len(names) // _columns_of_key(names, width))
    return KEY_HEIGHT * rows if len(names) > 1 else 0


def _columns_of_key(names: Sequence[str], width: float) -> int:
    return len(names) if width >= WIDE else 2


def numbers_upwards(
    drawing: Drawing, upwards: Scale, left: float, right: float, labels: bool = True
) -> None:
    """Lines at round counts, and the counts before them."""
    for value in upwards.ticks():
        drawing.line("grid" if value else "zero", left, upwards(value), right, upwards(value))
        if labels:
            drawing.tick(left - 8, upwards(value) + 4, value, "end")


def numbers_across(drawing: Drawing, across: Scale, bottom: float) -> None:
    """The same from left to right: below them as many counts as there is room for."""
    room_each = 2 * half_a_number(across)
    every = max(math.ceil(room_each / (across(across.step) - across(0))), 1)
    for value in across.ticks():
        drawing.line("grid", across(value), 0, across(value), bottom)
        if round(value / across.step) % every == 0:
            drawing.tick(across(value), bottom + 16, value, "middle")


def half_a_number(scale: Scale) -> float:
    return 6 + CHARACTER / 2 * max(len(count(value)) for value in scale.ticks())


def width_of_numbers(upwards: Scale) -> float:
    return 12 + CHARACTER * max(len(count(value)) for value in upwards.ticks())


def name_across(
    drawing: Drawing, direction: AxisDirection, slots: Slots, y: float, right: float
) -> None:
    """As many labels as there is room for, at round distances; all of those that stand apart."""
    size, joined = len(direction), len(direction) - direction.apart
    left, middles = slots.starts[0], slots.middles
    for i in range(joined, size):
        label = short(direction.labels[i], room(right - left) // 3)
        half = CHARACTER * len(label) / 2
        x = min(middles[i], right - half)
        drawing.text(x, y, label, "tick", "middle")
        right = x - half - 6
    if not joined:
        return
    sampled = range(0, joined, max(joined // 20, 1))
    longest = max(len(short(direction.labels[i])) for i in sampled)
    ticks = list(direction.ticks(max(int((right - left) // (CHARACTER * longest + 14)), 1)))
    if ticks == [0] and right - left > 2 * CHARACTER * longest + 14:
        ticks.append(joined - 1)  # a line has two ends
    for i in ticks:
        label = short(direction.labels[i], min(room(right - left), LABEL_CHARACTERS))
        half = CHARACTER * len(label) / 2
        if middles[i] - half < right:
            x = min(max(middles[i], half), right - half)
            drawing.text(x, y, label, "tick", "middle")


def fits_across(direction: AxisDirection, slots: Slots) -> bool:
    """Whether every position can be named in its own width."""
    return max(map(len, direction.labels)) * CHARACTER + 6 <= slots.width


def name_upright(drawing: Drawing, direction: AxisDirection, slots: Slots, bottom: float) -> None:
    """Every label, from below upwards."""
    for label, x in zip(direction.labels, slots.middles, strict=True):
        made = drawing.text(x + 4, bottom, short(label, UPRIGHT_CHARACTERS), "tick")
        made.set("transform", f"rotate(-90 {x + 4:.2f} {bottom:.2f})")

"""The kinds of pictures, as values: `panels` chooses them for a table, `charts` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.intervals import Floats
from dhdmm.study.attributes.base import round_ticks
from dhdmm.study.factor import Integers

Mask = NDArray[np.bool_]

FINEST = 20
"""Ends of ranges that a heat map of ranges has."""


@dataclass(frozen=True, eq=False)
class AxisDirection:
    """One way that a table runs: what it is called, and what its positions are called."""

    header: str
    labels: Sequence[str]
    named: Callable[[int], Sequence[int]] | None = None
    """In an order: the positions that an axis names, with room for so many."""
    apart: int = 0
    """So many of the last positions stand apart: what is missing, and the total."""

    def __len__(self) -> int:
        return len(self.labels)

    def ticks(self, most: int) -> Sequence[int]:
        return self.named(most) if self.named else round_ticks(len(self) - self.apart, most)

    def part(self, rows: slice) -> AxisDirection:
        """Some consecutive positions."""
        labels = self.labels[rows]
        if len(labels) == len(self):
            return self
        apart = min(len(labels), max(rows.stop - (len(self) - self.apart), 0))
        return AxisDirection(self.header, labels, apart=apart)


@dataclass(frozen=True, eq=False)
class Bars:
    """One bar an answer. An error of 0 means that the number is exact."""

    labels: Sequence[str]
    values: Floats
    errors: Floats
    truth: Floats | None = None
    """What the answers would be without noise, where somebody knows it."""
    apart: int = 0
    """So many of the last bars stand apart."""
    ends: tuple[Floats, Floats] | None = None
    """Of the intervals, where they are not z errors to both sides; ±∞ where there is none."""
    texts: Sequence[str] | None = None
    """What is written beside the bars, where it is not the number ± half its interval."""


@dataclass(frozen=True, eq=False)
class Lines:
    """Answers in an order; values is (plots, lines, positions). All plots have the same axes."""

    direction: AxisDirection
    plots: Sequence[str]
    names: Sequence[str]
    values: Floats
    errors: Floats
    limits: tuple[float, float]
    """The lowest and the highest end of an interval, also in other parts."""


@dataclass(frozen=True, eq=False)
class Heat:
    """A table of two directions; `totals` are no part of what is compared."""

    down: AxisDirection
    across: AxisDirection
    values: Floats
    errors: Floats
    totals: Mask
    limits: tuple[float, float]
    """The smallest and the largest answer that is no total, also in other parts."""


def ranges_heat(
    ends: AxisDirection, low: Integers, high: Integers, values: Floats, errors: Floats
) -> Heat:
    """Counts of ranges low ≤ v < high: where they begin across, where they end down.

    NaN where there is no range. A long direction has only every second, third, … end, and says so.
    """
    step = -(-len(ends) // FINEST)
    labels = ends.labels[::step]
    chosen = (low % step == 0) & ((high - 1) % step == 0)
    where = (high[chosen] - 1) // step, low[chosen] // step
    shown, shown_errors = np.full((2, len(labels), len(labels)), np.nan)
    shown[where], shown_errors[where] = values[chosen], errors[chosen]
    every = f" (1 in {step} is shown)" if step > 1 else ""
    named = partial(round_ticks, len(labels))
    across = AxisDirection(f"{ends.header}, from{every}", labels, named)
    down = AxisDirection("up to", labels, named)
    totals = np.zeros(shown.shape, np.bool_)
    return Heat(down, across, shown, shown_errors, totals, extremes(shown, totals))


Picture = Bars | Lines | Heat


@dataclass(frozen=True, eq=False)
class Panel:
    """A picture of a table, of one term of it, or of a part of that."""

    name: str
    title: str
    picture: Picture


def extremes(values: Floats, totals: Mask) -> tuple[float, float]:
    """0 is always among them."""
    shown = values[~totals & ~np.isnan(values)]
    return min(float(shown.min(initial=0.0)), 0.0), max(float(shown.max(initial=0.0)), 0.0)

"""One look for all figures: colours that colour-blind readers can tell apart, one for each model.

Colours are those of Okabe and Ito; markers and line styles differ as well. Ours are filled, the
paper's numbers are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

BLACK, GREY = "#000000", "#7f7f7f"
BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#CC79A7",
    "#56B4E9",
)
COLOURS = {
    "semi-honest": BLUE,
    "malicious": VERMILLION,
    "distributed": BLUE,
    "central": BLACK,
    "hdmm": PURPLE,
    "local": ORANGE,
    "shuffle": GREEN,
    "zero": GREY,
}
MARKERS = {"semi-honest": "o", "malicious": "s"}
PANEL = (5.2, 4.0)  # inches
DOTS_PER_INCH = 150

Keywords = dict[str, Any]


def panels(
    count: int, width: float = PANEL[0], across: int | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, side by side or `across` to a row; no global state."""
    columns = across or count
    down = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, PANEL[1] * down), layout="constrained")
    found = [figure.add_subplot(down, columns, place) for place in range(1, count + 1)]
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, which="major", color="#e5e5e5", linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, found


def ours(model: str, **more: Any) -> Keywords:
    """Filled markers and a line."""
    base = {"color": COLOURS[model], "marker": MARKERS.get(model, "o"), "markersize": 5}
    return base | {"linewidth": 1.5, "capsize": 3} | more


def theirs(model: str, **more: Any) -> Keywords:
    """Hollow markers without a line: numbers that were read off the paper."""
    base = ours(model) | {"linestyle": "none", "markerfacecolor": "white", "markersize": 8}
    return base | {"markeredgewidth": 1.5} | more


def participants_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Logarithmic, with the sizes that were simulated as its ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(sizes))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _place: f"{n:,.0f}"))
    axes.tick_params(axis="x", labelrotation=30 if len(set(sizes)) > 4 else 0)
    axes.set_xlabel("participants")


def plain_log_axis(axes: Axes) -> None:
    """A logarithmic vertical axis whose labels are numbers, not powers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.6g}"))

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
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from research.paper import published
from research.paper.settings import MODELS

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
    "local": ORANGE,
    "shuffle": GREEN,
    "zero": GREY,
}
MARKERS = {"semi-honest": "o", "malicious": "s"}
PANEL = (5.2, 4.0)  # inches
DOTS_PER_INCH = 150
DECADES_WITH_ALL_LABELS = 3

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


def line(color: str, marker: str, linestyle: str) -> Keywords:
    return {"color": color, "marker": marker, "linestyle": linestyle}


def series(
    axes: Axes, rows: Sequence[Keywords], x: str, y: str, label: str, look: Keywords
) -> None:
    """One column of the rows against another, with error bars where there are repetitions."""
    spread = [row.get(f"{y}_sd") or 0.0 for row in rows]
    bars = spread if any(spread) else None
    axes.errorbar(
        [row[x] for row in rows], [row[y] for row in rows], yerr=bars, label=label, **look
    )


def printed(axes: Axes, model: str, key: str, label: str) -> None:
    """The paper's own numbers."""
    axes.errorbar(*published.series(model, key), label=f"{label}, paper", **theirs(model))


def line_and_points(
    axes: Axes, points: Sequence[Keywords], x: str, label: str, look: Keywords
) -> None:
    """What theory expects as a line, what was sampled as points with their standard errors."""
    at = [point[x] for point in points]
    without_marker = look | {"marker": "none"}
    axes.plot(at, [point["expected_rmse"] for point in points], linewidth=1.4, **without_marker)
    axes.errorbar(
        at,
        [point["rmse"] for point in points],
        yerr=[point["standard_error"] or 0.0 for point in points],
        markersize=5,
        capsize=3,
        **look | {"linestyle": "none"},
    )
    axes.plot([], [], label=label, markersize=5, linewidth=1.4, **look)  # both, for the legend


def legend_beside(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, from the first of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")


def over_participants(axes: Axes, rows: Sequence[Keywords], title: str) -> None:
    """Logarithmic axes, the horizontal one with ticks for our sizes and for the paper's."""
    sizes_axis(
        axes, [row["participants"] for row in rows] + published.series(MODELS[0], "total_s")[0]
    )
    plain_log_axis(axes)
    axes.set_title(title, loc="left")


def sizes_axis(axes: Axes, sizes: Sequence[int], label: str = "participants") -> None:
    """Logarithmic, with the sizes that were simulated as its ticks."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(sizes))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _place: f"{n:,.0f}"))
    axes.tick_params(axis="x", labelrotation=30 if len(set(sizes)) > 4 else 0)
    axes.set_xlabel(label)


def plain_log_axis(axes: Axes) -> None:
    """A logarithmic vertical axis with labels at 1, 2, 5, 10, …: numbers, not powers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = math.log10(high / low) < DECADES_WITH_ALL_LABELS
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,.6g}"))

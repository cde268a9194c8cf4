"""The pictures a table can become. Each function draws one kind into given matplotlib axes.

Bars, bands and whiskers are 95 % intervals of single answers. Colours are those of Okabe and Ito,
told apart by every kind of colour vision; counts are never on a logarithmic axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dhdmm.release.intervals import Floats, half_width
from dhdmm.release.pictures import (
    MOST_TICKS,
    AxisDirection,
    Bars,
    Heat,
    Intervals,
    Lines,
    Mask,
    Picture,
    Points,
)
from dhdmm.release.wording import decimals, number, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
WHISKER = "#333333"
LABEL_WIDTH, TICK_WIDTH = 30, 20
FEWER_TICKS = 5
AXIS_CHARACTERS = 44
"""What fits under a panel."""
MOST_POINTS = 2_000
FEWEST_BAR_PLACES = 6
SMALL_TABLE = (8, 8)
"""Rows and columns that leave room for two lines of text in a cell."""
LONG_TABLE = (16, 5)
"""The same for one line."""
FINEST_GRID = 1024


def draw(axes: Axes, picture: Picture) -> None:
    """The picture, into these axes."""
    match picture:
        case Bars():
            bars(axes, picture)
        case Points():
            points(axes, picture)
        case Lines():
            lines(axes, picture)
        case Heat():
            heat(axes, picture)
        case Intervals():
            intervals(axes, picture)


def bars(axes: Axes, picture: Bars) -> None:
    """The first bar on top, each with its number behind it."""
    labels, values, errors = picture.labels, picture.values, picture.errors
    places, reach = np.arange(len(values)), half_width(errors)
    axes.barh(places, values, color=COLOURS[0], height=0.7)
    axes.errorbar(values, places, xerr=reach, fmt="none", ecolor=WHISKER, elinewidth=1.2, capsize=3)
    for place, end, text in zip(places, values + reach, with_errors(values, errors), strict=True):
        axes.annotate(
            text,
            (max(end, 0), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    axes.set_yticks(places, [plain(label) for label in labels])
    middle, half = (len(values) - 1) / 2, max(len(values), FEWEST_BAR_PLACES) / 2
    axes.set_ylim(middle + half, middle - half)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.25 * (right - left))
    axes.axvline(0, color=WHISKER, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    _count_axis(axes.xaxis)
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.3)


def points(axes: Axes, picture: Points) -> None:
    """A point and its whisker each, some of them named."""
    direction, values, errors = picture.direction, picture.values, picture.errors
    drawn = min(len(values), MOST_POINTS)
    axes.errorbar(
        np.arange(drawn),
        values[:drawn],
        yerr=half_width(errors[:drawn]),
        fmt="o",
        markersize=3,
        color=COLOURS[0],
        ecolor=WHISKER,
        elinewidth=0.8,
    )
    _name_positions(axes.xaxis, direction.first(drawn))
    part = f" (first {drawn:,} of {len(values):,})" if drawn < len(values) else ""
    axes.set_xlabel(plain(direction.header) + part)
    _counts_upwards(axes)


def lines(axes: Axes, picture: Lines) -> None:
    """Each line with its band."""
    direction, names = picture.direction, picture.names
    places = np.arange(len(direction))
    every = zip(names, picture.values, picture.errors, COLOURS, strict=False)
    for name, line, error, colour in every:
        reach = half_width(error)
        axes.fill_between(places, line - reach, line + reach, color=colour, alpha=0.25, linewidth=0)
        axes.plot(places, line, color=colour, linewidth=1.4, label=plain(name))
    if len(names) > 1:
        axes.legend(frameon=False, fontsize="small")
    _name_positions(axes.xaxis, direction)
    axes.set_xlabel(plain(direction.header))
    axes.margins(x=0.01)
    _counts_upwards(axes)


def heat(axes: Axes, picture: Heat) -> None:
    """Totals stay without colour, for they would outshine the rest.

    Small tables have every answer with its standard error written in.
    """
    down, across, totals = picture.down, picture.across, picture.totals
    values, errors = picture.values, picture.errors
    shaded = np.ma.masked_array(values, totals)
    image = axes.imshow(shaded, cmap="cividis", aspect="auto", interpolation="nearest")
    if _fits(values, SMALL_TABLE):
        _write_in(axes, image, with_errors(values, errors, "\n"), values, totals)
    elif _fits(values, LONG_TABLE):
        _write_in(axes, image, with_errors(values, errors), values, totals)
    else:
        _colour_bar(axes, image, errors)
    _name_positions(axes.xaxis, across)
    _name_positions(axes.yaxis, down, LABEL_WIDTH, 2 * MOST_TICKS)
    axes.set_xlabel(plain(across.header))
    axes.set_ylabel(plain(down.header))
    axes.tick_params(length=0)


def intervals(axes: Axes, picture: Intervals) -> None:
    """Where a range begins across, where it ends upwards."""
    table = picture.grid(FINEST_GRID)
    image = axes.imshow(
        table.values, cmap="cividis", origin="lower", aspect="auto", interpolation="nearest"
    )
    _colour_bar(axes, image, picture.errors)
    _name_positions(axes.xaxis, table.across)
    _name_positions(axes.yaxis, table.down)
    axes.set_xlabel(f"{plain(picture.ends.header)}, from")
    axes.set_ylabel("up to")


def plain(text: str, width: int = LABEL_WIDTH) -> str:
    """The text for matplotlib: a dollar sign is a dollar sign, not the start of a formula."""
    return printable(text, width).replace("$", r"\$")


def with_errors(values: Floats, errors: Floats, between: str = " ") -> list[str]:
    """`1,234 ± 32` for every answer, rounded by the smallest error."""
    places = decimals(float(errors.min()))
    return [
        f"{number(value, places)}{between}± {number(error, places)}"
        for value, error in zip(values.ravel().tolist(), errors.ravel().tolist(), strict=True)
    ]


def _fits(values: Floats, table: tuple[int, int]) -> bool:
    return bool(values.shape[0] <= table[0] and values.shape[1] <= table[1])


def _write_in(axes: Axes, image: Any, texts: list[str], values: Floats, totals: Mask) -> None:
    for text, (row, column) in zip(texts, np.ndindex(*values.shape), strict=True):
        dark = not totals[row, column] and image.norm(values[row, column]) < 0.5
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize="x-small",
            color="white" if dark else "black",
        )


def _colour_bar(axes: Axes, image: Any, errors: Floats) -> None:
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    _count_axis(bar.ax.yaxis)
    bar.outline.set_visible(False)
    typical = float(np.median(errors))
    axes.annotate(
        f"typical standard error {number(typical, decimals(typical))}",
        (1, 1.01),
        xycoords="axes fraction",
        ha="right",
        va="bottom",
        fontsize="x-small",
    )


def _name_positions(
    axis: Any, direction: AxisDirection, width: int = TICK_WIDTH, most: int = MOST_TICKS
) -> None:
    """All positions with their labels if they are few, else some of them at round distances."""
    chosen = direction.ticks(most)
    labels = [plain(direction.labels[i], width) for i in chosen]
    crowded = axis.axis_name == "x" and max(map(len, labels)) * len(labels) > AXIS_CHARACTERS
    if crowded and len(direction) > most > FEWER_TICKS:
        _name_positions(axis, direction, width, FEWER_TICKS)
        return
    axis.set_ticks(list(chosen), labels)
    if crowded:
        for label in axis.get_ticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def _counts_upwards(axes: Axes) -> None:
    _count_axis(axes.yaxis)
    axes.axhline(0, color=WHISKER, linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)


def _count_axis(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    axis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.10g}".replace("-", "−")))

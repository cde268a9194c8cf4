"""Growth with the number of participants n and with the rows k of the strategy.

Exponents are slopes of least squares through (log size, log cost). The paper's, with n neighbours
of degree O(log n): a client computes O(log² n + k log n) and sends O(log² n + k), the server
O(n log² n + nk log n) and O(n log² n + nk). A logarithm has a small slope, falling with n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from research.paper import simulations, style
from research.paper.item import Column, Found, Needed, PaperItem, Row, group, significant
from research.paper.settings import MODELS, Settings
from research.paper.simulations import EXECUTED

COSTS = {
    "participant_ms": ("participant's computation", "ms", "log² n + k log n"),
    "participant_kb": ("participant's traffic", "KB", "log² n + k"),
    "rounds_s": ("coordinator's computation", "s", "n log² n + nk log n"),
    "coordinator_mb": ("coordinator's traffic", "MB", "n log² n + nk"),
}
"""The coordinator's computation without the optimisation, which depends on neither."""
SIZES = {"n": "participants", "k": "rows"}


def _needed(settings: Settings) -> Iterator[Needed]:
    for model, n, by, units in simulations.by_participants(settings):
        yield {"over": "n", "threat_model": model, "size": n, "by": by}, units
    for model in MODELS:
        for rows in settings.rows:
            unit = simulations.counting(settings, rows, model)
            yield {"over": "k", "threat_model": model, "size": rows, "by": EXECUTED}, [unit]


def _rows(found: Found) -> list[Row]:
    measured = simulations.averages(found)
    rows = []
    for over in SIZES:
        for model in MODELS:
            everything = group(measured, over=over, threat_model=model)
            for cost, (name, unit, published) in COSTS.items():
                # participants' seconds are counted where only the coordinator is executed
                mine = [r for r in everything if cost != "participant_ms" or r["by"] == EXECUTED]
                sizes = [row["size"] for row in mine]
                values = [row[cost] for row in mine]
                rows.append(
                    {
                        "over": over,
                        "threat_model": model,
                        "cost": f"{name} ({unit})",
                        "key": cost,
                        "exponent": (grows := exponent(sizes, values)),
                        "exponent_shown": f"{round(grows, 2) + 0.0:.2f}".replace("-", "−"),
                        "paper": f"O({published})",
                        "fixed": f"k = {mine[0]['rows']:,}"
                        if over == "n"
                        else f"n = {mine[0]['participants']:,}",
                        "from": sizes[0],
                        "to": sizes[-1],
                        "sizes": " ".join(map(str, sizes)),
                        "values": " ".join(f"{value:.6g}" for value in values),
                        "sizes_shown": " · ".join(f"{size:,}" for size in sizes),
                        "shown": " · ".join(significant(value, 3) for value in values),
                    }
                )
    return rows


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """
    >>> round(exponent([10, 100, 1000], [3.0, 300.0, 30000.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2 * len(COSTS), 3.9, across=len(COSTS))
    places = [(over, cost) for over in SIZES for cost in COSTS]
    for axes, (over, cost) in zip(panels, places, strict=True):
        for model in MODELS:
            [row] = group(rows, over=over, threat_model=model, key=cost)
            sizes = [int(size) for size in row["sizes"].split()]
            values = [float(value) for value in row["values"].split()]
            label = f"{model}, {over}^{row['exponent_shown']}"
            axes.errorbar(sizes, values, label=label, **style.ours(model, linestyle="none"))
            fitted = np.polyfit(np.log(sizes), np.log(values), 1)
            axes.plot(sizes, np.exp(np.polyval(fitted, np.log(sizes))), color=style.COLOURS[model])
        style.sizes_axis(axes, sizes, f"{SIZES[over]} {over}  ({row['fixed']})")
        style.plain_log_axis(axes)
        axes.set_title(f"{row['cost']}\n{row['paper']}", loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small")
    return figure


ITEM = PaperItem(
    name="complexity",
    title="Growth in n and in k",
    paper="Asymptotic costs beyond the central model's; here the exponents that measurements fit.",
    needed=_needed,
    rows=_rows,
    columns=(
        Column("over", "over"),
        Column("fixed", "at"),
        Column("threat_model", "threat model"),
        Column("cost", "cost"),
        Column("sizes_shown", "sizes"),
        Column("shown", "measured"),
        Column("exponent_shown", "exponent"),
        Column("paper", "paper"),
    ),
    draw=_draw,
)

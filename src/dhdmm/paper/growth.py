"""Figures over the number of participants, on an unlimited network: computation and total time.

Beyond the rounds that are executed stands one whose operations are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dhdmm.paper import published, simulations, style
from dhdmm.paper.item import Column, PaperItem, Row, group
from dhdmm.paper.settings import MALICIOUS, MODELS, SEMI_HONEST, Settings
from dhdmm.paper.work import Results, Unit

MEASURED, COUNTED = "measured", "counted"


def _units(settings: Settings) -> list[Unit]:
    units = simulations.units_by_participants(settings)
    return units + simulations.units_of_counted(settings)


def _rows(settings: Settings, results: Results) -> list[Row]:
    measured = simulations.rows_by_participants(settings, results)
    counted = [results[unit.name] for unit in simulations.units_of_counted(settings)]
    rows = [row | {"by": MEASURED} for row in measured]
    rows += [row | {"by": COUNTED} for row in counted]
    return [row | published.beside(row["threat_model"], row["participants"]) for row in rows]


def _one_model(model: str, settings: Settings, results: Results) -> list[Row]:
    return group(_rows(settings, results), threat_model=model)


def lines(axes: Axes, rows: Sequence[Row], key: str, model: str, label: str, style_: str) -> None:
    """Ours over n, with error bars where there are repetitions; what is counted stands apart."""
    mine, counted = (group(rows, threat_model=model, by=by) for by in (MEASURED, COUNTED))
    axes.errorbar(
        [row["participants"] for row in mine],
        [row[key] for row in mine],
        yerr=[row.get(f"{key}_sd") or 0.0 for row in mine],
        label=label,
        **style.ours(model, linestyle=style_),
    )
    axes.errorbar(
        [row["participants"] for row in counted],
        [row[key] for row in counted],
        label=f"{label}, operations counted",
        **style.ours(model, linestyle="none", marker="x", markersize=8),
    )


def _draw_computation(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    for axes, key, title in zip(
        panels,
        ("participant_ms", "coordinator_s"),
        ("participant (ms, mean)", "coordinator (s)"),
        strict=True,
    ):
        for model in MODELS:
            lines(axes, rows, key, model, model, "-")
            axes.errorbar(
                *published.series(model, key), label=f"{model}, paper", **style.theirs(model)
            )
        _finish(axes, rows, f"computation: {title}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    return figure


def _draw_total(model: str, rows: Sequence[Row]) -> Figure:
    figure, [axes] = style.panels(1, 6.4)
    lines(axes, rows, "total_s", model, "total", "-")
    axes.plot(
        [row["participants"] for row in rows],
        [row["coordinator_s"] for row in rows],
        color=style.GREY,
        linestyle="--",
        label="of which the coordinator computes",
    )
    axes.errorbar(*published.series(model, "total_s"), label="total, paper", **style.theirs(model))
    _finish(axes, rows, f"total time, {model} (s)")
    axes.legend(frameon=False)
    return figure


def _finish(axes: Axes, rows: Sequence[Row], title: str) -> None:
    sizes = [row["participants"] for row in rows] + published.series(SEMI_HONEST, "total_s")[0]
    style.participants_axis(axes, sizes)
    style.plain_log_axis(axes)
    axes.set_title(title, loc="left")


COMPUTATION = PaperItem(
    name="computation",
    title="Computation against the number of participants",
    paper="Server and mean client computation, bandwidth unlimited; numbers only in Table 2.",
    units=_units,
    compute=_rows,
    columns=(
        Column("threat_model", "threat model"),
        Column("participants", "n"),
        Column("by", "by"),
        Column("degree", "neighbours"),
        Column("participant_ms", "participant ms", 3),
        Column("paper_participant_ms", "paper"),
        Column("coordinator_s", "coordinator s", 3),
        Column("paper_coordinator_s", "paper"),
        Column("optimisation_s", "optimisation s", 2),
    ),
    draw=_draw_computation,
)


def _total(model: str) -> PaperItem:
    return PaperItem(
        name=f"total-{model}",
        title=f"Total time, {model}",
        paper="Total running time against the number of clients; numbers only in Table 2.",
        units=_units,
        compute=partial(_one_model, model),
        columns=(
            Column("participants", "n"),
            Column("by", "by"),
            Column("total_s", "total s", 3),
            Column("total_s_sd", "±", 2),
            Column("paper_total_s", "paper"),
            Column("coordinator_s", "coordinator s", 3),
            Column("participant_ms", "participant ms", 3),
            Column("wall_s", "simulated in s", 3),
        ),
        draw=partial(_draw_total, model),
    )


TOTAL_SEMI_HONEST, TOTAL_MALICIOUS = _total(SEMI_HONEST), _total(MALICIOUS)

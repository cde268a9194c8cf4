"""Traffic of the coordinator and of a participant, sent and received."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from dhdmm.paper import published, simulations, style
from dhdmm.paper.item import Column, PaperItem, Row, group
from dhdmm.paper.settings import MODELS, Settings
from dhdmm.paper.work import Results

SIDES = {
    "coordinator": ("MB", 1e6, "coordinator_mb"),
    "participant": ("KB", 1e3, "participant_kb"),
}
DIRECTIONS = {"sent": "--", "received": ":"}


def _compute(settings: Settings, results: Results) -> list[Row]:
    rows = simulations.rows_by_participants(settings, results)
    for row in rows:
        for side, (unit, scale, _total) in SIDES.items():
            for way in DIRECTIONS:
                row[f"{side}_{way}_{unit.lower()}"] = row[f"{side}_{way}_bytes"] / scale
        row |= published.beside(row["threat_model"], row["participants"])
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    sizes = [row["participants"] for row in rows] + published.series(MODELS[0], "total_s")[0]
    for axes, (side, (unit, _scale, total)) in zip(panels, SIDES.items(), strict=True):
        for model in MODELS:
            mine = group(rows, threat_model=model)
            n = [row["participants"] for row in mine]
            both = [row[total] for row in mine]
            axes.errorbar(n, both, label=f"{model}, both ways", **style.ours(model))
            for way, line in DIRECTIONS.items():
                values = [row[f"{side}_{way}_{unit.lower()}"] for row in mine]
                colour = style.COLOURS[model]
                axes.plot(
                    n, values, color=colour, linestyle=line, linewidth=1.2, label=f"{model}, {way}"
                )
            axes.errorbar(
                *published.series(model, total),
                label=f"{model}, both ways, paper",
                **style.theirs(model),
            )
        style.participants_axis(axes, sizes)
        style.plain_log_axis(axes)
        whose = "a participant" if side == "participant" else "the coordinator"
        axes.set_title(f"traffic of {whose} ({unit})", loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    return figure


ITEM = PaperItem(
    name="communication",
    title="Communication",
    paper=(
        "Two figures, megabytes of the server and kilobytes of a client, sent and received;"
        " numbers only in Table 2, both ways together."
    ),
    units=simulations.units_by_participants,
    compute=_compute,
    columns=(
        Column("threat_model", "threat model"),
        Column("participants", "n"),
        Column("participant_sent_kb", "participant sends KB", 3),
        Column("participant_received_kb", "receives KB", 3),
        Column("paper_participant_kb", "paper, both"),
        Column("coordinator_sent_mb", "coordinator sends MB", 3),
        Column("coordinator_received_mb", "receives MB", 3),
        Column("paper_coordinator_mb", "paper, both"),
    ),
    draw=_draw,
)

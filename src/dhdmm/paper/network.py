"""RQ2: total time on slower networks, all replayed from one execution of each round."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from dhdmm.paper import simulations, style
from dhdmm.paper.item import Column, PaperItem, Row, group, significant
from dhdmm.paper.settings import MODELS, Settings
from dhdmm.paper.simulations import NETWORKS
from dhdmm.paper.work import Results

LINES = dict(
    zip(
        NETWORKS,
        [
            {"color": style.BLACK, "marker": "o", "linestyle": "-"},
            {"color": style.SKY, "marker": "^", "linestyle": "--"},
            {"color": style.GREEN, "marker": "v", "linestyle": "-."},
            {"color": style.VERMILLION, "marker": "s", "linestyle": ":"},
            {"color": style.PURPLE, "marker": "D", "linestyle": "-"},
        ],
        strict=True,
    )
)


def _compute(settings: Settings, results: Results) -> list[Row]:
    rows = []
    for row in simulations.rows_by_participants(settings, results):
        for network in NETWORKS:
            rows.append(
                {
                    "threat_model": row["threat_model"],
                    "participants": row["participants"],
                    "network": network,
                    "total_s": row[network],
                    "to_unlimited": row[network] / row["unlimited"],
                    "repetitions": row["repetitions"],
                }
            )
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    for axes, model in zip(panels, MODELS, strict=True):
        for network, line in LINES.items():
            mine = group(rows, threat_model=model, network=network)
            axes.plot(
                [row["participants"] for row in mine],
                [row["total_s"] for row in mine],
                label=network,
                color=line["color"],
                marker=line["marker"],
                linestyle=line["linestyle"],
                markersize=5,
            )
        style.participants_axis(axes, [row["participants"] for row in rows])
        style.plain_log_axis(axes)
        axes.set_title(f"total time, {model} (s)", loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)
    return figure


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    most = max(row["participants"] for row in rows)
    sentences = []
    for model in MODELS:
        mine = group(rows, threat_model=model, participants=most)
        times = "; ".join(f"{row['network']} {significant(row['total_s'], 3)} s" for row in mine)
        sentences.append(f"{model}, {most:,} participants: {times}.")
    return sentences


ITEM = PaperItem(
    name="network",
    title="Slower networks (RQ2)",
    paper=(
        "Clients at 1 Mbps, or the server at 1,000 or 100 Mbps, each with 100 ms of latency: slow"
        " clients hardly matter, a slow server does. No numbers are printed but that 100 Mbps takes"
        " tens of seconds up to 3,000 clients."
    ),
    units=simulations.units_by_participants,
    compute=_compute,
    columns=(
        Column("threat_model", "threat model"),
        Column("participants", "n"),
        Column("network", "network"),
        Column("total_s", "total s", 3),
        Column("to_unlimited", "to unlimited", 3),
    ),
    draw=_draw,
    remarks=_remarks,
)

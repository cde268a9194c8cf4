"""Figures over the number of participants: computation, total time, traffic, slower networks.

Beyond the rounds that are executed stand some of which only the coordinator is, and one whose
operations are all counted. What is counted is never joined with what is measured. The times on
slower networks (RQ2) are all replayed from one execution of each round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from research.paper import simulations, style
from research.paper.item import Column, Found, Needed, PaperItem, Row, group, significant
from research.paper.settings import MALICIOUS, MODELS, SEMI_HONEST, Settings
from research.paper.simulations import COORDINATOR, EXECUTED, NETWORKS

MODEL_AND_SIZE = (Column("threat_model", "threat model"), Column("participants", "n"))
SLOW = "participants 1 Mbps"
SIDES = {"coordinator": ("MB", 1e6), "participant": ("KB", 1e3)}
DIRECTIONS = {"sent": "--", "received": ":"}
NETWORK_LINES = {
    "unlimited": style.line(style.BLACK, "o", "-"),
    SLOW: style.line(style.SKY, "^", "--"),
    "coordinator 1000 Mbps": style.line(style.GREEN, "v", "-."),
    "coordinator 100 Mbps": style.line(style.VERMILLION, "s", ":"),
    "participants 1, coordinator 100 Mbps": style.line(style.PURPLE, "D", "-"),
}


def _needed(
    settings: Settings, models: Sequence[str] = MODELS, *, counted: bool = False
) -> Iterator[Needed]:
    for _, _, by, units in simulations.by_participants(settings, models, counted=counted):
        yield {"by": by}, units


def _measured(row: Row, key: str) -> bool:
    """A coordinator's time is measured in every round that has a coordinator."""
    by = row["by"]
    return by == EXECUTED or (by == COORDINATOR and key == "coordinator_s")


def _lines(axes: Axes, rows: Sequence[Row], key: str, model: str, label: str) -> None:
    """Ours, with what is counted apart from what is measured, beside the paper's."""
    mine = group(rows, threat_model=model)
    measured = [row for row in mine if _measured(row, key)]
    counted = [row for row in mine if not _measured(row, key)]
    style.series(axes, measured, "participants", key, label, style.ours(model))
    crosses = style.ours(model, linestyle="none", marker="x", markersize=8)
    style.series(axes, counted, "participants", key, f"{label}, operations counted", crosses)
    style.printed(axes, model, key, label)


def _draw_computation(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    titles = {"participant_ms": "participant (ms, mean)", "coordinator_s": "coordinator (s)"}
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for model in MODELS:
            _lines(axes, rows, key, model, model)
        style.over_participants(axes, rows, f"computation: {title}")
    style.legend_beside(figure, panels[0])
    return figure


COMPUTATION = PaperItem(
    name="computation",
    title="Computation against the number of participants",
    paper="Server and mean client computation, bandwidth unlimited; numbers only in Table 2.",
    needed=partial(_needed, counted=True),
    rows=simulations.averages,
    columns=(
        *MODEL_AND_SIZE,
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


# ---- total time ----------------------------------------------------------------------------------


def _draw_total(model: str, rows: Sequence[Row]) -> Figure:
    figure, [axes] = style.panels(1, 6.4)
    _lines(axes, rows, "total_s", model, "total")
    computed = [row for row in rows if _measured(row, "coordinator_s")]
    axes.plot(
        [row["participants"] for row in computed],
        [row["coordinator_s"] for row in computed],
        color=style.GREY,
        linestyle="--",
        label="of which the coordinator computes",
    )
    style.over_participants(axes, rows, f"total time, {model} (s)")
    axes.legend(frameon=False)
    return figure


def _total(model: str) -> PaperItem:
    return PaperItem(
        name=f"total-{model}",
        title=f"Total time, {model}",
        paper="Total running time against the number of clients; numbers only in Table 2.",
        needed=partial(_needed, models=[model], counted=True),
        rows=simulations.averages,
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


# ---- traffic -------------------------------------------------------------------------------------


def _traffic(found: Found) -> list[Row]:
    rows = simulations.averages(found)
    for row in rows:
        for side, (unit, scale) in SIDES.items():
            for way in DIRECTIONS:
                row[f"{side}_{way}_{unit.lower()}"] = row[f"{side}_{way}_bytes"] / scale
    return rows


def _draw_traffic(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    for axes, (side, (unit, _)) in zip(panels, SIDES.items(), strict=True):
        total = f"{side}_{unit.lower()}"
        for model in MODELS:
            mine = group(rows, threat_model=model)
            both = f"{model}, both ways"
            style.series(axes, mine, "participants", total, both, style.ours(model))
            for way, dashes in DIRECTIONS.items():
                look = {"color": style.COLOURS[model], "linestyle": dashes, "linewidth": 1.2}
                key = f"{side}_{way}_{unit.lower()}"
                style.series(axes, mine, "participants", key, f"{model}, {way}", look)
            style.printed(axes, model, total, both)
        whose = "a participant" if side == "participant" else "the coordinator"
        style.over_participants(axes, rows, f"traffic of {whose} ({unit})")
    style.legend_beside(figure, panels[0])
    return figure


COMMUNICATION = PaperItem(
    name="communication",
    title="Communication",
    paper=(
        "Two figures, megabytes of the server and kilobytes of a client, sent and received;"
        " numbers only in Table 2, both ways together."
    ),
    needed=_needed,
    rows=_traffic,
    columns=(
        *MODEL_AND_SIZE,
        Column("participant_sent_kb", "participant sends KB", 3),
        Column("participant_received_kb", "receives KB", 3),
        Column("paper_participant_kb", "paper, both"),
        Column("coordinator_sent_mb", "coordinator sends MB", 3),
        Column("coordinator_received_mb", "receives MB", 3),
        Column("paper_coordinator_mb", "paper, both"),
    ),
    draw=_draw_traffic,
)


# ---- slower networks -----------------------------------------------------------------------------


def _by_network(found: Found) -> list[Row]:
    kept = ("threat_model", "participants", "repetitions")
    return [
        {key: row[key] for key in kept}
        | {
            "network": network,
            "total_s": row[network],
            "to_unlimited": row[network] / row["unlimited"],
        }
        for row in simulations.averages(found)
        for network in NETWORKS
    ]


def _draw_networks(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2)
    for axes, model in zip(panels, MODELS, strict=True):
        for network, line in NETWORK_LINES.items():
            mine = group(rows, threat_model=model, network=network)
            style.series(axes, mine, "participants", "total_s", network, line | {"markersize": 5})
        style.over_participants(axes, rows, f"total time, {model} (s)")
    style.legend_beside(figure, panels[0])
    limits = [limit for axes in panels for limit in axes.get_ylim()]
    for axes in panels:
        axes.set_ylim(min(limits), max(limits))
    return figure


def _network_remarks(rows: Sequence[Row]) -> Iterator[str]:
    most = max(row["participants"] for row in rows)
    for model in MODELS:
        mine = group(rows, threat_model=model, participants=most)
        times = "; ".join(f"{row['network']} {significant(row['total_s'], 3)} s" for row in mine)
        yield f"{model}, {most:,} participants: {times}."
        slow = group(rows, threat_model=model, network=SLOW)
        ratios = ", ".join(f"{r['to_unlimited']:.2f} at {r['participants']:,}" for r in slow)
        yield (
            f"{model}: participants at 1 Mbit/s are not negligible where there are few. A round"
            f" takes this many times as long as on unlimited links: {ratios}."
        )


NETWORK = PaperItem(
    name="network",
    title="Slower networks (RQ2)",
    paper=(
        "Clients at 1 Mbps, or the server at 1,000 or 100 Mbps, each with 100 ms of latency: slow"
        " clients hardly matter, a slow server does. No numbers are printed but that 100 Mbps takes"
        " tens of seconds up to 3,000 clients."
    ),
    needed=_needed,
    rows=_by_network,
    columns=(
        *MODEL_AND_SIZE,
        Column("network", "network"),
        Column("total_s", "total s", 3),
        Column("to_unlimited", "to unlimited", 3),
    ),
    draw=_draw_networks,
    remarks=_network_remarks,
)

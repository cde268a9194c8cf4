"""Dropouts: what participants who fall silent cost, and what it costs to be ready for them.

Every round of the first item is planned to survive the largest dropout shown, so noise and graph
are the same throughout. Those who drop out take their noise with them: the error of what is left
falls. In the second nobody drops out, and what is varied is what the round could have survived, or
how many may be corrupt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from research.paper import simulations, style
from research.paper.item import Column, Needed, PaperItem, Row, group
from research.paper.settings import MODELS, Settings

PANELS = {"total_s": "total time (s)", "coordinator_s": "coordinator (s)", "rmse": "RMSE (ε = 1)"}
READY = {
    "degree": "degree",
    "participant_ms": "participant's computation (ms)",
    "participant_all_kb": "participant's traffic in all (KB)",
    "expected_rmse": "expected RMSE (ε = 1)",
}


def _needed(settings: Settings) -> Iterator[Needed]:
    n, most = settings.dropout_participants, max(settings.dropouts)
    for model in MODELS:
        for share in settings.dropouts:
            yield (
                {"dropout": share},
                [
                    simulations.round_of(
                        settings, n, model, repetition=i, dropout=share, max_dropout=most
                    )
                    for i in range(settings.dropout_repetitions)
                ],
            )


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(3, 4.2)
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        for model in MODELS:
            mine = group(rows, threat_model=model)
            label = f"{model}, measured" if key == "rmse" else model
            line = style.ours(model, linestyle="none" if key == "rmse" else "-")
            style.series(axes, mine, "dropout", key, label, line)
            if key == "rmse":
                look = {"color": style.COLOURS[model]}
                label = f"{model}, expected"
                style.series(axes, mine, "dropout", "expected_rmse", label, look)
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        axes.xaxis.set_major_locator(MultipleLocator(0.1))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_xlabel("share that drops out")
        axes.set_title(title, loc="left")
    panels[0].legend(frameon=False)
    panels[2].legend(frameon=False, fontsize="small", loc="lower left")
    n = rows[0]["participants"]
    figure.suptitle(f"{n:,} participants", fontsize="medium")
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    for model in MODELS:
        first, *_, last = group(rows, threat_model=model)
        yield (
            f"{model}: a round that survives {last['dropout']:.0%} has degree {first['degree']:,},"
            f" and takes a participant {first['participant_ms']:.0f} ms and"
            f" {first['participant_all_kb']:.0f} KB; from no"
            f" dropout to {last['dropout']:.0%}, the coordinator's time goes from"
            f" {first['coordinator_s']:.2f} to {last['coordinator_s']:.2f} s, the expected RMSE"
            f" from {first['expected_rmse']:.3g} to {last['expected_rmse']:.3g}."
        )


ITEM = PaperItem(
    name="dropout",
    title="Dropouts",
    paper=(
        "The introduction names client dropouts among what was examined; no figure or number shows"
        " them."
    ),
    needed=_needed,
    rows=simulations.averages,
    columns=(
        Column("threat_model", "threat model"),
        Column("dropout", "dropout", 2),
        Column("survivors", "survivors"),
        Column("degree", "degree"),
        Column("participant_ms", "participant ms", 3),
        Column("participant_all_kb", "participant KB in all", 3),
        Column("total_s", "total s", 3),
        Column("coordinator_s", "coordinator s", 3),
        Column("expected_rmse", "RMSE, expected", 4),
        Column("rmse", "RMSE, measured", 4),
    ),
    draw=_draw,
    remarks=_remarks,
)


# ---- what readiness costs ------------------------------------------------------------------------


def _ready(settings: Settings) -> Iterator[Needed]:
    n = settings.dropout_participants
    for model in MODELS:
        for theta in settings.ready_thetas:
            labels = {"varied": "corrupt fraction θ", "at": theta}
            yield labels, [simulations.round_of(settings, n, model, theta=theta)]
        for dropout in settings.dropouts[1:]:
            labels = {"varied": "dropout allowed", "at": dropout}
            yield labels, [simulations.round_of(settings, n, model, max_dropout=dropout)]


def _draw_ready(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(2 * len(READY), 3.9, across=len(READY))
    varied = list(dict.fromkeys(row["varied"] for row in rows))
    places = [(what, key) for what in varied for key in READY]
    for axes, (what, key) in zip(panels, places, strict=True):
        for model in MODELS:
            mine = group(rows, threat_model=model, varied=what)
            style.series(axes, mine, "at", key, model, style.ours(model))
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        axes.set_xlabel(what)
        axes.set_title(READY[key], loc="left", fontsize="medium")
    panels[0].legend(frameon=False)
    figure.suptitle(f"{rows[0]['participants']:,} participants, nobody gone", fontsize="medium")
    return figure


def _ready_remarks(rows: Sequence[Row]) -> Iterator[str]:
    for what in dict.fromkeys(row["varied"] for row in rows):
        for model in MODELS:
            mine = group(rows, threat_model=model, varied=what)
            first, last = mine[0], mine[-1]
            yield (
                f"{model}, {what} from {first['at']:.0%} to {last['at']:.0%}: degree"
                f" {first['degree']:,} to {last['degree']:,}, a participant's time"
                f" {first['participant_ms']:.1f} to {last['participant_ms']:.1f} ms, its traffic"
                f" {first['participant_all_kb']:.1f} to {last['participant_all_kb']:.1f} KB,"
                f" the expected RMSE {first['expected_rmse']:.3g} to {last['expected_rmse']:.3g}."
            )


READINESS = PaperItem(
    name="readiness",
    title="What it costs to be ready for the corrupt and for dropouts (not in the paper)",
    paper=(
        "The paper's rounds are planned for θ = 0.05 and for no dropout. More corrupt participants,"
        " and in the malicious model more dropouts, need many more neighbours; and more noise."
    ),
    needed=_ready,
    rows=simulations.averages,
    columns=(
        Column("threat_model", "threat model"),
        Column("varied", "varied"),
        Column("at", "at", 2),
        Column("degree", "degree"),
        Column("participant_ms", "participant ms", 3),
        Column("participant_all_kb", "participant KB in all", 3),
        Column("coordinator_s", "coordinator s", 3),
        Column("coordinator_mb", "coordinator MB", 3),
        Column("participants 1 Mbps", "total s at 1 Mbit/s", 3),
        Column("expected_rmse", "RMSE, expected", 4),
    ),
    draw=_draw_ready,
    remarks=_ready_remarks,
)

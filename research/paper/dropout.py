"""Dropouts: what participants who fall silent cost, in time and in accuracy.

Every round is planned to survive the largest dropout shown, so noise and graph are the same
throughout. Those who drop out take their noise with them: the error of what is left falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from research.paper import simulations, style
from research.paper.item import Column, Needed, PaperItem, Row, group
from research.paper.settings import MODELS, Settings

PANELS = {"total_s": "total time (s)", "coordinator_s": "coordinator (s)", "rmse": "RMSE (ε = 1)"}


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
            f"{model}: from no dropout to {last['dropout']:.0%}, the coordinator's time goes from"
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
        Column("total_s", "total s", 3),
        Column("coordinator_s", "coordinator s", 3),
        Column("expected_rmse", "RMSE, expected", 4),
        Column("rmse", "RMSE, measured", 4),
    ),
    draw=_draw,
    remarks=_remarks,
)

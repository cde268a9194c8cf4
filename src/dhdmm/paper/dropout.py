"""Dropouts: what participants who fall silent cost, in time and in accuracy.

Every round is planned to survive the largest dropout shown, so noise and graph are the same
throughout. Those who drop out take their noise with them: the error of what is left falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from dhdmm.paper import simulations, style
from dhdmm.paper.item import Column, PaperItem, Row, group
from dhdmm.paper.settings import MODELS, Settings
from dhdmm.paper.work import Results, Unit

PANELS = {"total_s": "total time (s)", "coordinator_s": "coordinator (s)", "rmse": "RMSE (ε = 1)"}


def _needed(settings: Settings) -> Iterator[tuple[Row, list[Unit]]]:
    for model in MODELS:
        for share in settings.dropouts:
            units = [
                simulations.round_of(
                    settings,
                    settings.dropout_participants,
                    model,
                    repetition=i,
                    dropout=share,
                    max_dropout=max(settings.dropouts),
                )
                for i in range(settings.dropout_repetitions)
            ]
            yield {"threat_model": model, "dropout": share}, units


def _units(settings: Settings) -> Sequence[Unit]:
    return [unit for _, units in _needed(settings) for unit in units]


def _compute(settings: Settings, results: Results) -> list[Row]:
    return [simulations.averaged(units, results) | labels for labels, units in _needed(settings)]


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(3, 4.2)
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        for model in MODELS:
            mine = group(rows, threat_model=model)
            shares = [row["dropout"] for row in mine]
            axes.errorbar(
                shares,
                [row[key] for row in mine],
                yerr=[row.get(f"{key}_sd") or 0.0 for row in mine],
                label=f"{model}, measured" if key == "rmse" else model,
                **style.ours(model, linestyle="none" if key == "rmse" else "-"),
            )
            if key == "rmse":
                expected = [row["expected_rmse"] for row in mine]
                axes.plot(shares, expected, color=style.COLOURS[model], label=f"{model}, expected")
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


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    sentences = []
    for model in MODELS:
        mine = group(rows, threat_model=model)
        first, last = mine[0], mine[-1]
        sentences.append(
            f"{model}: from no dropout to {last['dropout']:.0%}, the coordinator's time goes from"
            f" {first['coordinator_s']:.2f} to {last['coordinator_s']:.2f} s, the expected RMSE"
            f" from {first['expected_rmse']:.3g} to {last['expected_rmse']:.3g}."
        )
    return sentences


ITEM = PaperItem(
    name="dropout",
    title="Dropouts",
    paper=(
        "The introduction names client dropouts among what was examined; no figure or number shows"
        " them."
    ),
    units=_units,
    compute=_compute,
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

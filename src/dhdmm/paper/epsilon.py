"""RQ3, second figure: RMSE against ε in the central, distributed, local and shuffle model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from dhdmm.paper import accuracy, style
from dhdmm.paper.item import Column, PaperItem, Row, group
from dhdmm.paper.settings import Settings
from dhdmm.paper.studies import TITLES
from dhdmm.paper.work import Results, Unit

MODELS = {
    "central": "central",
    "hdmm": "central, HDMM-style strategy",
    "distributed": "distributed",
    "rounds": "distributed, whole protocol",
    "local": "local, one of M tables",
    "local-best": "local, best chances",
    "local-gaussian": "local, Gaussian noise",
    "shuffle": "shuffle, one of M tables",
    "shuffle-best": "shuffle, best chances",
    "zero": "answering 0",
}
LINES: dict[str, dict[str, Any]] = {
    "central": {"color": style.BLACK, "marker": "D", "linestyle": "-"},
    "hdmm": {"color": style.PURPLE, "marker": "v", "linestyle": "-."},
    "distributed": {"color": style.BLUE, "marker": "o", "linestyle": "-"},
    "local": {"color": style.ORANGE, "marker": "s", "linestyle": "-"},
    "local-best": {"color": style.ORANGE, "marker": "x", "linestyle": "--"},
    "local-gaussian": {"color": style.VERMILLION, "marker": "+", "linestyle": ":"},
    "shuffle": {"color": style.GREEN, "marker": "^", "linestyle": "-"},
    "shuffle-best": {"color": style.GREEN, "marker": "x", "linestyle": "--"},
}
GAUSSIAN = dict.fromkeys(("central", "distributed", "rounds", "local-gaussian"), "our strategy")
FAMILIES = {model: model for model in LINES} | GAUSSIAN
"""Whose errors differ only in scale, nearly so for reports at different ε."""
NO_DROPOUTS = {"max_dropout": 0.0}
WHOLE_AT = 1.0
"""The ε at which whole rounds are run."""


def _needed(settings: Settings) -> Iterator[tuple[Row, Unit]]:
    for name in settings.studies:
        for epsilon in settings.epsilons:
            labels = {"study": name, "epsilon": epsilon}
            for model in LINES:
                unit = (
                    accuracy.distributed(settings, name, epsilon=epsilon, **NO_DROPOUTS)
                    if model == "distributed"
                    else accuracy.model(settings, name, model, epsilon)
                )
                yield labels | {"model": model}, unit
            yield labels | {"model": "zero"}, accuracy.zero(settings, name)
        whole = accuracy.rounds(settings, name, epsilon=WHOLE_AT, **NO_DROPOUTS)
        yield {"study": name, "epsilon": WHOLE_AT, "model": "rounds"}, whole


def _units(settings: Settings) -> Sequence[Unit]:
    return [unit for _, unit in _needed(settings)]


def _compute(settings: Settings, results: Results) -> list[Row]:
    found = []
    for labels, unit in _needed(settings):
        result = results[unit.name]
        known = {key: result.get(key) for key in ("report_epsilon", "tables")}
        found.append((labels | {"name": MODELS[labels["model"]]} | known, result))
    rows = accuracy.points(found, lambda row: (row["study"], FAMILIES.get(row["model"])))
    distributed = {
        (row["study"], row["epsilon"]): row["expected_rmse"]
        for row in group(rows, model="distributed")
    }
    for row in rows:
        row["to_distributed"] = row["expected_rmse"] / distributed[row["study"], row["epsilon"]]
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    studies = list(dict.fromkeys(row["study"] for row in rows))
    figure, panels = style.panels(len(studies))
    for axes, name in zip(panels, studies, strict=True):
        mine = group(rows, study=name)
        for model, line in LINES.items():
            points = group(mine, model=model)
            epsilon = [row["epsilon"] for row in points]
            expected = [row["expected_rmse"] for row in points]
            style.line_and_points(axes, epsilon, expected, points, MODELS[model], line)
        nothing = group(mine, model="zero")[0]["expected_rmse"]
        dots = (0, (1, 3))
        axes.axhline(nothing, color=style.GREY, linewidth=1.2, linestyle=dots, label="answering 0")
        style.plain_log_axis(axes)
        axes.xaxis.set_major_locator(MultipleLocator(1))
        axes.set_xlabel("ε (δ = 1e-5)")
        axes.set_title(TITLES[name], loc="left")
    panels[0].set_ylabel("RMSE of an answer")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    return figure


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    sentences = []
    for name in dict.fromkeys(row["study"] for row in rows):
        ratios = []
        for model in ("central", "local", "local-best", "shuffle", "shuffle-best"):
            mine = group(rows, study=name, model=model)
            by_epsilon = ", ".join(f"{row['to_distributed']:.3g}" for row in mine)
            ratios.append(f"{MODELS[model]} {by_epsilon}")
        at = ", ".join(f"{row['epsilon']:g}" for row in group(rows, study=name, model="central"))
        sentences.append(
            f"{TITLES[name]}, expected RMSE to the distributed one at ε = {at}: "
            + "; ".join(ratios)
            + "."
        )
    shuffled = group(rows, study=rows[0]["study"], model="shuffle")
    amplified = ", ".join(f"{row['report_epsilon']:.3g}" for row in shuffled)
    sentences.append(f"Shuffled reports may have ε₀ = {amplified}.")
    sentences.append(
        "More than one message a participant would let the shuffle model match the distributed"
        " error, at other costs."
    )
    return [*sentences, accuracy.largest_deviation(rows)]


ITEM = PaperItem(
    name="epsilon",
    title="RMSE against ε in four models (RQ3)",
    paper=(
        "A figure without printed numbers, logarithmic: 1,000 clients, θ = 0.05; distributed nearly"
        " matches central, local and shuffle are worse by an order of magnitude."
    ),
    units=_units,
    compute=_compute,
    columns=(
        Column("study", "study"),
        Column("epsilon", "ε", 2),
        Column("name", "model"),
        Column("expected_rmse", "RMSE, expected", 4),
        Column("rmse", "RMSE, sampled", 4),
        Column("standard_error", "±", 2),
        Column("to_distributed", "to distributed", 3),
    ),
    draw=_draw,
    remarks=_remarks,
)

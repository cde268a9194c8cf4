"""RQ3, second figure: RMSE against ε in the central, distributed, local and shuffle model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from research.paper import accuracy, style
from research.paper.item import (
    Column,
    Found,
    Needed,
    PaperItem,
    Row,
    group,
    significant,
    studies_of,
)
from research.paper.settings import Settings
from research.paper.studies import TITLES

LINES: dict[str, tuple[str, style.Keywords]] = {
    "central": ("central", style.line(style.BLACK, "D", "-")),
    "distributed": ("distributed", style.line(style.BLUE, "o", "-")),
    "replacement": ("distributed, replacement", style.line(style.BLUE, "v", "--")),
    "local": ("local, one of M tables", style.line(style.ORANGE, "s", "-")),
    "local-best": ("local, best chances", style.line(style.ORANGE, "x", "--")),
    "local-gaussian": ("local, Gaussian noise", style.line(style.VERMILLION, "+", ":")),
    "shuffle": ("shuffle, one of M tables", style.line(style.GREEN, "^", "-")),
    "shuffle-best": ("shuffle, best chances", style.line(style.GREEN, "x", "--")),
}
MODELS = {model: words for model, (words, _) in LINES.items()} | {
    "rounds": "distributed, whole protocol",
    "zero": "answering 0",
}
GAUSSIAN = dict.fromkeys(
    ("central", "distributed", "replacement", "rounds", "local-gaussian"), "our strategy"
)
REPORTS = ("local", "local-best", "shuffle", "shuffle-best")
"""They protect the replacement of a record, and are compared with the mechanism that does too."""
BASELINES = ("central", "local-gaussian", *REPORTS)
FAMILIES = {model: model for model in LINES} | GAUSSIAN
"""Whose errors differ only in scale, nearly so for reports at different ε."""
NO_DROPOUTS = {"max_dropout": 0.0}
WHOLE_AT = 1.0
"""The ε at which whole rounds are run."""


def _needed(settings: Settings) -> Iterator[Needed]:
    for name in settings.studies:
        for epsilon in settings.epsilons:
            variation = {"epsilon": epsilon, **NO_DROPOUTS}
            units = {model: accuracy.model(settings, name, model, epsilon) for model in BASELINES}
            units["distributed"] = accuracy.distributed(settings, name, **variation)
            units["replacement"] = accuracy.distributed(
                settings, name, relation="replace", **variation
            )
            units["zero"] = accuracy.zero(settings, name)
            if epsilon == WHOLE_AT:
                units["rounds"] = accuracy.rounds(settings, name, **variation)
            for model, unit in units.items():
                yield {"study": name, "epsilon": epsilon, "model": model}, [unit]


def _rows(found: Found) -> list[Row]:
    labelled = []
    for labels, [result] in found:
        known = {key: result.get(key) for key in ("report_epsilon", "tables")}
        labelled.append((labels | {"name": MODELS[labels["model"]]} | known, result))
    rows = accuracy.points(labelled, lambda row: (row["study"], FAMILIES.get(row["model"])))
    expected = {(row["study"], row["epsilon"], row["model"]): row["expected_rmse"] for row in rows}
    for row in rows:
        same = "replacement" if row["model"] in REPORTS else "distributed"
        row["to_distributed"] = row["expected_rmse"] / expected[row["study"], row["epsilon"], same]
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(studies_of(rows)))
    for axes, name in zip(panels, studies_of(rows), strict=True):
        mine = group(rows, study=name)
        for model, (words, line) in LINES.items():
            style.line_and_points(axes, group(mine, model=model), "epsilon", words, line)
        nothing = group(mine, model="zero")[0]["expected_rmse"]
        dots = (0, (1, 3))
        axes.axhline(nothing, color=style.GREY, linewidth=1.2, linestyle=dots, label="answering 0")
        style.plain_log_axis(axes)
        axes.xaxis.set_major_locator(MultipleLocator(1))
        axes.set_xlabel("ε (δ = 1e-5)")
        axes.set_title(TITLES[name], loc="left")
    panels[0].set_ylabel("RMSE of an answer")
    style.legend_beside(figure, panels[0])
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    for name in studies_of(rows):
        at = ", ".join(f"{row['epsilon']:g}" for row in group(rows, study=name, model="central"))
        ratios = "; ".join(
            f"{MODELS[model]} {_listed(group(rows, study=name, model=model), 'to_distributed')}"
            for model in ("central", "replacement", *REPORTS)
        )
        yield f"{TITLES[name]}, expected RMSE to the distributed one at ε = {at}: {ratios}."
    yield (
        "Reports protect the replacement of a record; they are divided by the distributed error"
        " for the same neighbours, everything else by that for removal."
    )
    shuffled = group(rows, study=rows[0]["study"], model="shuffle")
    yield f"Shuffled reports may have ε₀ = {_listed(shuffled, 'report_epsilon')}."
    yield (
        "More than one message per participant would let the shuffle model match the distributed"
        " error, at other costs."
    )
    yield accuracy.largest_deviation(rows)


def _listed(rows: Sequence[Row], key: str) -> str:
    found = [significant(row[key], 3) for row in rows]
    return f"{found[0]} throughout" if len({*found}) == 1 else ", ".join(found)


ITEM = PaperItem(
    name="epsilon",
    title="RMSE against ε in four models (RQ3)",
    paper=(
        "A figure without printed numbers, logarithmic: 1,000 clients, θ = 0.05; distributed nearly"
        " matches central, local and shuffle are worse by an order of magnitude."
    ),
    needed=_needed,
    rows=_rows,
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

"""RQ3, first figure: RMSE against the corrupt fraction θ, for Adult and SF1.

The paper's mechanism has no allowance for dropouts: n(1−θ) honest shares, an error of the curator's
times 1/√(1−θ), and at θ = 0 the curator's. Ours reserves the n−1 shares that one participant does
not know, so it is 1/√(1−1/n) there. A round that is to survive dropouts, and one whose coordinator
may lie about survivors, have fewer certain shares and more noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from dhdmm.paper import accuracy, style
from dhdmm.paper.item import Column, PaperItem, Row, group
from dhdmm.paper.settings import MALICIOUS, MAX_DROPOUT, SEMI_HONEST, Settings
from dhdmm.paper.studies import TITLES
from dhdmm.paper.work import Results, Unit

CURVES: dict[str, dict[str, Any]] = {
    "no dropouts": {"max_dropout": 0.0, "threat_model": SEMI_HONEST},
    "5 % may drop out": {"max_dropout": MAX_DROPOUT, "threat_model": SEMI_HONEST},
    "5 % may drop out, malicious": {"max_dropout": MAX_DROPOUT, "threat_model": MALICIOUS},
}
LINES: dict[str, dict[str, Any]] = {
    "no dropouts": {"color": style.BLUE, "marker": "o", "linestyle": "-"},
    "5 % may drop out": {"color": style.SKY, "marker": "^", "linestyle": "--"},
    "5 % may drop out, malicious": {"color": style.VERMILLION, "marker": "s", "linestyle": ":"},
}


def _needed(settings: Settings) -> Iterator[tuple[Row, Unit]]:
    for name in settings.studies:
        yield {"study": name, "curve": "central"}, accuracy.model(settings, name, "central", 1.0)
        for curve, variation in CURVES.items():
            for theta in settings.thetas:
                unit = accuracy.distributed(settings, name, theta=theta, **variation)
                yield {"study": name, "curve": curve, "theta": theta}, unit


def _units(settings: Settings) -> Sequence[Unit]:
    return [unit for _, unit in _needed(settings)]


def _compute(settings: Settings, results: Results) -> list[Row]:
    found = []
    for labels, unit in _needed(settings):
        result = results[unit.name]
        known = {
            "participants": settings.accuracy_participants,
            "honest_floor": result.get("honest_floor"),
        }
        found.append((labels | known, result))
    rows = accuracy.points(found, lambda row: row["study"])
    curator = {row["study"]: row["expected_rmse"] for row in group(rows, curve="central")}
    for row in rows:
        row["to_central"] = row["expected_rmse"] / curator[row["study"]]
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    studies = list(dict.fromkeys(row["study"] for row in rows))
    figure, panels = style.panels(len(studies))
    for axes, name in zip(panels, studies, strict=True):
        mine = group(rows, study=name)
        curator = group(mine, curve="central")[0]["expected_rmse"]
        axes.axhline(curator, color=style.BLACK, linewidth=1.2, label="central (trusted curator)")
        for curve, line in LINES.items():
            points = group(mine, curve=curve)
            theta = [row["theta"] for row in points]
            expected = [row["expected_rmse"] for row in points]
            style.line_and_points(axes, theta, expected, points, curve, line)
        axes.set_ylim(bottom=0.85 * curator)
        axes.xaxis.set_major_locator(MultipleLocator(0.1))
        axes.set_xlabel("corrupt fraction θ")
        axes.set_title(TITLES[name], loc="left")
    panels[0].set_ylabel("RMSE of an answer (ε = 1)")
    panels[0].legend(frameon=False, loc="lower right", fontsize="small")
    return figure


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    sentences = []
    for name in dict.fromkeys(row["study"] for row in rows):
        mine = group(rows, study=name, curve="no dropouts")
        at_zero, last = mine[0], mine[-1]
        n = at_zero["participants"]
        sentences.append(
            f"{TITLES[name]}: at θ = 0 the error is {at_zero['to_central']:.5f} times the"
            f" curator's, and 1/√(1 − 1/n) is {1 / math.sqrt(1 - 1 / n):.5f}; at θ ="
            f" {last['theta']:g} it is {last['to_central']:.4f} times, and 1/√(1 − θ) is"
            f" {1 / math.sqrt(1 - last['theta']):.4f}."
        )
    return [*sentences, accuracy.largest_deviation(rows)]


ITEM = PaperItem(
    name="theta",
    title="RMSE against the corrupt fraction (RQ3)",
    paper=(
        "A figure without printed numbers: 1,000 clients, ε = 1; the error equals the central"
        " model's at θ = 0 and grows slowly with θ."
    ),
    units=_units,
    compute=_compute,
    columns=(
        Column("study", "study"),
        Column("curve", "curve"),
        Column("theta", "θ", 2),
        Column("honest_floor", "certain shares"),
        Column("expected_rmse", "RMSE, expected", 4),
        Column("rmse", "RMSE, sampled", 4),
        Column("standard_error", "±", 2),
        Column("to_central", "to central", 4),
    ),
    draw=_draw,
    remarks=_remarks,
)

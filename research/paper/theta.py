"""RQ3, first figure: RMSE against the corrupt fraction θ, for Adult and SF1.

The paper's mechanism has no allowance for dropouts: n(1−θ) honest shares, an error of the curator's
times 1/√(1−θ), and at θ = 0 the curator's. Ours reserves the n−1 shares that one participant does
not know, so it is 1/√(1−1/n) there. A round that is to survive dropouts, and one whose coordinator
may lie about survivors, have fewer certain shares and more noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from research.paper import accuracy, style
from research.paper.item import Column, Found, Needed, PaperItem, Row, group, studies_of
from research.paper.settings import MALICIOUS, MAX_DROPOUT, SEMI_HONEST, Settings
from research.paper.studies import TITLES

CURVES: dict[str, tuple[float, str, style.Keywords]] = {
    "no dropouts": (0.0, SEMI_HONEST, style.line(style.BLUE, "o", "-")),
    "5% may drop out": (MAX_DROPOUT, SEMI_HONEST, style.line(style.SKY, "^", "--")),
    "5% may drop out, malicious": (
        MAX_DROPOUT,
        MALICIOUS,
        style.line(style.VERMILLION, "s", ":"),
    ),
}
"""The dropout that a round is planned to survive, its threat model, and its line."""


def _needed(settings: Settings) -> Iterator[Needed]:
    n = settings.accuracy_participants
    for name in settings.studies:
        central = accuracy.model(settings, name, "central", 1.0)
        yield {"study": name, "curve": "central", "participants": n}, [central]
        for curve, (dropout, model, _) in CURVES.items():
            for theta in settings.thetas:
                unit = accuracy.distributed(
                    settings, name, theta=theta, max_dropout=dropout, threat_model=model
                )
                yield {"study": name, "curve": curve, "theta": theta, "participants": n}, [unit]


def _rows(found: Found) -> list[Row]:
    labelled = [
        (labels | {"honest_floor": result.get("honest_floor")}, result)
        for labels, [result] in found
    ]
    rows = accuracy.points(labelled, lambda row: row["study"])
    curator = {row["study"]: row["expected_rmse"] for row in group(rows, curve="central")}
    for row in rows:
        row["to_central"] = row["expected_rmse"] / curator[row["study"]]
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(studies_of(rows)))
    for axes, name in zip(panels, studies_of(rows), strict=True):
        mine = group(rows, study=name)
        curator = group(mine, curve="central")[0]["expected_rmse"]
        axes.axhline(curator, color=style.BLACK, linewidth=1.2, label="central (trusted curator)")
        for curve, (*_, line) in CURVES.items():
            style.line_and_points(axes, group(mine, curve=curve), "theta", curve, line)
        axes.set_ylim(bottom=0.85 * curator)
        axes.xaxis.set_major_locator(MultipleLocator(0.1))
        axes.set_xlabel("corrupt fraction θ")
        axes.set_title(TITLES[name], loc="left")
    panels[0].set_ylabel("RMSE of an answer (ε = 1)")
    panels[0].legend(frameon=False, loc="lower right", fontsize="small")
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    for name in studies_of(rows):
        at_zero, *_, last = group(rows, study=name, curve="no dropouts")
        n = at_zero["participants"]
        yield (
            f"{TITLES[name]}: at θ = 0 the error is {at_zero['to_central']:.5f} times the"
            f" curator's, and 1/√(1 − 1/n) is {1 / math.sqrt(1 - 1 / n):.5f}; at θ ="
            f" {last['theta']:g} it is {last['to_central']:.4f} times, and 1/√(1 − θ) is"
            f" {1 / math.sqrt(1 - last['theta']):.4f}."
        )
    yield accuracy.largest_deviation(rows)


ITEM = PaperItem(
    name="theta",
    title="RMSE against the corrupt fraction (RQ3)",
    paper=(
        "A figure without printed numbers: 1,000 clients, ε = 1; the error equals the central"
        " model's at θ = 0 and grows slowly with θ."
    ),
    needed=_needed,
    rows=_rows,
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

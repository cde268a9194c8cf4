"""The demo's picture: answers with their intervals, the truth beside them, and whose error is what.

Drawn sideways, so that the words of a query stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dhdmm.release.release import Release
from dhdmm.release.tables import Table

ANSWER, TRUTH = "#0072B2", "#D55E00"  # distinguishable to the colour-blind
SHOWN = ("age and sex", "education", "hours worked")


def draw(
    release: Release,
    exact: Mapping[str, NDArray[np.float64]],
    errors: Mapping[str, float],
    costs: str,
    path: Path,
) -> None:
    """Three tables and, in the last panel, the errors by name.

    exact: the true counts of each table; errors: root mean squared errors; costs: a line of words.
    """
    figure = Figure(figsize=(11, 9.5), layout="constrained")
    *panels, last = figure.subplots(2, 2).ravel()
    for panel, name in zip(panels, SHOWN, strict=True):
        _draw_table(panel, release[name], exact[name])
    panels[0].legend(frameon=False, loc="lower right")
    _draw_errors(last, errors)
    promise = release.plan.promise
    figure.suptitle(
        f"{release.survivors} participants, ε = {promise.epsilon:.3g}, δ = {promise.delta:g};"
        f" bars are 95 % intervals\n{costs}",
        fontsize=11,
    )
    figure.savefig(path, dpi=130)


def _draw_table(panel: Axes, table: Table, truth: NDArray[np.float64]) -> None:
    place = np.arange(len(table))
    low, high = table.bounds()
    spread = np.array([table.values - low, high - table.values])
    panel.plot(truth, place, "o", ms=7, mfc="none", color=TRUTH, label="truth")
    panel.errorbar(
        table.values, place, xerr=spread, fmt="o", ms=3, color=ANSWER, capsize=2, label="answer"
    )
    labels = [", ".join(words) for words in zip(*table.varying().values(), strict=True)]
    panel.set_yticks(place, labels, fontsize=8)
    panel.invert_yaxis()
    _finish(panel, table.name, "people")


def _draw_errors(panel: Axes, errors: Mapping[str, float]) -> None:
    bars = panel.barh(list(errors), list(errors.values()), color=ANSWER, height=0.5)
    panel.bar_label(bars, fmt="%.1f", padding=4)
    panel.set_xscale("log")
    panel.set_xlim(1, 3 * max(errors.values()))
    panel.invert_yaxis()
    _finish(panel, "error of an answer", "people, root mean square, logarithmic")


def _finish(panel: Axes, title: str, unit: str) -> None:
    panel.set_title(title, loc="left", fontsize=11)
    panel.set_xlabel(unit)
    panel.grid(axis="x", alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)

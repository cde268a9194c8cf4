"""The demo's picture: every answer with its interval, the truth beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dhdmm.release.release import Release

ANSWER, TRUTH = "#0072B2", "#D55E00"  # distinguishable to the colour-blind


def draw(release: Release, exact: NDArray[np.float64], path: Path) -> None:
    """One panel a table: answers with 95 % intervals, the exact counts as open circles."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    start = 0
    for panel, table in zip(panels, release.values(), strict=False):
        truth = exact[start : start + len(table)]
        start += len(table)
        place = np.arange(len(table))
        low, high = table.bounds()
        spread = np.array([table.values - low, high - table.values])
        panel.errorbar(
            place, table.values, spread, fmt="o", ms=3.5, color=ANSWER, capsize=2, label="answer"
        )
        panel.plot(place, truth, "o", ms=8, mfc="none", color=TRUTH, label="truth")
        labels = [", ".join(words) for words in zip(*table.varying().values(), strict=True)]
        panel.set_xticks(place, labels, rotation=60, ha="right", fontsize=6.5)
        panel.set_title(table.name, loc="left", fontsize=11)
        panel.set_ylabel("people")
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    promise = release.plan.promise
    figure.suptitle(
        f"{release.plan.study.name}: {release.survivors} participants, ε = {promise.epsilon:.3g},"
        f" δ = {promise.delta:g}, bars are 95 % intervals",
        fontsize=12,
    )
    figure.savefig(path, dpi=130)

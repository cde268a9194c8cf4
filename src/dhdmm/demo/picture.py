"""The demo's picture: answers with their intervals beside the truth, and the errors of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.charts.page import page
from dhdmm.release.panels import rows_picture
from dhdmm.release.pictures import Bars, Panel
from dhdmm.release.release import Release

SHOWN = ("age and sex", "hours worked", "education")


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
    promise = release.plan.promise
    panels = [
        Panel(name, name, replace(rows_picture(release[name]), truth=exact[name])) for name in SHOWN
    ]
    compared = Bars(list(errors), np.round(list(errors.values()), 1), np.zeros(len(errors)))
    panels.append(Panel("errors", "error of an answer (root mean square)", compared))
    headline = f"{release.survivors} participants, ε = {promise.epsilon:.3g}, δ = {promise.delta:g}"
    small_print = "whiskers: 95 % confidence intervals, each answer by itself; rings: the truth"
    page(headline, panels, [small_print, costs]).save(path)

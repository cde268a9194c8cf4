"""`release.plot()`: which tables to draw, and one page for them all."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dhdmm.release.panels import draw, plain
from dhdmm.release.pictures import Panel, item_panel, panels_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dhdmm.release.release import Release

MOST_PANELS = 6
PANEL_SIZE = (5.6, 4.0)  # inches
DOTS_PER_INCH = 130


def plot(release: Release, item: str | None = None, path: str | Path | None = None) -> Figure:
    """The tables of the release, or of one item, on one page; no global state of matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    found = _panels(release, item)
    shown, others = found[:MOST_PANELS], found[MOST_PANELS:]
    across = math.ceil(math.sqrt(len(shown)))
    down = math.ceil(len(shown) / across)
    size = max(PANEL_SIZE[0] * across, 7.5), PANEL_SIZE[1] * down + 0.8
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    for place, panel in enumerate(shown, start=1):
        axes = figure.add_subplot(down, across, place)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, panel.picture)
        axes.set_title(plain(panel.title, 60), loc="left", fontsize="medium", pad=14)
    figure.suptitle(_headline(release), fontsize="large")
    figure.supxlabel(_small_print([panel.name for panel in others]), fontsize="small")
    if path is not None:
        with warnings.catch_warnings():
            # Letters that matplotlib's font lacks are drawn as boxes; the tables have them.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
            figure.savefig(path, dpi=DOTS_PER_INCH)
    return figure


def _headline(release: Release) -> str:
    facts = release.provenance()
    return (
        f"{plain(facts['study'], 40)}: ε = {facts['epsilon']:.3g}, δ = {facts['delta']:.1g},"
        f" {facts['survivors']:,} of {facts['participants']:,} participants"
    )


def _small_print(others: Sequence[str]) -> str:
    text = "error bars and bands: 95 % confidence intervals, each answer by itself"
    if others:
        names = ", ".join(plain(name, 24) for name in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        text += f"\nnot shown: {names}{more}"
    return text


def _panels(release: Release, item: str | None) -> list[Panel]:
    """One panel an item; one a term if there is a single item."""
    tables = list(release.values()) if item is None else [release[item]]
    return panels_of(tables[0]) if len(tables) == 1 else [item_panel(table) for table in tables]

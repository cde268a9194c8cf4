"""Pictures: the right kind for each table, its intervals in it, nothing global touched."""

from __future__ import annotations

import io
import json
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import LineCollection

from dhdmm.errors import DhdmmError
from dhdmm.release.release import Release
from tests.release.releases import release_of, study_of


@pytest.fixture(scope="module")
def release() -> Release:
    return release_of()


def kind(axes) -> str:
    if axes.images:
        return "heat"
    if axes.patches:
        return "bars"
    return "points" if any(isinstance(c, LineCollection) for c in axes.collections) else "lines"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("everyone", ["bars"]),
        ("parts", ["bars", "bars", "lines", "bars"]),
        ("crossed", ["heat"]),
        ("adults", ["bars"]),
        ("coupled", ["bars"]),
        ("prefixes", ["lines"]),
        ("intervals", ["heat"]),
        ("spread", ["bars"]),
    ],
)
def test_every_table_is_drawn_as_it_reads_best(release, item, expected):
    figure = release.plot(item)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [kind(axes) for axes in panels] == expected
    assert all(axes.get_title(loc="left").startswith(item) for axes in panels)


def test_many_unordered_categories_are_points():
    values = json.dumps([f"v{i}" for i in range(30)])
    release = release_of(study_of("  - {name: many, by: [sex]}", values))
    assert kind(release.plot().axes[0]) == "points"


def test_whiskers_of_bars_are_the_intervals(release):
    axes = release.plot("adults").axes[0]
    low, high = release["adults"].bounds()
    drawn = next(c for c in axes.collections if isinstance(c, LineCollection)).get_segments()
    assert np.array([segment[:, 0] for segment in drawn]) == pytest.approx(np.stack([low, high], 1))


def test_bands_of_lines_are_the_intervals(release):
    table = release["prefixes"]
    low, high = (bound.reshape(2, 30) for bound in table.bounds())
    bands = release.plot("prefixes").axes[0].collections
    for band, bottom, top in zip(bands, low, high, strict=True):
        heights = band.get_paths()[0].vertices[:, 1]
        assert set(np.round(np.concatenate([bottom, top]), 6)) <= set(np.round(heights, 6))


def test_no_axis_is_logarithmic(release):
    scales = {s for axes in release.plot().axes for s in (axes.get_xscale(), axes.get_yscale())}
    assert scales == {"linear"}


def test_the_page_names_study_cost_survivors_and_what_is_left_out(release):
    figure = release.plot()
    assert figure.get_suptitle() == "small: ε = 2, δ = 1e-05, 57 of 60 participants"
    assert len([axes for axes in figure.axes if axes.get_label() != "<colorbar>"]) == 6
    assert "not shown: prefixes, intervals, spread, cube" in figure.get_supxlabel()


def test_an_unknown_item_is_refused(release):
    with pytest.raises(DhdmmError, match="no table 'pears'"):
        release.plot("pears")


def test_labels_are_text_and_never_a_formula(tmp_path):
    """An unbalanced formula would make matplotlib fail, a balanced one would be typeset."""
    values = json.dumps(["$\\frac$", "a$b", "x^2$y$", "表", "two\nlines", "w" * 150])
    release = release_of(study_of("  - {name: 'cost in $ or $x$', by: [sex]}", values))
    figure = release.plot(path=tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    texts = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert texts[:2] == [r"\$\frac\$", r"a\$b"]
    assert all("\n" not in text and len(text) <= 32 for text in texts)


def test_plotting_leaves_pyplot_and_its_settings_alone(release, monkeypatch):
    def settings() -> dict[str, object]:
        """Without the backend: to look at it is to choose one."""
        return {
            name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"
        }

    before = settings()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it now fails
    release.plot(path=io.BytesIO())
    assert settings() == before

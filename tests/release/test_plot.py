"""Pictures in files: the right kind for each table, its intervals in it, all in one file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

import dhdmm
from dhdmm.errors import DhdmmError
from dhdmm.release.charts.page import Chart
from dhdmm.release.release import Release
from tests.release.drawings import SVG, marks, scale, told, words
from tests.release.releases import release_of, study_of


@pytest.fixture(scope="module")
def release() -> Release:
    return release_of()


def panels(chart: Chart) -> list[Element]:
    return fromstring(chart.to_svg()).findall(f"{SVG}svg")


def kind(panel: Element) -> str:
    names = {"cell": "heat", "bar": "bars", "band": "lines"}
    (found,) = (name for mark, name in names.items() if marks(panel, mark))
    return found


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
    chart = release.plot(item)
    assert [kind(panel) for panel in panels(chart)] == expected
    titles = [title.text for title in marks(fromstring(chart.to_svg()), "title")]
    assert len(titles) == len(expected)
    assert all(title.startswith(item) for title in titles)
    names = [panel.get("aria-label") for panel in panels(chart)]
    assert names == [f"Chart of {title}" for title in titles]


def test_many_unordered_categories_are_bars():
    values = json.dumps([f"v{i}" for i in range(30)])
    release = release_of(study_of("  - {name: many, by: [sex]}", values))
    assert [kind(panel) for panel in panels(release.plot())] == ["bars"]


def test_whiskers_of_bars_are_the_intervals(release):
    (panel,) = panels(release.plot("adults"))
    slope, start = scale(panel, "x")
    drawn = [re.findall(r"-?[\d.]+", mark.get("d"))[:4] for mark in marks(panel, "whisker")]
    ends = [[slope * float(path[i]) + start for path in drawn] for i in (0, 2)]
    bounds = np.array(release["adults"].bounds())
    assert np.array(ends) == pytest.approx(bounds, abs=0.02 * slope)
    assert told(marks(panel, "bar")) == release["adults"].values.tolist()


def test_bands_of_lines_are_the_intervals(release):
    low, high = (bound.reshape(2, 30) for bound in release["prefixes"].bounds())
    (panel,) = panels(release.plot("prefixes"))
    slope, start = scale(panel, "y")
    for band, bottom, top in zip(marks(panel, "band"), low, high, strict=True):
        places = [float(pair.split(",")[1]) for pair in band.get("points").split()]
        edges = slope * np.array(places) + start
        expected = np.concatenate([top, bottom[::-1]])
        assert edges == pytest.approx(expected, abs=0.02 * abs(slope))


def test_no_axis_of_counts_is_logarithmic(release):
    upright = {"lines": "y", "bars": "x"}
    for item in release:
        for panel in panels(release.plot(item)):
            if kind(panel) in upright:
                scale(panel, upright[kind(panel)])  # fails if ticks are not on a straight line


def test_the_page_names_study_cost_survivors_and_what_is_left_out(release):
    chart = release.plot()
    root = fromstring(chart.to_svg())
    headline = "small: ε = 2, δ = 1e-05, 57 of 60 participants"
    assert words(root)[0] == root.findtext(f"{SVG}title") == headline
    assert len(panels(chart)) == 6
    assert words(root)[-2:] == [
        "error bars and bands: 95 % confidence intervals, each answer by itself",
        "not shown: prefixes, intervals, spread, cube",
    ]


def test_panels_do_not_overlap_and_stay_on_the_page(release):
    root = fromstring(release.plot().to_svg())
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [
        [float(panel.get(name)) for name in ("x", "y", "width", "height")]
        for panel in root.findall(f"{SVG}svg")
    ]
    for i, (x, y, wide, high) in enumerate(boxes):
        assert x >= 0
        assert x + wide <= width
        assert y + high <= height
        for left, top, width_2, height_2 in boxes[:i]:
            beside = x >= left + width_2 or left >= x + wide
            assert beside or y >= top + height_2 or top >= y + high


def test_an_unknown_item_is_refused(release):
    with pytest.raises(DhdmmError, match="no table 'pears'"):
        release.plot("pears")


def test_a_picture_is_saved_as_it_is_shown(release, tmp_path):
    chart = release.plot("adults", path=tmp_path / "adults.SVG")
    saved = (tmp_path / "adults.SVG").read_text(encoding="utf-8")
    assert saved == chart.to_svg() == chart._repr_svg_() == chart._repr_html_()
    assert repr(chart) == "Chart()"


@pytest.mark.parametrize("name", ["answers.png", "answers.pdf", "answers", "svg"])
def test_another_format_is_refused_with_what_to_do(release, tmp_path, name):
    with pytest.raises(DhdmmError, match=r"does not end in \.svg") as refused:
        release.plot(path=tmp_path / name)
    assert refused.value.hint.startswith(f"save it as {Path(name).stem}.svg")
    assert list(tmp_path.iterdir()) == []


def test_labels_are_text_and_nothing_else(tmp_path):
    hostile = [
        "</text><script>alert(1)</script>",
        "a&b",
        "表",
        "two\nlines",
        "\u202eright",
        "w" * 150,
    ]
    release = release_of(study_of("  - {name: '<style>x</style>', by: [sex]}", json.dumps(hostile)))
    root = fromstring(release.plot().to_svg())
    assert {element.tag for element in root.iter()}.isdisjoint({f"{SVG}script", "script"})
    assert len(root.findall(f".//{SVG}style")) == 1
    labels = [mark.text for mark in marks(root, "label")][::2]
    assert labels[1:3] == ["a&b", "表"]
    assert all(text.isprintable() and len(text) <= 30 for text in labels)


def test_a_picture_needs_nothing_else_and_has_two_sets_of_colours(release):
    """Some programs that draw SVG know neither variables nor media queries: light comes first."""
    root = fromstring(release.plot().to_svg())
    style = root.findtext(f"{SVG}style")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    assert ".bar" in light
    assert ".bar" in dark
    assert "fill: #0b5f9c" in light
    assert "fill: #6fb1e8" in dark
    assert not re.search(r"var\(|url\(|@import|https?:", style)
    used = {name for element in root.iter() for name in element.get("class", "").split()}
    assert {name for name in used if f".{name}" not in style} <= {"label"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert attributes.isdisjoint({"href", "style", "onload"})


def test_only_the_paper_imports_matplotlib():
    source = Path(dhdmm.__file__).parent
    found = [path for path in source.rglob("*.py") if "matplotlib" in path.read_text("utf-8")]
    assert {path.relative_to(source).parts[0] for path in found} <= {"paper"}

"""Charts: what is drawn is what was answered, in attributes and in pixels."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, tostring

import numpy as np
import pytest

from dhdmm.release.charts.draw import FAINTEST, LARGEST_GRID, draw
from dhdmm.release.charts.svg import CHARACTER, WIDTH
from dhdmm.release.intervals import half_width
from dhdmm.release.pictures import (
    AxisDirection,
    Bars,
    Heat,
    Intervals,
    Lines,
    Picture,
    Points,
    panels_of,
)
from tests.release.drawings import marks, scale, told, words
from tests.release.releases import release_of

VALUES = np.array([120.0, -35.5, 0.0, 980.25, 64.0])
ERRORS = np.array([12.0, 11.0, 10.0, 13.0, 12.5])
LABELS = ["a", "b", "c", "d", "e"]
PIXEL = 0.02  # coordinates are written to a hundredth


def written(picture: Picture, name: str) -> str:
    return tostring(draw(picture, name), "unicode")


def test_bars_are_as_long_as_their_answers() -> None:
    svg = draw(Bars(LABELS, VALUES, ERRORS), "five")
    slope, start = scale(svg, "x")
    bars = marks(svg, "bar")
    ends = [
        float(bar.get("x")) + (float(bar.get("width")) if value > 0 else 0)
        for bar, value in zip(bars, VALUES, strict=True)
    ]
    assert told(bars) == VALUES.tolist()
    assert [slope * end + start for end in ends] == pytest.approx(VALUES, abs=slope * PIXEL)


def test_whiskers_are_the_intervals() -> None:
    svg = draw(Bars(LABELS, VALUES, ERRORS), "five")
    slope, start = scale(svg, "x")
    drawn = [re.findall(r"-?[\d.]+", mark.get("d"))[:4] for mark in marks(svg, "whisker")]
    low, high = ([slope * float(ends[i]) + start for ends in drawn] for i in (0, 2))
    reach = half_width(ERRORS)
    assert low == pytest.approx(VALUES - reach, abs=slope * PIXEL)
    assert high == pytest.approx(VALUES + reach, abs=slope * PIXEL)


def test_points_are_at_the_height_of_their_answers() -> None:
    svg = draw(Points(AxisDirection("place", LABELS), VALUES, ERRORS), "five")
    slope, start = scale(svg, "y")
    heights = [slope * float(mark.get("cy")) + start for mark in marks(svg, "point")]
    assert heights == pytest.approx(VALUES, abs=abs(slope) * PIXEL)


def test_lines_and_bands_go_through_their_answers() -> None:
    values, errors = np.stack([VALUES, VALUES[::-1]]), np.stack([ERRORS, ERRORS])
    svg = draw(Lines(AxisDirection("day", LABELS), ["first", "second"], values, errors), "two")
    slope, start = scale(svg, "y")
    lines = [mark for mark in marks(svg, "line") if mark.tag == "polyline"]
    for line, band, value, error in zip(lines, marks(svg, "band"), values, errors, strict=True):
        assert [float(text) for text in line.get("data-values").split()] == value.tolist()
        near = pytest.approx(value, abs=abs(slope) * PIXEL)
        assert _heights(line, slope, start) == near
        edges, reach = _heights(band, slope, start), half_width(error)
        assert edges[: len(value)] == pytest.approx(value + reach, abs=abs(slope) * PIXEL)
        assert edges[len(value) :][::-1] == pytest.approx(value - reach, abs=abs(slope) * PIXEL)


def _heights(mark: Element, slope: float, start: float) -> list[float]:
    return [slope * float(pair.split(",")[1]) + start for pair in mark.get("points").split()]


def test_a_heat_map_is_stronger_where_the_answer_is_larger_and_leaves_totals_out() -> None:
    values = np.array([[1.0, 5.0, 6.0], [9.0, 3.0, 12.0]])
    totals = np.array([[False, False, True], [False, False, True]])
    sides = AxisDirection("sex", ["F", "M"]), AxisDirection("ward", ["x", "y", "total"])
    svg = draw(Heat(*sides, values, np.ones((2, 3)), totals), "six")
    cells = marks(svg, "cell")
    assert told(cells) == [1.0, 5.0, 9.0, 3.0]
    assert told(marks(svg, "total")) == [6.0, 12.0]
    strength = [(float(cell.get("fill-opacity")) - FAINTEST) / (1 - FAINTEST) for cell in cells]
    assert [9 * share for share in strength] == pytest.approx([1.0, 5.0, 9.0, 3.0], abs=1e-3)
    rows = {float(cell.get("y")) for cell in cells}
    assert len(rows) == 2


def test_ranges_stand_where_they_begin_and_end() -> None:
    ends = AxisDirection("age", [str(i) for i in range(4)])
    low, high = np.array([0, 0, 2]), np.array([1, 4, 3])
    svg = draw(Intervals(ends, low, high, np.array([1.0, 10.0, 4.0]), np.ones(3)), "ranges")
    cells = {float(cell.get("data-value")): cell for cell in marks(svg, "cell")}
    assert set(cells) == {1.0, 10.0, 4.0}
    assert cells[1.0].get("x") == cells[10.0].get("x") != cells[4.0].get("x")
    assert float(cells[1.0].get("y")) < float(cells[4.0].get("y")) < float(cells[10.0].get("y"))


def test_a_huge_table_is_drawn_in_part_and_says_so() -> None:
    many = AxisDirection("code", [f"v{i}" for i in range(500)])
    values = np.ones((500, 500))
    svg = draw(Heat(many, many, values, values, np.zeros(values.shape, np.bool_)), "huge")
    assert len(marks(svg, "cell")) == LARGEST_GRID[0] * LARGEST_GRID[1]
    said = " ".join(words(svg))
    assert "the first 60 of 500 rows" in said
    assert "code (first 40 of 500)" in said


def test_many_points_are_drawn_in_part_and_say_so() -> None:
    many = AxisDirection("code", [f"v{i}" for i in range(1500)])
    svg = draw(Points(many, np.arange(1500.0), np.ones(1500)), "many")
    assert told(marks(svg, "point")) == list(range(200))
    assert "code (first 200 of 1,500)" in words(svg)


def test_the_key_of_lines_with_long_names_stays_inside() -> None:
    names = ["a very long name of a line that goes on and on"] * 4
    values = np.tile(VALUES, (4, 1))
    svg = draw(Lines(AxisDirection("day", LABELS), names, values, np.ones((4, 5))), "four")
    shown = [text for text in marks(svg, "label") if text.text.startswith("a very")]
    assert len(shown) == 4
    assert all(float(text.get("x")) + CHARACTER * len(text.text) <= WIDTH for text in shown)


def test_the_truth_is_a_ring_where_its_count_is() -> None:
    truth = np.array([130.0, -20.0, 5.0, 1500.0, 60.0])
    svg = draw(Bars(LABELS, VALUES, ERRORS, truth), "five")
    slope, start = scale(svg, "x")
    rings = marks(svg, "truth")
    assert told(rings) == truth.tolist()
    seen = [slope * float(ring.get("cx")) + start for ring in rings]
    assert seen == pytest.approx(truth, abs=slope * PIXEL)
    assert max(float(ring.get("cx")) for ring in rings) < WIDTH


def test_an_exact_number_has_neither_whisker_nor_error() -> None:
    svg = draw(Bars(["a", "b"], np.array([9.2, 135.5]), np.zeros(2)), "exact")
    assert marks(svg, "whisker") == []
    assert {"9.2", "135.5"} <= set(words(svg))


def test_every_table_of_a_release_has_a_chart() -> None:
    for table in release_of().values():
        for panel in panels_of(table):
            assert "<svg" in written(panel.picture, panel.title)


def test_answers_that_are_all_zero_are_drawn() -> None:
    svg = draw(Bars(["none"], np.zeros(1), np.zeros(1)), "zero")
    assert told(marks(svg, "bar")) == [0.0]


@pytest.mark.fault(37)
def test_labels_are_text_and_nothing_else() -> None:
    hostile = "<script>alert(1)</script>\"'&\u202e"
    drawn = written(Bars([hostile], VALUES[:1], ERRORS[:1]), hostile)
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "&lt;script&gt;" in drawn

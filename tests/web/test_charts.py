"""Charts: what is drawn is what was answered, in attributes and in pixels."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, tostring

import numpy as np
import pytest

from dhdmm.release.charts.draw import FAINTEST, draw, key
from dhdmm.release.charts.svg import CHARACTER, NARROW, WIDE
from dhdmm.release.intervals import half_width
from dhdmm.release.panels import MOST_COLUMNS, MOST_ROWS, panels_of
from dhdmm.release.pictures import AxisDirection, Bars, Heat, Lines, Picture, extremes, ranges_heat
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


def lines_of(values: np.ndarray, errors: np.ndarray, **changes) -> Lines:
    """(plots, lines, positions)"""
    reach = half_width(errors)
    limits = float((values - reach).min()), float((values + reach).max())
    plots, lines, _ = values.shape
    given = {
        "direction": AxisDirection("day", LABELS),
        "plots": [f"plot {i}" for i in range(plots)] if plots > 1 else [""],
        "names": [f"line {j}" for j in range(lines)],
    }
    return Lines(**(given | changes), values=values, errors=errors, limits=limits)


def heat_of(values: np.ndarray, errors: np.ndarray, totals: np.ndarray | None = None) -> Heat:
    rows, columns = values.shape
    totals = np.zeros(values.shape, np.bool_) if totals is None else totals
    down = AxisDirection("sex", [f"row {i}" for i in range(rows)])
    across = AxisDirection("ward", [f"column {j}" for j in range(columns)])
    return Heat(down, across, values, errors, totals, extremes(values, totals))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_lines_and_bands_go_through_their_answers(width: int) -> None:
    values, errors = np.stack([VALUES, VALUES[::-1]])[None], np.stack([ERRORS, ERRORS])[None]
    svg = draw(lines_of(values, errors), "two", width)
    slope, start = scale(svg, "y")
    lines = [mark for mark in marks(svg, "line") if mark.tag == "polyline"]
    drawn = zip(lines, marks(svg, "band"), values[0], errors[0], strict=True)
    for line, band, value, error in drawn:
        assert [float(text) for text in line.get("data-values").split()] == value.tolist()
        near = pytest.approx(value, abs=abs(slope) * PIXEL)
        assert _heights(line, slope, start) == near
        edges, reach = _heights(band, slope, start), half_width(error)
        assert edges[: len(value)] == pytest.approx(value + reach, abs=abs(slope) * PIXEL)
        assert edges[len(value) :][::-1] == pytest.approx(value - reach, abs=abs(slope) * PIXEL)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_small_plots_have_the_same_axis_and_all_their_answers(width: int) -> None:
    values = np.arange(50.0).reshape(5, 2, 5) * 10
    svg = draw(lines_of(values, np.full(values.shape, 4.0)), "ten", width)
    lines = [mark for mark in marks(svg, "line") if mark.tag == "polyline"]
    told_values = [[float(text) for text in line.get("data-values").split()] for line in lines]
    assert told_values == values.reshape(10, 5).tolist()
    pixels = [[float(pair.split(",")[1]) for pair in line.get("points").split()] for line in lines]
    rises = [ends[0] - ends[-1] for ends in pixels]
    assert rises == pytest.approx([rises[0]] * 10, abs=2 * PIXEL)
    assert {f"plot {i}" for i in range(5)} <= set(words(svg))


def test_what_is_missing_stands_apart_from_the_line() -> None:
    values = np.array([[[10.0, 20.0, 30.0, 40.0, 400.0]]])
    direction = AxisDirection("age", ["1", "2", "3", "4", "not known"], apart=1)
    picture = lines_of(values, np.ones(values.shape), direction=direction)
    svg = draw(picture, "ages")
    (line,) = (mark for mark in marks(svg, "line") if mark.tag == "polyline")
    assert [float(text) for text in line.get("data-values").split()] == [10, 20, 30, 40]
    assert told(marks(svg, "point")) == [400.0]
    places = [float(pair.split(",")[0]) for pair in line.get("points").split()]
    (beside,) = (float(point.get("cx")) for point in marks(svg, "point"))
    assert beside - places[-1] > places[-1] - places[-2] + 10
    assert "not known" in words(svg)
    assert "stands apart" in key(picture)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("plots", [1, 5])
def test_every_label_of_lines_is_on_the_drawing(width: int, plots: int) -> None:
    values = np.tile(VALUES, (plots, 2, 1))
    svg = draw(lines_of(values, np.ones(values.shape)), "lines", width)
    height = float(svg.get("viewBox").split()[-1])
    assert all(0 < float(mark.get("y")) < height for mark in svg.iter("text"))
    assert "day" in words(svg)


def test_an_axis_with_one_tick_names_its_other_end_too() -> None:
    days = [f"2025-01-{day:02}" for day in range(1, 32)]
    direction = AxisDirection("day", days, named=lambda _most: [0])
    values = np.arange(31.0).reshape(1, 1, 31)
    svg = draw(lines_of(values, np.ones(values.shape), direction=direction), "month", NARROW)
    named = [mark for mark in marks(svg, "tick") if mark.text in days]
    assert [mark.text for mark in named] == ["2025-01-01", "2025-01-31"]


def test_bars_that_stand_apart_are_after_a_gap() -> None:
    svg = draw(Bars(LABELS, VALUES, ERRORS, apart=2), "five")
    feet = np.array([float(bar.get("y")) for bar in marks(svg, "bar")])
    assert np.diff(feet).tolist() == [24, 24, 36, 24]


@pytest.mark.parametrize("high", [0.9, 1.0, 99.0, 101.0, 17_939.0])
def test_the_axis_goes_beyond_the_data(high: float) -> None:
    svg = draw(Bars(["a"], np.array([high]), np.zeros(1)), "one")
    (bar,) = marks(svg, "bar")
    last = max(float(tick.get("x")) for tick in svg.iter() if tick.get("data-tick"))
    assert float(bar.get("x")) + float(bar.get("width")) <= last + PIXEL


def _heights(mark: Element, slope: float, start: float) -> list[float]:
    return [slope * float(pair.split(",")[1]) + start for pair in mark.get("points").split()]


def test_a_heat_map_is_stronger_where_the_answer_is_larger_and_leaves_totals_out() -> None:
    values = np.array([[1.0, 5.0, 6.0], [9.0, 3.0, 12.0]])
    totals = np.array([[False, False, True], [False, False, True]])
    svg = draw(heat_of(values, np.ones((2, 3)), totals), "six")
    cells = marks(svg, "cell")
    assert told(cells) == [1.0, 5.0, 9.0, 3.0]
    assert told(marks(svg, "total")) == [6.0, 12.0]
    strength = [(float(cell.get("fill-opacity")) - FAINTEST) / (1 - FAINTEST) for cell in cells]
    assert [9 * share for share in strength] == pytest.approx([1.0, 5.0, 9.0, 3.0], abs=1e-3)
    rows = {float(cell.get("y")) for cell in cells}
    assert len(rows) == 2


def test_a_heat_map_has_a_scale_of_its_colours() -> None:
    svg = draw(heat_of(np.array([[0.0, 50.0, 100.0]]), np.ones((1, 3))), "three")
    patches = [float(patch.get("fill-opacity")) for patch in marks(svg, "patch")]
    assert patches == sorted(patches)
    assert (patches[0], patches[-1]) == (FAINTEST, 1.0)
    scale_row = max(float(mark.get("y")) for mark in marks(svg, "tick"))
    named = [mark.text for mark in marks(svg, "tick") if float(mark.get("y")) == scale_row]
    assert named == ["0", "50", "100"]


def test_cells_whose_interval_contains_zero_are_marked() -> None:
    values, errors = np.array([[19.0, 20.0, -5.0, -40.0]]), np.full((1, 4), 10.0)
    svg = draw(heat_of(values, errors), "four")
    cells, dots = marks(svg, "cell"), marks(svg, "dot")
    ends = [float(cell.get("x")) + float(cell.get("width")) for cell in cells]
    marked = {round(float(dot.get("cx")) + 5, 2) for dot in dots}
    assert [end in marked for end in ends] == [True, False, True, False]


def test_what_stands_behind_plus_minus_is_the_interval_that_is_drawn() -> None:
    """1.96 standard errors, in labels as in whiskers."""
    bars = draw(Bars(["a"], np.array([1000.0]), np.array([100.0])), "one")
    heat = draw(heat_of(np.array([[1000.0]]), np.array([[100.0]])), "one")
    assert "1,000 ± 196" in words(bars)
    assert "1,000 ± 196" in words(heat)


def test_ranges_stand_where_they_begin_and_end() -> None:
    ends = AxisDirection("age", [str(i) for i in range(4)])
    low, high = np.array([0, 0, 2]), np.array([1, 4, 3])
    svg = draw(ranges_heat(ends, low, high, np.array([1.0, 10.0, 4.0]), np.ones(3)), "ranges")
    cells = {float(cell.get("data-value")): cell for cell in marks(svg, "cell")}
    assert set(cells) == {1.0, 10.0, 4.0}
    assert cells[1.0].get("x") == cells[10.0].get("x") != cells[4.0].get("x")
    assert float(cells[1.0].get("y")) < float(cells[4.0].get("y")) < float(cells[10.0].get("y"))


MANY = f"""
study: many
schema:
  ward: {{type: category, values: [{", ".join(f"ward {i}" for i in range(90))}]}}
  sex: {{type: category, values: [F, M]}}
  day: {{type: integer, range: [1, 12]}}
workload:
  - {{name: crossed, by: [ward, sex]}}
  - {{name: daily, by: [ward, sex, day]}}
  - {{name: wards, by: [ward]}}
"""


@pytest.mark.parametrize("name", ["crossed", "daily", "wards"])
def test_a_large_table_is_drawn_in_parts_that_hold_every_answer(name: str) -> None:
    release = release_of(MANY)
    seen = []
    panels = panels_of(release[name])
    assert len(panels) > 1
    for number, panel in enumerate(panels, 1):
        assert panel.title.endswith(f", part {number} of {len(panels)}")
        svg = draw(panel.picture, name)
        seen += told(marks(svg, "cell") + marks(svg, "bar"))
        for line in (mark for mark in marks(svg, "line") if mark.tag == "polyline"):
            seen += [float(text) for text in line.get("data-values").split()]
    assert sorted(seen) == sorted(release[name].values.tolist())


def test_parts_of_a_heat_map_have_one_scale() -> None:
    pictures = [panel.picture for panel in panels_of(release_of(MANY)["crossed"])]
    assert all(isinstance(picture, Heat) for picture in pictures)
    assert len({picture.limits for picture in pictures}) == 1
    assert max(len(picture.down) for picture in pictures) <= MOST_ROWS
    assert max(len(picture.across) for picture in pictures) <= MOST_COLUMNS


def test_the_key_of_lines_with_long_names_stays_inside() -> None:
    names = ["a very long name of a line that goes on and on"] * 4
    values = np.tile(VALUES, (1, 4, 1))
    svg = draw(lines_of(values, np.ones((1, 4, 5)), names=names), "four")
    shown = [text for text in marks(svg, "label") if text.text.startswith("a very")]
    assert len(shown) == 4
    assert all(float(text.get("x")) + CHARACTER * len(text.text) <= WIDE for text in shown)


def test_the_truth_is_a_ring_where_its_count_is() -> None:
    truth = np.array([130.0, -20.0, 5.0, 1500.0, 60.0])
    svg = draw(Bars(LABELS, VALUES, ERRORS, truth), "five")
    slope, start = scale(svg, "x")
    rings = marks(svg, "truth")
    assert told(rings) == truth.tolist()
    seen = [slope * float(ring.get("cx")) + start for ring in rings]
    assert seen == pytest.approx(truth, abs=slope * PIXEL)
    assert max(float(ring.get("cx")) for ring in rings) < WIDE


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

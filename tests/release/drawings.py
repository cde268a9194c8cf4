"""Reading an SVG chart back: its marks, and what its own axis says about pixels."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import numpy as np
import pytest

SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: Element, kind: str) -> list[Element]:
    return [mark for mark in svg.iter() if kind in mark.get("class", "").split()]


def told(found: list[Element]) -> list[float]:
    return [float(mark.get("data-value")) for mark in found]


def words(svg: Element) -> list[str]:
    return [mark.text for mark in svg.iter() if mark.tag.endswith("text")]


def scale(svg: Element, axis: str) -> tuple[float, float]:
    """Counts a pixel, and the count at pixel 0, from the axis that the chart itself has."""
    ticks = [mark for mark in svg.iter() if mark.get("data-tick")]
    counts = [float(tick.text.replace("−", "-").replace(",", "")) for tick in ticks]
    assert counts == pytest.approx([float(tick.get("data-tick")) for tick in ticks])
    shift = -4 if axis == "y" else 0  # a label's baseline is under the middle of its line
    places = [float(tick.get(axis)) + shift for tick in ticks]
    slope, start = np.polyfit(places, counts, 1)
    straight = slope * np.array(places) + start
    assert straight == pytest.approx(counts, abs=0.02 * abs(slope)), "no linear axis"
    return slope, start

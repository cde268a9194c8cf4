"""The elements of a drawing, and the numbers and labels written into it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from dhdmm.release.wording import decimals, number, printable

WIDTH = 640
CHARACTER = 7.2
"""How wide a character of the style sheet's 12 pixels is, roughly; labels are given room by it."""
LABEL_CHARACTERS = 26


def canvas(height: float, name: str) -> Element:
    return Element(
        "svg",
        {"viewBox": f"0 0 {WIDTH} {length(height)}", "role": "img", "aria-label": printable(name)},
    )


def line(svg: Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
    ends = dict(zip(("x1", "y1", "x2", "y2"), map(length, (x1, y1, x2, y2)), strict=True))
    SubElement(svg, "line", {"class": kind} | ends)


def rectangle(svg: Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> Element:
    box = {"x": min(x1, x2), "y": min(y1, y2), "width": abs(x2 - x1), "height": abs(y2 - y1)}
    return SubElement(svg, "rect", {"class": kind} | {k: length(v) for k, v in box.items()})


def whisker(svg: Element, ends: Sequence[tuple[float, float]]) -> None:
    """A line with a short bar across each of its ends."""
    (x1, y1), (x2, y2) = ends
    dx, dy = (0, 4) if y1 == y2 else (4, 0)
    caps = "".join(f"M{length(x - dx)} {length(y - dy)}l{2 * dx} {2 * dy}" for x, y in ends)
    stem = f"M{length(x1)} {length(y1)}L{length(x2)} {length(y2)}"
    SubElement(svg, "path", {"class": "whisker", "d": stem + caps})


def text(
    svg: Element,
    x: float,
    y: float,
    words: str,
    kind: str,
    anchor: str = "start",
    value: float | None = None,
) -> None:
    made = SubElement(
        svg, "text", {"class": kind, "x": length(x), "y": length(y), "text-anchor": anchor}
    )
    if value is not None:
        made.set("data-tick", repr(value))
    made.text = words


def tell(mark: Element, value: float, error: float, words: str) -> None:
    mark.set("data-value", repr(float(value)))
    mark.set("data-error", repr(float(error)))
    title(mark, words)


def title(mark: Element, words: str) -> None:
    SubElement(mark, "title").text = words


def points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{length(x)},{length(y)}" for x, y in places)


def length(pixels: float) -> str:
    return f"{pixels:.2f}".rstrip("0").rstrip(".")


def count(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def with_error(value: float, error: float) -> str:
    places = decimals(error)
    return f"{number(value, places)} ± {number(error, places)}"


def short(text: str, width: int = LABEL_CHARACTERS) -> str:
    return printable(text, width)

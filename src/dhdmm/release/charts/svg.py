"""The elements of a drawing, and the numbers and labels written into it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from dhdmm.release.wording import decimals, number, printable

WIDE, NARROW = 640, 340
"""The widths of charts in their own pixels: on a sheet or a screen, and on a phone."""
CHARACTER = 7.2
"""How wide a character of the style sheet's 12 pixels is, roughly; labels are given room by it."""
LABEL_CHARACTERS = 30


@dataclass(frozen=True)
class Drawing:
    """An `svg` element to draw into. `kind` is a mark's class in the style sheet."""

    root: Element
    width: float = WIDE

    @classmethod
    def of(cls, width: float, height: float, name: str) -> Drawing:
        """An empty one; `name` is what a screen reader calls it."""
        box = {"viewBox": f"0 0 {length(width)} {length(height)}", "aria-label": printable(name)}
        return cls(Element("svg", box | {"role": "img"}), width)

    def mark(self, tag: str, kind: str, **attributes: float | str) -> Element:
        """A new element; numbers are lengths."""
        written = {k: v if isinstance(v, str) else length(v) for k, v in attributes.items()}
        return SubElement(self.root, tag, {"class": kind} | written)

    def line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self.mark("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def rectangle(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> Element:
        x, y, width, height = min(x1, x2), min(y1, y2), abs(x2 - x1), abs(y2 - y1)
        return self.mark("rect", kind, x=x, y=y, width=width, height=height)

    def whisker(self, *ends: tuple[float, float]) -> None:
        """A line with a short bar across each of its ends."""
        (x1, y1), (x2, y2) = ends
        dx, dy = (0, 4) if y1 == y2 else (4, 0)
        caps = "".join(f"M{length(x - dx)} {length(y - dy)}l{2 * dx} {2 * dy}" for x, y in ends)
        stem = f"M{length(x1)} {length(y1)}L{length(x2)} {length(y2)}"
        self.mark("path", "whisker", d=stem + caps)

    def text(self, x: float, y: float, words: str, kind: str, anchor: str = "start") -> Element:
        made = self.mark("text", kind, x=x, y=y)
        made.set("text-anchor", anchor)
        made.text = printable(words)
        return made

    def tick(self, x: float, y: float, value: float, anchor: str) -> None:
        """A number on an axis."""
        self.text(x, y, count(value), "tick", anchor).set("data-tick", repr(value))


def tell(shape: Element, value: float, error: float, words: str) -> None:
    """What the shape stands for: for programs, and for whoever points at it."""
    shape.set("data-value", repr(float(value)))
    shape.set("data-error", repr(float(error)))
    title(shape, words)


def title(shape: Element, words: str) -> None:
    SubElement(shape, "title").text = printable(words)


def points(across: Iterable[float], down: Iterable[float]) -> str:
    return " ".join(f"{length(x)},{length(y)}" for x, y in zip(across, down, strict=True))


def length(pixels: float) -> str:
    return f"{pixels:.2f}".rstrip("0").rstrip(".")


def count(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def with_reach(value: float, reach: float, places: int) -> str:
    """`1,234 ± 63`, the answer and half of its interval; a number without error stands alone.

    >>> with_reach(1234.4, 62.9, 0), with_reach(11.9, 0.0, 0)
    ('1,234 ± 63', '11.9')
    """
    return f"{number(value, places)} ± {number(reach, places)}" if reach else count(value)


def answer(value: float, error: float, reach: float) -> str:
    """The same, rounded by its own standard error."""
    return with_reach(value, reach, decimals(error))


def short(words: str, width: int = LABEL_CHARACTERS) -> str:
    return printable(words, width)


def room(pixels: float) -> int:
    """Characters that have room there; one at least."""
    return max(int(pixels / CHARACTER), 1)

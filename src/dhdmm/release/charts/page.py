"""`release.plot()`: several charts on one page, as an SVG file that needs nothing else."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

from dhdmm.errors import DhdmmError
from dhdmm.release.charts.draw import draw, key
from dhdmm.release.charts.svg import WIDE, Drawing, length, title
from dhdmm.release.panels import item_panel, panels_of
from dhdmm.release.pictures import Heat, Panel
from dhdmm.release.wording import printable

if TYPE_CHECKING:
    from dhdmm.release.release import Release

MOST_PANELS = 6
ACROSS = 2
MARGIN, LEADING = 24, 22
"""Around everything, and from one line of text to the next."""
STYLE = Path(__file__).with_name("chart.css")
COLOUR = re.compile(r"--([a-z0-9-]+): (#[0-9a-f]{6});")


@dataclass(frozen=True)
class Chart:
    """A picture in SVG, for light and dark screens. Notebooks show it; `save` writes a file."""

    svg: str = field(repr=False)

    def to_svg(self) -> str:
        """Give the picture as text.

        Returns:
            A whole SVG document.
        """
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to a file.

        Args:
            path: Where to; the name ends in .svg.

        Raises:
            DhdmmError: The name ends otherwise.
        """
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise DhdmmError(
                "charts are SVG, and the file's name does not end in .svg",
                where=str(path),
                hint=f"save it as {path.stem}.svg; browsers and Inkscape export it as PNG or PDF",
            )
        path.write_bytes(self.svg.encode())

    def _repr_svg_(self) -> str:
        return self.svg

    _repr_html_ = _repr_svg_


def plot(release: Release, item: str | None = None, path: str | Path | None = None) -> Chart:
    """The release's tables, a panel each, or one item, a panel per term; `path` saves the page."""
    tables = list(release.values()) if item is None else [release[item]]
    found = panels_of(tables[0]) if len(tables) == 1 else [item_panel(table) for table in tables]
    facts = release.provenance()
    headline = (
        f"{printable(facts['study'], 40)}: ε = {facts['epsilon']:.3g}, δ = {facts['delta']:.1g},"
        f" {facts['survivors']:,} of {facts['participants']:,} participants"
    )
    small_print = ["error bars and bands: 95 % confidence intervals, each answer by itself"]
    if others := found[MOST_PANELS:]:
        names = ", ".join(printable(panel.name, 24) for panel in others[:4])
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        small_print.append(f"not shown: {names}{more}")
    made = page(headline, found[:MOST_PANELS], small_print)
    if path is not None:
        made.save(path)
    return made


def page(headline: str, panels: Sequence[Panel], small_print: Sequence[str]) -> Chart:
    """The panels under the headline, each in the shorter column; the small print below them."""
    across = min(len(panels), ACROSS)
    width = across * (WIDE + MARGIN) + MARGIN
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "chart"})
    title(root, headline)
    SubElement(root, "style").text = _style()
    Drawing(root).mark("rect", "page", width="100%", height="100%")
    ends = [_write(root, MARGIN, headline, "headline", width // 9)] * across
    for panel in panels:
        column = ends.index(min(ends))
        x = MARGIN + column * (WIDE + MARGIN)
        ends[column] = _place(root, panel, x, ends[column] + MARGIN)
    bottom = max(ends)
    for said in small_print:
        bottom = _write(root, bottom, said, "axis-name", width // 7)
    height = length(bottom + MARGIN)
    root.attrib |= {"width": f"{width}", "height": height, "viewBox": f"0 0 {width} {height}"}
    return Chart(tostring(root, encoding="unicode"))


def _place(root: Element, panel: Panel, x: float, y: float) -> float:
    """Draw the panel here, its title above it; where it ends."""
    y = _write(root, y, printable(panel.title, 76), "title", WIDE, x)
    if isinstance(panel.picture, Heat):
        y = _write(root, y, key(panel.picture), "axis-name", WIDE // 7, x)
    drawn = draw(panel.picture, f"Chart of {panel.title}")
    height = drawn.get("viewBox", "").split()[-1]
    drawn.attrib |= {"x": length(x), "y": length(y + 12), "width": str(WIDE), "height": height}
    root.append(drawn)
    return y + 12 + float(height)


def _write(
    root: Element, y: float, words: str, kind: str, characters: int, x: float = MARGIN
) -> float:
    """The words in lines of so many characters; where the last one stands."""
    for said in textwrap.wrap(words, characters):
        y += LEADING
        Drawing(root).text(x, y, said, kind)
    return y


@cache
def _style() -> str:
    """The style sheet with its colours filled in, as some programs know no variables."""
    sheet = STYLE.read_text(encoding="utf-8")
    colours, _, rules = sheet.partition("/* ---- marks ---- */\n\n")
    light, dark = (dict(COLOUR.findall(block)) for block in colours.split("@media"))

    def filled(colours: dict[str, str]) -> str:
        return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: colours[found[1]], rules)

    return f"{filled(light)}@media (prefers-color-scheme: dark) {{\n{filled(light | dark)}}}"

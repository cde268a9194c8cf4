"""State diagrams of the documentation become inline pictures when the site is built.

The theme would load a script from another host to draw them in the reader's browser. Ours are
chains of states, which need little: boxes below each other, an arrow to the next one, a loop on the
right of a state that stays, and an arc on the left for every other step.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from html import escape
from typing import Any

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"(\w+) --> (\w+)(?:: (.+))?")

LEFT, WIDTH, HEIGHT, PITCH = 60, 210, 32, 72
"""A box's left edge, its size, and how far the next one is below it."""
PICTURE_WIDTH = 520
MIDDLE, RIGHT = LEFT + WIDTH // 2, LEFT + WIDTH

STYLE = (
    'style="max-width:100%" fill="none" stroke="currentColor"'
    ' font-family="inherit" font-size="14" role="img"'
)
TIP = (
    '<defs><marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
    ' orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor" stroke="none"/></marker></defs>'
)


@dataclass(frozen=True)
class Step:
    """From one state to another, and what causes it."""

    source: str
    target: str
    cause: str


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return FENCE.sub(lambda fence: f"<figure>{picture(steps(fence[1]))}</figure>", markdown)


def steps(text: str) -> list[Step]:
    """The lines `a --> b: cause` of a state diagram; anything else is an error."""
    kind, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [STEP.fullmatch(line) for line in lines]
    if kind != "stateDiagram-v2" or None in found:
        raise ValueError(f"only state diagrams with lines 'a --> b: cause' are drawn, not:\n{text}")
    return [Step(step[1], step[2], step[3] or "") for step in found if step]


def picture(diagram: list[Step]) -> str:
    """The diagram as SVG, in the colour of the text around it."""
    states = list(dict.fromkeys(state for step in diagram for state in (step.source, step.target)))
    height = PITCH * (len(states) - 1) + HEIGHT + 4
    words = escape("; ".join(f"{s.source} to {s.target}: {s.cause}" for s in diagram))
    tip = f"tip-{zlib.crc32(words.encode())}"  # a page's diagrams must not share a name
    boxes = [_box(state, row) for row, state in enumerate(states)]
    arrows = [_arrow(states.index(s.source), states.index(s.target), s.cause) for s in diagram]
    return (
        f'<svg viewBox="0 0 {PICTURE_WIDTH} {height}" width="{PICTURE_WIDTH}" {STYLE}>'
        f"<title>{words}</title>{TIP.format(name=tip)}{''.join(boxes)}"
        f'<g marker-end="url(#{tip})">{"".join(arrows)}</g></svg>'
    )


def _box(state: str, row: int) -> str:
    top = 2 + PITCH * row
    return f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>' + _text(
        MIDDLE, top + 21, state.replace("_", " "), "middle"
    )


def _arrow(source: int, target: int, cause: str) -> str:
    top = 2 + PITCH * source
    middle = top + HEIGHT // 2
    if target == source:
        loop = f'<path d="M{RIGHT} {middle - 8}c34 -8 34 24 0 16"/>'
        return loop + _text(RIGHT + 36, middle + 5, cause, "start")
    if target == source + 1:
        down = f'<path d="M{MIDDLE} {top + HEIGHT}V{top + PITCH}"/>'
        return down + _text(MIDDLE + 10, top + HEIGHT + 25, cause, "start")
    end = 2 + PITCH * target + HEIGHT // 2
    arc = f'<path d="M{LEFT} {middle}C{LEFT - 50} {middle} {LEFT - 50} {end} {LEFT} {end}"/>'
    return arc + _text(4, (middle + end) // 2, cause, "start")


def _text(x: int, y: int, words: str, anchor: str) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor" stroke="none">'
        f"{escape(words)}</text>"
    )

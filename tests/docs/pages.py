"""The blocks of a page: a comment on the line before the fence says what each one is for.

<!-- run -->                       a block of sh or python, run as it stands
<!-- run, long -->                 the same, by `make soak` only
<!-- not run: why -->              sh or python that no test runs
<!-- output -->                    what the block before it prints
<!-- output, other numbers -->     the same, but for its numbers and the widths of its columns
<!-- study -->                     a whole study file
<!-- part of a study -->           keys that replace those of the page's last whole study file, or
                                   of the hospitals' if it has none
<!-- refused -->                   such keys, refused with the message in the next output
<!-- checked: FILE::TEST -->       a formula, diagram or example that this test computes or runs
<!-- drawing -->                   a picture made of characters

A block without a mark, or indented instead of fenced, is a mistake.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import markdown

PROJECT = Path(__file__).parents[2]
MARKS = {
    "run",
    "run, long",
    "not run",
    "output",
    "output, other numbers",
    "study",
    "part of a study",
    "refused",
    "checked",
    "drawing",
}
WITH_REASON = {"not run", "checked"}
FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
MARK = re.compile(r"<!-- ([^:\n]+?)(?:: ([^\n]+))? -->\s*\Z")
PREFORMATTED = re.compile(r"<pre><code>(.*?)</code></pre>", re.DOTALL)
NUMBER = re.compile(r"\b[0-9a-f]{16,}\b|[-−]?\d[\d,]*(\.\d+)?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`dhdmm ([a-z][^`\n]*)`")


@dataclass(frozen=True)
class Block:
    """One fenced block; `start` and `end` are its fences' places in the page."""

    mark: str
    language: str
    text: str
    page: str
    line: int
    reason: str = ""
    start: int = 0
    end: int = 0

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page that a reader may follow."""
    return [
        *sorted(PROJECT.glob("*.md")),
        *sorted((PROJECT / "docs").rglob("*.md")),
        *sorted((PROJECT / "examples").rglob("*.md")),
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [_block(text, found, name_of(page)) for found in FENCED.finditer(text)]


def _block(text: str, found: re.Match[str], page: str) -> Block:
    mark = MARK.search(text, 0, found.start())
    return Block(
        mark=mark[1] if mark else "",
        language=found["language"],
        text=dedent(found["text"]),
        page=page,
        line=text.count("\n", 0, found.start()) + 1,
        reason=(mark[2] or "") if mark else "",
        start=found.start(),
        end=found.end(),
    )


def indented(page: Path) -> list[str]:
    """Places of blocks that are indented instead of fenced, which no mark could be given to."""
    text = page.read_text(encoding="utf-8")
    rendered = markdown.markdown(FENCED.sub("", text), extensions=["admonition", "tables"])
    firsts = [html.unescape(block).splitlines()[0] for block in PREFORMATTED.findall(rendered)]
    places = [text.index(f"\n    {line}") + 1 for line in firsts]
    return [f"{name_of(page)}:{text.count(chr(10), 0, place) + 1}" for place in places]


def links(page: Path) -> list[str]:
    """Targets of the page's links, outside code."""
    return LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))


def commands(page: Path) -> list[list[str]]:
    """Commands that the running text names: their words without `dhdmm`."""
    return [found.split() for found in COMMAND.findall(page.read_text(encoding="utf-8"))]


def lines(output: str) -> list[str]:
    """Printed lines without the spaces that fill them up."""
    return [line.rstrip() for line in output.strip("\n").splitlines()]


def shape(output: str) -> str:
    """The words of an output: numbers are all alike, runs of spaces and rules are one."""
    return re.sub(r"[\s─━]+", " ", NUMBER.sub("#", output)).strip()

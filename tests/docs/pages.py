"""The blocks of a page that are marked: a comment on the line before the fence says what it is for.

<!-- run -->                       a block of sh or python, run as it stands
<!-- run, long -->                 the same, by `make soak` only
<!-- not run: why -->              sh or python that no test runs
<!-- output -->                    what the block before it prints
<!-- output, other numbers -->     the same, but for its numbers and the widths of its columns
<!-- study -->                     a whole study file
<!-- part of a study -->           keys that replace those of the page's last whole study file
<!-- refused -->                   such keys, refused with the message in the next output
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
MARKS = (
    "run",
    "run, long",
    "not run",
    "output",
    "output, other numbers",
    "study",
    "part of a study",
    "refused",
)
MARKED = re.compile(
    r"^<!-- ([^:\n]+?)(?:: [^\n]+)? -->\n+```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
RUNNABLE = re.compile(r"^```(?:sh|python)\n", re.MULTILINE)
NUMBER = re.compile(r"\b[0-9a-f]{16,}\b|[-−]?\d[\d,]*(\.\d+)?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One marked block; `line` is that of its mark."""

    mark: str
    language: str
    text: str
    page: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page that a reader may follow."""
    return [
        PROJECT / "README.md",
        *sorted((PROJECT / "docs").rglob("*.md")),
        *sorted((PROJECT / "examples").rglob("*.md")),
    ]


def blocks(page: Path) -> list[Block]:
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(PROJECT))
    return [
        Block(found[1], found[2], found[3], name, text.count("\n", 0, found.start()) + 1)
        for found in MARKED.finditer(text)
    ]


def unmarked(page: Path) -> int:
    """How many blocks of sh or python say nothing about being run."""
    marked = sum(block.language in ("sh", "python") for block in blocks(page))
    return len(RUNNABLE.findall(page.read_text(encoding="utf-8"))) - marked


def links(page: Path) -> list[str]:
    """Targets of the page's links, outside code."""
    return LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))


def lines(output: str) -> list[str]:
    """Printed lines without the spaces that fill them up."""
    return [line.rstrip() for line in output.strip("\n").splitlines()]


def shape(output: str) -> str:
    """The words of an output: numbers are all alike, runs of spaces and rules are one."""
    return re.sub(r"[\s─━]+", " ", NUMBER.sub("#", output)).strip()

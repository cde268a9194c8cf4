"""Messages that the page of troubleshooting explains are messages of dhdmm."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dhdmm.errors import ExitCode

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


@cache
def texts() -> str:
    """Every string of the sources, the fixed parts of formatted ones among them."""
    found = []
    for file in (PROJECT / "src" / "dhdmm").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return "\n".join(found)


def unknown(messages: list[str]) -> list[str]:
    said = texts()
    return [m for m in messages if any(part.strip() not in said for part in m.split("…"))]


@pytest.mark.slow
def test_every_message_on_the_page_is_in_the_sources() -> None:
    messages = MESSAGE.findall(PAGE)
    assert len(messages) > 30
    assert unknown(messages) == []
    assert unknown(["the moon is not … enough"]) == ["the moon is not … enough"]


def test_the_page_lists_the_exit_codes() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == {code.value for code in ExitCode} | {1}

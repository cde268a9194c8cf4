"""What the page of the architecture names is there."""

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "architecture.md"
SOURCES = PROJECT / "src" / "dhdmm"
CALL = re.compile(r"`([a-z_/]+\.py):([A-Za-z_.]+)`")
FILE = re.compile(r"`([a-z_]+/[a-z_/-]+(?:\.py|\.js|/))`")


def test_every_call_on_a_messages_way_exists() -> None:
    named = CALL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 8
    assert [(file, name) for file, name in named if not _defines(SOURCES / file, name)] == []


def test_every_file_that_is_named_exists() -> None:
    named = FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert [
        file for file in named if not any((at / file).exists() for at in (SOURCES, PROJECT))
    ] == []


def _defines(file: Path, name: str) -> bool:
    """Whether the file has this function, class or method."""
    found: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
    for part in name.split("."):
        inner = [node for node in ast.iter_child_nodes(found) if getattr(node, "name", "") == part]
        if not inner:
            return False
        found = inner[0]
    return True

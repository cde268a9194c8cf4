"""A mutant: one line of the package, weakened, and the tests that must notice it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src"


class TableError(Exception):
    """The table of mutants does not fit the sources or the tests."""


@dataclass(frozen=True)
class Mutant:
    """One line as it is and as it would do harm."""

    file: str
    """Below src/dhdmm."""
    line: str
    """The line without its indentation; no other line of the file is the same."""
    weakened: str
    breaks: str
    """What goes wrong for the people whose data it is."""
    tests: tuple[str, ...]
    """`FILE::TEST`, below tests; at least one must fail."""
    left: str = ""
    """Why no test can notice it, if none can: the mutant is equivalent."""

    @property
    def module(self) -> str:
        return ".".join(["dhdmm", *Path(self.file).with_suffix("").parts])

    @property
    def package(self) -> str:
        return Path(self.file).parts[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """The tests as pytest wants them."""
        return tuple(f"tests/{test}" for test in self.tests)

    def source(self, sources: Path) -> Path:
        return sources / "dhdmm" / self.file

    def mutated(self, text: str) -> str:
        """The file's text with this line weakened."""
        lines = text.splitlines(keepends=True)
        places = [i for i, line in enumerate(lines) if line.strip() == self.line]
        if len(places) != 1:
            raise TableError(f"{self.file} has {len(places)} lines that read: {self.line}")
        (place,) = places
        lines[place] = lines[place].replace(self.line, self.weakened)
        return "".join(lines)

    def missing_tests(self) -> list[str]:
        """The named tests that do not exist."""
        return [test for test in self.tests if not _exists(*test.split("::"))]


def _exists(file: str, name: str) -> bool:
    path = PROJECT / "tests" / file
    function = re.sub(r"\[.*", "", name)  # a single case of a parametrised test
    return path.exists() and f"\ndef {function}(" in path.read_text(encoding="utf-8")

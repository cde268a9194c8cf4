"""The trial of one mutant, in a process of its own: `tests.mutants.trial SOURCES MODULE TESTS…`.

The module is imported first. A mutant that cannot be imported would be noticed by anything, which
says nothing about the tests.
"""

from __future__ import annotations

import importlib
import sys
from enum import IntEnum
from pathlib import Path

import pytest

OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "--tb=line", "--no-header")


class Outcome(IntEnum):
    """The exit code: ten more than pytest's, so that the one of a traceback is none of these."""

    SURVIVED = 10
    KILLED = 11


def main(sources: str, module: str, *tests: str) -> int:
    imported = importlib.import_module(module)
    if not Path(imported.__file__ or "").is_relative_to(sources):
        sys.exit(f"{module} is imported from elsewhere")
    return 10 + int(pytest.main([*OPTIONS, *tests]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

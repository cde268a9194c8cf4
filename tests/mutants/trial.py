"""The trial of one mutant, in a process of its own: python -m tests.mutants.trial MODULE TESTS…

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
    """The process's exit code; the first two are pytest's own."""

    SURVIVED = 0
    KILLED = 1
    NOT_IMPORTED = 90


def main(sources: str, module: str, *tests: str) -> int:
    try:
        imported = importlib.import_module(module)
    except (ImportError, SyntaxError, NameError, TypeError, ValueError, AttributeError) as error:
        print(f"{module} is not imported: {error!r}")
        return Outcome.NOT_IMPORTED
    if not Path(imported.__file__ or "").is_relative_to(sources):
        print(f"{module} is imported from elsewhere")
        return Outcome.NOT_IMPORTED
    return int(pytest.main([*OPTIONS, *tests]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

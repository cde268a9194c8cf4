"""Where the system has no fcntl, resource or uvloop, as Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MISSING = "import sys\nsys.modules.update(fcntl=None, resource=None, uvloop=None)\n"
IMPORTS = """
import importlib, pkgutil, dhdmm
for found in pkgutil.walk_packages(dhdmm.__path__, "dhdmm."):
    if not found.name.endswith("__main__") and ".migrations." not in found.name:
        importlib.import_module(found.name)
"""
JOURNAL = """
from pathlib import Path
from dhdmm.client.home import Home
from dhdmm.errors import DhdmmError
home = Home(Path(sys.argv[1]) / "home")
try:
    with home.journal(bytes(16), bytes(32)):
        print("locked")
except DhdmmError as error:
    print(error.what, error.hint)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_can_be_imported_without_what_windows_lacks() -> None:
    run(MISSING + IMPORTS)


def test_a_journal_that_cannot_be_locked_is_refused_with_a_hint(tmp_path: Path) -> None:
    told = run(MISSING + JOURNAL, str(tmp_path))
    assert "cannot be locked on this system" in told
    assert "Windows Subsystem for Linux" in told
    assert run("import sys\n" + JOURNAL, str(tmp_path)) == "locked\n"

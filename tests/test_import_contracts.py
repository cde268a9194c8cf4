"""The contracts on imports hold, and notice an import that goes round an interface."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).parents[1]
LINT = Path(sys.executable).with_name("lint-imports")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources beside their contracts."""
    folder = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "static", "templates")
    shutil.copytree(PROJECT / "src" / "dhdmm", folder / "dhdmm", ignore=ignored)
    shutil.copytree(PROJECT / "research", folder / "research", ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", folder)
    return folder


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    places = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    command = [str(LINT), "--no-cache"]
    return subprocess.run(
        command, cwd=folder, env=places, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold(copy: Path) -> None:
    found = linted(copy)
    assert found.returncode == 0, found.stdout
    assert " 0 broken" in found.stdout


@pytest.mark.parametrize(
    ("module", "wrong", "contract"),
    [
        (
            "session/coordinator.py",
            "from dhdmm.secagg.states import CoordinatorState",
            "Secure aggregation is reached through its interface BROKEN",
        ),
        (
            "web/pages.py",
            "from dhdmm.secagg import messages",
            "Secure aggregation is reached through its interface BROKEN",
        ),
        (
            "client/joined.py",
            "import dhdmm.server.store",
            "Whoever joins needs nothing of a coordinator's BROKEN",
        ),
    ],
)
def test_an_import_past_an_interface_is_noticed(
    copy: Path, module: str, wrong: str, contract: str
) -> None:
    file = copy / "dhdmm" / module
    before = file.read_text(encoding="utf-8")
    file.write_text(f"{before}\n{wrong}\n", encoding="utf-8")
    try:
        found = linted(copy)
    finally:
        file.write_text(before, encoding="utf-8")
    assert found.returncode != 0
    assert contract in found.stdout

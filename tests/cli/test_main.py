"""The command line as a person or a script meets it: help, version, errors, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dhdmm import __version__

pytestmark = pytest.mark.slow

HEAVY = ["duckdb", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "sqlglot"]


def dhdmm(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("dhdmm")), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environment},
        check=False,
    )


def test_version_is_the_packages() -> None:
    assert dhdmm("--version").stdout == f"dhdmm {__version__}\n"


def test_help_names_the_commands_and_fits_80_columns() -> None:
    shown = dhdmm("--help")
    assert shown.returncode == 0
    assert "describe" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_help_loads_nothing_heavy() -> None:
    """What keeps `dhdmm --help` under half a second."""
    program = (
        "import sys; from dhdmm.cli.main import main\n"
        "try: main()\n"
        f"finally: print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False
    )
    assert shown.stderr.strip() == "[]"


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = f"import sys, dhdmm; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_error_says_what_where_and_no_traceback(tmp_path: Path) -> None:
    missing = dhdmm("describe", str(tmp_path / "absent.yaml"))
    assert missing.returncode == 3
    assert "absent.yaml" in missing.stderr
    assert "Traceback" not in missing.stderr
    assert missing.stdout == ""


def test_error_is_json_when_json_is_asked_for(tmp_path: Path) -> None:
    missing = dhdmm("describe", "--json", str(tmp_path / "absent.yaml"))
    assert missing.returncode == 3
    assert set(json.loads(missing.stderr)["error"]) == {"what", "where", "hint"}


def test_wrong_usage_has_its_own_exit_code() -> None:
    wrong = dhdmm("describe")
    assert wrong.returncode == 2
    assert "STUDY" in wrong.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_offered(shell: str) -> None:
    assert "_DHDMM_COMPLETE" in dhdmm(_DHDMM_COMPLETE=f"source_{shell}").stdout

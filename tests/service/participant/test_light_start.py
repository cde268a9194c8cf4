"""What a data holder's machine must have, and what it loads before anybody is asked anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dhdmm.client.home import Home
from dhdmm.network import identity
from dhdmm.planning.draft import draft
from tests.planning.studies import planned, study

pytestmark = pytest.mark.slow

COORDINATORS = (
    *("starlette", "fastapi", "uvicorn", "sqlalchemy", "alembic", "psycopg"),
    *("jinja2", "structlog", "prometheus_client"),
)
"""Packages that only whoever coordinates needs."""
HEAVY = ("scipy", "pandas", "pyarrow", "sqlglot", "matplotlib", "rich", "httpx", "asyncio")
OURS = ("dhdmm.participant.policy", "dhdmm.planning.plan", "dhdmm.session.participant")

EVERYTHING = """
import importlib, pkgutil
for package in ("dhdmm.client", "dhdmm.network"):
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
"""
MAIN = "from dhdmm.cli.main import main; main()"
CHECKING = """
import sys
from dhdmm.participant.policy import Policy, review_preview
review_preview(sys.stdin.buffer.read(), Policy())
"""
LISTING = f"""
import sys
from dhdmm.client import http

def first_request(*_asked, **_options):
    loaded = sorted(set(sys.modules) & {{*{HEAVY!r}, "duckdb", *{OURS!r}}})
    sys.exit(f"loaded: {{loaded}}")

http.CoordinatorClient._ask = first_request
{MAIN}
"""


def python_without(
    packages: tuple[str, ...], program: str, *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program in a Python that cannot import some packages."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    command = [sys.executable, "-c", blocked + program, *arguments]
    return subprocess.run(command, capture_output=True, input=given, check=False)


@pytest.mark.parametrize(("program", "arguments"), [(EVERYTHING, []), (MAIN, ["join", "--help"])])
def test_joining_needs_none_of_a_coordinators_packages(program: str, arguments: list[str]) -> None:
    done = python_without(COORDINATORS, program, *arguments)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_plan_is_checked_without_scipy() -> None:
    done = python_without(("scipy",), CHECKING, given=planned().to_bytes())
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_same_python_cannot_load_a_coordinator() -> None:
    done = python_without(COORDINATORS, "import dhdmm.server.app")
    assert done.returncode == 1
    assert b"ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("httpcore", ["join", "https://localhost:1", "--data", "table.csv"], "join"),
        ("httpcore", ["status", "https://localhost:1"], "join"),
        ("uvicorn", ["join", "https://localhost:1", "--data", "table.csv", "--page"], "serve"),
        ("sqlalchemy", ["serve", "study.yaml"], "serve"),
        ("sqlalchemy", ["coordinator", "purge", "--older-than", "90d"], "serve"),
        ("fastapi", ["dev-network", "study.yaml"], "serve"),
    ],
)
def test_a_command_says_which_extra_it_lacks(
    missing: str, arguments: list[str], extra: str
) -> None:
    done = python_without((missing,), MAIN, *arguments)
    assert done.returncode == 3
    said = done.stderr.decode()
    assert f"needs the package '{missing}', which is not installed" in said
    assert f"pip install 'dhdmm[{extra}]'" in said


def test_little_is_loaded_before_the_first_request(tmp_path: Path) -> None:
    """The table has been counted by then, so DuckDB is there; what checks plans is not yet."""
    (tmp_path / "table.csv").write_text("value\n1\n4\n")
    home = Home(tmp_path / "home")
    home.consent_to(draft(study()))
    identity.create(home.identity, "somebody", os.urandom)
    place = ["--data", str(tmp_path / "table.csv"), "--state", str(home.root)]
    done = python_without((), LISTING, "join", "http://localhost:1", "--yes", *place)
    assert done.stderr == b"2 rows, all counted\nloaded: ['duckdb']\n"

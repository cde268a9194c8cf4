"""docs/DEPLOYING.md says what is so."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest
import yaml
from sqlalchemy import make_url

from dhdmm.service.database import Database
from dhdmm.service.limits import Limits
from tests.docs.pages import Block, blocks
from tests.participant.postgres import Server, require_postgres, running_server
from tests.service.walls.page import PAGE, PROJECT, metrics, rewritten

DEPLOY = PROJECT / "deploy"
FILES = {
    "ini": "dhdmm-coordinator.service",
    "dockerfile": "Containerfile",
    "nginx": "nginx.conf",
    "yaml": "alerts.yaml",
}


def checked_by(test: str) -> list[Block]:
    return [block for block in blocks(PAGE) if block.reason.endswith(f"::{test}")]


def test_files_are_as_the_page_shows_them() -> None:
    shown = checked_by("test_files_are_as_the_page_shows_them")
    assert {block.language for block in shown} == FILES.keys()
    for block in shown:
        assert block.text == (DEPLOY / FILES[block.language]).read_text(encoding="utf-8")


def test_limits_metrics_and_logged_keys_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == rewritten(page), "write it anew: python -m tests.service.walls.page"
    assert page.count("<!-- made: ") == 3


def test_limits_are_read_as_the_page_shows_them(tmp_path: Path) -> None:
    (block,) = checked_by("test_limits_are_read_as_the_page_shows_them")
    file = tmp_path / "limits.yaml"
    file.write_text(block.text, encoding="utf-8")
    made, usual = Limits.load(file), Limits()
    changed = set(yaml.safe_load(block.text))
    assert changed == {
        field.name
        for field in fields(Limits)
        if getattr(made, field.name) != getattr(usual, field.name)
    }


def test_alerts_are_about_metrics_that_exist() -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    known = metrics()
    for rule in group["rules"]:
        names = [word for word in _words(rule["expr"]) if word.startswith("dhdmm_")]
        assert rule["alert"] == "CoordinatorIsDown" or names
        for name in names:
            assert f"`{name.removesuffix('_bucket').removesuffix('_total')}`" in known


def _words(expression: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in expression).split()


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / FILES["ini"]
    program = shutil.which("true")
    text = (DEPLOY / FILES["ini"]).read_text(encoding="utf-8")
    unit.write_text(text.replace("/srv/dhdmm/bin/dhdmm", str(program)), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert FILES["ini"] not in done.stderr


def test_the_container_installs_by_hash_and_runs_without_rights() -> None:
    text = (DEPLOY / FILES["dockerfile"]).read_text(encoding="utf-8")
    assert text.count("--require-hashes") == 2
    assert text.index("USER 10001") > text.rindex("RUN")


def test_a_store_is_backed_up_as_the_page_says(tmp_path: Path) -> None:
    (block,) = checked_by("test_a_store_is_backed_up_as_the_page_says")
    store = Database(f"sqlite:///{tmp_path / 'coordinator.db'}")
    store.migrate()
    with store.reading():
        subprocess.run(["sh", "-ec", block.text], cwd=tmp_path, check=True)
    store.close()
    with sqlite3.connect(tmp_path / "backup.db") as copy:
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
    assert {"rounds", "log", "releases"} <= tables
    assert Database(f"sqlite:///{tmp_path / 'backup.db'}").answers()


@pytest.fixture
def postgres() -> Iterator[Server]:
    require_postgres()
    with running_server() as server:
        yield server


def test_the_database_is_made_as_the_page_says(postgres: Server) -> None:
    (block,) = checked_by("test_the_database_is_made_as_the_page_says")
    statements = block.text.replace("…", "secret").split(";")
    with postgres.owner() as owner:
        for statement in filter(str.strip, statements):
            owner.execute(statement)
    url = make_url(f"postgresql+psycopg://dhdmm:secret@127.0.0.1:{postgres.port}/dhdmm")
    store = Database(url.render_as_string(hide_password=False))
    store.migrate()
    assert store.answers()
    store.close()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host="127.0.0.1", port=postgres.port, user="dhdmm", password="wrong")

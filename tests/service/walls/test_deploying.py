"""docs/DEPLOYING.md says what is so."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url

from dhdmm.server.app import _figures
from dhdmm.server.database import Database
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics, RoundFigures
from dhdmm.server.store import Row, StudyHead, status_of
from tests.docs.pages import Block, blocks
from tests.participant.postgres import Server
from tests.service.walls.page import PAGE, PARTS, PROJECT, rewritten

pytestmark = pytest.mark.slow

DEPLOY = PROJECT / "deploy"
DAY = 86400
SELECTOR = re.compile(r"(?P<name>\b(?:dhdmm_\w+|up)\b)(?P<labels>\{[^}]*\})?")
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
    assert page.count("<!-- made: ") == len(PARTS)


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


@pytest.mark.fault(47)
def test_alerts_are_about_metrics_that_exist() -> None:
    """Name by name, with the labels that are asked for: of a coordinator that met everything."""
    shown = after(everything).text().decode()
    for alert, expression in alerts().items():
        asked = [match[0] for match in SELECTOR.finditer(expression)]
        assert asked
        for selector in asked:
            assert alert == "CoordinatorIsDown" or value(selector, shown) is not None, selector


def everything(made: Metrics) -> None:
    made.committed(1, 0.1)
    made.responded(401)
    made.rejected("rate")
    made.certificate_expires(0)
    made.watch(lambda: [RoundFigures("0f", "collecting-keys", 12, 12, 0, 0)])


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("alert", "happened"),
    [
        ("StoreRefusesCommits", Metrics.commit_failed),
        ("InternalErrors", Metrics.internal_error),
        ("RoundAborted", lambda made: made.round_ended("aborted")),
        ("ManyDropouts", lambda made: silent(made, "collecting-inputs", 2)),
        ("CertificateExpires", lambda made: made.certificate_expires(13 * DAY)),
    ],
)
def test_an_alert_is_raised_by_what_it_is_for_and_by_nothing_else(
    alert: str, happened: Callable[[Metrics], None]
) -> None:
    assert raised(after(happened)) == {alert}


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    "happened",
    [
        lambda _made: None,  # behind a proxy, without a certificate
        lambda made: made.certificate_expires(15 * DAY),
        lambda made: made.round_ended("finished"),
        lambda made: silent(made, "collecting-inputs", 0),
        lambda made: silent(made, "finished", 2),  # nothing can be done about it any more
        lambda made: made.watch(lambda: [RoundFigures("0f", "enrolling", 0, 0, 0, 0)]),
    ],
)
def test_no_alert_is_raised_where_all_is_well(happened: Callable[[Metrics], None]) -> None:
    assert raised(after(happened)) == set()


@pytest.mark.fault(47)
def test_dropouts_are_those_who_said_so_and_those_who_fell_silent() -> None:
    row = Row("0f" * 16, "5d", 1, "collecting-inputs", enrolled=12, alive=9, departed=1)
    study = StudyHead("5d", "small", "malicious", 10, 12)
    agreed = replace(row, plan_digest="00")
    assert _figures(status_of(agreed, study, None)).dropped == 3
    enrolling = replace(row, state="enrolling", alive=0)
    assert _figures(status_of(enrolling, study, None)).dropped == 0


def test_prometheus_understands_the_alerts() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    subprocess.run(["promtool", "check", "rules", str(DEPLOY / FILES["yaml"])], check=True)


def after(happened: Callable[[Metrics], None]) -> Metrics:
    made = Metrics()
    happened(made)
    return made


def silent(made: Metrics, phase: str, count: int) -> None:
    made.watch(lambda: [RoundFigures("0f", phase, 12, 12 - count, 0, count)])


def alerts() -> dict[str, str]:
    (group,) = yaml.safe_load((DEPLOY / FILES["yaml"]).read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def raised(made: Metrics) -> set[str]:
    """Of the alerts, those that hold at the time 0 of what was counted since the start."""
    shown = made.text().decode()
    return {alert for alert, expression in alerts().items() if holds(expression, shown)}


def holds(expression: str, shown: str) -> bool:
    """By SQLite, which reckons and compares like Prometheus once selectors are numbers."""
    plain = re.sub(r"histogram_quantile\(.*\)", "NULL", expression).replace("time()", "0")
    plain = re.sub(r"\b(ignoring|on)\(\w+\)|(rate|increase)(?=\()|\[\w+\]", "", plain)
    numbers = SELECTOR.sub(lambda match: _number(value(match[0], shown)), plain)
    (found,) = sqlite3.connect(":memory:").execute(f"SELECT {numbers}").fetchone()
    return bool(found)


def _number(found: float | None) -> str:
    return "NULL" if found is None else str(found)


def value(selector: str, shown: str) -> float | None:
    """Of the one series that the selector is about; None if there is none."""
    match = SELECTOR.fullmatch(selector)
    assert match is not None
    wanted = re.findall(r'(\w+)(=~?)"([^"]*)"', match["labels"] or "")
    for family in text_string_to_metric_families(shown):
        for sample in family.samples:
            if sample.name == match["name"] and all(
                re.fullmatch(text if sign == "=~" else re.escape(text), sample.labels[label])
                for label, sign, text in wanted
            ):
                return sample.value
    return None


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
    assert {"rounds", "records", "releases"} <= tables
    assert Database(f"sqlite:///{tmp_path / 'backup.db'}").answers()


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

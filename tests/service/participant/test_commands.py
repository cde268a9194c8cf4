"""The participant's commands as they are typed: what they print, refuse, and leave behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dhdmm.client.http import CoordinatorClient
from dhdmm.network.roster import RosterFile
from dhdmm.participant import tabulate as tabulating
from dhdmm.release.release import Release
from dhdmm.study.spec import Study
from tests.cli.commands import Shell
from tests.round.small import small_text
from tests.service.participant.people import (
    OPERATOR,
    Coordinator,
    coordinator,
    crowd,
    roster_file,
    study_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.setenv("DHDMM_STATE", str(tmp_path / "state"))
    return Shell(tmp_path, monkeypatch, capsys)


def lenient(folder: Path, **more: str) -> None:
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    limits = "min_participants: 3\nmax_epsilon: 2.0\nthreat_models: [malicious, semi-honest]\n"
    limits += "".join(f"{key}: {value}\n" for key, value in more.items())
    (folder / "state" / "policy.yaml").write_text(limits)


def seated(folder: Path) -> RosterFile:
    """A roster of six; the first of them is who types."""
    persons = crowd(folder, 6)
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(persons[0].home.identity, folder / "state" / "identity.json")
    return roster_file(persons)


def arguments(here: Coordinator) -> list[str]:
    return [here.address, "--ca", str(here.files.certificate)]


def test_an_identity_and_a_roster_are_made_and_shown(shell: Shell):
    made = shell("identity", "--name", "North", "--public", "north.json", "--json")
    assert json.loads(made.out)["name"] == "North"
    assert shell("identity", "--json").out.replace("null", '"north.json"') == made.out
    assert shell("identity", "--name", "Again").code == 3
    assert shell("identity", "--name", "South", "--out", "a/new/folder/south.json").code == 0
    assert shell("roster", "--out", "roster.json", "north.json").code == 0
    assert shell("roster", "--out", "twice.json", "north.json", "north.json").code == 4
    secret = json.loads((shell.folder / "state" / "identity.json").read_text())["secret"]
    assert secret not in made.out + (shell.folder / "roster.json").read_text()


def test_review_asks_and_join_refuses_without_a_yes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "table.csv").write_text("age,sex\n1,F\n")
    with coordinator(tmp_path, study_of(), seated(tmp_path)) as here:
        strict = shell("review", *arguments(here))
        assert (strict.code, "this policy wants 10" in strict.err) == (4, True)
        lenient(tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
        shown = shell("review", *arguments(here))
        assert "No consent given" in shown.out
        assert max(map(len, shown.out.splitlines())) <= 80
        assert "seen by" in shown.out
        joining = ["join", *arguments(here), "--data", "table.csv"]
        refused = shell(*joining)
        assert (refused.code, "nobody here has consented" in refused.err) == (4, True)
        agreed = json.loads(shell("review", *arguments(here), "--yes", "--json").out)
        assert agreed["consented"]
        assert agreed["sql"]["both"] == "SELECT COUNT(*) FROM data WHERE age = 0 AND sex = 'F'"
        assert agreed["left_after"] == pytest.approx(1 - agreed["rho"])
        unpinned = shell(*joining)
        assert (unpinned.code, "is not pinned" in unpinned.err) == (4, True)


def test_join_has_counted_its_table_before_the_coordinator_hears_of_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Or the time until the next request would tell how large the table is."""
    lenient(tmp_path)
    (tmp_path / "table.csv").write_text("age,sex\n1,F\n")
    happened, tabulate, once = [], tabulating.tabulate, CoordinatorClient._send_once

    def counting(*given: object, **options: object) -> object:
        try:
            return tabulate(*given, **options)
        finally:
            happened.append("counted")

    def asking(*given: object) -> object:
        happened.append("asked")
        return once(*given)

    monkeypatch.setattr(tabulating, "tabulate", counting)
    with coordinator(tmp_path, study_of(), seated(tmp_path)) as here:
        shell("review", *arguments(here), "--yes")
        monkeypatch.setattr(CoordinatorClient, "_send_once", asking)
        refused = shell("join", *arguments(here), "--data", "table.csv")
    assert "is not pinned" in refused.err
    assert happened[0] == "counted"
    assert happened[1:] == ["asked"] * len(happened[1:])


def test_join_refuses_to_leave_many_rows_out_before_the_coordinator_hears_of_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    lenient(tmp_path)
    (tmp_path / "table.csv").write_text("age,sex\n" + "1,F\n" * 10 + "2,female\n" * 9)
    asked, once = [], CoordinatorClient._send_once
    drop = ["--data", "table.csv", "--on-unknown", "drop"]
    with coordinator(tmp_path, study_of(), seated(tmp_path)) as here:
        shell("review", *arguments(here), "--yes")
        monkeypatch.setattr(
            CoordinatorClient, "_send_once", lambda *given: asked.append(given[2]) or once(*given)
        )
        refused = shell("join", *arguments(here), *drop)
        accepted = shell("join", *arguments(here), *drop, "--accept-loss", "50%")
    assert (refused.code, "19 rows: 10 counted, 9 left out (47.4 %)" in refused.err) == (4, True)
    assert "sex: missing or outside the domain in 9 rows" in refused.err
    assert "19 rows: 10 counted, 9 left out (47.4 %)" in accepted.err
    assert "is not pinned" in accepted.err
    assert not any(str(request).endswith("/messages") for request in asked)


@pytest.mark.fault(17)
def test_a_review_shows_the_company_that_the_plan_allows_whatever_the_coordinator_says(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    lenient(tmp_path)
    boasted = {"minimum": 5000, "maximum": 9000}
    honest = CoordinatorClient.rounds
    monkeypatch.setattr(
        CoordinatorClient,
        "rounds",
        lambda *given, **also: [one.model_copy(update=boasted) for one in honest(*given, **also)],
    )
    with coordinator(tmp_path, study_of(), seated(tmp_path)) as here:
        shown = json.loads(shell("review", *arguments(here), "--yes", "--json").out)
        words = shell("review", *arguments(here), "--yes").out
    assert shown["participants"] == {"minimum": 6, "maximum": 6}
    assert "5,000" not in words


def test_an_identifier_that_is_nearly_unique_is_pointed_out(shell: Shell, tmp_path: Path):
    lenient(tmp_path, person_columns="[visit]")
    rows = [f"{number},{number % 3},F" for number in range(24)]
    (tmp_path / "visits.csv").write_text("\n".join(["visit,age,sex", *rows, ""]))
    (tmp_path / "people.csv").write_text("\n".join(["visit,age,sex", *(rows + rows), ""]))
    person = "unit: {person: {column: visit, max_records: 2, max_participants: 1}}"
    text = small_text(participants=6, corrupt=0.2).replace("unit: record", person)
    with coordinator(tmp_path, Study.from_text(text), seated(tmp_path)) as here:
        warned = shell("review", *arguments(here), "--yes", "--data", "visits.csv")
        silent = shell("review", *arguments(here), "--yes", "--data", "people.csv")
    assert "'visit' has 24 different values in 24 rows: does it identify persons" in warned.err
    assert (silent.code, silent.err) == (0, "48 rows, all counted\n")


@pytest.mark.fault(56)
def test_review_and_status_are_for_members_the_invited_and_the_operator(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    lenient(tmp_path)
    with coordinator(tmp_path, study_of(threat_model="semi-honest")) as here:
        with here.client() as operator:
            (token,) = operator.tokens(here.round_id, 1, 60)
        for command in ("review", "status"):
            stranger = shell(command, *arguments(here))
            assert (stranger.code, "give its token (--token)" in stranger.err) == (4, True)
            mistaken = shell(command, *arguments(here), "--token", "made-up")
            assert (mistaken.code, "401 bad-token" in mistaken.err) == (4, True)
        shell("identity", "--name", "somebody")
        assert shell("review", *arguments(here)).code == 4, "an identity without a seat"
        agreed = shell("review", *arguments(here), "--token", token, "--yes", "--json")
        assert json.loads(agreed.out)["consented"]
        monkeypatch.setenv("DHDMM_TOKEN", token)
        assert "enrolling" in shell("status", *arguments(here)).out
        monkeypatch.delenv("DHDMM_TOKEN")
        operating = shell("status", *arguments(here), "--operator-token", OPERATOR)
        assert "enrolling" in operating.out
        foreign = shell("status", *arguments(here), "--token", "é")
        assert (foreign.code, "characters that no token has" in foreign.err) == (3, True)


@pytest.mark.fault(56)
def test_members_see_their_rounds_as_before(shell: Shell, tmp_path: Path):
    with coordinator(tmp_path, study_of(), seated(tmp_path)) as here:
        shown = json.loads(shell("status", *arguments(here), "--json").out)
        assert [entry["round"] for entry in shown["rounds"]] == [here.round_id.hex()]
        (tmp_path / "state" / "identity.json").rename(tmp_path / "elsewhere.json")
        assert shell("status", *arguments(here)).code == 4
        assert shell("status", *arguments(here), "--identity", "elsewhere.json").code == 0


@pytest.mark.fault(37)
def test_a_hostile_study_does_not_steer_the_reviewers_terminal(shell: Shell, tmp_path: Path):
    text = small_text(participants=6, corrupt=0.2).replace("[F, M]", '["F\\e[2J", M]')
    study = Study.from_text(text)
    lenient(tmp_path)
    with coordinator(tmp_path, study, seated(tmp_path)) as here:
        shown = shell("review", *arguments(here), "--yes")
    assert shown.code == 0
    assert "\x1b" not in shown.out + shown.err
    assert "F\N{REPLACEMENT CHARACTER}[2J" in shown.out


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short path: sockets have names of at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="n") as made:
        yield Path(made)


def test_a_network_on_this_machine_ends_with_a_release_and_leaves_nothing(
    tmp_path: Path, scratch: Path
):
    study = tmp_path / "study.yaml"
    study.write_text(small_text(participants=5, corrupt=0.2, dropout=0.2))
    running = _dhdmm(tmp_path, scratch, "dev-network", "study.yaml", "--json", "--out", "release")
    out, err = running.communicate()
    assert running.returncode == 0, err
    document = json.loads(out)
    assert document["endings"] == {"released": 5}
    assert document["same_release"]
    assert Release.load(tmp_path / "release").survivors == 5
    assert _left_in(scratch) == []


def test_an_interrupted_network_leaves_nothing(tmp_path: Path, scratch: Path):
    study = tmp_path / "study.yaml"
    study.write_text(small_text(participants=5, corrupt=0.2))
    running = _dhdmm(tmp_path, scratch, "dev-network", "study.yaml", "--out", "release")
    assert running.stderr.readline().startswith("coordinator at")
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    assert not (tmp_path / "release").exists()
    assert _left_in(scratch) == []


def test_a_network_that_cannot_start_participants_says_so(tmp_path: Path):
    (tmp_path / "study.yaml").write_text(small_text(participants=5, corrupt=0.2))
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    running = _dhdmm(tmp_path, deep, "dev-network", "study.yaml", "--out", "release")
    _, err = running.communicate()
    assert (running.returncode, "set TMPDIR" in err, "Traceback" in err) == (5, True, False)
    assert _left_in(deep) == []


def _dhdmm(folder: Path, scratch: Path, *typed: str) -> subprocess.Popen[str]:
    """A command whose temporary files are all in `scratch`."""
    return subprocess.Popen(
        [sys.executable, "-c", "from dhdmm.cli.main import main; main()", *typed],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _left_in(scratch: Path) -> list[str]:
    """Files of the network, and processes that still have one of its files on their command line.

    Processes may take a moment to be gone.
    """
    end = time.monotonic() + 30
    while time.monotonic() < end:
        running = [
            command
            for process in Path("/proc").glob("[0-9]*/cmdline")
            if str(scratch) in (command := _read(process))
        ]
        if not running:
            break
        time.sleep(0.05)
    return [*running, *(str(path) for path in scratch.glob("dhdmm-network-*"))]


def _read(process: Path) -> str:
    try:
        return process.read_text(errors="replace")
    except OSError:  # it has ended
        return ""

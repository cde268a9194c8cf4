"""`dhdmm serve`, `enroll` and `status` as processes."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from dhdmm.cli.serve import serve
from dhdmm.errors import DhdmmError
from tests.cli.commands import called
from tests.participant.postgres import require_postgres, running_server
from tests.round.small import small_text
from tests.service.coordinators import fresh_database
from tests.service.server.outages import stoppable

PATIENCE = 120
OPERATING = ["--operator-token-file", "operator"]


@contextmanager
def serving(
    programs: Path, folder: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running coordinator, and its address as it says it in its log."""
    (folder / "study.yaml").write_text(small_text(participants="{min: 10, max: 12}"))
    always = ["--port", "0", *OPERATING]
    process = subprocess.Popen(
        [programs / "dhdmm", "serve", "study.yaml", *always, *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r'"port": (\d+)', said)):
            said = process.stderr.readline()
            assert said, "it ended before it listened"
        yield process, f"http://127.0.0.1:{found[1]}"
    finally:
        process.kill()
        process.communicate()


def dhdmm(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [programs / "dhdmm", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_an_operator_makes_tokens_sees_the_round_and_stops_it(tmp_path: Path) -> None:
    installed = Path(sys.executable).parent
    with serving(installed, tmp_path, "--json") as (process, url):
        assert (tmp_path / "operator").stat().st_mode & 0o077 == 0
        made = dhdmm(
            installed,
            tmp_path,
            "enroll",
            url,
            "--operator-token-file",
            "operator",
            "--count",
            "3",
            "--json",
        )
        assert len(set(json.loads(made.stdout)["tokens"])) == 3
        wrong = dhdmm(installed, tmp_path, "enroll", url, "--operator-token", "no")
        assert wrong.returncode == 4
        assert "this is for the operator" in wrong.stderr
        assert dhdmm(installed, tmp_path, "status", url, "--state", "nobody").returncode == 4
        shown = dhdmm(installed, tmp_path, "status", url, "--operator-token-file", "operator")
        assert re.search(r"small +enrolling +0 of 10 to 12", shown.stdout)
        process.send_signal(signal.SIGTERM)
        document = json.loads(process.stdout.read())
        assert process.wait() == 0
    assert document["rounds"][0]["state"] == "enrolling"

    with serving(installed, tmp_path, "--json", "--once", "--enrolment-seconds", "0.5") as (
        process,
        _,
    ):
        ended = json.loads(process.stdout.read())
        assert process.wait() == 5
    entry = ended["rounds"][0]
    assert entry["round"] == document["rounds"][0]["round"], "the store's round is gone on with"
    assert (entry["state"], entry["reason"]) == ("aborted", "too-few-participants")


@pytest.mark.slow
@pytest.mark.fault(52)
@pytest.mark.parametrize(
    "option", [["--again"], ["--occurrence", "2026-W47"], ["--every", "month"]]
)
def test_a_coordinator_that_is_killed_and_restarted_begins_no_second_round(
    tmp_path: Path, option: list[str], forked_dhdmm: Path
) -> None:
    found = []
    for _ in range(2):
        with serving(forked_dhdmm, tmp_path, *option) as (_, url):
            shown = dhdmm(forked_dhdmm, tmp_path, "status", url, *OPERATING, "--json")
            found.append([entry["round"] for entry in json.loads(shown.stdout)["rounds"]])
    assert len(found[0]) == 1
    assert found[1] == found[0]


@pytest.mark.slow
def test_a_coordinator_purges_by_itself(tmp_path: Path, forked_dhdmm: Path) -> None:
    with serving(forked_dhdmm, tmp_path, "--once", "--enrolment-seconds", "0.2") as (process, url):
        assert process.wait() == 5
    with serving(forked_dhdmm, tmp_path, "--purge-after", "0s") as (process, url):
        assert process.stderr is not None
        while '"purged"' not in (line := process.stderr.readline()):
            assert line, "it ended before it purged"
        shown = json.loads(
            dhdmm(forked_dhdmm, tmp_path, "status", url, *OPERATING, "--json").stdout
        )
    assert [entry["state"] for entry in shown["rounds"]] == ["aborted"]


@pytest.mark.slow
@pytest.mark.fault(43)
def test_a_coordinator_whose_store_is_away_ends_in_order(
    tmp_path: Path, forked_dhdmm: Path
) -> None:
    """It says what it last knew of its rounds, and how each of them stands."""
    require_postgres()
    with running_server() as server, stoppable(server) as postgres:
        url = fresh_database(server)
        with serving(forked_dhdmm, tmp_path, "--store", url, "--json") as (process, _):
            postgres.stop()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE)
            postgres.start()
    assert "Traceback" not in err
    assert (process.returncode, json.loads(out)["rounds"][0]["state"]) == (0, "enrolling")


@pytest.mark.slow
def test_limits_come_from_a_file(tmp_path: Path, forked_dhdmm: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("stranger_requests: {per_second: 0.001, burst: 2}\n")
    with serving(forked_dhdmm, tmp_path, "--limits", "limits.yaml") as (_process, url):
        assert [httpx.get(f"{url}/healthz").status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.slow
@pytest.mark.fault(56)
@pytest.mark.parametrize("options", [[], ["--public"], ["--public", "--no-pages"]])
def test_rounds_are_public_if_the_operator_says_so(
    tmp_path: Path, options: list[str], forked_dhdmm: Path
) -> None:
    with serving(forked_dhdmm, tmp_path, *options) as (_process, url):
        assert httpx.get(f"{url}/v1/rounds").status_code == (200 if options else 401)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--store", "sqlite://"], "a store in memory forgets"),
        (["--host", "0.0.0.0"], "without a certificate only this machine can be served"),
        (["--roster", "nowhere.json"], "No such file"),
        (["--identity", "nowhere"], "No such file"),
        (["another.yaml"], "cannot read the file"),
        (["--apart", "soon"], "not a duration"),
        (["--purge-after", "90"], "not a duration"),
        (["--again", "--occurrence", "x"], "exclude each other"),
        (["--again", "--every", "week"], "exclude each other"),
        (["--once", "--every", "week"], "exclude each other"),
        (["--limits", "nowhere.yaml"], "cannot read the file"),
        (["--limits", "study.yaml"], r"study.yaml:\d+: \w+: unknown limit"),
        (["--proxies", "nginx"], "'nginx' is no address and no network"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_listens_or_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(small_text())
    with pytest.raises(DhdmmError, match=words) as refusal:
        called(serve, "study.yaml", *options)
    assert refusal.value.exit_code == 3
    assert {path.name for path in tmp_path.iterdir()} == {"study.yaml"}

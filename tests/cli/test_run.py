"""`dhdmm run`: what it prints, and what it writes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from dhdmm.privacy.protection import Protection
from dhdmm.release.release import Release
from tests.cli.commands import Shell
from tests.round.small import small_text

PROMISED = {
    "participants": int,
    "survivors": int,
    "rows": int,
    "rho": float,
    "epsilon": float,
    "expected_rmse": float,
    "actual_rmse": float,
    "participant_ms": float,
    "coordinator_s": float,
    "participant_sent_bytes": float,
    "participant_received_bytes": float,
    "seconds": float,
    "release": str,
}
"""What scripts may rely on in --json."""


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "study.yaml").write_text(small_text())
    table = "age,sex\n" + "".join(f"{i % 10},{'FM'[i % 2]}\n" for i in range(300))
    (tmp_path / "table.csv").write_text(table)
    return Shell(tmp_path, monkeypatch, capsys)


DEALT = ["study.yaml", "--data", "table.csv", "--participants", "12"]


@pytest.mark.slow
def test_json_has_what_scripts_rely_on(shell: Shell) -> None:
    said = shell("run", *DEALT, "--dropout", "0.1", "--truth", "--json")
    assert (said.code, said.err) == (0, "")
    document = json.loads(said.out)
    assert {name: type(document[name]) for name in PROMISED} == PROMISED
    assert (document["participants"], document["survivors"]) == (12, 11)
    assert all(document[name] > 0 for name in PROMISED if name != "release")
    assert document["epsilon"] <= 1.0


@pytest.mark.slow
def test_release_is_where_json_says_and_gives_its_error(shell: Shell) -> None:
    document = json.loads(shell("run", *DEALT, "--json").out)
    release = Release.load(document["release"])
    assert document["release"] == "release-study"
    assert "actual_rmse" not in document
    assert document["expected_rmse"] == release.plan.expected_error(release.survivors).rmse


@pytest.mark.slow
def test_actual_error_is_of_the_size_expected(shell: Shell) -> None:
    """30 answers: three times the expected error has a probability below 10⁻¹⁰."""
    document = json.loads(shell("run", *DEALT, "--truth", "--json").out)
    assert 0 < document["actual_rmse"] < 3 * document["expected_rmse"]


def test_threat_model_of_the_command_line_counts(shell: Shell) -> None:
    said = shell("run", *DEALT, "--threat-model", "semi-honest", "--json")
    assert json.loads(said.out)["threat_model"] == "semi-honest"


@pytest.mark.slow
def test_people_see_tables_costs_and_where_the_release_is_at_80_columns(shell: Shell) -> None:
    said = shell("run", *DEALT, "--out", "answers", "--truth")
    assert said.err.startswith("nothing is accounted for: no data set is named")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert "both (20 answers)" in said.out
    assert "expected error a query" in said.out
    assert said.out.endswith("release written to answers\n")
    assert "answers/release.json" in shell.files()
    assert "study.ledger" not in shell.files()


@pytest.mark.slow
def test_every_round_is_debited_once_at_the_price_of_its_plan(shell: Shell) -> None:
    shell("run", *DEALT, "--out", "first", "--ledger", "study.ledger")
    shell("run", *DEALT, "--out", "second", "--ledger", "study.ledger")
    plan = Release.load(shell.folder / "first").plan
    ledger = json.loads(shell("ledger", "study.ledger", "--json").out)
    kinds = [entry["kind"] for entry in ledger["entries"]]
    assert kinds == ["open", "reserve", "debit", "reserve", "debit"]
    assert ledger["reserved"] == "0"
    assert ledger["spent"] == str(2 * plan.rho)
    promised = asdict(Protection.of(plan.study))
    assert [entry["protection"] for entry in ledger["entries"]] == [None, *[promised] * 4]

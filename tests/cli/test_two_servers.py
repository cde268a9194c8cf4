"""Every command that a study with two servers meets before a network, typed at 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Shell

STUDY = """
study: small
schema:
  sex: {type: category, values: [Female, Male]}
  age: {type: integer, range: [0, 9]}
workload:
  - {name: ages, by: [sex, age]}
privacy: {unit: record, epsilon: 4.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {threat_model: two-servers, participants: {min: 20, max: 60}, max_dropout: 0.1,
  max_records_per_participant: 1}
"""


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "study.yaml").write_text(STUDY)
    rows = "".join(f"{('Female', 'Male')[i % 2]},{i % 10}\n" for i in range(20))
    (tmp_path / "people.csv").write_text("sex,age\n" + rows)
    return Shell(tmp_path, monkeypatch, capsys)


def test_what_is_asked_and_planned_names_both_servers(shell: Shell) -> None:
    described = shell("describe", "study.yaml")
    assert described.code == 0
    assert "with one record each" in described.out
    words = " ".join(described.out.split())
    assert "while one of the two servers, coordinator and helper, is honest" in words
    planned = " ".join(shell("plan", "study.yaml").out.split())
    assert "60 participants, two-servers" in planned
    assert "either server's part of the sum is its word" in planned


def test_a_round_here_is_shown_and_verified(shell: Shell) -> None:
    ran = shell("run", "study.yaml", "--data", "people.csv", "--participants", "20", "--out", "r")
    assert ran.code == 0, ran.err
    assert "two-servers model" in ran.out
    assert "two-servers model" in shell("show", "r").out
    verified = shell("verify", "r")
    assert verified.code == 0
    assert "noise and modulus keep its promise" in verified.out
    assert "signed its half of the sum over 20 reports" in verified.out


@pytest.mark.parametrize("engine", ["local", "model"])
def test_a_simulated_round_is_shown_without_a_graph(shell: Shell, engine: str) -> None:
    shown = shell("simulate", "study.yaml", "--participants", "20", "--engine", engine)
    assert shown.code == 0, shown.err
    assert "20 participants (20 to the end), two-servers" in shown.out
    assert "degree" not in shown.out


def test_a_coordinator_alone_is_not_simulated(shell: Shell) -> None:
    """Its participants would be simplified ones, of which two servers have none."""
    refused = shell("simulate", "study.yaml", "--participants", "20", "--engine", "coordinator")
    assert refused.code != 0
    assert "no simplified ones" in refused.err
    assert "Traceback" not in refused.err

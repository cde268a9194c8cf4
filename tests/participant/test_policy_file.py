"""The policy file and the commands around it: written with comments, read back strictly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dhdmm.cli.options import for_typer
from dhdmm.cli.policy import policy as policy_command
from dhdmm.errors import DhdmmError, PolicyReason, StudyError
from dhdmm.participant.limits import Policy, commented

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "policy.md"


def run(command, *arguments: str) -> str:
    """What the command prints; its errors come through."""
    app = typer.Typer()
    app.command()(for_typer(command))
    outcome = CliRunner().invoke(app, arguments)
    if outcome.exception is not None:
        raise outcome.exception
    return outcome.stdout


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# ---- the file -----------------------------------------------------------------------------------


def test_the_commented_file_is_the_defaults(tmp_path):
    assert Policy.load(write(tmp_path / "policy.yaml", commented())) == Policy()


def test_every_limit_is_explained():
    for name in Policy.model_fields:
        assert re.search(rf"(^# .+\n)+{name}: ", commented(), re.MULTILINE)


def test_defaults_are_the_safe_ones():
    policy = Policy()
    assert policy.threat_models == ["malicious"]
    assert policy.rosters == []
    assert policy.max_epsilon <= 1
    assert policy.max_delta <= 1e-5


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_epsilom: 1\n", "max_epsilon"),
        ("max_epsilon: 0\n", "more than 0"),
        ("max_epsilon: 1e999\n", "finite"),
        ("max_delta: 1\n", "less than 1"),
        ("min_participants: 2\n", "at least 3"),
        ("max_rows: 1.5\n", "whole number"),
        ("max_rows: true\n", "whole number"),
        ("threat_models: [honest]\n", "semi-honest"),
        ("units: [household]\n", "participant"),
        ("- 1\n", "mapping"),
    ],
)
def test_mistakes_in_the_file_are_refused_with_their_line(tmp_path, text, complaint):
    with pytest.raises(StudyError, match=complaint) as error:
        Policy.load(write(tmp_path / "policy.yaml", text))
    assert error.value.where.startswith("policy.yaml:1")


def test_a_fingerprint_has_64_digits(tmp_path):
    with pytest.raises(StudyError):
        Policy.load(write(tmp_path / "policy.yaml", "rosters: [abc]\n"))


def test_the_documentation_lists_every_reason_and_limit():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert [reason for reason in PolicyReason if f"`{reason}`" not in text] == []
    assert [name for name in Policy.model_fields if f"`{name}`" not in text] == []


# ---- dhdmm policy -------------------------------------------------------------------------------


def test_the_command_writes_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    assert "mine.yaml" in run(policy_command, str(path))
    assert path.read_text(encoding="utf-8") == commented()


def test_the_command_never_overwrites(tmp_path):
    path = write(tmp_path / "policy.yaml", "max_epsilon: 0.5\n")
    with pytest.raises(DhdmmError, match="exists"):
        run(policy_command, str(path))
    assert Policy.load(path).max_epsilon == 0.5


def test_the_command_reports_where_it_cannot_write(tmp_path):
    with pytest.raises(DhdmmError, match="cannot write"):
        run(policy_command, str(tmp_path / "absent" / "policy.yaml"))

"""`dhdmm paper` as a person types it."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import Shell


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_one_item_for_people_and_as_json(shell: Shell, tmp_path: Path) -> None:
    said = shell("paper", "kappa", "--quick", "--out", "here")
    assert said.code == 0
    assert "9.39e-86" in said.out
    for page in ("report.html", "results.md"):
        assert "quick run" in (tmp_path / "here" / page).read_text(encoding="utf-8")
    document = json.loads(shell("paper", "kappa", "--out", "here", "--json").out)
    assert document["run"] == "full"
    assert document["items"]["kappa"]["rows"][1]["kappa"] == "9.39e-86"
    assert "quick run" not in (tmp_path / "here" / "results.md").read_text(encoding="utf-8")


def test_an_unknown_name_is_a_mistake_of_usage(shell: Shell) -> None:
    said = shell("paper", "kapa")
    assert said.code == 2
    assert "kappa" in said.err

"""`dhdmm demo`: the first thing that anybody runs."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dhdmm.cli import output
from dhdmm.errors import ExitCode
from tests.cli.commands import Shell
from tests.docs.pages import PROJECT, blocks, shape


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What commands print as JSON when asked to, whether or not they are asked."""
    emitted: list[dict[str, Any]] = []
    emit = output.emit

    def recorded(document: dict[str, Any], *rest: Any) -> None:
        emitted.append(json.loads(json.dumps(document)))
        emit(document, *rest)

    monkeypatch.setattr(output, "emit", recorded)
    return emitted


@pytest.mark.slow
def test_demo_is_a_malicious_round_of_200_with_dropouts_that_ends_as_the_readme_says(
    shell: Shell, documents: list[dict[str, Any]]
) -> None:
    """Answers share their noise, as 20 independent ones: 2.5 times the error is a 10⁻¹⁴ event."""
    said = shell("demo")
    assert (said.code, said.err) == (0, "")
    (document,) = documents
    assert (document["participants"], document["survivors"]) == (200, 190)
    assert document["threat_model"] == "malicious"
    assert document["actual_rmse"] < 2.5 * document["expected_rmse"]
    assert document["central_rmse"] <= document["expected_rmse"] <= 1.1 * document["central_rmse"]
    assert document["alone_rmse"] > 10 * document["expected_rmse"]
    picture = Path(document["picture"]).read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag.endswith("}svg")
    assert "each protected alone" in picture
    assert shell("show", document["release"]).code == 0
    (block,) = [b for b in blocks(PROJECT / "README.md") if Path(__file__).name in b.reason]
    for line in filter(None, block.text.splitlines()):
        assert shape(line) in shape(said.out)


def test_demo_does_not_write_over_somebody_elses_files(shell: Shell) -> None:
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "notes.txt").write_text("keep")
    said = shell("demo", "--out", "mine")
    assert said.code == ExitCode.INPUT
    assert said.out == ""
    assert shell.files() == {"mine", "mine/notes.txt"}

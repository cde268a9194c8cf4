"""Files that are not there, or cannot be written: what, where and what to do, and no traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.commands import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("DHDMM_STATE", str(tmp_path / "state"))
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell("init", "study.yaml")
    return shell


@pytest.mark.parametrize(
    ("arguments", "what", "advice"),
    [
        (["identity", "--out", "ann.json"], "ann.json: cannot read the identity", "--name NAME"),
        (["ledger", "visits"], "visits: there is no ledger", "dhdmm data add"),
        (["verify", "study.yaml"], "study.yaml: transcript: not a", "transcript.cbor"),
        (["policy", "study.yaml"], "study.yaml: the file exists", "choose another name"),
    ],
)
def test_says_what_where_and_what_to_do(
    shell: Shell, arguments: list[str], what: str, advice: str
) -> None:
    said = shell(*arguments)
    assert said.code in (3, 4)
    assert f"error: {what}" in said.err
    assert advice in said.err.partition("hint: ")[2]


@pytest.mark.slow
def test_folder_that_is_a_file_is_named(shell: Shell) -> None:
    """Any file that fails is named, also where no command expects that it does."""
    said = shell("serve", "study.yaml", "--store", "sqlite:///study.yaml/store.db", "--out", "out")
    assert said.code == 3
    assert "study.yaml: this cannot be used: File exists" in said.err


@pytest.mark.slow
def test_port_in_use_is_named_with_a_way_out(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = shell("serve", "study.yaml", "--port", str(port), "--operator-token-file", "token")
    assert said.code == 3
    assert f"error: 127.0.0.1:{port}: cannot listen: Address already in use\n" in said.err
    assert "hint: choose another port with --port" in said.err

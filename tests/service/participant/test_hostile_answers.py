"""What a hostile coordinator answers, and what a person mistypes: one line each, no traceback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from dhdmm.cli.join import _pin
from dhdmm.errors import DhdmmError
from tests.cli.commands import Shell

pytestmark = pytest.mark.slow

STATUS = {
    "round": "ab" * 16,
    "study": "small",
    "study_digest": "cd" * 32,
    "threat_model": "malicious",
    "state": "enrolling",
    "minimum": 1,
    "maximum": 2,
    "enrolled": 0,
    "invited": 0,
    "received": 0,
    "alive": 0,
    "remaining_s": 1.0,
    "reason": None,
    "version": 1,
}


@contextmanager
def answering(document: Any) -> Iterator[str]:
    """The address of somebody who answers everything with this."""
    body = json.dumps(document).encode()

    class Hostile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.setenv("DHDMM_STATE", str(tmp_path / "state"))
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.mark.fault(49)
@pytest.mark.parametrize(
    "wrong",
    [
        {"round": "../../etc/passwd"},
        {"round": "xyz" + "0" * 29},
        {"round": "abc"},
        {"round": "ab" * 16 + "\n"},
        {"state": "\x1b[2J"},
    ],
    ids=lambda wrong: repr(wrong),
)
def test_a_round_that_is_none_is_a_clear_error(shell: Shell, wrong: dict[str, str]) -> None:
    shell("identity", "--name", "somebody")
    (shell.folder / "table.csv").write_text("age,sex\n1,F\n")
    with answering([STATUS | wrong]) as url:
        for command in (
            ["join", url, "--data", "table.csv"],
            ["review", url],
            ["enroll", url, "--operator-token", "mine"],
        ):
            said = shell(*command)
            assert (said.code, said.out) == (3, "")
            (name,) = wrong
            words = " ".join(said.err.split())
            assert "the coordinator's answer cannot be understood" in words
            assert f"0.{name}:" in words
            assert "\x1b" not in said.err


@pytest.mark.fault(49)
@pytest.mark.parametrize(
    "typed",
    ["zz" * 32, "ab" * 31, "ab" * 32 + "a", "a" * 300, "registrar.jsn", "/" + "x" * 5000, ""],
)
def test_a_mistyped_registrar_is_a_clear_error(typed: str) -> None:
    with pytest.raises(DhdmmError, match="a registrar's key has 64 hexadecimal digits") as refusal:
        _pin(typed, None)
    assert refusal.value.hint == "there is no file of this name either"

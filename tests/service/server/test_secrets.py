"""Files that are their owner's alone, and a token that no log has."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from dhdmm.cli.enroll import enroll
from dhdmm.cli.serve import serve
from dhdmm.errors import DhdmmError, Refused
from dhdmm.network import identity
from dhdmm.server import database as databases
from dhdmm.server.database import Database
from dhdmm.server.process import make_server
from tests.cli.commands import called
from tests.round.small import small_text
from tests.service.coordinators import sqlite, sqlite_in
from tests.service.server.killable import free_ports
from tests.service.walls.servers import Toy, certificate

pytestmark = pytest.mark.slow


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("coordinator.db*")}


ALL_PRIVATE = {f"coordinator.db{suffix}": 0o600 for suffix in ("", "-wal", "-shm")}


@pytest.mark.fault(48)
def test_the_store_is_its_owners_alone(tmp_path: Path) -> None:
    """A new one, and one that an earlier version made for everybody to read."""
    before = os.umask(0o022)
    try:
        database = sqlite_in(tmp_path)
        with database.reading():
            assert modes(tmp_path) == ALL_PRIVATE
            for path in tmp_path.glob("coordinator.db*"):
                path.chmod(0o644)
            again = Database(sqlite(tmp_path))
            with again.reading():
                assert modes(tmp_path) == ALL_PRIVATE
            again.close()
        database.close()
    finally:
        os.umask(before)


@pytest.mark.fault(48)
def test_a_store_that_cannot_be_made_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "coordinator.db").mkdir()
    with pytest.raises(DhdmmError, match="the store cannot be opened"):
        sqlite_in(tmp_path)


@pytest.mark.fault(48)
@pytest.mark.parametrize("mode", [0o604, 0o602, 0o660])
def test_a_tls_key_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    files = certificate(tmp_path)
    files.key.chmod(mode)
    with pytest.raises(Refused, match=r"server\.key: it is open to other users \(chmod 600"):
        make_server(Toy(), "127.0.0.1", 0, files.certificate, files.key)
    files.key.chmod(0o640)  # as a group for such keys has it
    make_server(Toy(), "127.0.0.1", 0, files.certificate, files.key)


@pytest.mark.fault(48)
@pytest.mark.parametrize("mode", [0o604, 0o640])
def test_a_token_or_an_identity_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(small_text())
    (tmp_path / "operator").write_text("a token\n")
    identity.create(tmp_path / "identity.json", "coordinator", os.urandom)
    for name in ("operator", "identity.json"):
        (tmp_path / name).chmod(mode)
    option = ("--operator-token-file", "operator")
    for command, arguments in (
        (serve, ("study.yaml", *option)),
        (enroll, ("http://127.0.0.1:1", *option)),
        (serve, ("study.yaml", "--identity", "identity.json")),
    ):
        with pytest.raises(Refused, match="open to other users"):
            called(command, *arguments)


def test_a_token_file_with_anything_else_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(small_text())
    (tmp_path / "operator").touch(0o600)
    for content, words in ((b"\xff\xfe", "plain ASCII"), (b"\n", "no token in the file")):
        (tmp_path / "operator").write_bytes(content)
        with pytest.raises(DhdmmError, match=words):
            called(serve, "study.yaml", "--operator-token-file", "operator")


PRINTED = """
import secrets
secrets.token_urlsafe = lambda _bytes=None: "canary-token"
from dhdmm.cli.main import main
main()
"""


@pytest.mark.fault(48)
@pytest.mark.parametrize("given", [True, False], ids=["in a file", "made for this run"])
def test_the_operators_token_is_in_no_log(tmp_path: Path, given: bool) -> None:
    """Wherever a request carries it, and whether it is right or in the wrong place."""
    token = "canary-token"
    (tmp_path / "study.yaml").write_text(small_text(participants="{min: 10, max: 12}"))
    (port,) = free_ports(1)
    option = ["--operator-token-file", "operator"] if given else []
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PRINTED, "serve", "study.yaml", "--port", str(port), *option],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            bearer = {"Authorization": f"Bearer {token}"}
            entry = the_round_of(f"http://127.0.0.1:{port}", process, bearer)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer) as http:
                made = http.post("/v1/tokens", json={"round": entry, "count": 1, "expires_s": 9})
                assert made.status_code == 200
                for path in (f"/{token}", f"/v1/rounds/{entry}/close?state={token}", "/v1/tokens"):
                    http.post(path, content=token)
                assert http.get(f"/v1/rounds/{token}", headers={"Cookie": token}).is_error
        finally:
            process.terminate()
            process.wait()
    logged = (tmp_path / "log").read_text()
    assert logged.count("refused") >= 3
    assert token not in logged
    assert made.json()["tokens"][0] not in logged
    assert ("nobody can operate the rounds" in logged) != given


def the_round_of(base: str, process: subprocess.Popen[bytes], bearer: dict[str, str]) -> str:
    while True:
        assert process.poll() is None, "it ended before it listened"
        try:
            (entry,) = httpx.get(f"{base}/v1/rounds", headers=bearer).json()
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        return entry["round"]


@pytest.mark.fault(43)
def test_a_database_server_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a limit this would not return: the round's thread would be lost."""
    monkeypatch.setattr(databases, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert not Database(f"postgresql://somebody@127.0.0.1:{port}/nowhere").answers()

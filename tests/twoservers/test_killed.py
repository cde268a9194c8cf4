"""Servers killed with SIGKILL at random moments: the sum is exact, and there is one."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.method import FINISHED, Reply
from dhdmm.server.database import Database
from dhdmm.server.helper_store import HelperStore, SecretFile
from dhdmm.twoservers import leader as leader_module
from tests.twoservers.helper_process import COUNT, NAME, parties

pytestmark = pytest.mark.slow


class KilledProcess:
    """Answers, though its process is killed so many times, soon after it was asked something."""

    def __init__(self, module: str, folder: Path, seed: int, kills: int) -> None:
        self._command = [sys.executable, "-m", f"tests.twoservers.{module}", str(folder)]
        self._random = random.Random(seed)
        self._kills, self.killed = kills, 0
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, request: bytes) -> bytes:
        while True:
            answer = self._asked(request)
            if answer is not None:
                return answer

    def _asked(self, request: bytes) -> bytes | None:
        process = self._running()
        process.stdin.write(len(request).to_bytes(4, "big") + request)
        process.stdin.flush()
        if self.killed < self._kills and self._random.random() < 0.6:
            time.sleep(self._random.random() * 0.02)
            self.killed += 1
            self.kill()
            return None
        return process.stdout.read(int.from_bytes(process.stdout.read(4), "big"))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
            assert self._process.stdout.read(5) == b"ready"
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def killed_helper(folder: Path, seed: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "LARGEST_BATCH", 5)
    round_ = parties()
    round_.helper = helper = KilledProcess("helper_process", folder, seed, kills)
    try:
        for position in range(COUNT - 1):
            round_.take(position)
            round_.consult()
        round_.finish()
        assert round_.leader.state == FINISHED.name
        assert round_.leader.result.total.tolist() == round_.total(list(range(COUNT - 1)))
        assert helper.killed > 0
    finally:
        helper.kill()
    store = HelperStore(Database(f"sqlite:///{folder / 'helper.db'}"))
    again = parties(secrets=SecretFile(folder, NAME), journal=store.journal(NAME)).helper
    assert again.answered
    assert not list(folder.glob("*.secret*"))
    with pytest.raises(RemoteProtocolError, match="second-bitmap"):
        again.answer(round_.closing(list(range(COUNT - 2))))


def test_a_helper_that_is_killed_loses_nothing_and_answers_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_helper(tmp_path, 1, 5, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_a_helper_that_is_killed_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    killed_helper(tmp_path, seed, 10, monkeypatch)


def killed_leader(folder: Path, seed: int, kills: int) -> None:
    """Participants send the same report again, and the helper is asked again, as they come."""
    round_ = parties()
    leader = KilledProcess("leader_process", folder, seed, kills)

    def consult() -> None:
        while request := leader.answer(b"H"):
            said = round_.helper.answer(request)
            leader.answer(b"A" + len(request).to_bytes(4, "big") + request + said)

    try:
        consult()
        for position in range(COUNT - 1):
            place = position.to_bytes(4, "big")
            participant = round_.participant(position)
            participant.receive(leader.answer(b"K" + place))
            report = participant.give_input(round_.inputs[position])
            assert leader.answer(b"R" + place + report).decode() in {Reply.WAITING, Reply.REPEATED}
            consult()
        leader.answer(b"C")
        consult()
        leader.answer(b"C")
        total = np.frombuffer(leader.answer(b"S"), round_.round.modulus.dtype)
    finally:
        leader.kill()
    assert total.tolist() == round_.total(list(range(COUNT - 1)))
    assert leader.killed == kills
    assert round_.helper.answered
    with closing(sqlite3.connect(folder / "leader.db")) as store:
        (left,) = store.execute(
            "SELECT count(*) FROM records WHERE name LIKE 'pending/%'"
        ).fetchone()
    assert left == 0


def test_a_leader_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    killed_leader(tmp_path, 1, 3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_a_leader_that_is_killed_often(tmp_path: Path, seed: int) -> None:
    killed_leader(tmp_path, seed, 10)

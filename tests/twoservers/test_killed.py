"""A helper that is killed with SIGKILL at random moments: the sum is exact, and there is one."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.method import FINISHED
from dhdmm.server.database import Database
from dhdmm.server.helper_store import HelperStore, SecretFile
from dhdmm.twoservers import leader as leader_module
from tests.twoservers.helper_process import COUNT, NAME, parties

pytestmark = pytest.mark.slow


class KilledHelper:
    """Answers, though its process is killed so many times, soon after it was asked something."""

    def __init__(self, folder: Path, seed: int, kills: int) -> None:
        self._folder, self._random = folder, random.Random(seed)
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
            command = [sys.executable, "-m", "tests.twoservers.helper_process", str(self._folder)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self._process.stdout.read(5) == b"ready"
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def killed_round(folder: Path, seed: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "LARGEST_BATCH", 5)
    round_ = parties()
    round_.helper = helper = KilledHelper(folder, seed, kills)
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
    killed_round(tmp_path, 1, 5, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_a_helper_that_is_killed_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    killed_round(tmp_path, seed, 10, monkeypatch)

"""Rounds among real processes over TLS: some participants are killed, one is restarted."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from dhdmm.aggregation.method import ThreatModel
from dhdmm.cli.local_network import LocalNetwork, run_command
from dhdmm.client.journal import FileJournal
from dhdmm.network.identity import load
from dhdmm.network.status import Status
from dhdmm.secagg.memory import Memory
from dhdmm.secagg.states import COORDINATOR, CoordinatorState, collected_in
from tests.round.small import small_text
from tests.service.forks import fresh_fork_server

pytestmark = pytest.mark.slow

PARTICIPANTS = [12, pytest.param(30, marks=pytest.mark.soak)]
CANARY = "canary in the coal mine"
KILLED = {"collecting-shares": 0, "collecting-inputs": 1}
RESTARTED = 2  # killed when inputs are asked for, and started again at once
STOPS_AFTER = {0: "Shares: ours", 1: "sums: ours", RESTARTED: "sums: ours"}
"""Words of progress at which a participant falls silent, its message not sent yet: the phase waits
to be seen."""


def tables(folder: Path, participants: int) -> list[Path]:
    """Ten records each, with a column that nobody asks for."""
    made = []
    for number in range(participants):
        path = folder / f"table-{number}.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["age", "sex", "note"])
            rows.writerows([(number + i) % 10, "FM"[i % 2], CANARY] for i in range(10))
        made.append(path)
    return made


def run_and_stop(words: str, command: list[str], out: Path, err: Path) -> None:
    """`run_command` in a process that stops itself once it has printed these words."""
    write = sys.stderr.write

    def write_and_stop(text: str) -> int:
        written = write(text)
        if words in text:
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSTOP)
        return written

    sys.stderr.write = write_and_stop  # type: ignore[method-assign]
    run_command(command, out, err)


def network(folder: Path, threat_model: str, participants: int) -> LocalNetwork:
    text = small_text(
        threat_model=threat_model, participants=participants, dropout=0.3, corrupt=0.1
    )
    (folder / "study.yaml").write_text(text)
    fresh_fork_server()
    return LocalNetwork(
        folder / "study.yaml", folder, tables(folder, participants), phase_seconds=600.0
    )


class Operator:
    """Goes on without the dead as soon as everybody else has spoken."""

    def __init__(self, here: LocalNetwork, threat_model: str, participants: int) -> None:
        self._token = (here.folder / "operator.token").read_text().strip()
        self._here, self._table = here, COORDINATOR[ThreatModel(threat_model)]
        self._everybody = set(range(participants))

    def watch(self, status: Status, dead: set[int]) -> None:
        if not dead or status.over:
            return
        missing = self._everybody - self._heard(CoordinatorState(status.state))
        if missing and missing <= dead:
            httpx.post(
                f"{self._here.address}/v1/rounds/{status.round}/close",
                params={"state": status.state},
                headers={"Authorization": f"Bearer {self._token}"},
                verify=False,
            )

    def _heard(self, state: CoordinatorState) -> set[int]:
        """Whose message of the phase is in the coordinator's log."""
        kind = collected_in(self._table, state).TYPE
        with closing(sqlite3.connect(self._here.folder / "coordinator.db")) as store:
            names = store.execute("SELECT name FROM records WHERE name LIKE ?", [f"{kind}/%"])
            return {int(name.partition("/")[2]) for (name,) in names}


def polled(here: LocalNetwork) -> Iterator[Status]:
    with here.client() as client:
        while True:
            (status,) = client.rounds()
            yield status
            if status.over:
                return
            time.sleep(0.1)


def secrets_in_journals(here: LocalNetwork) -> set[bytes]:
    """Whatever of a round's secrets is on the disk just now."""
    found = set()
    for file in here.folder.glob("participant-*/journals/*.journal"):
        reader = object.__new__(FileJournal)
        reader._path = file
        try:
            memory = Memory.decode(reader._parsed(file.read_bytes())[0])
        except FileNotFoundError:
            continue
        found |= {memory.mask_secret, memory.channel_secret, memory.seed}
        found |= {pair[:33] for _, pair in memory.held}
    return found - {b""}


@pytest.mark.fault(1)
@pytest.mark.fault(38)
@pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])
@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_a_round_goes_on_without_the_killed_and_with_the_restarted(
    tmp_path: Path, threat_model: str, participants: int
):
    with network(tmp_path, threat_model, participants) as here:
        operator = Operator(here, threat_model, participants)
        dead, restarted, secrets = set[int](), False, set[bytes]()
        for number in range(participants):
            words = STOPS_AFTER.get(number)
            here.join(number, partial(run_and_stop, words) if words else run_command)
        for status in polled(here):
            secrets |= secrets_in_journals(here)
            victim = KILLED.get(status.state)
            if victim is not None and victim not in dead:
                here.kill(victim)
                dead.add(victim)
            if status.state == "collecting-inputs" and not restarted:
                here.kill(RESTARTED)
                here.join(RESTARTED)
                restarted = True
            operator.watch(status, dead)
        here.await_end()
        said = {i: here.printed(i) for i in range(participants) if i not in dead}
        spoken = _everything_said(here)
        identities = [load(here.home(i) / "identity.json").identity for i in range(participants)]
    assert status.state == "finished"
    assert dead == set(KILLED.values())
    assert {i: one.get("ending") for i, one in said.items()} == dict.fromkeys(said, "released")
    assert len({one["release_digest"] for one in said.values()}) == 1
    assert len(said) <= status.alive <= participants
    assert "resumed" in (here.home(RESTARTED) / "err").read_text()
    assert list(here.folder.glob("participant-*/journals/*.journal")) == [
        file for i in sorted(dead) for file in (here.home(i) / "journals").glob("*.journal")
    ]
    canaries = {*(identity.seed for identity in identities), *secrets}
    assert len(canaries) > 3 * participants
    for canary in canaries:
        assert canary not in spoken
        assert canary.hex().encode() not in spoken
    assert CANARY.encode() not in spoken
    assert b"waiting to hear who is counted" in spoken  # so it is what was said


def _everything_said(here: LocalNetwork) -> bytes:
    files = [*here.folder.glob("participant-*/out"), *here.folder.glob("participant-*/err")]
    return b"".join(file.read_bytes() for file in [*files, here.folder / "coordinator.log"])

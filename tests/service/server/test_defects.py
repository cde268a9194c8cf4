"""A defect of ours in the midst of a turn: it shows itself, and the round goes on as it was."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dhdmm.server.metrics import Metrics
from dhdmm.server.requests import Close, Outcome, Request
from dhdmm.server.round_state import RoundState, Running
from tests.round.small import small_text
from tests.service.coordinators import AS_OPERATOR, sqlite_in
from tests.service.server import outages
from tests.service.server.killable import free_ports
from tests.service.server.rounds import (
    ideal,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow

SECRET = "what-the-error-says"


def lines(log: io.StringIO, event: str) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in every if line["event"] == event]


@pytest.mark.fault(42)
@pytest.mark.parametrize("late", [False, True], ids=["before the commit", "after the commit"])
def test_a_defect_in_a_turn_is_a_500_with_an_id_and_the_round_ends_with_the_exact_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO, late: bool
) -> None:
    """The session in memory has added the input already when the error is raised."""
    home, broken = (RoundState, "_is_complete") if late else (Running, "write")
    whole, armed = getattr(home, broken), []

    def defective(self: Any, *arguments: Any) -> Any:
        done = whole(self, *arguments)
        if armed:
            raise KeyError(armed.pop())
        return done

    monkeypatch.setattr(home, broken, defective)

    async def scenario() -> None:
        metrics = Metrics()
        database = sqlite_in(tmp_path)
        options = {"roster": roster_file(), "observer": metrics}
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", **options
        ) as coordinator:
            people, inputs = await outages.at_the_inputs(coordinator)
            armed.append(SECRET)
            failed = await people[0].post(inputs[0])
            assert (failed.status_code, failed.json()["reason"]) == (500, "internal-error")
            again = await people[0].post(inputs[0])
            assert again.json() == {"reply": "repeated" if late else "accepted"}
            await asyncio.gather(*(v.take_part() for v in outages.restarted(people)))
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))
        (line,) = lines(log, "internal error")
        assert (line["id"], line["error"]) == (failed.json()["id"], "KeyError")
        assert line["id"] in failed.json()["detail"]
        assert "in defective" in line["traceback"]
        assert 'live.py", line' in line["traceback"]
        assert SECRET not in log.getvalue()
        assert "dhdmm_internal_errors_total 1.0" in metrics.text().decode()
        assert "dhdmm_failed_commits_total 0.0" in metrics.text().decode()

    asyncio.run(scenario())


@pytest.mark.fault(42)
def test_a_phase_that_a_defect_keeps_from_closing_is_closed_later_without_haste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    """Nobody asked for the close, so nobody but the log and the metric can tell."""
    whole, failures, now = RoundState.turn, [], 0.0

    def defective(self: RoundState, requests: list[Request]) -> list[Outcome]:
        if any(isinstance(request, Close) for request in requests) and len(failures) < 4:
            failures.append(now)
            raise KeyError(SECRET)
        return whole(self, requests)

    monkeypatch.setattr(RoundState, "turn", defective)

    async def scenario() -> None:
        nonlocal now
        database = sqlite_in(tmp_path)
        async with serving(
            database,
            study_of("semi-honest"),
            tmp_path / "out",
            roster=roster_file(),
            clock=lambda: now,
        ) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            for visitor in people:
                body = (await visitor.session()).begin()
                assert (await visitor.post(body)).status_code == 200
            for count in range(1, 5):
                while len(failures) < count:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.3)  # enough for many, if it did not wait
                now += 1
            await coordinator.until("collecting-shares")

    asyncio.run(scenario())
    assert failures == [0, 1, 2, 3]
    assert len(lines(log, "internal error")) == 4


@pytest.mark.fault(42)
def test_a_defect_in_a_route_is_a_500_with_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    async def scenario() -> None:
        metrics = Metrics()
        database = sqlite_in(tmp_path)
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", observer=metrics
        ) as coordinator:
            monkeypatch.setattr(
                type(coordinator.hub), "statuses", lambda _self, **_asked: {}[SECRET]
            )
            transport = httpx.ASGITransport(coordinator.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://c") as http:
                failed = await http.get("/v1/rounds", headers=AS_OPERATOR)
        assert (failed.status_code, failed.json()["reason"]) == (500, "internal-error")
        assert [line["id"] for line in lines(log, "internal error")] == [failed.json()["id"]]
        assert "dhdmm_internal_errors_total 1.0" in metrics.text().decode()

    asyncio.run(scenario())


# ---- the program's own log ----------------------------------------------------------------------

BROKEN = f"""
from dhdmm.cli.main import main
from dhdmm.server.round_state import RoundState, Running
from dhdmm.server.requests import Abort

def defective(self, turn, aggregation, request, whole=RoundState._serve):
    if isinstance(request, Abort):
        raise KeyError("{SECRET}")
    return whole(self, turn, aggregation, request)

RoundState._serve = defective
main()
"""


@pytest.mark.fault(42)
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_serve_logs_the_traceback_in_a_terminal_and_in_a_file(
    tmp_path: Path, terminal: bool
) -> None:
    (tmp_path / "study.yaml").write_text(small_text(threat_model="semi-honest"))
    (tmp_path / "roster.json").write_bytes(roster_file().to_bytes())
    (tmp_path / "operator").write_text(AS_OPERATOR["Authorization"].removeprefix("Bearer "))
    (tmp_path / "operator").chmod(0o600)
    (port,) = free_ports(1)
    options = ["--roster", "roster.json", "--operator-token-file", "operator"]
    command = [sys.executable, "-c", BROKEN, "serve", "study.yaml", "--port", str(port), *options]
    shown, writing = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=writing, env=plain_environment()
    )
    os.close(writing)
    try:
        failed = abort_when_it_listens(f"http://127.0.0.1:{port}", process)
        assert failed.status_code == 500
    finally:
        process.terminate()
        process.wait()
    log = read_all(shown)
    assert failed.json()["id"] in log
    assert "in defective" in log
    assert "KeyError" in log
    assert SECRET not in log
    if not terminal:
        entries = [json.loads(line) for line in log.splitlines()]
        (line,) = [entry for entry in entries if entry["event"] == "internal error"]
        assert "in defective" in line["traceback"]


def plain_environment() -> dict[str, str]:
    """Wide lines, and no colours between words that are looked for."""
    return os.environ | {"COLUMNS": "300", "NO_COLOR": "1"}


def abort_when_it_listens(base: str, process: subprocess.Popen[bytes]) -> httpx.Response:
    with httpx.Client(base_url=base, transport=httpx.HTTPTransport(retries=0)) as http:
        while True:
            assert process.poll() is None, "it ended before it listened"
            try:
                (entry,) = http.get("/v1/rounds", headers=AS_OPERATOR).json()
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            return http.post(f"/v1/rounds/{entry['round']}/abort", headers=AS_OPERATOR)


def read_all(descriptor: int) -> str:
    """Until the other end is closed; a terminal says so by an error."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            part = b""
        if not part:
            os.close(descriptor)
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode())
        parts.append(part)

"""The load that one coordinator process holds: TLS, durable in SQLite, its driver beside it.

`python -m bench.service [--connections N] [--participants N] [--models …]`. Two processes: the
coordinator with the real application and the default limits, and this one, which plays all
participants with real sessions over raw TLS connections. Seconds of processor time are those of
both processes; `crypto` is the same round of the same sessions without network, store and release.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple, TypeVar

import numpy as np
import uvloop

from bench.lines import Line, Response
from dhdmm.cohort.drive import drive
from dhdmm.cohort.members import Answer, Invitation, LocalCohort, permissive, pinned
from dhdmm.cohort.people import Seeded
from dhdmm.cohort.usage import peak_bytes
from dhdmm.participant.policy import review
from dhdmm.planning.plan import Plan
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.round import Roster
from dhdmm.secagg.states import CoordinatorState
from dhdmm.service.app import create_app
from dhdmm.service.certificates import self_signed
from dhdmm.service.database import Database
from dhdmm.service.limits import Limits
from dhdmm.service.roster import RosterFile
from dhdmm.service.server import make_server
from dhdmm.service.signing import sign
from dhdmm.service.studies import Hub, add_study, current_round
from dhdmm.service.waiting import Deadlines
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.spec import Study

STUDY = """
study: load
schema:
  place: {{type: integer, range: [0, 99]}}
  age: {{type: integer, range: [0, 79]}}
workload:
  - {{name: cells, by: [place, age]}}
privacy: {{unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}}
aggregation:
  threat_model: {model}
  participants: {participants}
  max_dropout: 0.05
  max_records_per_participant: 50
"""
OPERATOR = "operator"
WAIT = 30
HANDSHAKES = 64
"""Handshakes that the driver has under way at one time."""
PATIENT = Limits(idle_seconds=600.0)
"""All participants share one driver's core, so each is silent for longer than alone."""

Item = TypeVar("Item")


# ---- the coordinator ----------------------------------------------------------------------------


async def coordinate(folder: Path) -> None:
    """A process: says where it is, serves until it is told to stop, and says what it has used."""
    database = Database(f"sqlite:///{folder / 'coordinator.db'}")
    database.migrate()
    study = add_study(database, Study.load(folder / "study.yaml"))
    roster = RosterFile.from_bytes((folder / "roster.json").read_bytes())
    round_id = current_round(database, study, roster)
    deadlines = Deadlines(7200, 7200)
    hub = Hub(database, Identity.generate(os.urandom), folder / "releases", deadlines)
    cert, key = folder / "coordinator.pem", folder / "coordinator.key"
    app = create_app(hub, OPERATOR)
    door = app.state.callers.admit
    server = make_server(app, "127.0.0.1", 0, cert, key, PATIENT, on_drain=hub.drain, door=door)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    started = process_time()
    print(json.dumps({"port": server.port, "round": round_id}), flush=True)
    await serving
    used = {"seconds": process_time() - started, "megabytes": peak_bytes() / 1e6}
    print(json.dumps(used), flush=True)


@dataclass
class Coordinator:
    """The process, as its participants see it."""

    port: int
    round_id: str
    tls: ssl.SSLContext
    process: subprocess.Popen[str]
    seconds: float = 0.0
    megabytes: float = 0.0

    def used(self) -> float:
        """Processor seconds so far, where the system tells."""
        statistics = Path(f"/proc/{self.process.pid}/stat")
        if not statistics.exists():
            return float("nan")
        fields = statistics.read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        used = json.loads(self.process.stdout.readline())
        self.seconds, self.megabytes = used["seconds"], used["megabytes"]
        self.process.wait()


@contextlib.contextmanager
def coordinator(model: str, people: Seeded) -> Iterator[Coordinator]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        count = len(people.positions())
        text = STUDY.format(model=model, participants=count)
        (folder / "study.yaml").write_text(text, encoding="utf-8")
        keys = tuple(people.identity(i).public for i in people.positions())
        names = tuple(f"participant {i}" for i in people.positions())
        (folder / "roster.json").write_bytes(RosterFile(Roster(names, keys)).to_bytes())
        certificate, _ = self_signed(folder)
        command = [sys.executable, "-m", "bench.service", "--coordinate", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            tls = ssl.create_default_context(cafile=certificate)
            try:
                yield Coordinator(told["port"], told["round"], tls, process)
            finally:
                process.kill()


# ---- the participants ---------------------------------------------------------------------------


class Upload(NamedTuple):
    """One phase's messages: bytes of the largest, messages/s, coordinator's ms for each."""

    size: int
    rate: float
    milliseconds: float


class Crowd:
    """All participants' connections, and their signed requests."""

    def __init__(self, at: Coordinator, people: Seeded) -> None:
        self._at, self._people = at, people
        self._target = f"/v1/rounds/{at.round_id}/message"
        self._identities = {i: people.identity(i) for i in people.positions()}
        self._lines: dict[int, Line] = {}
        self._handshake = asyncio.Semaphore(HANDSHAKES)
        self.handshakes = 0
        self.retries = 0
        self.errors = 0

    def post(self, position: int, body: bytes) -> bytes:
        """A whole request, ready to be sent."""
        return self._request(position, "POST", self._target, body)

    def get(self, position: int, after: str) -> bytes:
        return self._request(position, "GET", f"{self._target}?after={after}&wait={WAIT}", b"")

    async def ask(self, position: int, request: bytes) -> Response:
        """The answer; whoever is told to come again does."""
        while True:
            response = await (await self._line(position)).ask(request)
            if response.status not in (429, 503):
                self.errors += response.status >= 400 and response.status != 410
                return response
            self.retries += 1
            await asyncio.sleep(0.5)

    async def upload(self, answers: dict[int, Answer]) -> Upload:
        """Until all are acknowledged; the requests are built before."""
        ready = {i: self.post(i, answer.message) for i, answer in answers.items()}
        started, used = perf_counter(), self._at.used()
        await _all(lambda i: self.ask(i, ready[i]), ready)
        largest = max(len(answer.message) for answer in answers.values())
        return Upload(
            largest,
            len(ready) / (perf_counter() - started),
            (self._at.used() - used) / len(ready) * 1000,
        )

    async def messages(self, after: dict[int, str]) -> dict[int, bytes]:
        """What everybody is sent next; nothing for those whose round is over."""
        found = await _all(lambda i: self._next(i, after.get(i, "")), self._people.positions())
        return {i: body for i, body in found.items() if body is not None}

    async def _next(self, position: int, after: str) -> bytes | None:
        request = self.get(position, after)
        while (response := await self.ask(position, request)).status == 204:
            pass
        return response.body if response.status == 200 else None

    async def _line(self, position: int) -> Line:
        """Everybody has one, and a new one if it was closed."""
        line = self._lines.get(position)
        if line is None or not line.is_open:
            async with self._handshake:
                line = self._lines[position] = await Line.open(self._at.port, self._at.tls)
            self.handshakes += 1
        return line

    async def close(self) -> None:
        for line in self._lines.values():
            line.close()
        await asyncio.sleep(0)

    def _request(self, position: int, method: str, target: str, body: bytes) -> bytes:
        signed = sign(self._identities[position], method, target, body)
        lines = [f"{method} {target} HTTP/1.1", "host: localhost"]
        lines += [f"{name}: {value}" for name, value in signed.items()]
        if method == "POST":
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body


async def _all(work: Callable[[int], Awaitable[Item]], positions: Iterable[int]) -> dict[int, Item]:
    wanted = list(positions)
    return dict(zip(wanted, await asyncio.gather(*map(work, wanted)), strict=True))


def crowd_of(count: int) -> Seeded:
    records = np.random.default_rng(count).integers(0, (100, 80), (count, 1, 2))
    return Seeded(b"load", records)


# ---- the figures --------------------------------------------------------------------------------


async def held(count: int) -> None:
    """Long-polling connections: how many are there, and are all answered in the end."""
    people = crowd_of(count)
    with coordinator("semi-honest", people) as at:
        crowd = Crowd(at, people)
        started = perf_counter()
        waiting = asyncio.ensure_future(crowd.messages({}))
        while crowd.handshakes < count:
            await asyncio.sleep(0.1)
        connecting = perf_counter() - started
        await asyncio.sleep(WAIT + 10)  # everybody has asked at least twice
        assert not waiting.done()
        operator = await Line.open(at.port, at.tls)
        started = perf_counter()
        abort = f"POST /v1/rounds/{at.round_id}/abort HTTP/1.1\r\nhost: localhost\r\n"
        token = f"authorization: Bearer {OPERATOR}\r\ncontent-length: 0\r\n\r\n"
        assert (await operator.ask((abort + token).encode())).status == 200
        told = await waiting
        answering = perf_counter() - started
        await crowd.close()
        at.stop()
    print(
        f"{len(told):,} of {count:,} long-polling connections held for {WAIT + 10} s and then"
        f" answered in {answering:.1f} s; {crowd.errors} errors, {crowd.retries} retries,"
        f" {crowd.handshakes:,} handshakes\n"
        f"  connected in {connecting:.1f} s; coordinator: {at.seconds:.1f} s of processor time,"
        f" {at.megabytes:.0f} MB at most",
        flush=True,
    )


async def whole_round(model: str, count: int) -> None:
    people = crowd_of(count)
    with coordinator(model, people) as at:
        crowd, clock = Crowd(at, people), perf_counter()
        used = process_time()
        plan = (await _read(at, "/plan")).body
        invitation = _invitation(plan, bytes.fromhex(at.round_id), people)
        cohort = LocalCohort(review(plan, invitation.policy, invitation.roster), invitation, people)
        answers = cohort.answer(dict.fromkeys(people.positions()))
        uploads: list[Upload] = []
        after: dict[int, str] = {}
        while answers:
            uploads.append(await crowd.upload(answers))
            told = await crowd.messages(after)
            after = {i: sha256(message).hexdigest() for i, message in told.items()}
            answers = cohort.answer(told)
        driver = process_time() - used
        ended = json.loads((await _read(at, "")).body)
        seconds = perf_counter() - clock
        await crowd.close()
        at.stop()
    crypto = alone(invitation, people)
    inputs = max(uploads)
    total = driver + at.seconds
    print(
        f"{model:>12}{count:>7,}{ended['state']:>10}{ended['alive']:>7,}{inputs.rate:>10,.0f}"
        f"{inputs.size / 1000:>7.1f}{inputs.milliseconds:>7.2f}{at.seconds:>9.1f}"
        f"{driver:>8.1f}{crypto:>8.1f}{total / crypto:>7.2f}{at.megabytes:>7.0f}"
        f"{seconds:>8.0f}{crowd.retries:>9,}{crowd.errors:>8}",
        flush=True,
    )


async def _read(at: Coordinator, what: str) -> Response:
    line = await Line.open(at.port, at.tls)
    request = f"GET /v1/rounds/{at.round_id}{what} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    response = await line.ask(request.encode())
    line.close()
    return response


def _invitation(plan: bytes, round_id: bytes, people: Seeded) -> Invitation:
    identities = tuple(people.identity(i).public for i in people.positions())
    roster = Roster(tuple(f"participant {i}" for i in people.positions()), identities)
    return Invitation(plan, round_id, roster, pinned(permissive(Plan.from_bytes(plan)), roster))


def alone(invitation: Invitation, people: Seeded) -> float:
    """Processor seconds of the same sessions in one process."""
    started = process_time()
    plan = Plan.from_bytes(invitation.plan)
    reviewed = review(invitation.plan, invitation.policy, invitation.roster)
    session = CoordinatorSession(plan, os.urandom(16), invitation.roster, os.urandom)
    elsewhere = replace(invitation, round_id=session.machine.parameters.round_id)
    drive(session, [LocalCohort(reviewed, elsewhere, people)], {}, _Unmetered())
    assert session.over
    return process_time() - started


class _Unmetered:
    def opened(self, phase: CoordinatorState, position: int, message: bytes, s: float) -> None: ...

    def answered(self, phase: CoordinatorState, position: int, a: Answer, s: float) -> None: ...

    def closed(self, phase: CoordinatorState, seconds: float) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--participants", type=int, default=3000)
    parser.add_argument("--models", nargs="*", default=["semi-honest", "malicious"])
    parser.add_argument("--coordinate", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.coordinate:
        uvloop.run(coordinate(asked.coordinate))
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; TLS 1.3, SQLite, one process")
    if asked.connections:
        uvloop.run(held(asked.connections))
    if asked.models:
        print(
            f"{'':>12}{'people':>7}{'':>10}{'alive':>7}{'inputs/s':>10}{'kB':>7}{'ms':>7}"
            f"{'coord s':>9}{'others':>8}{'crypto':>8}{'ratio':>7}{'MB':>7}"
            f"{'wall s':>8}{'retries':>9}{'errors':>8}"
        )
    for model in asked.models:
        uvloop.run(whole_round(model, asked.participants))


if __name__ == "__main__":
    main()

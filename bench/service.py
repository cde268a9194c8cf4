"""The load that one coordinator process holds: TLS, durable in SQLite, its driver beside it.

`python -m bench.service [--connections N] [--participants N] [--models …]`. Two processes: the
coordinator with the real application and the default limits, and this one, which plays all
participants with real sessions over raw TLS connections. Seconds of processor time are those of
both processes; `crypto` is the same round of the same sessions without network, store and release.

`--cost [N]` instead divides the coordinator's processor time for a round of N participants by that
of the coordinator of the same sessions in one process; once driven as above, and once by the client
that is shipped. `--profile` says where the event loop spends it, and makes it larger.

`--two-servers N` measures reports to a leader and a helper: see bench/reports.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import json
import os
import pstats
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time, sleep, thread_time
from typing import NamedTuple, TypeVar

import numpy as np
import uvloop

from bench import reports
from bench.lines import Line, Response
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.client.ending import Ending
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.client.join import join
from dhdmm.client.seat import Member
from dhdmm.cohort.drive import drive
from dhdmm.cohort.members import Answer, Invitation, LocalCohort, permissive, pinned
from dhdmm.cohort.people import Seeded
from dhdmm.cohort.usage import peak_bytes
from dhdmm.network.certificates import self_signed
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.network.signing import sign
from dhdmm.network.trust import Address
from dhdmm.participant.policy import review
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan
from dhdmm.release.receipt import MAGIC
from dhdmm.server.app import create_app
from dhdmm.server.database import Database
from dhdmm.server.limits import Limits
from dhdmm.server.process import make_server, run
from dhdmm.server.studies import Hub, add_study, current_round
from dhdmm.server.waiting import Deadlines
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
    server = make_server(
        app, "127.0.0.1", 0, cert, key, PATIENT, on_drain=hub.drain, recognise=door
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    started, loop_started = process_time(), thread_time()
    print(json.dumps({"port": server.port, "round": round_id}), flush=True)
    await serving
    used = {
        "seconds": process_time() - started,
        "loop": thread_time() - loop_started,
        "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime,
        "megabytes": peak_bytes() / 1e6,
    }
    print(json.dumps(used), flush=True)


def profiled(work: Callable[[], None], place: Path) -> None:
    """What the event loop's thread spends its processor time on."""
    profile = cProfile.Profile(thread_time)
    profile.runcall(work)
    profile.dump_stats(place)


@dataclass
class Coordinator:
    """The process, as its participants see it."""

    port: int
    round_id: str
    tls: ssl.SSLContext
    process: subprocess.Popen[str]
    folder: Path
    seconds: float = 0.0
    loop: float = 0.0
    """Of these, the event loop's; the rest is that of other threads: the round, the store."""
    children: float = 0.0
    megabytes: float = 0.0

    @property
    def address(self) -> Address:
        return Address.parse(f"https://localhost:{self.port}")

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
        for name, value in json.loads(self.process.stdout.readline()).items():
            setattr(self, name, value)
        self.process.wait()


@contextlib.contextmanager
def coordinator(model: str, people: Seeded, profile: str = "") -> Iterator[Coordinator]:
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
        command += ["--profile", profile] if profile else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            tls = ssl.create_default_context(cafile=certificate)
            try:
                yield Coordinator(told["port"], told["round"], tls, process, folder)
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

    def post(self, position: int, body: bytes, after: str) -> bytes:
        """A whole request, ready to be sent, whose answer is what comes next."""
        return self._request(position, "POST", f"{self._target}?after={after}&wait={WAIT}", body)

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

    async def upload(
        self, answers: dict[int, Answer], after: dict[int, str]
    ) -> tuple[Upload, dict[int, bytes]]:
        """Until all have what comes next, and that; the requests are built before."""
        ready = {i: self.post(i, said.message, after.get(i, "")) for i, said in answers.items()}
        started, used = perf_counter(), self._at.used()
        found = await _all(lambda i: self._next(i, after.get(i, ""), ready[i]), ready)
        largest = max(len(answer.message) for answer in answers.values())
        upload = Upload(
            largest,
            len(ready) / (perf_counter() - started),
            (self._at.used() - used) / len(ready) * 1000,
        )
        return upload, _present(found)

    async def messages(self) -> dict[int, bytes]:
        """What everybody is sent who has said nothing yet."""
        return _present(
            await _all(lambda i: self._next(i, "", self.get(i, "")), self._people.positions())
        )

    async def _next(self, position: int, after: str, request: bytes) -> bytes | None:
        """Nothing if the round is over."""
        while (response := await self.ask(position, request)).status == 204:
            request = self.get(position, after)
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


def _present(found: dict[int, bytes | None]) -> dict[int, bytes]:
    """Messages; receipts are the end."""
    return {i: body for i, body in found.items() if body and not body.startswith(MAGIC)}


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
        waiting = asyncio.ensure_future(crowd.messages())
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


async def conversation(crowd: Crowd, invitation: Invitation, people: Seeded) -> list[Upload]:
    """A whole round of real sessions, all of which answer in this process."""
    reviewed = review(invitation.plan, invitation.policy, invitation.roster)
    cohort, uploads, after = LocalCohort(reviewed, invitation, people), [], dict[int, str]()
    answers = cohort.answer(dict.fromkeys(people.positions()))
    while answers:
        upload, told = await crowd.upload(answers, after)
        uploads.append(upload)
        after = {i: sha256(message).hexdigest() for i, message in told.items()}
        answers = cohort.answer(told)
    return uploads


async def whole_round(model: str, count: int) -> None:
    people = crowd_of(count)
    with coordinator(model, people) as at:
        crowd, clock = Crowd(at, people), perf_counter()
        used = process_time()
        plan = (await _read(at, "/plan")).body
        invitation = _invitation(plan, bytes.fromhex(at.round_id), people)
        uploads = await conversation(crowd, invitation, people)
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
    request = f"GET /v1/rounds/{at.round_id}{what} HTTP/1.1\r\nhost: localhost\r\n"
    response = await line.ask(f"{request}authorization: Bearer {OPERATOR}\r\n\r\n".encode())
    line.close()
    return response


def _invitation(plan: bytes, round_id: bytes, people: Seeded) -> Invitation:
    identities = tuple(people.identity(i).public for i in people.positions())
    roster = Roster(tuple(f"participant {i}" for i in people.positions()), identities)
    return Invitation(plan, round_id, roster, pinned(permissive(Plan.from_bytes(plan)), roster))


def alone(invitation: Invitation, people: Seeded) -> float:
    """Processor seconds of the same sessions in one process."""
    started = process_time()
    in_process(invitation, people)
    return process_time() - started


def in_process(invitation: Invitation, people: Seeded) -> float:
    """The round without network, store and saving: its coordinator's processor seconds."""
    plan = Plan.from_bytes(invitation.plan)
    reviewed = review(invitation.plan, invitation.policy, invitation.roster)
    started = thread_time()
    elsewhere = replace(invitation, round_id=os.urandom(16))
    session = CoordinatorSession(plan, elsewhere.round_id, invitation.roster, os.urandom)
    meter = _Seconds(thread_time() - started)
    drive(session, [LocalCohort(reviewed, elsewhere, people)], {}, meter)
    started = thread_time()
    transcript = session.release().transcript
    assert transcript is not None
    transcript.to_bytes()
    return meter.coordinator + thread_time() - started


@dataclass
class _Seconds:
    """Adds up the coordinator's."""

    coordinator: float

    def opened(self, phase: str, position: int, message: bytes, s: float) -> None:
        self.coordinator += s

    def answered(self, phase: str, position: int, a: Answer, s: float) -> None:
        self.coordinator += s

    def closed(self, phase: str, seconds: float) -> None:
        self.coordinator += seconds


# ---- what the network costs ---------------------------------------------------------------------

Driver = Callable[[Coordinator, Invitation, Seeded], int]
"""Plays all participants; how many saw the end of the round."""


def lean(at: Coordinator, invitation: Invitation, people: Seeded) -> int:
    """One request a phase over raw TLS connections, all at one time."""

    async def speak() -> int:
        crowd = Crowd(at, people)
        await conversation(crowd, invitation, people)
        await crowd.close()
        return len(people.positions()) * (not crowd.errors)

    return uvloop.run(speak())


def shipped(at: Coordinator, invitation: Invitation, people: Seeded) -> int:
    """As `dhdmm join` does: each in a thread, with a folder, a ledger and a journal."""

    def part(position: int) -> bool:
        member = _member(at, invitation, people, position)
        histogram = people.seat(position).histogram
        with CoordinatorClient(at.address, at.tls, member.named.identity) as client:
            outcome = join(client, invitation.round_id, member, lambda _study: histogram)
        return outcome.ending is Ending.RELEASED

    with ThreadPoolExecutor(len(people.positions())) as pool:
        return sum(pool.map(part, people.positions()))


def cost(model: str, count: int, driver: Driver, profile: str) -> None:
    """The coordinator's processor time over the network, and in one process."""
    people = crowd_of(count)
    with coordinator(model, people, profile) as at:
        round_id = bytes.fromhex(at.round_id)
        with CoordinatorClient(at.address, at.tls, operator=OPERATOR) as client:
            invitation = _invitation(client.plan(round_id), round_id, people)
        ended = driver(at, invitation, people)
        while not list((at.folder / "releases").glob("[!.]*")):
            sleep(0.1)
        sleep(1)  # until the process that saved it has ended, and is counted
        at.stop()
    alone = in_process(invitation, people)
    print(
        f"{model}, {ended} of {count} participants, {driver.__name__}: {at.seconds:.2f} s of the"
        f" coordinator ({at.loop:.2f} s its event loop's), {at.children:.2f} s of other processes;"
        f" {alone:.3f} s in one process: {at.seconds / alone:.1f} times that",
        flush=True,
    )
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


def _member(at: Coordinator, invitation: Invitation, people: Seeded, position: int) -> Member:
    """With a folder of its own, in which it has consented to the plan's draft."""
    home, policy = Home(at.folder / f"participant {position}"), invitation.policy
    home.consent_to(Draft.of(Plan.from_bytes(invitation.plan)))
    named = NamedIdentity(f"participant {position}", people.identity(position))
    pin = Pin(fingerprint=invitation.roster.digest)
    return Member(named, policy, home.ledger(None, policy), home, pin)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--participants", type=int, default=3000)
    parser.add_argument("--models", nargs="*", default=["semi-honest", "malicious"])
    parser.add_argument("--cost", type=int, nargs="?", const=300)
    parser.add_argument("--drivers", nargs="*", default=["lean", "shipped"])
    parser.add_argument("--profile", default="", help="a file to write the profile to")
    parser.add_argument("--two-servers", type=int, metavar="N")
    parser.add_argument("--study", type=Path, default=reports.STUDY, help="with --two-servers")
    parser.add_argument("--store", default="", help="the leader's, with --two-servers")
    parser.add_argument(
        "--roster", type=int, default=0, help="people on it, with --two-servers; N of them send"
    )
    parser.add_argument("--coordinate", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.coordinate:
        work = partial(run, coordinate(asked.coordinate))
        profiled(work, asked.profile) if asked.profile else work()
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if asked.two_servers:
        reports.measure(asked.two_servers, asked.study, asked.store, asked.roster)
        return
    if asked.cost:
        for driver in (lean, shipped):
            if driver.__name__ in asked.drivers:
                cost("malicious", asked.cost, driver, asked.profile)
        return
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

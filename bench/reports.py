"""Durable reports a second of a real leader and helper: `python -m bench.service --two-servers N`.

`dhdmm serve` and `dhdmm helper` run as processes with TLS and durable stores. Reports of N people
are made beforehand and kept in a file; this process then plays them over several connections to
loopback, whoever has something to send next taking the next connection. In the same run a server
of TLS that only reads the same bytes and answers shows what sockets alone cost. Processor time is
what the operating system counts for each process: other work on the machine is not in it, though
it slows down what is counted by the clock. With `--roster M` there are M people on the roster, of
whom N send: such a round does not end, and what is measured is the memory that both servers take.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

import numpy as np
import uvloop

from bench.lines import END, LENGTH
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.client.http import CoordinatorClient, Unreachable
from dhdmm.cohort.workers import ONE_THREAD
from dhdmm.network import identity as identities
from dhdmm.network.certificates import self_signed
from dhdmm.network.roster import RosterFile
from dhdmm.network.signing import sign
from dhdmm.network.trust import Address, trusting
from dhdmm.planning.plan import Plan
from dhdmm.session.report import report
from dhdmm.study.histogram import Histogram
from dhdmm.twoservers import messages as m

STUDY = Path(__file__).parents[1] / "examples" / "census-sf1" / "study.yaml"
CONNECTIONS = 256
START_SECONDS, END_SECONDS, PHASE_SECONDS = 300.0, 600.0, 3600.0
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


# ---- processes ----------------------------------------------------------------------------------


@dataclass
class Measured:
    """A process and what it has used."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    before: float = 0.0

    @property
    def port(self) -> int:
        end = perf_counter() + START_SECONDS
        while perf_counter() < end and self.process.poll() is None:
            for line in self.log.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if event.get("event") == "listening":
                        return int(event["port"])
            sleep(0.05)
        raise SystemExit(f"the {self.name} did not start: {self.log.read_text()[-500:]}")

    @property
    def seconds(self) -> float:
        """Of processor time since `begin`."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used - self.before

    def begin(self) -> None:
        self.before += self.seconds

    def megabytes(self, what: str = "VmHWM") -> float:
        """The most it has had in memory, or with VmRSS what it has now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) / 1000
        return float("nan")


@contextlib.contextmanager
def running(
    folder: Path, name: str, command: list[str], options: dict[str, Any]
) -> Iterator[Measured]:
    """A process, ended with the block."""
    log = folder / f"{name}.log"
    given = [str(part) for option in options.items() for part in option]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command, *given], stdout=out, stderr=out, env=os.environ | ONE_THREAD
        )
    try:
        yield Measured(name, process, log)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def two_servers(folder: Path, study: Path, store: str) -> Iterator[tuple[Measured, Measured, int]]:
    """Leader and helper as people start them, and the leader's port."""
    certificate, key = self_signed(folder)
    for name in ("leader", "helper"):
        named = identities.create(folder / f"{name}.json", name, os.urandom)
        identities.export_public(named.public, folder / f"{name}.pub")
    ours = ["-c", "from dhdmm.cli.main import main; main()"]
    both = {"--tls-cert": certificate, "--tls-key": key, "--port": 0}
    helping = both | {
        "--identity": folder / "helper.json",
        "--leader": folder / "leader.pub",
        "--secrets": folder / "secrets",
        "--store": f"sqlite:///{folder / 'helper.db'}",
    }
    with running(folder, "helper", [*ours, "helper"], helping) as helper:
        leading = both | {
            "--identity": folder / "leader.json",
            "--store": store or f"sqlite:///{folder / 'leader.db'}",
            "--roster": folder / "roster.json",
            "--out": folder / "releases",
            "--phase-seconds": PHASE_SECONDS,
            "--operator-token-file": folder / "operator.token",
            "--helper": f"https://localhost:{helper.port}",
            "--helper-key": folder / "helper.pub",
            "--helper-ca": certificate,
        }
        with running(folder, "leader", [*ours, "serve", str(study)], leading) as leader:
            yield leader, helper, leader.port


# ---- reports, made beforehand -------------------------------------------------------------------


class Spool:
    """Whole requests in a file, one after the other."""

    def __init__(self, path: Path) -> None:
        self._path, self._ends = path, [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def mean_bytes(self) -> float:
        return self._ends[-1] / len(self)

    def fill(self, requests: Iterator[bytes]) -> None:
        with self._path.open("wb") as file:
            for request in requests:
                file.write(request)
                self._ends.append(self._ends[-1] + len(request))

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            for begin, end in zip(self._ends, self._ends[1:], strict=False):
                yield file.read(end - begin)


def people(count: int) -> tuple[Identity, ...]:
    """Made up, and the same in every run."""
    return tuple(Identity(i.to_bytes(32, "big")) for i in range(count))


def requests(plan: Plan, round_id: bytes, key: bytes, who: Sequence[Identity]) -> Iterator[bytes]:
    """Everybody's only request: a report of one random record."""
    target, shape = f"/v1/rounds/{round_id.hex()}/message", plan.study.schema.shape
    records = np.random.default_rng(1).integers(0, shape, (len(who), 1, len(shape)))
    known = m.decode(key)
    assert isinstance(known, m.HelperKey)
    for position, identity in enumerate(who):
        histogram = Histogram.of_records(records[position])
        told = m.HelperKey(known.session, position, known.key, known.signature).encode()
        body = report(plan, histogram, identity, round_id=round_id, position=position, key=told)
        lines = [f"POST {target} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [
            f"{name}: {value}" for name, value in sign(identity, "POST", target, body).items()
        ]
        yield "\r\n".join([*lines, "", ""]).encode() + body


# ---- the load -----------------------------------------------------------------------------------


class Load(NamedTuple):
    """Seconds until all requests were answered, and this process's processor time for them."""

    seconds: float
    used: float


def play(port: int, certificate: Path, spool: Spool) -> Load:
    """Send all requests, each when a connection is free.

    Without an event loop: what this process takes, the servers on the same cores do not get."""
    tls, waiting = ssl.create_default_context(cafile=certificate), iter(spool)
    lines = [Wire(port, tls) for _ in range(CONNECTIONS)]
    ready = select.epoll()
    started, used, busy = perf_counter(), process_time(), dict[int, Wire]()
    for line, request in zip(lines, waiting, strict=False):
        ready.register(line.number, select.EPOLLIN)
        busy[line.number] = line
        line.send(request)
    while busy:
        if perf_counter() - started > END_SECONDS:
            raise SystemExit("the requests are not answered in time")
        for number, _ in ready.poll(1):
            if busy[number].answered():
                following = next(waiting, None)
                if following is None:
                    del busy[number]
                else:
                    busy[number].send(following)
    load = Load(perf_counter() - started, process_time() - used)
    for line in lines:
        line.close()
    return load


class Wire:
    """A connection that stays open, one request at a time."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = tls.wrap_socket(plain, server_hostname="localhost")
        self._socket.setblocking(False)
        self.number, self.close = self._socket.fileno(), self._socket.close
        self._asked, self._got = b"", b""

    def send(self, request: bytes) -> None:
        """All of it; it is one record of TLS and fits what the system keeps for the other end."""
        self._asked, self._got = request, b""
        while True:
            try:
                sent = self._socket.send(request)
            except ssl.SSLWantWriteError:
                select.select([], [self._socket], [], 1.0)
                continue
            request = request[sent:]
            if not request:
                return

    def answered(self) -> bool:
        """Whether the answer is complete; whoever is told to come again does."""
        try:
            self._got += self._socket.recv(4096)
        except ssl.SSLWantReadError:  # nothing of HTTP
            return False
        head = self._got.find(END)
        length = LENGTH.search(self._got, 0, head) if head >= 0 else None
        if length is None or len(self._got) < head + len(END) + int(length[1]):
            return False
        status = int(self._got[9:12])
        if status in (429, 503):
            sleep(0.2)
            self.send(self._asked)
            return False
        if status != 200:
            raise SystemExit(f"answered {status}: {self._got[head:].decode()}")
        return True


class Bare(asyncio.Protocol):
    """Reads a request to its end, and answers."""

    def __init__(self) -> None:
        self._got = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        while (head := self._got.find(END)) >= 0:
            length = LENGTH.search(self._got, 0, head)
            end = head + len(END) + (int(length[1]) if length else 0)
            if len(self._got) < end:
                return
            del self._got[:end]
            self._transport.write(ANSWER)


async def bare_server(folder: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "coordinator.pem", folder / "coordinator.key")
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"event": "listening", "port": port}), flush=True)
    await server.serve_forever()


# ---- the figures --------------------------------------------------------------------------------


def measure(count: int, study: Path, store: str, enrolled: int = 0) -> None:
    """Reports of `count` people; with more `enrolled`, the others are silent."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        asked = folder / "study.yaml"
        asked.write_text(_of_two_servers(study, max(count, enrolled)), encoding="utf-8")
        who = people(count)
        keys = [one.public for one in who]
        keys += [sha256(b"silent %d" % i).digest() for i in range(count, enrolled)]
        roster = Roster(tuple(map(str, range(len(keys)))), tuple(keys))
        registrar = Identity.generate(os.urandom)
        (folder / "roster.json").write_bytes(RosterFile.signed(roster, registrar).to_bytes())
        del roster, keys
        spool = Spool(folder / "requests")
        with two_servers(folder, asked, store) as (leader, helper, port):
            _measure_servers(folder, leader, helper, port, who, spool)
        _measure_sockets(folder, spool)


def _of_two_servers(study: Path, count: int) -> str:
    """The study, whose last section says how to add up, with two servers instead."""
    asked, _, _ = study.read_text(encoding="utf-8").partition("\naggregation:")
    return (
        f"{asked}\naggregation: {{threat_model: two-servers, participants: {count},"
        " max_dropout: 0.05, max_records_per_participant: 1}\n"
    )


def _measure_servers(
    folder: Path,
    leader: Measured,
    helper: Measured,
    port: int,
    who: Sequence[Identity],
    spool: Spool,
) -> None:
    certificate, address = folder / "coordinator.pem", Address.parse(f"https://localhost:{port}")
    token = (folder / "operator.token").read_text(encoding="ascii").strip()
    with (
        CoordinatorClient(address, trusting(certificate), operator=token) as operator,
        CoordinatorClient(address, trusting(certificate), who[0]) as first,
    ):
        round_id = bytes.fromhex(operator.rounds()[0].round)
        plan = Plan.from_bytes(operator.plan(round_id))
        key = None
        while key is None:
            with contextlib.suppress(Unreachable):  # a long roster takes its time
                key = first.message(round_id, "")
        used = process_time()
        spool.fill(requests(plan, round_id, key, who))
        made = (process_time() - used) / len(spool)
        for server in (leader, helper):
            server.begin()
        empty = leader.megabytes("VmRSS"), helper.megabytes("VmRSS")
        seconds, driver = play(port, certificate, spool)
        settled = operator.status(round_id).settled or 0
        started, count = perf_counter(), len(spool)
        while not (status := operator.status(round_id)).over and plan.participants == count:
            sleep(0.1)
        print(
            f"{count:,} reports of {spool.mean_bytes / 1000:.1f} kB, made in {1000 * made:.2f} ms"
            f" each; {plan.participants:,} on the roster\n"
            f"  {count / seconds:,.0f} durable reports/s by the clock; {settled:,} were settled by"
            f" then, and the round was {status.state} {perf_counter() - started:.1f} s later\n"
            f"  sending them took {1000 * driver / count:.3f} ms of processor time a report\n"
            f"  leader {_cost(leader, count)}, {_memory(leader)}, {empty[0]:.0f} before\n"
            f"  helper {_cost(helper, count)}, {_memory(helper)}, {empty[1]:.0f} before",
            flush=True,
        )


def _measure_sockets(folder: Path, spool: Spool) -> None:
    with running(folder, "sockets", ["-m", "bench.reports", str(folder)], {}) as bare:
        port = bare.port
        bare.begin()
        seconds, driver = play(port, folder / "coordinator.pem", spool)
        count = len(spool)
        print(
            f"  bare sockets: {count / seconds:,.0f} requests/s, {_cost(bare, count)};"
            f" sending took {1000 * driver / count:.3f} ms",
            flush=True,
        )


def _cost(server: Measured, count: int) -> str:
    return f"{1000 * server.seconds / count:.3f} ms of processor time a report"


def _memory(server: Measured) -> str:
    return f"{server.megabytes():.0f} MB at most, {server.megabytes('VmRSS'):.0f} now"


if __name__ == "__main__":
    uvloop.run(bare_server(Path(sys.argv[1])))

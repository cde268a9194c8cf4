"""A real coordinator with a round, and strangers on plain sockets who want to spoil it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dhdmm.network import signing
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics
from dhdmm.server.process import Server
from dhdmm.server.studies import Hub, add_study, current_round
from tests.service.coordinators import listening, sqlite_in
from tests.service.server.rounds import identity_of, roster_file, study_of
from tests.service.walls.servers import QUICK, connect, read_response, status

PATIENT = replace(QUICK, header_seconds=10.0, body_seconds=10.0, idle_seconds=30.0)
"""As by default where a stranger is to be given its time."""


@dataclass
class Besieged:
    """The coordinator, its round of twelve, and requests of whoever is asking."""

    server: Server
    round_id: str
    hub: Hub
    metrics: Metrics = field(repr=False)

    @property
    def base(self) -> str:
        return f"/v1/rounds/{self.round_id}"

    def ask(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """One request over a connection of its own, and the answer."""
        with connect(self.server, source=source) as client:
            client.sendall(request)
            return read_response(client)

    def read(self, what: str, *, member: int | None = None, **headers: str) -> int:
        """The status for somebody who reads, a member if it says which one."""
        target = self.base + what
        signed = {} if member is None else signing.sign(identity_of(member), "GET", target)
        return status(self.ask(head("GET", target, signed | headers)))

    def post(self, body: bytes, member: int, source: str = "127.0.0.1") -> int:
        """The status for a member's message."""
        return status(self.ask(upload(self.base, body, member), source))


def head(method: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def upload(base: str, body: bytes, member: int) -> bytes:
    """A message of a member, as it sends it."""
    target = f"{base}/message"
    signed = signing.sign(identity_of(member), "POST", target, body)
    return head("POST", target, signed | {"content-length": str(len(body))}) + body


@contextlib.contextmanager
def besieged(
    folder: Path,
    limits: Limits = PATIENT,
    **options: Any,
) -> Iterator[Besieged]:
    database, metrics = sqlite_in(folder), Metrics()
    round_id = current_round(database, add_study(database, study_of()), roster_file())
    with listening(database, folder / "out", limits=limits, metrics=metrics, **options) as here:
        yield Besieged(here.server, round_id, here.hub, metrics)

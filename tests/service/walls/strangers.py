"""A real coordinator with a round, and strangers on plain sockets who want to spoil it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dhdmm.network import signing
from dhdmm.server.app import create_app
from dhdmm.server.guard import Recogniser
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics
from dhdmm.server.process import Server
from dhdmm.server.studies import Hub, add_study, current_round
from dhdmm.server.waiting import Deadlines
from tests.service.server.rounds import (
    OPERATOR,
    SERVER_KEY,
    identity_of,
    roster_file,
    sqlite_in,
    study_of,
)
from tests.service.walls.servers import QUICK, connect, read_response, running, status

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
    *,
    guarded: bool = True,
    recognise: Recogniser | None = None,
    **options: object,
) -> Iterator[Besieged]:
    """A coordinator; unless it is `guarded`, its wall takes everybody for a stranger."""
    database = sqlite_in(folder)
    round_id = current_round(database, add_study(database, study_of()), roster_file())
    hub, metrics = Hub(database, SERVER_KEY, folder / "out", Deadlines(600, 600)), Metrics()
    app = create_app(hub, OPERATOR, metrics=metrics, **options)
    recognise = recognise or (app.state.callers.admit if guarded else None)
    with running(app, limits, None, metrics, on_drain=hub.drain, recognise=recognise) as server:
        yield Besieged(server, round_id, hub, metrics)
    database.close()

"""A coordinator process that kills itself at a commit point, and somebody who starts it again.

Processes come from a fork server that has everything imported, so a life is short but real: its own
process, its own sockets, ended by SIGKILL in the midst of a turn.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from dhdmm.server.database import Database
from dhdmm.server.process import make_server
from dhdmm.server.store import Turn
from tests.service.coordinators import assembled
from tests.service.forks import fresh_fork_server

RETRY_SECONDS = 0.1
PRELOADED = [
    "tests.service.server.killable", "pydantic.v1", "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.protocols.http.auto",
]  # fmt: skip
"""What a coordinator would load when it starts."""


class Death(NamedTuple):
    """In the first turn that writes in `state`, or that leaves it if `closing`."""

    state: str
    closing: bool
    committed: bool


def deaths(states: Sequence[str]) -> list[Death]:
    """Before and after the commit of a message, and of the close, of every phase."""
    return [
        Death(state, closing, committed)
        for state in states
        for closing in (False, True)
        for committed in (False, True)
    ]


def half_the_deaths(states: Sequence[str]) -> list[Death]:
    """One of a message and one of the close of every phase, before and after commits in turn."""
    return [
        death
        for number, state in enumerate(states)
        for death in deaths([state])
        if death.committed == (death.closing + number) % 2
    ]


class Mortal(Database):
    """A store whose process dies at one of its commits."""

    def __init__(self, url: str, death: Death | None) -> None:
        super().__init__(url)
        self._death = death

    @contextmanager
    def turn(self, round_id: str) -> Iterator[Turn]:
        with super().turn(round_id) as turn:
            state, version = turn.row.state, turn.row.version
            yield turn
            turn.close()
            written = turn.row.version != version
            due = self._due(state, written, turn.row.state != state)
            if due and self._death is not None and not self._death.committed:
                die()
        if due:
            die()

    def _due(self, state: str, written: bool, closing: bool) -> bool:
        death = self._death
        return death is not None and written and (state, closing) == (death.state, death.closing)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def live(url: str, out: str, port: int, death: Death | None) -> None:
    """One life of a coordinator process."""
    hub, app = assembled(Mortal(url, death), Path(out))
    recognise = app.state.callers.admit
    make_server(app, "127.0.0.1", port, on_drain=hub.drain, recognise=recognise).run()


class Keeper:
    """Starts coordinators and, when they die, the next ones."""

    def __init__(self, url: str, out: Path, ports: Sequence[int]) -> None:
        self._url, self._out, self.ports = url, str(out), ports
        fresh_fork_server()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._alive: list[BaseProcess] = []

    def start(self, port: int, death: Death | None = None) -> BaseProcess:
        process = self._context.Process(target=live, args=(self._url, self._out, port, death))
        process.start()
        self._alive.append(process)
        return process

    async def survive(self, fates: Sequence[Death]) -> None:
        """One life after the other, each with its death; the last one goes on."""
        for death in fates:
            process = self.start(self.ports[0], death)
            await asyncio.to_thread(process.join)
            assert process.exitcode == -signal.SIGKILL, f"{death}: {process.exitcode}"
        self.start(self.ports[0])

    def end(self) -> None:
        for process in self._alive:
            process.kill()
            process.join()


class Patient:
    """An HTTP client that asks again, anywhere, until a coordinator answers."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._clients = [
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) for port in ports
        ]
        self._next = 0

    async def get(self, target: str, **options: Any) -> httpx.Response:
        return await self._ask("GET", target, options)

    async def post(self, target: str, **options: Any) -> httpx.Response:
        return await self._ask("POST", target, options)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def _ask(self, method: str, target: str, options: dict[str, Any]) -> httpx.Response:
        while True:
            self._next += 1
            client = self._clients[self._next % len(self._clients)]
            try:
                response = await client.request(method, target, **options)
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code not in (429, 503):
                return response
            await asyncio.sleep(RETRY_SECONDS)


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports

"""Tasks that nobody awaits: if one fails that is seen, and what it served goes on."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest

from dhdmm.server.connections import Acceptor
from dhdmm.server.defects import watched
from dhdmm.server.metrics import Metrics
from dhdmm.server.process import Server
from tests.service.walls.servers import Toy, ask, connect, running, status

pytestmark = pytest.mark.slow

ONE = "dhdmm_internal_errors_total 1.0"
SECONDS_TO_CLOSE = 60


@pytest.mark.fault(42)
def test_a_task_that_fails_is_counted_and_ends_what_it_served() -> None:
    async def broken() -> None:
        raise KeyError("ours")

    async def whole() -> None: ...

    metrics, ended = Metrics(), []
    asyncio.run(watched(whole(), metrics, lambda: ended.append("whole")))
    asyncio.run(watched(broken(), metrics, lambda: ended.append("broken")))
    assert ended == ["broken"]
    assert ONE in metrics.text().decode()


@pytest.mark.fault(42)
def test_connections_are_accepted_after_a_defect_in_accepting_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, failed = Acceptor.accept, []

    async def broken(self: Acceptor, listener: socket.socket) -> None:
        if not failed:
            failed.append(True)
            raise KeyError("ours")
        await whole(self, listener)

    monkeypatch.setattr(Acceptor, "accept", broken)
    metrics = Metrics()
    with running(Toy(), metrics=metrics) as server, connect(server) as client:
        assert status(ask(client, b"x")) == 200
    assert failed
    assert ONE in metrics.text().decode()


@pytest.mark.fault(42)
def test_a_connection_that_a_defect_ends_is_closed_and_counted_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, failed = Server._connection, []

    def broken(self: Server, left: Any) -> Any:
        if not failed:
            failed.append(True)
            raise KeyError("ours")
        return whole(self, left)

    monkeypatch.setattr(Server, "_connection", broken)
    metrics = Metrics()
    with running(Toy(), metrics=metrics) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.settimeout(SECONDS_TO_CLOSE)
            assert client.recv(1) == b""
        with connect(server) as client:
            assert status(ask(client, b"x")) == 200
        end = time.monotonic() + SECONDS_TO_CLOSE
        while "dhdmm_open_connections 0.0" not in metrics.text().decode():
            assert time.monotonic() < end, "it is still counted"
            time.sleep(0.01)
    assert ONE in metrics.text().decode()

"""Floods and slow headers, on real sockets."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.walls.servers import (
    QUICK,
    Files,
    Toy,
    ask,
    certificate,
    connect,
    read_all,
    read_response,
    running,
    running_plain_uvicorn,
    status,
    trickle,
    until,
)

pytestmark = pytest.mark.slow

HEADER = b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: " + b"a" * 1000


@pytest.fixture(params=["tls", "plain"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files | None:
    return certificate(tmp_path) if request.param == "tls" else None


@pytest.mark.fault(24)
def test_a_header_that_trickles_in_is_cut_off(files: Files | None) -> None:
    with running(Toy(), files=files) as server, connect(server, files) as client:
        assert trickle(client, HEADER, every=0.05, seconds=10)


@pytest.mark.fault(24)
def test_without_our_walls_a_header_may_trickle_on() -> None:
    with running_plain_uvicorn(Toy()) as server, connect(server) as client:
        assert not trickle(client, HEADER, every=0.05, seconds=2)


@pytest.mark.fault(24)
@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\r\n"])
def test_empty_lines_and_later_headers_have_the_deadline_too(
    first: bytes, files: Files | None
) -> None:
    with running(Toy(), files=files) as server, connect(server, files) as client:
        if first:
            client.sendall(first)
        assert trickle(client, b"\r\n", every=0.05, seconds=10)


@pytest.mark.fault(24)
def test_silent_and_half_shaken_connections_are_closed(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    with running(Toy(), files=files) as server:
        with connect(server) as client:  # TCP only, no handshake
            assert read_all(client) == b""
        with connect(server, files) as client:
            assert status(read_all(client)) == 408


def test_a_connection_between_requests_is_closed_when_idle(files: Files | None) -> None:
    with running(Toy(), files=files) as server, connect(server, files) as client:
        assert status(ask(client, b"x")) == 200
        assert read_all(client).endswith((b"", b"0\r\n\r\n"))


@pytest.mark.fault(22)
def test_a_header_without_end_is_refused(files: Files | None) -> None:
    with running(Toy(), files=files) as server, connect(server, files) as client:
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                client.sendall(b"x-long: " + b"a" * 8192)
                if not _open(client):
                    break
        assert b" 431 " in read_all(client) or not _open(client)


def _open(client: socket.socket) -> bool:
    client.settimeout(0.01)
    try:
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False
    finally:
        client.settimeout(10)


@pytest.mark.fault(23)
def test_connections_over_the_cap_are_told_to_come_again(files: Files | None) -> None:
    limits = replace(QUICK, connections=3, header_seconds=30.0)
    with running(Toy(), limits, files) as server, contextlib.ExitStack() as held:
        inside = [held.enter_context(connect(server, files)) for _ in range(3)]
        for client in inside:
            assert status(ask(client, b"x")) == 200
        with connect(server, files) as outside:
            answer = read_all(outside)
        assert status(answer) == 503
        assert b"retry-after: 2" in answer
        assert status(ask(inside[0], b"x")) == 200, "who is inside stays"
        inside[1].close()
        until(lambda: _answered(server, files))


@pytest.mark.fault(23)
def test_without_a_cap_everybody_gets_in() -> None:
    with running_plain_uvicorn(Toy()) as server, contextlib.ExitStack() as held:
        clients = [held.enter_context(connect(server)) for _ in range(4)]
        assert [status(ask(client, b"x")) for client in clients] == [200] * 4


@pytest.mark.fault(23)
def test_a_flood_of_connections_without_a_handshake_is_capped(tmp_path: Path) -> None:
    files = certificate(tmp_path)
    limits = replace(QUICK, connections=5, turned_away=5, header_seconds=30.0)
    with running(Toy(), limits, files) as server, contextlib.ExitStack() as held:
        flood = [held.enter_context(connect(server)) for _ in range(30)]
        until(lambda: not any(_open(client) for client in flood[10:]))  # without a handshake
        assert all(_open(client) for client in flood[:10])


@pytest.mark.fault(23)
def test_one_address_may_be_held_to_fewer() -> None:
    limits = replace(QUICK, connections_per_address=1)
    with running(Toy(), limits) as server, connect(server) as first, connect(server) as second:
        assert status(ask(first, b"x")) == 200
        assert status(read_all(second)) == 503


def _answered(server, files: Files | None) -> bool:
    with connect(server, files) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return status(read_response(client)) == 200

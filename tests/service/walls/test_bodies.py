"""Bodies that are too large, compressed, slow or too many, and callers that are too busy."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import resource
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from dhdmm.errors import DhdmmError
from dhdmm.server.asgi import Receive, Scope, Send
from dhdmm.server.guard import RELEASE_BODY, Guard
from dhdmm.server.limits import KIB, MIB, Buckets, Limits, Rate
from dhdmm.server.metrics import Metrics
from dhdmm.server.responses import HttpAnswer
from tests.service.walls.servers import (
    QUICK,
    Files,
    Toy,
    ask,
    certificate,
    connect,
    read_response,
    running,
    running_plain_uvicorn,
    status,
    trickle,
    until,
)

pytestmark = pytest.mark.slow

DARWIN = sys.platform == "darwin"
SMALL = replace(
    QUICK, stranger_body_bytes=64 * KIB, stranger_memory_bytes=256 * KIB,
    stranger_memory_bytes_per_address=MIB, stranger_requests=Rate(1000, 1000),
)  # fmt: skip
"""Of strangers, who are the ones that come to a toy."""
CHUNKED = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=["tls", "plain"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files | None:
    return certificate(tmp_path) if request.param == "tls" else None


@pytest.mark.fault(22)
def test_a_body_announced_too_large_is_refused_unread(files: Files | None) -> None:
    app = Toy()
    with running(app, SMALL, files) as server, connect(server, files) as client:
        head = f"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {64 * KIB + 1}\r\n\r\n"
        client.sendall(head.encode())
        answer = read_response(client)
    assert status(answer) == 413
    assert b"application/problem+json" in answer
    assert app.calls == 0


@pytest.mark.fault(22)
def test_a_body_that_grows_too_large_is_refused_while_it_arrives(files: Files | None) -> None:
    app = Toy()
    with running(app, SMALL, files) as server, connect(server, files) as client:
        client.sendall(CHUNKED)
        sent = _send_without_end(client, MUCH)
        assert status(read_response(client)) == 413
    assert app.calls == 0
    assert sent < MUCH


MUCH = 2048 * MIB
"""More than comes through while TLS says goodbye: what arrives then is thrown away unread."""


def _send_without_end(client, most: int = 64 * MIB) -> int:
    """How much was taken before the server hung up."""
    chunk = b"4000\r\n" + bytes(0x4000) + b"\r\n"
    for sent in range(0, most, 0x4000):
        try:
            client.sendall(chunk)
        except OSError:
            return sent
    return most


@pytest.mark.fault(22)
def test_without_our_walls_a_body_has_any_size() -> None:
    with running_plain_uvicorn(Toy()) as server, connect(server) as client:
        client.sendall(CHUNKED)
        assert _send_without_end(client, 4 * MIB) == 4 * MIB
        client.sendall(b"0\r\n\r\n")
        assert status(read_response(client)) == 200


@pytest.mark.fault(22)
def test_a_compressed_body_is_refused(files: Files | None) -> None:
    app = Toy()
    with running(app, SMALL, files) as server, connect(server, files) as client:
        bomb = gzip.compress(bytes(16 * MIB))
        assert status(ask(client, bomb, headers="content-encoding: gzip\r\n")) == 415
    assert app.calls == 0


@pytest.mark.fault(22)
def test_memory_stays_bounded_while_oversized_bodies_come(files: Files | None) -> None:
    """32 clients that would send 64 MiB each; the server may keep 1 MiB."""
    limits = replace(SMALL, stranger_memory_bytes=MIB)
    with running(Toy(), limits, files) as server:
        before = _peak_bytes()
        clients = [threading.Thread(target=_flood, args=(server, files)) for _ in range(32)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert _peak_bytes() - before < 64 * MIB
        with connect(server, files) as client:
            assert status(ask(client, b"x")) == 200


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if DARWIN else KIB)


def _flood(server, files: Files | None) -> None:
    with contextlib.suppress(OSError), connect(server, files) as client:
        client.sendall(CHUNKED)
        _send_without_end(client)


@pytest.mark.fault(22)
def test_fields_after_a_body_are_refused(files: Files | None) -> None:
    with running(Toy(), files=files) as server, connect(server, files) as client:
        client.sendall(CHUNKED + b"1\r\nx\r\n0\r\nx-later: 1\r\n\r\n")
        assert status(read_response(client)) == 400


@pytest.mark.fault(24)
def test_a_body_that_trickles_in_is_cut_off(files: Files | None) -> None:
    app = Toy()
    with running(app, files=files) as server, connect(server, files) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n")
        assert trickle(client, b"x", every=0.05, seconds=10)
    assert app.calls == 0


@pytest.mark.fault(24)
def test_without_our_walls_a_body_may_trickle_on() -> None:
    with running_plain_uvicorn(Toy()) as server, connect(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n")
        assert not trickle(client, b"x", every=0.05, seconds=2)


@pytest.mark.fault(24)
def test_a_larger_body_may_take_longer() -> None:
    limits = Limits(body_seconds=10, body_bytes_per_second=1000)
    assert limits.body_deadline(5000) == 15
    assert limits.body_deadline(None) > limits.body_deadline(5000)


@pytest.mark.fault(39)
def test_bodies_wait_for_memory_that_others_hold(files: Files | None) -> None:
    """Of twelve at most four are whole; the others are not read on before, and lose nothing."""
    app, metrics = Toy(), Metrics()
    full = threading.Event()
    app.hold = lambda: not full.is_set()
    with running(app, SMALL, files, metrics) as server:
        answers: list[int] = []
        clients = [
            threading.Thread(target=lambda: answers.append(_post(server, files))) for _ in range(12)
        ]
        for client in clients:
            client.start()
        until(lambda: _held(metrics) > 192 * KIB)
        time.sleep(0.3)
        assert 1 <= app.calls <= 4, "a fifth body was read beyond the memory that there is"
        assert _held(metrics) <= 256 * KIB
        full.set()
        for client in clients:
            client.join()
    assert answers == [200] * 12
    assert b"dhdmm_body_bytes 0.0" in metrics.text()


@pytest.mark.fault(39)
def test_without_our_walls_every_body_is_in_memory_at_once() -> None:
    app = Toy()
    full = threading.Event()
    app.hold = lambda: not full.is_set()
    with running_plain_uvicorn(app) as server:
        clients = [threading.Thread(target=_post, args=(server, None)) for _ in range(12)]
        for client in clients:
            client.start()
        until(lambda: app.calls == 12)
        full.set()
        for client in clients:
            client.join()


@pytest.mark.fault(39)
def test_who_waits_too_long_for_memory_is_told_to_come_again() -> None:
    app = Toy()
    full = threading.Event()
    app.hold = lambda: not full.is_set()
    limits = replace(SMALL, stranger_memory_bytes=64 * KIB, memory_seconds=0.2)
    with running(app, limits) as server, connect(server) as first, connect(server) as second:
        first.sendall(_large_post())
        until(lambda: app.calls == 1)
        second.sendall(_large_post())
        answer = read_response(second)
        full.set()
        assert status(answer) == 503
        assert b"retry-after" in answer
        assert status(read_response(first)) == 200


@pytest.mark.fault(39)
@pytest.mark.skipif(DARWIN, reason="one loopback address")
@pytest.mark.parametrize("share", [128 * KIB, 256 * KIB], ids=["half", "all"])
def test_bodies_that_never_end_keep_no_other_address_out(share: int) -> None:
    """Four from one address lack a byte; only without a share for each are they all there is."""
    limits = replace(
        SMALL, body_seconds=5.0, memory_seconds=0.3, stranger_memory_bytes_per_address=share
    )
    metrics = Metrics()
    with running(Toy(), limits, None, metrics) as server, contextlib.ExitStack() as held:
        for _ in range(5):
            held.enter_context(connect(server)).sendall(_large_post()[:-1])
        until(lambda: _held(metrics) > share - 64 * KIB)
        with connect(server, source="127.0.0.2") as other:
            other.sendall(_large_post())
            assert status(read_response(other)) == (200 if share < 256 * KIB else 503)


def _held(metrics: Metrics) -> float:
    (line,) = [
        line for line in metrics.text().splitlines() if line.startswith(b"dhdmm_body_bytes ")
    ]
    return float(line.split()[1])


def _large_post() -> bytes:
    return b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 65536\r\n\r\n" + bytes(64 * KIB)


def _post(server, files: Files | None) -> int:
    with connect(server, files) as client:
        client.sendall(_large_post())
        return status(read_response(client))


def test_a_body_larger_than_the_memory_is_no_limit() -> None:
    with pytest.raises(DhdmmError, match="body_bytes is larger than memory_bytes"):
        Limits(body_bytes=2, memory_bytes=1)


def test_a_bucket_fills_with_time_and_not_beyond_its_burst() -> None:
    now = [0.0]
    buckets = Buckets(Rate(2, 4), 10, lambda: now[0])
    for _ in range(4):
        assert buckets.wait("me") == 0
        buckets.take("me")
    assert buckets.wait("me") == 1
    now[0] += 1000
    for _ in range(4):
        assert buckets.wait("me") == 0
        buckets.take("me")
    assert buckets.wait("me") == 1


def test_only_so_many_callers_are_remembered() -> None:
    buckets = Buckets(Rate(1, 1), 2, lambda: 0.0)
    for caller in ("first", "second", "third"):
        buckets.take(caller)
    assert buckets.wait("first") == 0
    assert buckets.wait("third") == 1


def test_every_answer_has_security_headers(files: Files | None) -> None:
    with running(Toy(), SMALL, files) as server, connect(server, files) as client:
        answer = ask(client, b"x")
    for header in (b"x-content-type-options: nosniff", b"cache-control: no-store"):
        assert header in answer
    assert (b"strict-transport-security" in answer) == (files is not None)
    assert b"\r\nserver:" not in answer


@pytest.mark.fault(39)
@pytest.mark.parametrize("forgets", [True, False])
def test_a_body_takes_no_memory_while_its_answer_is_waited_for(forgets: bool) -> None:
    """The weakened variant keeps it until the answer is sent."""
    held = list[int]()

    async def scenario() -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            assert (await receive())["body"] == bytes(1000)
            if forgets:
                scope[RELEASE_BODY]()
                scope[RELEASE_BODY]()  # a second time, nothing happens
            held.append(memory())
            await HttpAnswer(b"later")(scope, receive, send)

        metrics = Metrics()
        guard = Guard(app, Limits(), metrics)
        memory = lambda: guard._strangers.memory.held  # noqa: E731
        sent = [{"type": "http.request", "body": bytes(1000), "more_body": False}]
        scope = {"type": "http", "method": "POST", "path": "/", "scheme": "https",
                 "headers": [(b"content-length", b"1000")]}  # fmt: skip
        await guard(scope, AsyncMock(side_effect=sent), AsyncMock())
        held.append(memory())

    asyncio.run(scenario())
    assert held == [0 if forgets else 1000, 0]

"""One connection, from its first byte on: counted, shaken hands with, and hurried along.

`Entrance` counts a connection when it is accepted, before it costs a TLS handshake; then
`Connection` reads its requests, and gives each header its deadline.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dhdmm.service.defects import caught
from dhdmm.service.limits import KIB, Limits
from dhdmm.service.metrics import Metrics
from dhdmm.service.problems import MEDIA_TYPE, Problem, Reason

UNREAD = 64 * KIB
"""Bytes of one connection that may wait until it is their turn to be read."""

BREATH = 0.05
"""Seconds of rest when a connection cannot be accepted."""


@runtime_checkable
class _Buffered(Protocol):
    """A TLS transport, which reads ahead."""

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


def raw_response(phrase: str, problem: Problem) -> bytes:
    """A whole response that ends its connection, for when no application is asked."""
    body = json.dumps(problem.document()).encode()
    lines = [
        f"HTTP/1.1 {problem.status} {phrase}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    if problem.retry_after is not None:
        lines.append(f"retry-after: {problem.retry_after}")
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection(HttpToolsProtocol):
    """Uvicorn's protocol, with a deadline and a size for headers.

    Bytes outside a body are header: the deadline runs from the first of them until the header is
    complete, and on a new connection from its beginning. Once it is complete, no more is read
    until somebody asks for the body.
    """

    def __init__(self, limits: Limits, metrics: Metrics, left: Callable[[], None], **uvicorn: Any):
        super().__init__(**uvicorn)
        self._limits, self._metrics, self._left = limits, metrics, left
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if isinstance(transport, _Buffered):
            transport.set_read_buffer_limits(high=UNREAD)
        self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_done()
        self._left()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._in_body:
            self._expect_header()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > self._limits.header_bytes:
            self._refuse("Request Header Fields Too Large", 431, Reason.TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            raise ValueError("fields after a body")  # the parser makes a 400 of it
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._header_done()
        self._in_body = True
        super().on_headers_complete()
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self.flow.pause_reading()  # until there is memory for the body

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def _expect_header(self) -> None:
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self._limits.header_seconds, self._too_slow)

    def _header_done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refuse("Request Timeout", 408, Reason.SLOW)

    def _refuse(self, phrase: str, status: int, reason: Reason) -> None:
        """Say so, unless an earlier request is still being answered, and hang up."""
        self._header_done()
        self._metrics.rejected(f"header {reason}")
        if self.cycle is None or self.cycle.response_complete:
            problem = Problem(status, reason, "the header is too long or too slow")
            self.transport.write(raw_response(phrase, problem))
        self.transport.close()


class TurnedAway(asyncio.Protocol):
    """A connection too many: it is told so, and closed."""

    def __init__(self, limits: Limits, left: Callable[[], None]) -> None:
        self._limits, self._left = limits, left

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        after = self._limits.retry_seconds
        busy = Problem(503, Reason.BUSY, "too many connections", retry_after=after)
        transport.write(raw_response("Service Unavailable", busy))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()


class Hall:
    """Who is inside: connections from their acceptance on, all together and by address."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits, self._metrics = limits, metrics
        self._inside = 0
        self._from: Counter[str] = Counter()

    @property
    def over_capacity(self) -> bool:
        """Too many even to be told so."""
        return self._inside > self._limits.connections + self._limits.turned_away

    def full(self, address: str) -> bool:
        """With the last one to enter counted in."""
        most, each = self._limits.connections, self._limits.connections_per_address
        return self._inside > most or (each is not None and self._from[address] > each)

    def enter(self, address: str) -> Callable[[], None]:
        """Count one in. What is returned counts it out, however often it is called."""
        self._count(address, 1)
        leaving = iter([lambda: self._count(address, -1)])
        return lambda: next(leaving, lambda: None)()

    def _count(self, address: str, change: int) -> None:
        self._inside += change
        self._from[address] += change
        if not self._from[address]:
            del self._from[address]
        self._metrics.connections(self._inside)


class Entrance:
    """Accepts connections, counts them, and only then shakes hands."""

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        tls: ssl.SSLContext | None,
        connection: Callable[[Callable[[], None]], Connection],
    ) -> None:
        self._limits, self._metrics, self.tls = limits, metrics, tls
        self._connection = connection
        self._hall = Hall(limits, metrics)
        self._welcomes: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """For ever, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:  # it hung up already, or there are too many open files
                await asyncio.sleep(BREATH)
                continue
            welcome = loop.create_task(self._welcome(accepted, str(peer[0])))
            self._welcomes.add(welcome)
            welcome.add_done_callback(self._welcomes.discard)

    async def _welcome(self, accepted: socket.socket, address: str) -> None:
        left = self._hall.enter(address)
        full = self._hall.full(address)
        if full:
            self._metrics.rejected("connections")
        if self._hall.over_capacity:
            accepted.close()
            left()
            return
        with caught(self._metrics) as defect:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: TurnedAway(self._limits, left) if full else self._connection(left),
                    accepted,
                    ssl=self.tls,
                    ssl_handshake_timeout=self._limits.header_seconds if self.tls else None,
                    ssl_shutdown_timeout=self._limits.close_seconds if self.tls else None,
                )
            except OSError:  # all that TLS, time and the network have to say
                self._metrics.rejected("handshake")
                left()
        if defect.id is not None:
            accepted.close()
            left()

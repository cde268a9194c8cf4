"""Accepting connections, counting them, and deadlines for headers and for reading answers.

`Acceptor` counts a connection when it is accepted, before it costs a TLS handshake; then
`Connection` reads its requests, gives each header its deadline, and closes the connection of a
client that does not read the answers. A connection counts for its address until a request over it
has proved an identity.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, runtime_checkable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dhdmm.errors import DhdmmError
from dhdmm.network.problems import Problem, Reason
from dhdmm.server.defects import caught
from dhdmm.server.guard import IDENTIFY, TRANSPORT
from dhdmm.server.limits import KIB, Limits, origin
from dhdmm.server.metrics import Metrics
from dhdmm.server.responses import refusal

UNREAD = 64 * KIB
"""Bytes of one connection that may wait until it is their turn to be read."""

ACCEPT_PAUSE = 0.05
"""Seconds until the next attempt when a connection cannot be accepted."""


BODY_HEADERS = frozenset([b"content-length", b"transfer-encoding"])


@runtime_checkable
class _Buffered(Protocol):
    """A TLS transport, which reads ahead."""

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


def raw_response(problem: Problem) -> bytes:
    """A whole response that ends its connection, for when no application is asked."""
    body, kind, status, headers = refusal(problem, (("connection", "close"),))
    assert body is not None
    headers += (("content-type", kind), ("content-length", str(len(body))))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *map(": ".join, headers), "", ""]
    return "\r\n".join(lines).encode() + body


class _CountingTransport:
    """A transport that counts what is written to it, and closes late while a body is arriving.

    A connection that is closed with bytes unread is reset, and the refusal that was sent may be
    lost with it. So the rest of the body is received for a while, and ignored.
    """

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], float]) -> None:
        self._transport, self._linger = transport, linger
        self.written, self._closing = 0, False
        self._held: list[bytes] | None = None

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
            return
        self.written += len(data)
        self._transport.write(data)

    def hold(self) -> None:
        """Keep what is written until `flush`: a header goes with the body it is of."""
        self._held = []

    def flush(self) -> None:
        held, self._held = self._held, None
        if held:
            self.write(b"".join(held))

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self.flush()
        seconds = self._linger()
        if not seconds:
            self._transport.close()
            return
        self._closing = True
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(seconds, self._transport.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """Uvicorn's protocol with limits: on headers, and on how slowly a client may read answers.

    Bytes outside a body are header: the deadline runs from the first of them until the header is
    complete, and on a new connection from its beginning. Once it is complete, no more is read
    until somebody asks for the body. A client must have read some of its answers at every check.
    """

    def __init__(self, limits: Limits, metrics: Metrics, slot: Slot, **uvicorn: Any):
        super().__init__(**uvicorn)
        self._limits, self._metrics, self._slot = limits, metrics, slot
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_body = False
        self._pace_check: asyncio.TimerHandle | None = None
        self._waiting = self._taken = 0  # bytes of answers, at the last check

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._counted = _CountingTransport(
            transport, lambda: self._limits.close_seconds * self._in_body
        )
        super().connection_made(self._counted)  # type: ignore[arg-type]
        if isinstance(transport, _Buffered):
            transport.set_read_buffer_limits(high=UNREAD)
        self._expect_header()
        self._schedule_pace_check()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_done()
        if self._pace_check is not None:
            self._pace_check.cancel()
        self._slot.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._in_body:
            self._expect_header()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > self._limits.header_bytes:
            self._refuse(431, Reason.TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            raise ValueError("fields after a body")  # the parser makes a 400 of it
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._header_done()
        self._in_body = True
        self.scope[IDENTIFY] = self._slot.identify  # type: ignore[literal-required]
        self.scope[TRANSPORT] = self._counted  # type: ignore[literal-required]
        super().on_headers_complete()
        if BODY_HEADERS & dict(self.headers).keys():
            self.flow.pause_reading()  # until there is memory for the body

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def _schedule_pace_check(self) -> None:
        self._pace_check = self.loop.call_later(self._limits.answer_seconds, self._check_pace)

    def _check_pace(self) -> None:
        """Close the connection if the client has read too little since the last check."""
        waiting = self._counted.get_write_buffer_size()
        taken = self._counted.written - waiting
        pace = self._limits.answer_bytes_per_second * self._limits.answer_seconds
        if taken - self._taken < min(self._waiting, pace):
            self._metrics.rejected("answer slow")
            self.transport.abort()
            return
        self._waiting, self._taken = waiting, taken
        self._schedule_pace_check()

    def _expect_header(self) -> None:
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self._limits.header_seconds, self._too_slow)

    def _header_done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refuse(408, Reason.SLOW)

    def _refuse(self, status: int, reason: Reason) -> None:
        """Close; say why first, unless an earlier request is still being answered."""
        self._header_done()
        self._metrics.rejected(f"header {reason}")
        if self.cycle is None or self.cycle.response_complete:
            problem = Problem(status, reason, "the header is too long or too slow")
            self.transport.write(raw_response(problem))
        self.transport.close()


class RefusedConnection(asyncio.Protocol):
    """Answers a connection over the limits with a 503, and closes it."""

    def __init__(self, limits: Limits, slot: Slot) -> None:
        self._limits, self._slot = limits, slot

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        after = self._limits.retry_seconds
        busy = Problem(503, Reason.BUSY, "too many connections", retry_after=after)
        transport.write(raw_response(busy))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._slot.release()


class ConnectionCounts:
    """Open connections: all together, those of strangers, and those of each address and identity.

    Connections of reverse proxies are nobody's: they carry requests of many callers.
    """

    def __init__(self, limits: Limits, metrics: Metrics, proxies: str = "") -> None:
        self._limits = limits
        self._is_proxy = trusted(proxies)
        self._open = self._strangers = 0
        self._of: Counter[str] = Counter()
        metrics.show_connections(lambda: self._open)

    def add(self, address: str) -> Slot:
        """Count a connection from this address."""
        return Slot(self, None if self._is_proxy(address) else origin(address))

    def over(self, slot: Slot, by: int = 0) -> bool:
        """Whether the limits are exceeded by more than so many, this connection counted in."""
        limits, address = self._limits, slot.owner
        if self._open > limits.connections + by:
            return True
        if address is None:
            return False
        each = limits.connections_per_address
        too_many_here = each is not None and self._of[address] > each + by
        return too_many_here or self._strangers > limits.stranger_connections + by

    def has_room_for(self, name: str) -> bool:
        return self._of[name] < self._limits.connections_per_identity

    def count(self, owner: str | None, change: int, *, stranger: bool) -> None:
        self._open += change
        if owner is not None:
            self._strangers += change * stranger
            self._of[owner] += change
            if not self._of[owner]:
                del self._of[owner]


class Slot:
    """One counted connection. Its owner is an address, then an identity; a proxy's has none."""

    def __init__(self, counts: ConnectionCounts, address: str | None) -> None:
        self._counts, self.owner = counts, address
        self._stranger, self._released = True, False
        counts.count(address, 1, stranger=True)

    def identify(self, name: str) -> bool:
        """Count it for this identity from now on; false if that has connections enough."""
        if self.owner is None or self._released or self.owner == name:
            return True
        if not self._counts.has_room_for(name):
            return False
        self._counts.count(self.owner, -1, stranger=self._stranger)
        self.owner, self._stranger = name, False
        self._counts.count(name, 1, stranger=False)
        return True

    def release(self) -> None:
        """Stop counting it; further calls do nothing."""
        if not self._released:
            self._released = True
            self._counts.count(self.owner, -1, stranger=self._stranger)


def trusted(proxies: str) -> Callable[[str], bool]:
    """Whether an address is one of these, which are separated by commas; networks are allowed."""
    given = {entry.strip() for entry in proxies.split(",") if entry.strip()}
    networks = []
    for entry in given - {"*"}:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            raise DhdmmError(f"'{entry}' is no address and no network", where="--proxies") from None
    return lambda address: (
        "*" in given
        or any(ipaddress.ip_address(address.partition("%")[0]) in network for network in networks)
    )


class Acceptor:
    """Accepts connections, counts them, and only then begins their TLS handshake."""

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        tls: ssl.SSLContext | None,
        connection: Callable[[Slot], Connection],
        proxies: str = "",
    ) -> None:
        self._limits, self._metrics, self.tls = limits, metrics, tls
        self._connection = connection
        self._counts = ConnectionCounts(limits, metrics, proxies)
        self._handshakes: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """For ever, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError:  # it hung up already, or there are too many open files
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            task = loop.create_task(self._handshake(accepted, str(peer[0])))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, accepted: socket.socket, address: str) -> None:
        slot = self._counts.add(address)
        full = self._counts.over(slot)
        if full:
            self._metrics.rejected("connections")
        if self._counts.over(slot, self._limits.turned_away):  # too many even to be told so
            accepted.close()
            slot.release()
            return
        with caught(self._metrics) as defect:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: (
                        RefusedConnection(self._limits, slot) if full else self._connection(slot)
                    ),
                    accepted,
                    ssl=self.tls,
                    ssl_handshake_timeout=self._limits.header_seconds if self.tls else None,
                    ssl_shutdown_timeout=self._limits.close_seconds if self.tls else None,
                )
            except OSError:  # failures of TLS and of the network, and timeouts
                self._metrics.rejected("handshake")
                slot.release()
        if defect.id is not None:
            accepted.close()
            slot.release()

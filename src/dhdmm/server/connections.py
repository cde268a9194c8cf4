"""One connection, from its first byte on: counted, shaken hands with, and hurried along.

`Entrance` counts a connection when it is accepted, before it costs a TLS handshake; then
`Connection` reads its requests, gives each header its deadline, and hangs up on whoever does not
read the answers. It counts for its address until a request over it has shown whose it is.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dhdmm.errors import DhdmmError
from dhdmm.network.problems import MEDIA_TYPE, Problem, Reason
from dhdmm.server.defects import caught
from dhdmm.server.guard import LINE, VOUCH
from dhdmm.server.limits import KIB, Limits, origin
from dhdmm.server.metrics import Metrics

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


class _Line:
    """A transport that counts what is written to it, and is not closed over a body on its way.

    A connection that is closed with bytes unread is reset, and the refusal that was sent may be
    lost with it. So these come in for a while, and nobody looks at them.
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
        """What is written from now on goes in one piece: a header with the body it is of."""
        self._held = []

    def let_go(self) -> None:
        held, self._held = self._held, None
        if held:
            self.write(b"".join(held))

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self.let_go()
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
    """Uvicorn's protocol, with a deadline and a size for headers, and a pace for answers.

    Bytes outside a body are header: the deadline runs from the first of them until the header is
    complete, and on a new connection from its beginning. Once it is complete, no more is read
    until somebody asks for the body. Of answers, some must have been read whenever we look.
    """

    def __init__(self, limits: Limits, metrics: Metrics, guest: Guest, **uvicorn: Any):
        super().__init__(**uvicorn)
        self._limits, self._metrics, self._guest = limits, metrics, guest
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_body = False
        self._next_look: asyncio.TimerHandle | None = None
        self._waiting = self._taken = 0  # bytes of answers, at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._line = _Line(transport, lambda: self._limits.close_seconds * self._in_body)
        super().connection_made(self._line)  # type: ignore[arg-type]
        if isinstance(transport, _Buffered):
            transport.set_read_buffer_limits(high=UNREAD)
        self._expect_header()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_done()
        if self._next_look is not None:
            self._next_look.cancel()
        self._guest.leave()
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
        self.scope[VOUCH] = self._guest.vouch  # type: ignore[literal-required]
        self.scope[LINE] = self._line  # type: ignore[literal-required]
        super().on_headers_complete()
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self.flow.pause_reading()  # until there is memory for the body

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def _look_later(self) -> None:
        self._next_look = self.loop.call_later(self._limits.answer_seconds, self._look)

    def _look(self) -> None:
        """Cut the connection if the other end has not read what was waiting for it long enough."""
        waiting = self._line.get_write_buffer_size()
        taken = self._line.written - waiting
        pace = self._limits.answer_bytes_per_second * self._limits.answer_seconds
        if taken - self._taken < min(self._waiting, pace):
            self._metrics.rejected("answer slow")
            self.transport.abort()
            return
        self._waiting, self._taken = waiting, taken
        self._look_later()

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

    def __init__(self, limits: Limits, guest: Guest) -> None:
        self._limits, self._guest = limits, guest

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        after = self._limits.retry_seconds
        busy = Problem(503, Reason.BUSY, "too many connections", retry_after=after)
        transport.write(raw_response("Service Unavailable", busy))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guest.leave()


class Hall:
    """Who is inside: connections from their acceptance on, all together and by whose they are.

    Those of reverse proxies are nobody's: requests of many come over each.
    """

    def __init__(self, limits: Limits, metrics: Metrics, proxies: str = "") -> None:
        self._limits, self._metrics = limits, metrics
        self._is_proxy = trusted(proxies)
        self._inside = self._strangers = 0
        self._of: Counter[str] = Counter()

    def enter(self, address: str) -> Guest:
        return Guest(self, None if self._is_proxy(address) else origin(address))

    def over(self, guest: Guest, by: int = 0) -> bool:
        """Whether this guest, counted in, is one too many, or even too many by so much."""
        limits, address = self._limits, guest.whose
        if self._inside > limits.connections + by:
            return True
        if address is None:
            return False
        each = limits.connections_per_address
        too_many_here = each is not None and self._of[address] > each + by
        return too_many_here or self._strangers > limits.stranger_connections + by

    def has_room_for(self, name: str) -> bool:
        return self._of[name] < self._limits.connections_per_identity

    def count(self, whose: str | None, change: int, *, stranger: bool) -> None:
        self._inside += change
        if whose is not None:
            self._strangers += change * stranger
            self._of[whose] += change
            if not self._of[whose]:
                del self._of[whose]
        self._metrics.connections(self._inside)


class Guest:
    """One connection inside: its address's until it is known whose, a proxy's always nobody's."""

    def __init__(self, hall: Hall, address: str | None) -> None:
        self._hall, self.whose = hall, address
        self._stranger, self._left = True, False
        hall.count(address, 1, stranger=True)

    def vouch(self, name: str) -> bool:
        """A request over it has shown who it is: false if that one has connections enough."""
        if self.whose is None or self._left or self.whose == name:
            return True
        if not self._hall.has_room_for(name):
            return False
        self._hall.count(self.whose, -1, stranger=self._stranger)
        self.whose, self._stranger = name, False
        self._hall.count(name, 1, stranger=False)
        return True

    def leave(self) -> None:
        """However often it is called."""
        if not self._left:
            self._left = True
            self._hall.count(self.whose, -1, stranger=self._stranger)


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


class Entrance:
    """Accepts connections, counts them, and only then shakes hands."""

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        tls: ssl.SSLContext | None,
        connection: Callable[[Guest], Connection],
        proxies: str = "",
    ) -> None:
        self._limits, self._metrics, self.tls = limits, metrics, tls
        self._connection = connection
        self._hall = Hall(limits, metrics, proxies)
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
        guest = self._hall.enter(address)
        full = self._hall.over(guest)
        if full:
            self._metrics.rejected("connections")
        if self._hall.over(guest, self._limits.turned_away):  # too many even to be told so
            accepted.close()
            guest.leave()
            return
        with caught(self._metrics) as defect:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: TurnedAway(self._limits, guest) if full else self._connection(guest),
                    accepted,
                    ssl=self.tls,
                    ssl_handshake_timeout=self._limits.header_seconds if self.tls else None,
                    ssl_shutdown_timeout=self._limits.close_seconds if self.tls else None,
                )
            except OSError:  # all that TLS, time and the network have to say
                self._metrics.rejected("handshake")
                guest.leave()
        if defect.id is not None:
            accepted.close()
            guest.leave()

"""Limits in front of the application, which is called with whole requests of permitted size only.

The limits are checked in the order of what the check costs: who is asking, from the header alone;
that caller's rate and number of requests under way; the announced size; then the body while it
arrives. Callers who have proved their identity have limits of their own, wherever they connect
from; all others at one address share theirs, and have little memory. The memory for a body is
released when the answer has been sent, or earlier if the application says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from dhdmm.network.problems import Problem, Reason
from dhdmm.server.asgi import Application, Message, Receive, Scope, Send, headers_of
from dhdmm.server.limits import (
    KIB,
    ArrivingBody,
    Buckets,
    CallerLimits,
    Limits,
    MemoryExceeded,
    origin,
)
from dhdmm.server.logs import logger, place
from dhdmm.server.metrics import Metrics
from dhdmm.server.responses import refusal

Header = tuple[bytes, bytes]
Recogniser = Callable[[Scope], Awaitable[tuple[str | None, int | None]]]
"""Returns the caller's name, None for a stranger, and the largest body it may send if that is
known; raises `Problem` to refuse it. Only the header has been read."""

REFUSALS = (401, 403)
PIECE = 64 * KIB
"""Bytes of an answer's body that are written at one time."""
NAME, IDENTIFY, TRANSPORT = "dhdmm.name", "dhdmm.identify", "dhdmm.transport"
"""In a request's scope: the caller's name, the connection's function to call with it, and the
transport that answers are written to."""
RELEASE_BODY = "dhdmm.release-body"
"""In a request's scope: to be called by whoever keeps the body no longer and answers later."""

SECURITY: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
SECURITY_OVER_TLS = (*SECURITY, (b"strict-transport-security", b"max-age=31536000"))


class _Refused(Problem):
    """A request that the application never sees."""


class _Disconnected(Exception):
    """The client closed the connection before its request was complete."""


async def recognise_nobody(_scope: Scope) -> tuple[str | None, int | None]:
    """A `Recogniser` that knows nobody."""
    return None, None


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: Application,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        recognise: Recogniser = recognise_nobody,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._recognise = recognise
        self._known, self._strangers = CallerLimits.both(limits, clock)
        self._refusals = Buckets(limits.refusals, limits.callers, clock)
        self._guesses = Buckets(limits.guesses, limits.callers, clock)
        metrics.show_body_bytes(lambda: self._known.memory.held + self._strangers.memory.held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send, self._answered)
        try:
            await self._serve(scope, receive, answer)
        except Problem as refused:
            if isinstance(refused, _Refused):
                self._metrics.rejected(refused.reason)
            # there may be a body that nobody will read
            await refusal(refused, (("connection", "close"),))(scope, receive, answer)
        except _Disconnected:
            self._metrics.rejected("gone")

    async def _serve(self, scope: Scope, receive: Receive, answer: Send) -> None:
        """Call the application with the whole request, within the caller's limits."""
        headers = headers_of(scope)
        if headers.get("content-encoding", "identity") != "identity":
            raise _Refused(415, Reason.ENCODED, "a body is sent as it is, not compressed")
        address = _address(scope)
        name, most = await self._recognised(scope, address)
        scope[NAME] = name
        self._require_rate(name, address)
        caller, allowed = (address, self._strangers) if name is None else (name, self._known)
        if name is not None and not scope.get(IDENTIFY, lambda _name: True)(name):
            raise self._too_many("too many connections of one identity")
        if not allowed.at_once.begin(caller):
            raise self._too_many("too many requests at once")
        body = None
        try:
            length = _announced(headers)
            if length != 0:
                most = allowed.body_bytes if most is None else min(most, allowed.body_bytes)
                if length is not None and length > most:
                    raise _too_large(most)
                body = allowed.memory.begin(caller)
                scope[RELEASE_BODY] = body.release
                receive = _replayed(await self._whole(receive, body, length, most), receive)
            await self._app(scope, receive, answer)
        finally:
            allowed.at_once.end(caller)
            if body is not None:
                body.release()

    async def _recognised(self, scope: Scope, address: str) -> tuple[str | None, int | None]:
        """The caller's name and the largest body it may send; the body has not been read yet.

        A signature cannot be guessed, so it is verified however often others at the same address
        have failed. A token might be: after too many wrong ones that address has to wait.
        """
        if "authorization" in headers_of(scope) and (wait := self._guesses.wait(address)):
            raise _Refused(429, Reason.RATE, "too many wrong tokens", retry_after=wait)
        try:
            return await self._recognise(scope)
        except Problem as problem:
            if problem.status in REFUSALS:
                self._require_rate(None, address)
            raise

    async def _whole(
        self, receive: Receive, body: ArrivingBody, length: int | None, most: int
    ) -> bytes:
        parts, more = [], True
        seconds = self._limits.body_deadline(most if length is None else length)
        try:
            async with asyncio.timeout(seconds) as deadline:
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if body.asked_for + len(parts[-1]) > most:
                        raise _too_large(most)
                    await self._grow(body, len(parts[-1]), deadline)
        except TimeoutError:
            raise _Refused(408, Reason.SLOW, "the body took too long to arrive") from None
        return b"".join(parts)

    async def _grow(self, body: ArrivingBody, count: int, deadline: asyncio.Timeout) -> None:
        """Reserve memory for what has arrived; waiting for it is not counted as the sender's."""
        try:
            turn = body.grow(count)
            if turn is None:
                return
            until, began = deadline.when(), asyncio.get_running_loop().time()
            deadline.reschedule(None)
            async with asyncio.timeout(self._limits.memory_seconds):
                await turn
        except (TimeoutError, MemoryExceeded):
            after = self._limits.retry_seconds
            raise _Refused(
                503, Reason.BUSY, "too much is being received", retry_after=after
            ) from None
        assert until is not None
        deadline.reschedule(until + asyncio.get_running_loop().time() - began)

    def _require_rate(self, name: str | None, address: str) -> None:
        """Each known caller has a rate of its own; all strangers at an address share one."""
        if name is None:
            wait = self._refusals.wait(address) or self._strangers.rate.wait_or_take(address)
        else:
            wait = self._known.rate.wait_or_take(name)
        if wait:
            raise _Refused(429, Reason.RATE, "too many requests", retry_after=wait)

    def _too_many(self, detail: str) -> _Refused:
        after = self._limits.retry_seconds
        return _Refused(429, Reason.RATE, detail, retry_after=after)

    def _answered(self, scope: Scope, status: int) -> None:
        self._metrics.responded(status)
        if status in REFUSALS and scope.get(NAME) is None:
            self._refusals.take(_address(scope))
            if "authorization" in headers_of(scope):
                self._guesses.take(_address(scope))
        if status >= 400:
            logger().info(
                "refused", method=scope["method"], path=place(scope["path"]), status=status
            )


class _Answer:
    """Sends an answer: adds the security headers, counts the status, and splits a large body.

    The next piece is written when the client has read most of the last one, so little is buffered
    in a connection, and the buffer shows whether the client reads.
    """

    def __init__(self, scope: Scope, send: Send, answered: Callable[[Scope, int], None]) -> None:
        self._scope, self._send, self._answered = scope, send, answered
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._answered(self._scope, message["status"])
            self._start = {**message, "headers": self._secured(message.get("headers", ()))}
            return
        body = message.get("body", b"")
        if len(body) > PIECE:
            view = memoryview(body)
            last = (len(body) - 1) // PIECE * PIECE
            for begin in range(0, last, PIECE):
                piece = bytes(view[begin : begin + PIECE])
                await self._write({"type": message["type"], "body": piece, "more_body": True})
            message = {**message, "body": bytes(view[last:])}
        await self._write(message)

    async def _write(self, piece: Message) -> None:
        """Write a header together with the first piece of its body: one TLS record, not two."""
        start, self._start = self._start, None
        transport = self._scope.get(TRANSPORT)
        if start is None or transport is None:
            if start is not None:
                await self._send(start)
            await self._send(piece)
            return
        transport.hold()
        try:
            await self._send(start)
            await self._send(piece)
        finally:
            transport.flush()

    def _secured(self, headers: Iterable[Header]) -> list[Header]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        wanted = SECURITY_OVER_TLS if self._scope["scheme"] == "https" else SECURITY
        return given + [header for header in wanted if header[0] not in names]


def _too_large(most: int) -> _Refused:
    return _Refused(413, Reason.TOO_LARGE, f"a body has at most {most:,} bytes")


def _announced(headers: dict[str, str]) -> int | None:
    """The body's length; None if it comes in chunks of unknown number."""
    if "transfer-encoding" in headers:
        return None
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return origin(str(client[0])) if client else "unknown"


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receives the whole body first, and then what follows it: that the client disconnected."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return whole.pop() if whole else await receive()

    return next_message

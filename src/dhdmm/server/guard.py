"""The wall in front of the application: what gets past it is whole, small and not too frequent.

A request meets the limits in the order of what it costs us to find out: who is asking, by its
header alone; that caller's rate and its requests under way; its announced size; then its body while
it arrives. Whoever has shown who it is has limits of its own, wherever it asks from; all others at
one address share theirs, and have little memory. The application is called with the whole body; the
memory for it is given back when the answer has been sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import ExitStack
from typing import Any

from dhdmm.network.problems import Problem, Reason
from dhdmm.server.limits import (
    KIB,
    ArrivingBody,
    AtOnce,
    BodyMemory,
    Buckets,
    Limits,
    Overdrawn,
    origin,
)
from dhdmm.server.logs import logger, place
from dhdmm.server.metrics import Metrics
from dhdmm.server.responses import refusal

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]
Door = Callable[[Scope], Awaitable[tuple[str | None, int | None]]]
"""Tells the name of who is asking, None of a stranger, and how long its body may be if that is
known; refuses with a `Problem`. It has the header alone to go by."""

REFUSALS = (401, 403)
PIECE = 64 * KIB
"""Of an answer's body that is handed on at one time."""
NAME, VOUCH, LINE = "dhdmm.name", "dhdmm.vouch", "dhdmm.line"
"""In a request's scope: the name of who asks, what tells the connection of it, and where answers
are written to."""

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


class _Gone(Exception):
    """The other end hung up before its request was complete."""


async def all_strangers(_scope: Scope) -> tuple[str | None, int | None]:
    return None, None


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: Application,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        door: Door = all_strangers,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._door = door
        self._memory = BodyMemory(
            limits.memory_bytes, limits.memory_bytes_per_identity, limits.body_bytes
        )
        self._strangers_memory = BodyMemory(
            limits.stranger_memory_bytes,
            limits.stranger_memory_bytes_per_address,
            limits.stranger_body_bytes,
        )
        self._known = Buckets(limits.requests, limits.callers, clock)
        self._strangers = Buckets(limits.stranger_requests, limits.callers, clock)
        self._refusals = Buckets(limits.refusals, limits.callers, clock)
        self._guesses = Buckets(limits.guesses, limits.callers, clock)
        self._known_at_once = AtOnce(limits.requests_at_once)
        self._strangers_at_once = AtOnce(limits.stranger_requests_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send, self._answered)
        try:
            with ExitStack() as held:
                await self._app(scope, await self._admitted(scope, receive, held), answer)
        except Problem as refused:
            if isinstance(refused, _Refused):
                self._metrics.rejected(refused.reason)
            # there may be a body that nobody will read
            await refusal(refused, (("connection", "close"),))(scope, receive, answer)
        except _Gone:
            self._metrics.rejected("gone")

    async def _admitted(self, scope: Scope, receive: Receive, held: ExitStack) -> Receive:
        """What the application may read from; the memory for it is held on to."""
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise _Refused(415, Reason.ENCODED, "a body is sent as it is, not compressed")
        name, most = await self._recognised(scope, headers)
        scope[NAME] = name
        self._heed_rate(name, _address(scope))
        if name is None:
            caller, at_once, memory = (
                _address(scope),
                self._strangers_at_once,
                self._strangers_memory,
            )
            largest = self._limits.stranger_body_bytes
        else:
            caller, at_once, memory = name, self._known_at_once, self._memory
            largest = self._limits.body_bytes
            if not scope.get(VOUCH, lambda _name: True)(name):
                raise self._too_many("too many connections of one identity")
        if not held.enter_context(at_once.one_more(caller)):
            raise self._too_many("too many requests at once")
        length = _announced(headers)
        if length == 0:
            return receive
        most = largest if most is None else min(most, largest)
        if length is not None and length > most:
            raise _too_large(most)
        held.callback(self._note_memory)  # when it is given back
        return _once(
            await self._whole(receive, held.enter_context(memory.body(caller)), length, most),
            receive,
        )

    async def _recognised(
        self, scope: Scope, headers: dict[bytes, bytes]
    ) -> tuple[str | None, int | None]:
        """Who is asking, and how long its body may be; nothing of the body has been read yet.

        A signature cannot be guessed, so it is looked at however often others at the same address
        have failed. A token might be: whoever guesses has to wait, and nobody else.
        """
        address = _address(scope)
        if b"authorization" in headers and (wait := self._guesses.wait(address)):
            raise _Refused(429, Reason.RATE, "too many wrong tokens", retry_after=wait)
        try:
            return await self._door(scope)
        except Problem as problem:
            if problem.status in REFUSALS:
                self._heed_rate(None, address)
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
                        raise _Gone
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if body.size + len(parts[-1]) > most:
                        raise _too_large(most)
                    await self._grow(body, len(parts[-1]), deadline)
        except TimeoutError:
            raise _Refused(408, Reason.SLOW, "the body took too long to arrive") from None
        return b"".join(parts)

    async def _grow(self, body: ArrivingBody, count: int, deadline: asyncio.Timeout) -> None:
        """Take memory for what has arrived; the time that this takes is not the sender's."""
        if body.grow_at_once(count):
            self._note_memory()
            return
        until, began = deadline.when(), asyncio.get_running_loop().time()
        deadline.reschedule(None)
        try:
            async with asyncio.timeout(self._limits.memory_seconds):
                await body.grow(count)
        except (TimeoutError, Overdrawn):
            after = self._limits.retry_seconds
            raise _Refused(
                503, Reason.BUSY, "too much is being received", retry_after=after
            ) from None
        assert until is not None
        deadline.reschedule(until + asyncio.get_running_loop().time() - began)
        self._note_memory()

    def _note_memory(self) -> None:
        self._metrics.body_bytes(self._memory.held + self._strangers_memory.held)

    def _heed_rate(self, name: str | None, address: str) -> None:
        """A rate for everybody who is known; one for all strangers at an address."""
        buckets, caller = (self._strangers, address) if name is None else (self._known, name)
        wait = buckets.wait(caller)
        if name is None:
            wait = max(wait, self._refusals.wait(address))
        if wait:
            raise _Refused(429, Reason.RATE, "too many requests", retry_after=wait)
        buckets.take(caller)

    def _too_many(self, detail: str) -> _Refused:
        after = self._limits.retry_seconds
        return _Refused(429, Reason.RATE, detail, retry_after=after)

    def _answered(self, scope: Scope, status: int) -> None:
        self._metrics.responded(status)
        if status in REFUSALS and scope.get(NAME) is None:
            self._refusals.take(_address(scope))
            if any(name == b"authorization" for name, _ in scope["headers"]):
                self._guesses.take(_address(scope))
        if status >= 400:
            logger().info(
                "refused", method=scope["method"], path=place(scope["path"]), status=status
            )


class _Answer:
    """The way back: adds the security headers, notes the status, and hands a body on in pieces.

    The next piece is written when the other end has read most of the last, so what waits in a
    connection is little, and shows whether anybody reads.
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
                await self._hand_on({"type": message["type"], "body": piece, "more_body": True})
            message = {**message, "body": bytes(view[last:])}
        await self._hand_on(message)

    async def _hand_on(self, piece: Message) -> None:
        """A header goes with the first piece of its body: that is one TLS record, not two."""
        start, self._start = self._start, None
        line = self._scope.get(LINE)
        if start is None or line is None:
            if start is not None:
                await self._send(start)
            await self._send(piece)
            return
        line.hold()
        try:
            await self._send(start)
            await self._send(piece)
        finally:
            line.let_go()

    def _secured(self, headers: Iterable[Header]) -> list[Header]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        wanted = SECURITY_OVER_TLS if self._scope["scheme"] == "https" else SECURITY
        return given + [header for header in wanted if header[0] not in names]


def _too_large(most: int) -> _Refused:
    return _Refused(413, Reason.TOO_LARGE, f"a body has at most {most:,} bytes")


def _announced(headers: dict[bytes, bytes]) -> int | None:
    """The body's length; None if it comes in chunks of unknown number."""
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return origin(str(client[0])) if client else "unknown"


def _once(body: bytes, receive: Receive) -> Receive:
    """The whole body first, and then whatever else there is to hear: that the other end left."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return whole.pop() if whole else await receive()

    return next_message

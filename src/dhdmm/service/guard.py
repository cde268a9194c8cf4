"""The wall in front of the application: what gets past it is whole, small and not too frequent.

A request meets the limits in the order of what it costs us to find out: its header, its sender's
rate, its announced size, then its body while it arrives. The application is called with the whole
body; the memory for it is given back when the answer has been sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

from dhdmm.service.limits import Buckets, Limits, SharedBudget
from dhdmm.service.logs import logger, place
from dhdmm.service.metrics import Metrics
from dhdmm.service.problems import Problem, Reason, problem_response

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

SECURITY: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
ONLY_TLS: Header = (b"strict-transport-security", b"max-age=31536000")


class _Refused(Problem):
    """A request that the application never sees."""


class _Gone(Exception):
    """The other end hung up before its request was complete."""


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: Application,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._memory = SharedBudget(limits.memory_bytes, limits.memory_bytes_per_address)
        self._signed = Buckets(limits.requests, limits.callers, clock)
        self._unsigned = Buckets(limits.unsigned_requests, limits.callers, clock)
        self._refusals = Buckets(limits.refusals, limits.callers, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send, self._answered)
        try:
            async with AsyncExitStack() as held:
                await self._app(scope, await self._admitted(scope, receive, held), answer)
        except _Refused as refused:
            self._metrics.rejected(refused.reason)
            response = problem_response(refused)
            response.headers["connection"] = "close"  # there may be a body that nobody will read
            await response(scope, receive, answer)
        except _Gone:
            self._metrics.rejected("gone")

    async def _admitted(self, scope: Scope, receive: Receive, held: AsyncExitStack) -> Receive:
        """What the application may read from; the memory for it is held on to."""
        limits, headers = self._limits, dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise _Refused(415, Reason.ENCODED, "a body is sent as it is, not compressed")
        self._heed_rate(scope, headers)
        length = _announced(headers)
        if length == 0:
            return receive
        if length is not None and length > limits.body_bytes:
            raise self._too_large()
        held.callback(lambda: self._metrics.body_bytes(self._memory.held))  # when it is given back
        try:
            reserved = length or limits.body_bytes
            await held.enter_async_context(
                self._memory.hold(_address(scope), reserved, limits.memory_seconds)
            )
        except TimeoutError:
            raise _Refused(
                503, Reason.BUSY, "too much is being received", retry_after=limits.retry_seconds
            ) from None
        self._metrics.body_bytes(self._memory.held)
        try:
            async with asyncio.timeout(limits.body_deadline(length)):
                return _once(await self._whole(receive), receive)
        except TimeoutError:
            raise _Refused(408, Reason.SLOW, "the body took too long to arrive") from None

    async def _whole(self, receive: Receive) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            parts.append(message.get("body", b""))
            more, size = message.get("more_body", False), size + len(parts[-1])
            if size > self._limits.body_bytes:
                raise self._too_large()
        return b"".join(parts)

    def _heed_rate(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        address, key = _address(scope), headers.get(b"dhdmm-key")
        if key is None:
            buckets, caller = self._unsigned, address
        else:  # with the address, so that nobody uses up what is another's by naming its key
            buckets, caller = self._signed, f"{address} {key[:64].decode('latin-1')}"
        wait = max(buckets.wait(caller), self._refusals.wait(address))
        if wait:
            raise _Refused(429, Reason.RATE, "too many requests", retry_after=wait)
        buckets.take(caller)

    def _too_large(self) -> _Refused:
        most = self._limits.body_bytes
        return _Refused(413, Reason.TOO_LARGE, f"a body has at most {most:,} bytes")

    def _answered(self, scope: Scope, status: int) -> None:
        self._metrics.responded(status)
        if status == 401:
            self._refusals.take(_address(scope))
        if status >= 400:
            logger().info(
                "refused", method=scope["method"], path=place(scope["path"]), status=status
            )


class _Answer:
    """The way back: adds the security headers, and notes the status."""

    def __init__(self, scope: Scope, send: Send, answered: Callable[[Scope, int], None]) -> None:
        self._scope, self._send, self._answered = scope, send, answered

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._answered(self._scope, message["status"])
            message = {**message, "headers": self._secured(message.get("headers", ()))}
        await self._send(message)

    def _secured(self, headers: Iterable[Header]) -> list[Header]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        wanted = (*SECURITY, ONLY_TLS) if self._scope["scheme"] == "https" else SECURITY
        return [*given, *(header for header in wanted if header[0] not in names)]


def _announced(headers: dict[bytes, bytes]) -> int | None:
    """The body's length; None if it comes in chunks of unknown number."""
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _once(body: bytes, receive: Receive) -> Receive:
    """The whole body first, and then whatever else there is to hear: that the other end left."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return whole.pop() if whole else await receive()

    return next_message

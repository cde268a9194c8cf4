"""What may stand between a participant and an honest coordinator: trouble, or malice."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Change = Callable[[Request, bytes], bytes]


@dataclass
class Outage:
    """Every request is turned away twice: with 503, then with 429. Bodies are noted."""

    app: ASGIApp
    tries: dict[tuple[str, str, str], list[bytes]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        key = request.method, str(request.url), request.headers.get("dhdmm-signature", "")
        tried = self.tries.setdefault(key, [])
        tried.append(body)
        if len(tried) <= 2:
            status = (503, 429)[len(tried) - 1]
            await Response("busy", status, {"Retry-After": "0"})(scope, receive, send)
            return

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)


@dataclass
class Malice:
    """Answers pass through `change`, which sees who asked for what.

    It is given them as they are read in the end, and what it makes of them is not compressed.
    """

    app: ASGIApp
    change: Change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, held, parts = Request(scope), list[Message](), list[bytes]()

        async def hold(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.append(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                body, headers = b"".join(parts), dict(held[0]["headers"])
                headers.pop(b"content-length", None)
                if headers.pop(b"content-encoding", None):
                    body = zlib.decompress(body)
                if held[0]["status"] == 200:
                    body = self.change(request, body)
                answer = Response(body, held[0]["status"])
                answer.raw_headers += headers.items()
                await answer(scope, receive, send)

        await self.app(scope, receive, hold)

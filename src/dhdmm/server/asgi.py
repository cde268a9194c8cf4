"""The types of an ASGI application, and a request's header as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = "dhdmm.headers"


def headers_of(scope: Scope) -> dict[str, str]:
    """The request's header as text; decoded at the first call, and kept in the scope."""
    found: dict[str, str] | None = scope.get(_HEADERS)
    if found is None:
        found = scope[_HEADERS] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
    return found

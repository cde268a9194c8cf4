"""Pages for whoever sits at this machine: a consent to give, or a release to read.

Only the loopback address is listened to. The address that is printed carries a key that opens the
pages once; afterwards a cookie does. A request for another host's name is refused, so that no page
elsewhere can reach these under a name of its own.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dhdmm.errors import DhdmmError
from dhdmm.server.process import Server, make_server, run
from dhdmm.web.signin import is_from_our_page
from dhdmm.web.site import with_headers

HOST = "127.0.0.1"
START_SECONDS = 10.0
STOP_SECONDS = 5.0


@contextmanager
def served_here(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """The address that opens the application once; it is gone when the block ends."""
    access = LocalAccess(app)
    server = make_server(with_headers(access), HOST, port)
    thread = threading.Thread(target=run, args=[server.serve()], daemon=True)
    thread.start()
    _await_start(server, thread)
    try:
        yield f"http://{HOST}:{server.port}/?key={access.key}"
    finally:
        server.stop()
        thread.join(STOP_SECONDS)


@dataclass(eq=False)
class LocalAccess:
    """Lets in whoever has opened the printed address, and what our own pages send."""

    app: ASGIApp
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope) if scope["type"] == "http" else None
        await (refused or self.app)(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        """What is answered instead, if it is not for the application."""
        if not _is_ours(scope):
            return PlainTextResponse("Not here.", 421)
        request = Request(scope)
        given = request.query_params.get("key") if request.url.path == "/" else None
        if given is not None:
            return self._opened(request, given)
        shown = request.cookies.get(_cookie(request), "")
        if not hmac.compare_digest(shown.encode(), self._session.encode()):
            return _stranger()
        if request.method != "GET" and not is_from_our_page(request):
            return PlainTextResponse("This was not sent by the page.", 403)
        return None

    def _opened(self, request: Request, given: str) -> Response:
        """The key opens once; the address in the browser's history is worth nothing afterwards."""
        if not hmac.compare_digest(given.encode(), self.key.encode()):
            return _stranger()
        self.key = secrets.token_urlsafe(32)
        response = RedirectResponse("/", 303)
        response.set_cookie(_cookie(request), self._session, httponly=True, samesite="strict")
        return response


def _await_start(server: Server, thread: threading.Thread) -> None:
    end = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise DhdmmError("pages cannot be served on this machine", where=HOST)
        time.sleep(0.01)


def _is_ours(scope: Scope) -> bool:
    port = scope["server"][1]
    names = {f"{HOST}:{port}".encode(), f"localhost:{port}".encode()}
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and hosts[0] in names


def _cookie(request: Request) -> str:
    """Cookies of one host are shared by its ports; this one says which port it is for."""
    return f"dhdmm-{request.url.port}"


def _stranger() -> Response:
    return PlainTextResponse("Open the address that dhdmm has printed; it works once.", 401)

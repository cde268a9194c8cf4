"""`dhdmm review` as a page on the participant's own machine: what is asked, its cost, yes or no.

Only this machine is listened to. The address that is printed carries a key that opens the page
once; afterwards a cookie does. A request for another host's name is refused, so that no page
elsewhere can reach this one under a name of its own. Nothing else is served, and no record is here.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dhdmm.errors import DhdmmError, Refused
from dhdmm.server.process import Server, make_server, run
from dhdmm.web.signin import is_from_our_page
from dhdmm.web.site import environment, static_file, with_headers

HOST = "127.0.0.1"
FILES = ("style.css", "chart.css", "consent.js", "icon.svg")
START_SECONDS = 10.0
LINGER_SECONDS = 5.0
"""How long the page stays after the end, for the browser to hear of it."""
SETTLE_SECONDS = 0.5
"""And then for what belongs to the page."""

Endpoint = Callable[[Request], Awaitable[Response]]
Document = dict[str, Any]


@dataclass(eq=False)
class ConsentPage:
    """One review, one decision, and then the course of the round."""

    document: Document
    consented: bool
    _key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _decided: threading.Event = field(default_factory=threading.Event)
    _agreed: bool = False
    _said: list[str] = field(default_factory=list)
    _ending: Document | None = None
    _seen: threading.Event = field(default_factory=threading.Event)

    # What the command does with it

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address to open, once; the page is gone when the block ends."""
        server = make_server(self.application(), HOST, 0)
        thread = threading.Thread(target=run, args=[server.serve()], daemon=True)
        thread.start()
        _await_start(server, thread)
        try:
            yield f"http://{HOST}:{server.port}/?key={self._key}"
        except DhdmmError as error:
            self.end({"ending": "refused", "reason": error.what, "hint": error.hint})
            raise
        finally:
            if self._ending is not None:
                self._seen.wait(LINGER_SECONDS)
                time.sleep(SETTLE_SECONDS)
            server.stop()
            thread.join(LINGER_SECONDS)

    def agree(self) -> None:
        """What `--yes` says before anybody is asked."""
        self._decide(True)

    def require_consent(self) -> None:
        """Returns when somebody clicked yes; raises when it was no."""
        self._decided.wait()
        if not self._agreed:
            raise Refused("you refused on the page", hint="nothing was sent, nothing is spent")

    def watch(self, words: str) -> None:
        """What happens in the round; the same words again change nothing."""
        if words not in self._said[-1:]:
            self._said.append(words)

    def end(self, ending: Document) -> None:
        """How it ended, as `dhdmm join --json` prints it."""
        self._ending = ending

    # What the browser sees

    def application(self) -> ASGIApp:
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/progress", self._inside(self._progress), methods=["GET"]),
            Route("/consent", self._inside(self._decision(True)), methods=["POST"]),
            Route("/refuse", self._inside(self._decision(False)), methods=["POST"]),
            Route("/static/{name}", self._inside(_file), methods=["GET"]),
        ]
        return with_headers(_only_by_our_name(Starlette(routes=routes)))

    async def _page(self, request: Request) -> Response:
        given = request.query_params.get("key")
        if given is not None:
            return self._opened(request, given)
        if not self._admits(request):
            return _stranger()
        state, template = self._state(), environment().get_template("consent.html")
        text = template.render(self.document, consented=self.consented, progress=state)
        if state["state"] in ("over", "declined"):
            self._seen.set()
        return HTMLResponse(text)

    def _opened(self, request: Request, given: str) -> Response:
        """The key opens once; the address in the browser's history is worth nothing afterwards."""
        key, self._key = self._key, secrets.token_urlsafe(32)
        if not hmac.compare_digest(given.encode(), key.encode()):
            self._key = key
            return _stranger()
        response = RedirectResponse("/", 303)
        response.set_cookie(_cookie(request), self._session, httponly=True, samesite="strict")
        return response

    def _admits(self, request: Request) -> bool:
        given = request.cookies.get(_cookie(request), "")
        return hmac.compare_digest(given.encode(), self._session.encode())

    def _inside(self, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            if not self._admits(request):
                return _stranger()
            if request.method == "POST" and not is_from_our_page(request):
                return PlainTextResponse("This was not sent by the page.", 403)
            return await endpoint(request)

        return guarded

    async def _progress(self, _request: Request) -> Response:
        return JSONResponse(self._state())

    def _decision(self, yes: bool) -> Endpoint:
        async def decide(_request: Request) -> Response:
            if yes and self.document["left_after"] < 0:
                return PlainTextResponse("The budget does not suffice.", 409)
            self._decide(yes)
            return RedirectResponse("/", 303)

        return decide

    def _decide(self, yes: bool) -> None:
        """The first decision counts."""
        if not self._decided.is_set():
            self._agreed = yes
            self._decided.set()

    def _state(self) -> Document:
        if not self._decided.is_set():
            state = "asking"
        elif not self._agreed:
            state = "declined"
        else:
            state = "running" if self._ending is None else "over"
        return {"state": state, "said": list(self._said), "ending": self._ending}


def _await_start(server: Server, thread: threading.Thread) -> None:
    end = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise DhdmmError("the page cannot be served on this machine", where=HOST)
        time.sleep(0.01)


def _only_by_our_name(app: ASGIApp) -> ASGIApp:
    """Refuses what was meant for another name."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_ours(scope):
            await PlainTextResponse("Not here.", 421)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def _is_ours(scope: Scope) -> bool:
    port = scope["server"][1]
    names = {f"{HOST}:{port}".encode(), f"localhost:{port}".encode()}
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and hosts[0] in names


def _cookie(request: Request) -> str:
    """Cookies of one host are shared by its ports; this one says which port it is for."""
    return f"dhdmm-{request.url.port}"


def _stranger() -> Response:
    return PlainTextResponse("Open the address that dhdmm join has printed; it works once.", 401)


async def _file(request: Request) -> Response:
    if request.path_params["name"] not in FILES:
        return PlainTextResponse("Not here.", 404)
    return await static_file(request)

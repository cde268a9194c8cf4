"""What all pages share: templates, headers, and who may see what.

    site.reader_route(path, endpoint)     everybody, if the pages are public; else the operator
    site.operator_route(path, endpoint)   the operator
    site.page(request, name, …)      a rendered template

Strangers are told to sign in before anything is looked up, so they cannot find out what exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dhdmm.network.problems import Problem, Reason
from dhdmm.release.charts.page import STYLE as CHART_STYLE
from dhdmm.release.wording import byte_size, day, figure, large, moment, number, printable
from dhdmm.server.responses import problem_response
from dhdmm.web import signin
from dhdmm.web.signin import OperatorSessions

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.name: path for path in (*STATIC.iterdir(), CHART_STYLE)}
"""What pages load, by name: no name leads out of these."""
LONGEST_FORM = 64 * 1024

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(eq=False)
class Site:
    """The pages of one coordinator, or of a release on this machine."""

    sessions: OperatorSessions = field(repr=False)
    public: bool = False
    local: bool = False
    """They are of this machine: there is nobody to sign in."""
    computing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Held by whoever makes this process compute for longer than a page takes."""

    @cached_property
    def templates(self) -> Environment:
        return environment()

    # -- who may see what -------------------------------------------------------------------------

    def reader_route(self, path: str, endpoint: Endpoint) -> Route:
        """A page that changes nothing."""
        return self.operator_route(path, endpoint, public=self.public)

    def operator_route(
        self, path: str, endpoint: Endpoint, method: str = "GET", *, public: bool = False
    ) -> Route:
        """A page for the operator; what it is sent must come from one of our pages."""

        async def guarded(request: Request) -> Response:
            if not (public or signin.is_operator(self.sessions, request)):
                return self._sign_in_first(request)
            _require_our_page(request)
            return await endpoint(request)

        return Route(path, guarded, methods=[method])

    def routes(self) -> list[Route]:
        """What everybody may see."""
        return [
            Route("/sign-in", self._show_sign_in, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{name}", static_file, methods=["GET"]),
            Route("/take-part", self._take_part, methods=["GET"]),
        ]

    def _sign_in_first(self, request: Request) -> Response:
        """Pages lead to the form; programs get a refusal, the same for whatever they asked."""
        if "text/html" not in request.headers.get("accept", ""):
            return problem_response(Problem(401, Reason.NOT_THE_OPERATOR, "sign in first"))
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/sign-in?next={quote(target, safe='')}", 303)

    async def _take_part(self, request: Request) -> Response:
        """For whoever was sent a link, which says after its '#' what no server is told."""
        return self.page(request, "take-part.html")

    # -- signing in and out -----------------------------------------------------------------------

    async def _show_sign_in(self, request: Request) -> Response:
        place = signin.local_path(request.query_params.get("next", "/"))
        if signin.is_operator(self.sessions, request):
            return RedirectResponse(place, 303)
        return self.page(request, "sign-in.html", place=place, refused=None)

    async def _sign_in(self, request: Request) -> Response:
        _require_our_page(request)
        form = await form_of(request)
        place, address = signin.local_path(form.get("next", "/")), address_of(request)
        wait = self.sessions.wait(address)
        if wait:
            said = f"Too many attempts. Try again in {wait} seconds."
            response = self.page(request, "sign-in.html", 429, place=place, refused=said)
            response.headers["Retry-After"] = str(wait)
            return response
        session = self.sessions.enter(form.get("token", "")[: signin.LONGEST_TOKEN], address)
        if session is None:
            said = "This is not the token that the coordinator printed."
            return self.page(request, "sign-in.html", 401, place=place, refused=said)
        return signin.begin_session(request, session, place)

    async def _sign_out(self, request: Request) -> Response:
        _require_our_page(request)
        return signin.end_session(self.sessions, request, "/" if self.public else "/sign-in")

    # -- pages ------------------------------------------------------------------------------------

    def page(self, request: Request, name: str, status: int = 200, /, **values: Any) -> Response:
        """The template with these values, and what every page shows."""
        frame = {
            "operator": signin.is_operator(self.sessions, request),
            "public": self.public,
            "local": self.local,
            "path": request.url.path,
        }
        text = self.templates.get_template(name).render(frame | values)
        return HTMLResponse(text, status)

    async def refused(self, request: Request, problem: Problem) -> Response:
        """A refusal as a page, or as it is for programs."""
        if "text/html" not in request.headers.get("accept", ""):
            return problem_response(problem)
        response = self.page(request, "refused.html", problem.status, problem=problem)
        if problem.retry_after is not None:
            response.headers["Retry-After"] = str(problem.retry_after)
        return response


def environment() -> Environment:
    """Everything is escaped; what does not print, or turns text around, is made visible first."""
    made = Environment(
        loader=PackageLoader("dhdmm.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    filters = {"figure": figure, "bytes": byte_size, "large": large, "number": number}
    made.filters |= filters | {"day": day, "moment": moment}
    return made


def with_headers(app: ASGIApp) -> ASGIApp:
    """Every answer has our headers; what an endpoint says itself stays."""

    async def secured(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_secured)

    return secured


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form as browsers send it; the last one if a name comes twice."""
    if request.headers.get("content-type", "").partition(";")[0] != _FORM:
        raise Problem(415, Reason.INVALID, "not a form")
    body = await request.body()
    if len(body) > LONGEST_FORM:
        raise Problem(413, Reason.TOO_LARGE, f"a form has at most {LONGEST_FORM:,} bytes")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise Problem(422, Reason.INVALID, "not a form") from None
    return {name: values[-1] for name, values in fields.items()}


_FORM = "application/x-www-form-urlencoded"


def _require_our_page(request: Request) -> None:
    if request.method not in ("GET", "HEAD") and not signin.is_from_our_page(request):
        raise Problem(403, Reason.INVALID, "this was not sent by one of our pages")


async def static_file(request: Request) -> Response:
    path = FILES.get(request.path_params["name"])
    if path is None:
        return problem_response(Problem(404, Reason.NOT_FOUND, "there is no such page"))
    headers = {"Cache-Control": "no-cache"}
    return Response(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix], headers=headers)


def address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"

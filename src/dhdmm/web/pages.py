"""All pages as one application, for the coordinator to mount beside its routes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dhdmm.network.problems import Problem, Reason
from dhdmm.server.responses import problem_response
from dhdmm.server.studies import Hub
from dhdmm.web import builder, releases, rounds
from dhdmm.web.release_cache import FolderReleases, HubReleases, ReleaseCache
from dhdmm.web.signin import OperatorSessions, is_operator
from dhdmm.web.site import Site, with_headers


@dataclass(frozen=True)
class Pages:
    """The pages as an application, and who has signed in to them."""

    app: ASGIApp
    sessions: OperatorSessions = field(repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def is_operator(self, scope: Scope) -> bool:
        return is_operator(self.sessions, Request(scope))


def create_pages(hub: Hub, operator_token: str, *, public: bool = False) -> Pages:
    """The pages of this coordinator; with `public`, everybody may read what is no secret."""
    site = Site(OperatorSessions(operator_token), public)
    cache = ReleaseCache(HubReleases(hub))
    routes = [*rounds.routes(site, hub), *releases.routes(site, cache), *builder.routes(site, hub)]
    return Pages(with_headers(_application(site, routes)), site.sessions)


def local_pages(folders: Sequence[Path]) -> Starlette:
    """Releases on this machine, for whoever sits at it: the first page leads to them."""
    site = Site(OperatorSessions(secrets.token_urlsafe(32)), public=True, local=True)

    async def first(request: Request) -> Response:
        if len(folders) == 1:
            return RedirectResponse("/releases/1", 303)
        return site.page(request, "opened.html", folders=folders)

    cache = ReleaseCache(FolderReleases(folders))
    return _application(site, [site.reader_route("/", first), *releases.routes(site, cache)])


def _application(site: Site, routes: Sequence[Route]) -> Starlette:
    async def no_page(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        problem = Problem(status, Reason.NOT_FOUND, "there is no such page")
        if request.url.path.startswith("/v1/"):
            return problem_response(problem)
        return await site.refused(request, problem)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return await site.refused(request, error)

    app = Starlette(
        routes=[*site.routes(), *routes],
        exception_handlers={Problem: refused, HTTPException: no_page},
    )
    app.router.redirect_slashes = False
    return app

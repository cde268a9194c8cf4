"""The coordinator's routes. JSON for control, described in /openapi.json; bytes for the protocol.

Nothing here decides anything about a round: requests are checked for form, identity and size and
handed to the round. docs/protocol.md lists the routes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Send

import dhdmm
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.status import Status
from dhdmm.server import control
from dhdmm.server.asgi import Scope
from dhdmm.server.callers import Callers
from dhdmm.server.defects import report
from dhdmm.server.exchange import Exchange
from dhdmm.server.metrics import CONTENT_TYPE, Metrics, RoundFigures
from dhdmm.server.responses import internal_error, problem_response
from dhdmm.server.studies import Hub

Refusal = Callable[[Request, Any], Coroutine[Any, Any, Response]]


class Pages(Protocol):
    """Pages for people, which know who has signed in as the operator."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def is_operator(self, scope: Scope) -> bool: ...


_REASONS = {404: Reason.NOT_FOUND}


def create_app(
    hub: Hub,
    operator_token: str,
    *,
    metrics: Metrics | None = None,
    pages: Pages | None = None,
    public: bool = False,
) -> Starlette:
    """The application; its lifespan is the hub's. `pages` get what no route is for.

    If it is `public`, everybody may read of rounds what names nobody. Its `state.callers` is what
    the server's guard asks who is calling.
    """
    callers = Callers(
        hub,
        operator_token,
        public=public,
        signed_in=pages.is_operator if pages is not None else lambda _scope: False,
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await hub.start()
        try:
            yield
        finally:
            await hub.stop()

    async def defective(_request: Request, error: Exception) -> Response:
        return problem_response(internal_error(report(error, hub.observer)))

    refusals: dict[int | type[Exception], Refusal] = {
        Exception: defective,
        Problem: _refused,
        HTTPException: _no_route,
        RequestValidationError: _invalid,
    }
    described = FastAPI(
        title="dhdmm coordinator",
        version=dhdmm.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=refusals,
    )
    exchange = Exchange(hub, callers)
    described.include_router(control.routes(hub, callers, exchange))
    if metrics is not None:
        described.add_route("/metrics", _measured(hub, metrics), include_in_schema=False)
    if pages is not None:
        described.mount("/", pages)
    app = _Application(
        exchange,
        routes=[Mount("/", described)],
        exception_handlers=refusals,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.hub, app.state.callers = hub, callers
    return app


class _Application(Starlette):
    """Hands what every participant asks for to the exchange, and all else to the routes."""

    def __init__(self, exchange: Exchange, **starlette: Any) -> None:
        super().__init__(**starlette)
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._exchange.handler(scope) if scope["type"] == "http" else None
        if handler is None:
            await super().__call__(scope, receive, send)
        else:
            await self._exchange.answer(handler, scope, receive, send)


def _measured(hub: Hub, metrics: Metrics) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    metrics.watch(lambda: [_figures(status) for status in hub.live_statuses()])

    async def page(_request: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return page


def _figures(status: Status) -> RoundFigures:
    """Dropouts are all who cannot be counted any more, whether they said so or fell silent."""
    dropped = 0 if status.plan_digest is None else status.enrolled - status.alive
    return RoundFigures(
        status.round, status.state, status.enrolled, status.alive, status.departed, dropped
    )


async def _refused(_request: Request, problem: Problem) -> Response:
    return problem_response(problem)


async def _no_route(_request: Request, error: HTTPException) -> Response:
    reason = _REASONS.get(error.status_code, Reason.INVALID)
    response = problem_response(Problem(error.status_code, reason, error.detail))
    response.headers.update(error.headers or {})
    return response


async def _invalid(_request: Request, error: RequestValidationError) -> Response:
    """What is wrong with a JSON body or a parameter, without what was sent."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return problem_response(Problem(422, Reason.INVALID, f"{place}: {first['msg']}"))

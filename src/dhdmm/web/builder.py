"""The study builder: a page that makes a study file, and shows what it would give while it grows.

The browser sends the study's text and nothing else; data never comes here. It is read and planned
in a process of its own (`drafting`), and what is wrong with it is answered with its place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

from markupsafe import escape
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dhdmm.network.problems import Problem, Reason
from dhdmm.server.control import Body, roster_in
from dhdmm.server.store import StoredStudy
from dhdmm.server.studies import Hub
from dhdmm.study.document import LARGEST_FILE
from dhdmm.study.skeleton import example
from dhdmm.web.planners import DRAFT_SECONDS, Planners
from dhdmm.web.site import Site

LARGEST_ASKED = 4 * LARGEST_FILE
"""A study in JSON, and the tables beside it."""
LARGEST_START = LARGEST_FILE + 8 * 2**20
"""A study, and a roster of tens of thousands."""
MOST_TOKENS = 10_000
TOKEN_SECONDS = 7 * 24 * 3600

Form = TypeVar("Form", bound=Body)


class Asked(Body):
    """A study, with the tables beside it that it names."""

    study: Annotated[str, Field(max_length=LARGEST_FILE)]
    tables: dict[str, Annotated[str, Field(max_length=LARGEST_FILE)]] = Field(default_factory=dict)


class Start(Body):
    """What a round is begun with."""

    study: Annotated[str, Field(max_length=LARGEST_FILE)]
    roster: dict[str, Any] | None = None
    tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] = 0


def routes(site: Site, hub: Hub, planners: Planners | None = None) -> list[Route]:
    """For the operator: planning makes this machine work."""
    planners = planners or Planners()

    async def page(request: Request) -> Response:
        await planners.warm_up()
        return site.page(request, "builder.html", example=escape(example()))

    async def figures(request: Request) -> Response:
        too_large = f"a study has at most {LARGEST_FILE // 1024} KiB"
        asked = await _read(request, Asked, LARGEST_ASKED, too_large, "this is no study")
        found = planners.ask(_who(request), "figures", asked.study, tables=asked.tables)
        first = await anext(found)  # a refusal is a status, not a line
        return StreamingResponse(_lines(first, found), media_type="application/x-ndjson")

    async def start(request: Request) -> Response:
        too_large, wrong = "a study and a roster are smaller", "this is no request to begin a round"
        wanted = await _read(request, Start, LARGEST_START, too_large, wrong)
        study = await _drafted(planners, _who(request), wanted.study)
        added = await hub.add(study)
        roster = None if wanted.roster is None else roster_in(wanted.roster)
        status = (await hub.begin(added.digest, roster)).status()
        tokens: list[str] = []
        if roster is None and wanted.tokens:
            tokens = await hub.make_tokens(status.round, wanted.tokens, TOKEN_SECONDS)
        answer = {"round": status.round, "place": f"/rounds/{status.round}", "tokens": tokens}
        return JSONResponse(answer, 201)

    return [
        site.operator_route("/builder", page),
        site.operator_route("/builder/figures", figures, "POST"),
        site.operator_route("/builder/start", start, "POST"),
    ]


def _who(request: Request) -> str:
    """Who is planning: a session has one run at a time."""
    return request.headers.get("cookie", "")


async def _read(request: Request, form: type[Form], most: int, too_large: str, wrong: str) -> Form:
    """The request's body as this form; refused in these words if it is too large or another."""
    body = await request.body()
    if len(body) > most:
        raise Problem(413, Reason.TOO_LARGE, too_large)
    try:
        return form.model_validate_json(body)
    except ValidationError:
        raise Problem(422, Reason.INVALID, wrong) from None


async def _lines(first: dict[str, Any], rest: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    yield json.dumps(first) + "\n"
    async for answer in rest:
        yield json.dumps(answer) + "\n"


async def _drafted(planners: Planners, who: str, text: str) -> StoredStudy:
    """The study with the draft that data holders will consent to."""
    made: dict[str, Any] = {}
    async for answer in planners.ask(who, "draft", text, DRAFT_SECONDS):
        made = answer
    if made["kind"] == "error":
        raise Problem(422, Reason.INVALID, made["what"], hint=made["hint"])
    del made["kind"]
    return StoredStudy(**{**made, "preview": base64.b64decode(made["preview"])})

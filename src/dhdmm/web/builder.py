"""The study builder: a page that makes a study file, and shows what it would give while it grows.

The browser sends the study's text and nothing else; data never comes here. It is read and planned
in a process of its own (`drafting`), and what is wrong with it is answered with its place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from markupsafe import escape
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dhdmm.errors import DhdmmError
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.roster import RosterFile
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


class Asked(BaseModel):
    """A study, with the tables beside it that it names."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    study: Annotated[str, Field(max_length=LARGEST_FILE)]
    tables: dict[str, Annotated[str, Field(max_length=LARGEST_FILE)]] = {}


class Start(BaseModel):
    """What a round is begun with."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

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
        asked = await _asked(request)
        found = planners.ask(_who(request), "figures", asked.study, tables=asked.tables)
        first = await anext(found)  # a refusal is a status, not a line
        return StreamingResponse(_lines(first, found), media_type="application/x-ndjson")

    async def start(request: Request) -> Response:
        wanted = await _wanted(request)
        study = await _drafted(planners, _who(request), wanted.study)
        added = await hub.add(study)
        roster = None if wanted.roster is None else _roster(wanted.roster)
        status = (await hub.begin(added.digest, roster)).status()
        tokens: list[str] = []
        if roster is None and wanted.tokens:
            tokens = await hub.make_tokens(status.round, wanted.tokens, TOKEN_SECONDS)
        answer = {"round": status.round, "place": f"/rounds/{status.round}", "tokens": tokens}
        return JSONResponse(answer, 201)

    return [
        site.operating("/builder", page),
        site.operating("/builder/figures", figures, "POST"),
        site.operating("/builder/start", start, "POST"),
    ]


def _who(request: Request) -> str:
    """Whose run it is: the session's."""
    return request.headers.get("cookie", "")


async def _asked(request: Request) -> Asked:
    body = await request.body()
    if len(body) > LARGEST_ASKED:
        raise Problem(413, Reason.TOO_LARGE, f"a study has at most {LARGEST_FILE // 1024} KiB")
    try:
        return Asked.model_validate_json(body)
    except ValidationError:
        raise Problem(422, Reason.INVALID, "this is no study") from None


async def _lines(first: dict[str, Any], rest: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    yield json.dumps(first) + "\n"
    async for answer in rest:
        yield json.dumps(answer) + "\n"


async def _wanted(request: Request) -> Start:
    body = await request.body()
    if len(body) > LARGEST_START:
        raise Problem(413, Reason.TOO_LARGE, "a study and a roster are smaller")
    try:
        return Start.model_validate_json(body)
    except ValidationError:
        raise Problem(422, Reason.INVALID, "this is no request to begin a round") from None


async def _drafted(planners: Planners, who: str, text: str) -> StoredStudy:
    """The study with the draft that data holders will consent to."""
    made: dict[str, Any] = {}
    async for answer in planners.ask(who, "draft", text, DRAFT_SECONDS):
        made = answer
    if made["kind"] == "error":
        raise Problem(422, Reason.INVALID, made["what"], hint=made["hint"])
    del made["kind"]
    return StoredStudy(**{**made, "preview": base64.b64decode(made["preview"])})


def _roster(document: dict[str, Any]) -> RosterFile:
    try:
        return RosterFile.from_bytes(json.dumps(document).encode())
    except DhdmmError as error:
        raise Problem(422, Reason.INVALID, error.what, hint=error.hint) from None

"""The JSON routes: what is going on, enrolment, and what the operator may do."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dhdmm.aggregation.errors import AbortReason
from dhdmm.errors import DhdmmError
from dhdmm.network.identity import KeyHex, Name, fingerprint
from dhdmm.network.problems import MEDIA_TYPE, Problem, Reason
from dhdmm.network.roster import RosterFile
from dhdmm.network.status import Missing, NamedKey, Status
from dhdmm.server.callers import Callers
from dhdmm.server.exchange import Exchange
from dhdmm.server.live import LONGEST_WAIT
from dhdmm.server.requests import Abort, Enrol, EnrolledSeat
from dhdmm.server.studies import MOST_LISTED, Hub

MOST_TOKENS = 100_000
MOST_MISSING = 1000
LONGEST_TOKEN_LIFE = 366 * 24 * 3600
LARGEST_VERSION = 2**31 - 1
COMMON_REFUSALS = (400, 413, 415, 429, 500, 503)
"""Of every route: unreadable, too large, compressed, too many requests, a defect, unavailable."""

ROUND = r"^[0-9a-f]{32}$"
RoundId = Annotated[str, Path(pattern=ROUND)]
StudyDigest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
PhaseName = Annotated[str | None, Query(pattern=r"^[a-z-]{1,40}$")]


class Body(BaseModel):
    """Strict, and with nothing in it that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class EnrolmentRequest(Body):
    token: Annotated[str, Field(min_length=1, max_length=200)]
    name: Name
    key: KeyHex


class TokensWanted(Body):
    round: Annotated[str, Field(pattern=ROUND)]
    count: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    expires_s: Annotated[int, Field(ge=1, le=LONGEST_TOKEN_LIFE)]


class Tokens(Body):
    tokens: list[str]


class Again(Body):
    occurrence: Annotated[str | None, Field(min_length=1, max_length=100)] = Field(
        None, description="asked for again, it is the same round"
    )
    roster: dict[str, Any] | None = Field(
        None, description="a roster file; without one, people enrol"
    )


class ProblemDocument(Body):
    status: int
    reason: str
    detail: str
    hint: str | None
    id: str | None


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": ProblemDocument.model_json_schema()}}
    return {
        status: {"description": "refused", "content": content}
        for status in (*COMMON_REFUSALS, *statuses)
    }


def routes(hub: Hub, callers: Callers, exchange: Exchange) -> APIRouter:
    router = APIRouter()
    usual = _refusals(401, 403, 404, 422)

    async def operator(request: Request) -> None:
        await callers.require_operator(request.scope)

    may_operate = [Depends(operator)]

    @router.get("/healthz", responses=_refusals(401, 403))
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz", responses=_refusals(401, 403))
    async def readyz() -> dict[str, str]:
        if not await hub.ready():
            raise Problem(503, Reason.BUSY, "not ready", retry_after=1)
        return {"status": "ready"}

    @router.get("/v1/coordinator", responses=_refusals(401, 403))
    async def coordinator() -> NamedKey:
        """Who coordinates, and the key that signs transcripts."""
        return NamedKey(name=hub.name, fingerprint=fingerprint(hub.identity.public))

    @router.get("/v1/rounds", responses=usual)
    async def rounds(
        request: Request,
        after: Annotated[str | None, Query(pattern=ROUND)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED,
        running: bool = False,
    ) -> list[Status]:
        """Of the rounds that whoever asks may read the newest, or those older than `after`."""
        listed, found = await callers.readable(request.scope), list[Status]()
        while len(found) < limit:
            page = await hub.statuses(after=after, running=running)
            found += [status for status in page if listed(status.round)]
            if len(page) < MOST_LISTED:
                break
            after = page[-1].round
        return found[:limit]

    @router.get("/v1/rounds/{round_id}", responses=usual)
    async def status(
        request: Request,
        round_id: RoundId,
        after: Annotated[int | None, Query(ge=0, le=LARGEST_VERSION)] = None,
        wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0.0,
    ) -> Status:
        """Strangers, who read what is public, are answered at once."""
        return await exchange.status_of(request.scope, round_id, after, wait)

    @router.post(
        "/v1/rounds/{round_id}/enrolment",
        response_model=NamedKey,
        status_code=201,
        responses={200: {"model": NamedKey}, **_refusals(401, 403, 404, 409, 422)},
    )
    async def enrol(round_id: RoundId, body: EnrolmentRequest) -> Response:
        live = await hub.live(round_id)
        asked = Enrol(body.token.encode(), body.name, bytes.fromhex(body.key))
        seat = await live.ask(asked)
        assert isinstance(seat, EnrolledSeat)
        callers.members.forget()  # there is one more
        said = NamedKey(name=seat.name, fingerprint=fingerprint(seat.key))
        return JSONResponse(said.model_dump(), 201 if seat.fresh else 200)

    @router.post("/v1/tokens", dependencies=may_operate, responses=usual)
    async def tokens(body: TokensWanted) -> Tokens:
        made = Tokens(tokens=await hub.make_tokens(body.round, body.count, body.expires_s))
        callers.members.forget()
        return made

    @router.post("/v1/rounds/{round_id}/close", dependencies=may_operate, responses=usual)
    async def close(round_id: RoundId, state: PhaseName = None) -> Status:
        """Of `state`, if it is named: whoever looked before it closed by itself closes nothing."""
        live = await hub.live(round_id)
        await live.close_phase(state)
        return live.status()

    @router.post("/v1/rounds/{round_id}/abort", dependencies=may_operate, responses=usual)
    async def abort(round_id: RoundId) -> Status:
        live = await hub.live(round_id)
        await live.ask(Abort(AbortReason.STOPPED))
        return live.status()

    @router.get(
        "/v1/rounds/{round_id}/missing",
        dependencies=may_operate,
        responses=_refusals(403, 404, 422),
    )
    async def missing(round_id: RoundId) -> Missing:
        """Names are for the operator alone. While people enrol, nobody is known to be missing."""
        state, awaited = await hub.awaited(round_id)
        shown = [NamedKey(name=name, fingerprint=fingerprint(key)) for name, key in awaited]
        return Missing(
            state=state, missing=shown[:MOST_MISSING], more=max(len(shown) - MOST_MISSING, 0)
        )

    @router.post(
        "/v1/studies/{digest}/rounds",
        dependencies=may_operate,
        status_code=201,
        responses=usual,
    )
    async def again(digest: StudyDigest, body: Again | None = None) -> Status:
        roster = None if body is None or body.roster is None else roster_in(body.roster)
        occurrence = None if body is None else body.occurrence
        begun = (await hub.begin(digest, roster, occurrence)).status()
        callers.members.forget()
        return begun

    return router


def roster_in(document: dict[str, Any]) -> RosterFile:
    """The roster file in a request's body; a 422 if it is none."""
    try:
        return RosterFile.from_bytes(json.dumps(document).encode())
    except DhdmmError as error:
        raise Problem(422, Reason.INVALID, error.what, hint=error.hint) from None

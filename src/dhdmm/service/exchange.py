"""The binary routes: drafts, plans, rosters, messages, transcripts, as bytes and as streams.

Messages are signed by an identity on the round's roster, which says where it sits. Who asks, the
round and the size that its plan needs are looked at before any of the body is read, here and by the
wall in front of the application, which asks the same `Callers`.
"""

from __future__ import annotations

import math
import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dhdmm.secagg.coordinator import Reply
from dhdmm.service.callers import Callers, headers_of
from dhdmm.service.host import LONGEST_WAIT, Host
from dhdmm.service.problems import Problem, Reason, not_found
from dhdmm.service.requests import Upload
from dhdmm.service.signing import require_announced
from dhdmm.service.studies import Hub

BYTES = "application/octet-stream"
_ROUND = re.compile("[0-9a-f]{32}")
_DIGEST = re.compile("([0-9a-f]{64})?")


def routes(hub: Hub, callers: Callers) -> list[Route]:
    exchange = _Exchange(hub, callers)
    base = "/v1/rounds/{round_id:str}"
    return [
        Route(f"{base}/message", exchange.receive, methods=["POST"]),
        Route(f"{base}/message", exchange.send, methods=["GET"]),
        Route(f"{base}/draft", exchange.draft, methods=["GET"]),
        Route(f"{base}/plan", exchange.plan, methods=["GET"]),
        Route(f"{base}/roster", exchange.roster, methods=["GET"]),
        Route(f"{base}/transcript", exchange.transcript, methods=["GET"]),
        Route(f"{base}/release.zip", exchange.release, methods=["GET"]),
    ]


class _Exchange:
    def __init__(self, hub: Hub, callers: Callers) -> None:
        self._hub, self._callers = hub, callers

    async def receive(self, request: Request) -> Response:
        """A participant's message."""
        seats, position = await self._callers.seated(request.scope, _round(request))
        body = await _body(request, seats.largest_message)
        require_announced(headers_of(request.scope), body)
        host = await self._hub.host(_round(request))
        reply = await host.ask(Upload(position, body))
        assert isinstance(reply, Reply)
        return JSONResponse({"reply": reply.value})

    async def send(self, request: Request) -> Response:
        """What a participant is to be sent now, as soon as it is something new."""
        _, position = await self._callers.seated(request.scope, _round(request))
        after = request.query_params.get("after", "")
        if not _DIGEST.fullmatch(after):
            raise Problem(422, Reason.INVALID, "after: not a SHA-256 in hexadecimal")
        host = await self._hub.host(_round(request))
        message = await host.message(position, after, _wait(request))
        return Response(status_code=204) if message is None else Response(message, media_type=BYTES)

    async def draft(self, request: Request) -> Response:
        return Response((await self._host(request)).draft, media_type=BYTES)

    async def plan(self, request: Request) -> Response:
        host = await self._host(request)
        seats = await host.agreed(await self._patience(request))
        return Response(seats.agreement.plan, media_type=BYTES)

    async def roster(self, request: Request) -> Response:
        host = await self._host(request, names=True)
        seats = await host.agreed(_wait(request))
        return Response(seats.agreement.roster, media_type="application/json")

    async def transcript(self, request: Request) -> Response:
        """With the roster in it."""
        host = await self._host(request, names=True)
        transcript = await host.transcript()
        if transcript is None:
            raise _no_release(host)
        return Response(transcript, media_type=BYTES)

    async def release(self, request: Request) -> Response:
        """With the transcript in it."""
        host = await self._host(request, names=True)
        if await host.transcript() is None:
            raise _no_release(host)
        packed = await self._hub.zipped_release(host.status().round)
        return Response(packed, media_type="application/zip")

    async def _host(self, request: Request, *, names: bool = False) -> Host:
        """The round, for those who may read it; with `names`, also who takes part."""
        await self._callers.reader(request.scope, _round(request), names=names)
        if not _ROUND.fullmatch(_round(request)):
            raise not_found("round")
        return await self._hub.host(_round(request))

    async def _patience(self, request: Request) -> float:
        """Strangers, who read what is public, are answered at once."""
        caller, wait = await self._callers.caller(request.scope), _wait(request)
        return 0.0 if caller.is_stranger else wait


def _round(request: Request) -> str:
    round_id: str = request.path_params["round_id"]
    return round_id


def _no_release(host: Host) -> Problem:
    if host.over:
        return Problem(410, Reason.OVER, "the round was aborted: it has no release")
    return Problem(409, Reason.NOT_YET, "the round is not over")


def _wait(request: Request) -> float:
    try:
        wait = float(request.query_params.get("wait", "0"))
    except ValueError:
        wait = math.nan
    if not 0 <= wait <= LONGEST_WAIT:
        raise Problem(422, Reason.INVALID, f"wait: not a number from 0 to {LONGEST_WAIT:g}")
    return wait


async def _body(request: Request, limit: int) -> bytes:
    """As it is, and not a byte more than can be of use."""
    if "content-encoding" in request.headers:
        raise Problem(415, Reason.ENCODED, "compressed bodies are not read")
    announced = request.headers.get("content-length", "0")
    too_large = Problem(413, Reason.TOO_LARGE, f"no message has more than {limit:,} bytes")
    if not announced.isdecimal() or int(announced) > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)

"""The binary routes: drafts, plans, rosters, messages, transcripts, as bytes and as streams.

Messages are signed by an identity on the round's roster, which says where it sits; the body's size
is bounded by what the plan needs before any of it is read.
"""

from __future__ import annotations

import math
import re
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dhdmm.secagg.coordinator import Reply
from dhdmm.service.host import LONGEST_WAIT, Host
from dhdmm.service.live import Seats
from dhdmm.service.problems import Problem, Reason, not_found
from dhdmm.service.requests import Upload
from dhdmm.service.signing import claimed_key, verified_key
from dhdmm.service.studies import Hub

BYTES = "application/octet-stream"
_ROUND = re.compile("[0-9a-f]{32}")
_DIGEST = re.compile("([0-9a-f]{64})?")


def routes(hub: Hub) -> list[Route]:
    exchange = _Exchange(hub)
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
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def receive(self, request: Request) -> Response:
        """A participant's message."""
        host = await self._host(request)
        seats = _seats(host)
        _seat(seats, claimed_key(request.headers))  # strangers' bodies are not read
        body = await _body(request, seats.largest_message)
        key = verified_key(request.headers, "POST", _target(request), sha256(body).digest())
        reply = await host.ask(Upload(_seat(seats, key), body))
        assert isinstance(reply, Reply)
        return JSONResponse({"reply": reply.value})

    async def send(self, request: Request) -> Response:
        """What a participant is to be sent now, as soon as it is something new."""
        host = await self._host(request)
        key = verified_key(request.headers, "GET", _target(request), sha256(b"").digest())
        after = request.query_params.get("after", "")
        if not _DIGEST.fullmatch(after):
            raise Problem(422, Reason.INVALID, "after: not a SHA-256 in hexadecimal")
        message = await host.message(_seat(_seats(host), key), after, _wait(request))
        return Response(status_code=204) if message is None else Response(message, media_type=BYTES)

    async def draft(self, request: Request) -> Response:
        return Response((await self._host(request)).draft, media_type=BYTES)

    async def plan(self, request: Request) -> Response:
        seats = await (await self._host(request)).agreed(_wait(request))
        return Response(seats.agreement.plan, media_type=BYTES)

    async def roster(self, request: Request) -> Response:
        seats = await (await self._host(request)).agreed(_wait(request))
        return Response(seats.agreement.roster, media_type="application/json")

    async def transcript(self, request: Request) -> Response:
        host = await self._host(request)
        transcript = await host.transcript()
        if transcript is None:
            raise _no_release(host)
        return Response(transcript, media_type=BYTES)

    async def release(self, request: Request) -> Response:
        host = await self._host(request)
        if await host.transcript() is None:
            raise _no_release(host)
        packed = await self._hub.zipped_release(host.status().round)
        return Response(packed, media_type="application/zip")

    async def _host(self, request: Request) -> Host:
        round_id: str = request.path_params["round_id"]
        if not _ROUND.fullmatch(round_id):
            raise not_found("round")
        return await self._hub.host(round_id)


def _no_release(host: Host) -> Problem:
    if host.over:
        return Problem(410, Reason.OVER, "the round was aborted: it has no release")
    return Problem(409, Reason.NOT_YET, "the round is not over")


def _seats(host: Host) -> Seats:
    if host.seats is not None:
        return host.seats
    if host.over:
        raise Problem(410, Reason.OVER, "the round was aborted before it began")
    raise Problem(409, Reason.NOT_YET, "enrolment is still open")


def _seat(seats: Seats, key: bytes) -> int:
    position = seats.positions.get(key)
    if position is None:
        raise Problem(401, Reason.UNKNOWN_IDENTITY, "the key is not on the round's roster")
    return position


def _target(request: Request) -> str:
    """Path and query as they were sent."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


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

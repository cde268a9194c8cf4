"""The routes that every participant uses, without a framework between them and the web server.

Drafts, plans, rosters, messages and transcripts go as bytes, the round's status as JSON. Messages
are signed by an identity on the round's roster, which says where it sits. Who asks, the round and
the size that its plan needs are checked before any of the body is read, here and by the guard in
front of the application, which asks the same `Callers`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable

from dhdmm.aggregation.method import Reply
from dhdmm.network import compressed
from dhdmm.network.offer import Offer
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.signing import REPLY_HEADER, require_announced
from dhdmm.network.status import Status
from dhdmm.server.asgi import Receive, Scope, Send, headers_of
from dhdmm.server.callers import Callers
from dhdmm.server.defects import caught
from dhdmm.server.guard import RELEASE_BODY
from dhdmm.server.live import LONGEST_WAIT, LiveRound
from dhdmm.server.requests import Upload
from dhdmm.server.responses import JSON, HttpAnswer, internal_error, json_bytes, not_found, refusal
from dhdmm.server.studies import Hub

BYTES = "application/octet-stream"
_ROUND = re.compile("[0-9a-f]{32}")
_DIGEST = re.compile("([0-9a-f]{64})?")
_PATH = re.compile("/v1/rounds/([^/]+)(?:/([a-z.]+))?")
_USUAL = re.compile(rb"(?:after=([0-9]{1,9})&wait=([0-9]{1,2}))?")
"""The query with which our own client asks for a status; FastAPI handles all others."""

Handler = Callable[[Scope, Receive], Awaitable[HttpAnswer]]


class Exchange:
    """The routes, by their method and the last part of their path."""

    def __init__(self, hub: Hub, callers: Callers) -> None:
        self._hub, self._callers = hub, callers
        self._replies = {reply: json_bytes({"reply": reply.value}) for reply in Reply}
        self._last_transcript = ("", b"")
        self._handlers: dict[tuple[str, str], Handler] = {
            ("POST", "message"): self.receive,
            ("GET", "message"): self.send,
            ("GET", "draft"): self.draft,
            ("GET", "plan"): self.plan,
            ("GET", "seat"): self.seat,
            ("GET", "roster"): self.roster,
            ("GET", "transcript"): self.transcript,
            ("GET", "release.zip"): self.release,
        }

    def handler(self, scope: Scope) -> Handler | None:
        """What handles this request; None if it is not one of these routes."""
        path = _PATH.fullmatch(scope["path"])
        if path is None:
            return None
        if path[2] is not None:
            method = "GET" if scope["method"] == "HEAD" else scope["method"]  # without its body
            return self._handlers.get((method, path[2]))
        usual = _ROUND.fullmatch(path[1]) and _USUAL.fullmatch(scope["query_string"])
        if not usual or scope["method"] != "GET" or int(usual[2] or 0) > LONGEST_WAIT:
            return None
        return self.status

    async def answer(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; an unexpected error is reported and answered 500."""
        with caught(self._hub.observer) as defect:
            try:
                answer = await handler(scope, receive)
            except Problem as problem:
                answer = refusal(problem)
        if defect.id is not None:
            answer = refusal(internal_error(defect.id))
        await answer(scope, receive, send)

    async def receive(self, scope: Scope, receive: Receive) -> HttpAnswer:
        """A participant's message; asked to wait, with what it is to be sent next."""
        seats, position = await self._callers.seated(scope, _round(scope))
        query = _query(scope)
        after, wait = _after(query), _wait(query)
        live = await self._hub.live(_round(scope))
        body = await self._body(scope, receive, seats.largest_message)
        reply = await live.ask(Upload(position, body, waits=wait > 0))
        del body  # kept no longer than this
        assert isinstance(reply, Reply)
        if "wait" not in query:
            return HttpAnswer(self._replies[reply], JSON)
        scope.get(RELEASE_BODY, lambda: None)()
        patience = 0.0 if reply is Reply.EXCLUDED else wait
        following = await live.message(position, after, patience) if patience else None
        return HttpAnswer(following, BYTES, headers=((REPLY_HEADER, reply.value),))

    async def _body(self, scope: Scope, receive: Receive, largest: int) -> bytes:
        headers = headers_of(scope)
        body = await read_body(headers, receive, largest)
        require_announced(headers, body)
        return body

    async def send(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """What a participant is to be sent now, as soon as it is something new."""
        _, position = await self._callers.seated(scope, _round(scope))
        query = _query(scope)
        after = _after(query)
        live = await self._hub.live(_round(scope))
        return HttpAnswer(await live.message(position, after, _wait(query)), BYTES)

    async def status(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """For whoever asks as our client does."""
        query = _query(scope)
        after = int(query["after"]) if "after" in query else None
        status = await self.status_of(scope, _round(scope), after, _wait(query))
        return HttpAnswer(status.model_dump_json().encode(), JSON)

    async def status_of(
        self, scope: Scope, round_id: str, after: int | None, wait: float
    ) -> Status:
        """Strangers, who read what is public, are answered at once."""
        caller = await self._callers.reader(scope, round_id)
        live = await self._hub.live(round_id)
        patience = 0.0 if caller.is_stranger else wait
        return live.status() if after is None else await live.status_after(after, patience)

    async def draft(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        live = await self._live(scope)
        if compressed.NAME in headers_of(scope).get("accept-encoding", ""):
            encoding = (("content-encoding", compressed.NAME),)
            return HttpAnswer(live.compressed_preview, BYTES, headers=encoding)
        return HttpAnswer(live.preview, BYTES)

    async def plan(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        live = await self._live(scope)
        seats = await live.agreed(await self._patience(scope))
        return HttpAnswer(seats.encoded_plan, BYTES)

    async def seat(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """The terms of the round, for whoever has a seat, once they are known."""
        live = await self._live(scope)
        terms, place = b"", None
        if not (live.over and live.seats is None):  # unless it was aborted before that
            await live.agreed(await self._patience(scope))
            seats, position = await self._callers.seated(scope, _round(scope))
            terms, place = seats.terms, seats.place(position)
        status = live.status()
        return HttpAnswer(Offer(status.state, status.reason, terms, place).to_bytes(), BYTES)

    async def roster(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        live = await self._live(scope, names=True)
        await live.agreed(_wait(_query(scope)))
        return HttpAnswer(await live.roster_file(), JSON)

    async def transcript(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """With the roster in it. All who took part ask for it at one time."""
        live = await self._live(scope, names=True)
        if self._last_transcript[0] != _round(scope):
            transcript = await live.transcript()
            if transcript is None:
                raise _no_release(live)
            self._last_transcript = (_round(scope), transcript)
        return HttpAnswer(self._last_transcript[1], BYTES)

    async def release(self, scope: Scope, _receive: Receive) -> HttpAnswer:
        """With the transcript in it."""
        live = await self._live(scope, names=True)
        if await live.transcript() is None:
            raise _no_release(live)
        packed = await self._hub.zipped_release(live.status().round)
        return HttpAnswer(packed, "application/zip")

    async def _live(self, scope: Scope, *, names: bool = False) -> LiveRound:
        """The round, for those who may read it; with `names`, also who takes part."""
        round_id = _round(scope)
        await self._callers.reader(scope, round_id, names=names)
        if not _ROUND.fullmatch(round_id):
            raise not_found("round")
        return await self._hub.live(round_id)

    async def _patience(self, scope: Scope) -> float:
        """Strangers, who read what is public, are answered at once."""
        caller, wait = await self._callers.caller(scope), _wait(_query(scope))
        return 0.0 if caller.is_stranger else wait


def _round(scope: Scope) -> str:
    round_id: str = scope["path"].split("/")[3]
    return round_id


def _query(scope: Scope) -> dict[str, str]:
    """Its parameters; none of ours has a character that would be escaped."""
    pairs = (part.partition("=") for part in scope["query_string"].decode("latin-1").split("&"))
    return {name: value for name, _, value in pairs}


def _after(query: dict[str, str]) -> str:
    after = query.get("after", "")
    if not _DIGEST.fullmatch(after):
        raise Problem(422, Reason.INVALID, "after: not a SHA-256 in hexadecimal")
    return after


def _no_release(live: LiveRound) -> Problem:
    if live.over:
        return Problem(410, Reason.OVER, "the round was aborted: it has no release")
    return Problem(409, Reason.NOT_YET, "the round is not over")


def _wait(query: dict[str, str]) -> float:
    try:
        wait = float(query.get("wait", "0"))
    except ValueError:
        wait = math.nan
    if not 0 <= wait <= LONGEST_WAIT:
        raise Problem(422, Reason.INVALID, f"wait: not a number from 0 to {LONGEST_WAIT:g}")
    return wait


async def read_body(headers: dict[str, str], receive: Receive, limit: int) -> bytes:
    """As it is, and not a byte more than can be of use."""
    if "content-encoding" in headers:
        raise Problem(415, Reason.ENCODED, "compressed bodies are not read")
    announced = headers.get("content-length", "0")
    too_large = Problem(413, Reason.TOO_LARGE, f"no message has more than {limit:,} bytes")
    if not announced.isdecimal() or int(announced) > limit:
        raise too_large
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, Reason.INVALID, "the other end hung up")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large
    return body

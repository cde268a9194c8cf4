"""The second server of rounds with two: what its leaders ask, and nothing else.

Requests are signed by a leader whose key the operator has given. A round is opened with its plan
and roster; whether participants may trust it they find out by themselves, since the helper's
signed key is good for this very plan only. docs/protocol.md has the routes.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from operator import sub
from pathlib import Path

from dhdmm.aggregation.errors import AggregationError, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.method import HelperMachine
from dhdmm.errors import DhdmmError
from dhdmm.network.helper_link import decode_opening
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.roster import RosterFile
from dhdmm.network.signing import claimed_key, require_announced, require_signature
from dhdmm.planning.plan import Plan
from dhdmm.server.asgi import Receive, Scope, Send, headers_of
from dhdmm.server.callers import target
from dhdmm.server.defects import caught
from dhdmm.server.exchange import BYTES, read_body
from dhdmm.server.helper_store import HelperStore, Opened, SecretFile
from dhdmm.server.logs import logger
from dhdmm.server.metrics import CONTENT_TYPE, HelperMetrics
from dhdmm.server.responses import JSON, HttpAnswer, internal_error, json_bytes, not_found, refusal
from dhdmm.server.threads import in_thread

_PATH = re.compile("/v1/helper/rounds/([0-9a-f]{32})")
LARGEST_OPENING = 512 * 2**20
LARGEST_REQUEST = 64 * 2**20


class _Round:
    """A round that is open here: its machine, which answers one request at a time."""

    def __init__(self, machine: HelperMachine, secrets: SecretFile, leader: str) -> None:
        self.machine, self.secrets, self.leader = machine, secrets, leader
        self.lock = asyncio.Lock()


class HelperService:
    """All rounds of one helper process."""

    def __init__(
        self,
        store: HelperStore,
        secrets: Path,
        named: NamedIdentity,
        leaders: Iterable[bytes],
        observer: HelperMetrics,
    ) -> None:
        self._store, self._folder, self._named = store, secrets, named
        self._leaders, self._observer = frozenset(leaders), observer
        self._rounds: dict[str, _Round] = {}
        self._opening = asyncio.Lock()
        observer.show_open_rounds(
            lambda: sum(not one.machine.answered for one in self._rounds.values())
        )

    # ASGI

    async def admit(self, scope: Scope) -> tuple[str | None, int | None]:
        """Which leader asks, before a byte of the body is read."""
        if _PATH.fullmatch(scope["path"]) is None:
            return None, 0
        key = self._leader(scope)
        return f"key {key.hex()}", LARGEST_OPENING if scope["method"] == "PUT" else LARGEST_REQUEST

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        with caught(self._observer) as defect:
            try:
                answer = await self._serve(scope, receive)
            except Problem as problem:
                answer = refusal(problem)
            except RemoteProtocolError as error:
                logger().warning("request refused", reason=str(error.reason))
                answer = refusal(Problem.of(error))
        if defect.id is not None:
            answer = refusal(internal_error(defect.id))
        await answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                for one in self._rounds.values():
                    one.secrets.close()
                return

    async def _serve(self, scope: Scope, receive: Receive) -> HttpAnswer:
        if scope["path"] in ("/healthz", "/readyz"):
            return HttpAnswer(b"ok", "text/plain")
        if scope["path"] == "/metrics":
            return HttpAnswer(self._observer.text(), CONTENT_TYPE)
        if scope["path"] == "/v1/helper":
            about = {"name": self._named.name, "key": self._named.identity.public.hex()}
            return HttpAnswer(json_bytes(about), JSON)
        path = _PATH.fullmatch(scope["path"])
        if path is None:
            raise not_found("page")
        leader, round_id = self._leader(scope), path[1]
        if scope["method"] == "GET":
            return HttpAnswer(json_bytes(await self._progress(leader, round_id)), JSON)
        largest = LARGEST_OPENING if scope["method"] == "PUT" else LARGEST_REQUEST
        body = await read_body(headers_of(scope), receive, largest)
        require_announced(headers_of(scope), body)
        if scope["method"] == "PUT":
            await self._open(leader, round_id, body)
            return HttpAnswer(None)
        if scope["method"] != "POST":
            raise Problem(405, Reason.INVALID, "not a method of this route")
        return HttpAnswer(await self._answer(leader, round_id, body), BYTES)

    def _leader(self, scope: Scope) -> bytes:
        headers = headers_of(scope)
        key = claimed_key(headers)
        if key not in self._leaders:
            raise Problem(
                401,
                Reason.UNKNOWN_IDENTITY,
                f"the key {key.hex()} is not one of this helper's leaders",
                hint="the helper's operator lists it with --leader",
            )
        require_signature(key, headers, scope["method"], target(scope))
        return key

    # Rounds

    async def _progress(self, leader: bytes, round_id: str) -> dict[str, object]:
        one = await self._round(leader, round_id)
        return {"accepted": one.machine.accepted, "answered": one.machine.answered}

    async def _answer(self, leader: bytes, round_id: str, request: bytes) -> bytes:
        one = await self._round(leader, round_id)
        async with one.lock:
            before = _counts(one.machine)
            answer = await in_thread(lambda: one.machine.answer(request))
            accepted, refused, answered = map(sub, _counts(one.machine), before)
            self._observer.helped(accepted, refused, bool(answered))
            return answer

    async def _open(self, leader: bytes, round_id: str, body: bytes) -> None:
        """The same again is fine; another plan under the same name is not."""
        given = decode_opening(body)
        if given is None:
            raise Problem(422, Reason.INVALID, "not a plan and a roster")
        opened = Opened(leader.hex(), *given)
        async with self._opening:
            known = await in_thread(lambda: self._store.find(round_id))
            if known is not None and known != opened:
                raise Problem(409, Reason.TAKEN, "the round is open with another plan")
            if known is None:
                checked = await in_thread(lambda: self._checked(opened, round_id))
                await in_thread(lambda: self._store.add(round_id, opened))
                made = await in_thread(lambda: self._made(checked, opened.leader, round_id))
                self._rounds[round_id] = made
                logger().info("round opened", round=round_id)
        await self._round(leader, round_id)

    async def _round(self, leader: bytes, round_id: str) -> _Round:
        async with self._opening:
            if round_id not in self._rounds:
                opened = await in_thread(lambda: self._store.find(round_id))
                if opened is None:
                    raise not_found("round")
                checked = await in_thread(lambda: self._checked(opened, round_id))
                made = await in_thread(lambda: self._made(checked, opened.leader, round_id))
                self._rounds[round_id] = made
        one = self._rounds[round_id]
        if one.leader != leader.hex():
            raise not_found("round")
        return one

    def _checked(self, opened: Opened, round_id: str) -> tuple[Plan, RosterFile]:
        """A 422 for a plan that this helper cannot follow."""
        try:
            plan, file = Plan.from_bytes(opened.plan), RosterFile.from_bytes(opened.roster)
            if not plan.method.has_helper or plan.helper != self._named.identity.public:
                raise LocalProtocolError("the plan names another helper")
            plan.method.check(
                plan.parameters,
                plan.participants,
                plan.study.privacy.corrupt_fraction,
                plan.study.aggregation.max_dropout,
            )
            if plan.roster_digest != file.roster.digest or len(file.roster) != plan.participants:
                raise LocalProtocolError("not the roster of this plan")
            plan.round(bytes.fromhex(round_id))
        except (DhdmmError, AggregationError, ValueError) as error:
            raise Problem(422, Reason.INVALID, f"not a round for this helper: {error}") from None
        return plan, file

    def _made(self, checked: tuple[Plan, RosterFile], leader: str, round_id: str) -> _Round:
        plan, file = checked
        secrets = SecretFile(self._folder, round_id)
        machine = plan.method.helper(
            plan.round(bytes.fromhex(round_id)),
            file.roster,
            self._named.identity,
            os.urandom,
            secrets,
            self._store.journal(round_id),
        )
        return _Round(machine, secrets, leader)


def _counts(machine: HelperMachine) -> tuple[int, int, int]:
    return machine.accepted, machine.refused, machine.answered

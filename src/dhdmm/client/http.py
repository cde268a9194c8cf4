"""A participant's requests to a coordinator: signed, and repeated until they are answered.

Every route may be called again with the same bytes, so a failure on the way is followed by a pause
and the same request.
A coordinator's answers have a largest size, and are filtered before they are shown.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
from pydantic import TypeAdapter, ValidationError

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.randomness import Randomness
from dhdmm.errors import DhdmmError, ExitCode, Refused
from dhdmm.network import compressed, signing
from dhdmm.network.offer import Offer
from dhdmm.network.problems import LONGEST_RETRY
from dhdmm.network.status import Missing, NamedKey, Status
from dhdmm.network.trust import Address
from dhdmm.release.wording import printable

LONGEST_WAIT = 30
"""Seconds that the coordinator may keep a question before it answers "nothing new"."""
PATIENCE = 600.0
"""Seconds of failures in a row after which a request is given up."""
FIRST_PATIENCE = 8.0
"""The same where nothing has ever answered: more likely a wrong address than an outage."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, LONGEST_RETRY
LARGEST_REPLY_BYTES = 256 * 2**20
LARGEST_CONTROL_BYTES = 2**20
MOST_ROUNDS = 100_000
"""Of one coordinator that anybody asks for."""
SHOWN_CHARACTERS = 300
TRANSIENT = frozenset({429, 500, 502, 503, 504})
IDLE_SECONDS = 25.0
"""A connection that was idle for longer is not used again: a coordinator closes it after 30."""
TIMEOUTS = {"connect": 10.0, "write": 60.0, "pool": 10.0, "read": LONGEST_WAIT + 15.0}
FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)
"""What may go wrong on the way."""


Read = TypeVar("Read")


class Unreachable(DhdmmError):
    """The coordinator did not answer for as long as anybody would wait."""

    exit_code = ExitCode.ABORTED


class RequestRefused(DhdmmError):
    """The coordinator refused a request, and why."""

    exit_code = ExitCode.REFUSED

    def __init__(self, status: int, reason: str, what: str, hint: str | None = None) -> None:
        self.status, self.reason = status, reason
        super().__init__(what, where=f"coordinator ({status} {reason})", hint=hint)


class Delivered(NamedTuple):
    """The coordinator's word on a message, and what it sends next if there is something."""

    word: str
    following: bytes | None


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    retry_after: float
    word: str


class CoordinatorClient:
    """A client of one coordinator. Close it after use.

    Every request is signed by the identity, and carries the enrolment token and the operator's.
    """

    def __init__(
        self,
        address: Address,
        trust: ssl.SSLContext,
        identity: Identity | None = None,
        *,
        token: str | None = None,
        operator: str | None = None,
        patience: float = PATIENCE,
        randomness: Randomness = os.urandom,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        watch: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._address, self._identity = address, identity
        self._patience, self._randomness = patience, randomness
        self._sleep, self._clock, self._watch = sleep, clock, watch
        self._has_answered = False
        self._headers = {"Host": urlsplit(address.base).netloc, "User-Agent": "dhdmm"}
        self._headers |= {"Accept-Encoding": compressed.NAME}
        self._headers |= {} if token is None else {signing.TOKEN_HEADER: token}
        self._headers |= {} if operator is None else {"Authorization": f"Bearer {operator}"}
        self._pool = _connections(address, trust)
        self._previews: dict[bytes, bytes] = {}

    def __enter__(self) -> CoordinatorClient:
        return self

    def __exit__(self, *_ended: object) -> None:
        self._pool.close()

    @property
    def base(self) -> str:
        """The coordinator's address."""
        return self._address.base

    # Routes

    def rounds(self, *, running: bool = False, most: int = MOST_ROUNDS) -> list[Status]:
        """The newest rounds, or of those that are not over; as many as there are, or `most`."""
        found: dict[str, Status] = {}
        while len(found) < most:
            fresh = [one for one in self._page(running, found) if one.round not in found]
            if not fresh:
                break
            found |= {one.round: one for one in fresh}
        listed = [one for one in found.values() if not (running and one.over)]
        return listed[:most]

    def _page(self, running: bool, known: Collection[str]) -> list[Status]:
        """The rounds that follow those that are known."""
        query = ["running=true"] * running + [f"after={name}" for name in list(known)[-1:]]
        target = "/v1/rounds" + ("?" + "&".join(query) if query else "")
        return self._json(list[Status], "GET", target)

    def coordinator(self) -> NamedKey:
        """Who coordinates, by its own word."""
        return self._json(NamedKey, "GET", "/v1/coordinator")

    def status(self, round_id: bytes, after: int | None = None) -> Status:
        """The round now; with `after`, as soon as it is no longer at that version."""
        wait = "" if after is None else f"?after={after}&wait={LONGEST_WAIT}"
        return self._json(Status, "GET", _path(round_id) + wait)

    def statuses(self, round_id: bytes) -> Iterator[Status]:
        """The round now and after every change."""
        status = self.status(round_id)
        while True:
            yield status
            status = self.status(round_id, status.version)

    def enrol(self, round_id: bytes, token: str, name: str) -> None:
        """Take a seat of a round whose coordinator enrols by tokens."""
        assert self._identity is not None
        body = {"token": token, "name": name, "key": self._identity.public.hex()}
        content = json.dumps(body).encode()
        self._ask("POST", f"{_path(round_id)}/enrolment", content, "application/json")

    def preview(self, round_id: bytes) -> bytes:
        """What is reviewed; asked for once, however often it is looked at."""
        if round_id not in self._previews:
            self._previews[round_id] = self._bytes(round_id, "draft").body  # compressed on the way
        return self._previews[round_id]

    def offer(self, round_id: bytes, *, wait: bool = False) -> Offer:
        """The terms of a round in which we have a seat. Refused while people still enrol."""
        waiting = f"?wait={LONGEST_WAIT}" if wait else ""
        return Offer.from_bytes(self._bytes(round_id, f"seat{waiting}").body)

    def plan(self, round_id: bytes) -> bytes:
        return self._bytes(round_id, "plan").body

    def roster(self, round_id: bytes) -> bytes:
        return self._bytes(round_id, "roster").body

    def transcript(self, round_id: bytes) -> bytes:
        return self._bytes(round_id, "transcript").body

    def message(self, round_id: bytes, after: str) -> bytes | None:
        """The coordinator's next message; None if there is nothing new yet.

        `after` is the SHA-256, in hexadecimal, of the last one; empty before the first.
        """
        reply = self._bytes(round_id, f"message?after={after}&wait={LONGEST_WAIT}")
        return None if reply.status == 204 else reply.body

    def send(self, round_id: bytes, message: bytes, after: str | None) -> Delivered:
        """Deliver a message, and wait for the next one after the one with this digest.

        Nothing is waited for if `after` is None.
        """
        wait = 0 if after is None else LONGEST_WAIT
        target = f"{_path(round_id)}/message?after={after or ''}&wait={wait}"
        kind = "application/octet-stream"
        reply = self._ask("POST", target, message, kind, LARGEST_REPLY_BYTES)
        return Delivered(reply.word, None if reply.status == 204 else reply.body)

    def tokens(self, round_id: bytes, count: int, expires_s: int) -> list[str]:
        """Fresh enrolment tokens, for whoever has the operator's token."""
        wanted = {"round": round_id.hex(), "count": count, "expires_s": expires_s}
        return self._json(dict[str, list[str]], "POST", "/v1/tokens", wanted).get("tokens", [])

    def begin(self, study_digest: str, roster: object, occurrence: str | None) -> Status:
        """A new round. A repeated request has the same occurrence, so there is no second one."""
        wanted = {"roster": roster, "occurrence": occurrence or self._randomness(16).hex()}
        return self._json(Status, "POST", f"/v1/studies/{study_digest}/rounds", wanted)

    def close(self, round_id: bytes, state: str) -> Status:
        """The phase ends now, if it is in this state still."""
        return self._json(Status, "POST", f"{_path(round_id)}/close?state={state}")

    def abort(self, round_id: bytes) -> Status:
        return self._json(Status, "POST", f"{_path(round_id)}/abort")

    def missing(self, round_id: bytes) -> Missing:
        return self._json(Missing, "GET", f"{_path(round_id)}/missing")

    # Requests

    def _json(
        self, form: type[Read], method: str, target: str, wanted: object | None = None
    ) -> Read:
        """The answer, read as this type; `wanted` is the request's JSON body."""
        body = b"" if wanted is None else json.dumps(wanted).encode()
        reply = self._ask(method, target, body, "application/json" if body else None)
        return _parsed(form, reply.body)

    def _bytes(self, round_id: bytes, what: str) -> _Reply:
        return self._ask("GET", f"{_path(round_id)}/{what}", limit=LARGEST_REPLY_BYTES)

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        kind: str | None = None,
        limit: int = LARGEST_CONTROL_BYTES,
    ) -> _Reply:
        """The same bytes again until there is an answer; refusals raise `RequestRefused`."""
        headers = {"Content-Type": kind} if kind else {}
        if self._identity is not None:
            headers |= signing.sign(self._identity, method, target, body)
        failing_since, pause = self._clock(), FIRST_PAUSE
        while True:
            try:
                reply = self._send_once(method, target, body, headers, limit)
            except FAILURES as error:
                _require_trusted(error, self._address)
                reply, failure = None, str(error)
            self._has_answered = self._has_answered or reply is not None
            if reply is not None and reply.status not in TRANSIENT:
                break
            waited_for = pause * (0.5 + self._randomness(1)[0] / 512)
            if reply is not None:
                failure = str(_refusal(reply))
                waited_for = max(waited_for, min(reply.retry_after, LONGEST_PAUSE))
            patience = self._patience if self._has_answered else min(self._patience, FIRST_PATIENCE)
            if self._clock() + waited_for - failing_since > patience:
                raise self._unreachable(patience, failure)
            if pause == FIRST_PAUSE:
                self._watch(f"no answer from {self._address.base} yet, trying again")
            self._sleep(waited_for)
            pause = min(2 * pause, LONGEST_PAUSE)
        if reply.status >= 300:
            raise _refusal(reply)
        return reply

    def _unreachable(self, seconds: float, failure: str) -> Unreachable:
        hint = "the same command again goes on from where it was"
        if not self._has_answered:
            hint = (
                "check the address and the port, that the coordinator is running there, and that"
                " your network (firewall, VPN, HTTPS_PROXY) lets you reach it"
            )
        what = f"no answer for {seconds:.0f} seconds: {printable(failure)}"
        return Unreachable(what, where=self._address.base, hint=hint)

    def _send_once(
        self, method: str, target: str, body: bytes, headers: dict[str, str], limit: int
    ) -> _Reply:
        with self._pool.stream(
            method,
            self._address.base + target,
            content=body,
            headers=[*self._headers.items(), *headers.items()],
            extensions={"timeout": TIMEOUTS},
        ) as response:
            parts, size = [], 0
            for part in response.iter_stream():
                size += len(part)
                if size > limit:
                    raise Refused(f"the coordinator's answer has more than {limit:,} bytes")
                parts.append(part)
            named = {name.lower(): value for name, value in response.headers}
            later = named.get(b"retry-after", b"")
            seconds = float(later) if later.isdigit() else 0.0
            word = named.get(signing.REPLY_HEADER.encode(), b"").decode("latin-1")
            whole = b"".join(parts)
            if named.get(b"content-encoding") == compressed.NAME.encode():
                whole = compressed.decompress(whole, limit)
            return _Reply(response.status, whole, seconds, word)


def _connections(address: Address, trust: ssl.SSLContext) -> httpcore.ConnectionPool:
    """To the coordinator, through the proxy that the environment names for it."""
    proxy = None if address.local else _proxy(address)
    if proxy is None:
        return httpcore.ConnectionPool(trust, keepalive_expiry=IDLE_SECONDS)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DhdmmError("only HTTP proxies can be used", hint="see HTTPS_PROXY and NO_PROXY")
    place = parts.netloc.rpartition("@")[2]
    named = None if parts.username is None else (parts.username, parts.password or "")
    return httpcore.HTTPProxy(
        f"{parts.scheme}://{place}",
        proxy_auth=named and (unquote(named[0]), unquote(named[1])),
        ssl_context=trust,
        keepalive_expiry=IDLE_SECONDS,
    )


def _proxy(address: Address) -> str | None:
    """HTTPS_PROXY or ALL_PROXY, unless NO_PROXY names the coordinator."""
    parts, proxies = urlsplit(address.base), getproxies()
    if proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _path(round_id: bytes) -> str:
    return f"/v1/rounds/{round_id.hex()}"


def _parsed(form: type[Read], body: bytes) -> Read:
    try:
        return TypeAdapter(form).validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DhdmmError(
            "the coordinator's answer cannot be understood",
            hint=printable(f"{place}: {first['msg']}", SHOWN_CHARACTERS),
        ) from None


def _refusal(reply: _Reply) -> RequestRefused:
    """A problem document, or whatever else somebody on the way answered with."""
    try:
        document = json.loads(reply.body)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    said = {
        key: printable(value, SHOWN_CHARACTERS)
        for key in ("reason", "detail", "hint")
        if isinstance(value := document.get(key), str)
    }
    reason = said.get("reason", "refused")
    return RequestRefused(reply.status, reason, said.get("detail") or reason, said.get("hint"))


def _require_trusted(error: BaseException, address: Address) -> None:
    """A certificate that is not believed is not believed later either."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = getattr(cause, "verify_message", "") or str(cause)
            raise Refused(
                f"the coordinator's certificate is not believed: {why}",
                where=address.base,
                hint="--ca FILE names its authority, --pin its SHA-256",
            ) from None
        if isinstance(cause, ssl.SSLError) and "VERSION" in (cause.reason or ""):
            raise Refused("the coordinator does not speak TLS 1.3", where=address.base) from None
        cause = cause.__cause__ or cause.__context__

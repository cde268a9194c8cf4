"""Who the operator is: whoever once gave the token that the coordinator printed.

A cookie says until when a session lasts and which one it is, under a MAC whose key comes from the
token. So every worker with the same token knows its sessions, a new token ends all of them, and
nothing has to be kept but the sessions that were ended early.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dhdmm.server.limits import Buckets, Rate

SESSION_SECONDS = 12 * 3600
ATTEMPTS = Rate(per_second=5 / 60, burst=5)
"""Wrong tokens from one address: five, then one every twelve seconds."""
CALLERS = 10_000
LONGEST_TOKEN = 1000
_KEY = b"dhdmm pages: session"


class OperatorSessions:
    """Begins a session for the token, and recognises its cookie afterwards."""

    def __init__(
        self,
        operator_token: str,
        clock: Callable[[], float] = time.time,
        draw: Callable[[int], str] = secrets.token_hex,
    ) -> None:
        self._token, self._clock, self._draw = operator_token.encode(), clock, draw
        self._key = hmac.digest(self._token, _KEY, "sha256")
        self._ended: dict[str, float] = {}
        self._attempts = Buckets(ATTEMPTS, CALLERS, time.monotonic)

    def wait(self, address: str) -> int:
        """Seconds until this address may try again."""
        return self._attempts.wait(address)

    def enter(self, token: str, address: str) -> str | None:
        """A session for the right token; a wrong one counts as an attempt."""
        if not hmac.compare_digest(token.encode(), self._token):
            self._attempts.take(address)
            return None
        claim = f"{int(self._clock()) + SESSION_SECONDS}.{self._draw(16)}"
        return f"{claim}.{self._mac(claim)}"

    def admits(self, session: str) -> bool:
        claim, _, mac = session.rpartition(".")
        if not (claim.isascii() and hmac.compare_digest(mac.encode(), self._mac(claim).encode())):
            return False
        return int(claim.partition(".")[0]) > self._clock() and claim not in self._ended

    def leave(self, session: str) -> None:
        """This session is over, also for whoever kept the cookie."""
        if self.admits(session):
            now = self._clock()
            self._ended = {claim: end for claim, end in self._ended.items() if end > now}
            self._ended[session.rpartition(".")[0]] = now + SESSION_SECONDS

    def _mac(self, claim: str) -> str:
        return hmac.digest(self._key, claim.encode(), "sha256").hex()


def is_operator(sessions: OperatorSessions, request: Request) -> bool:
    return sessions.admits(request.cookies.get(_cookie(request), ""))


def begin_session(request: Request, session: str, place: str) -> Response:
    response = RedirectResponse(place, 303)
    _set_cookie(request, response, session, SESSION_SECONDS)
    return response


def end_session(sessions: OperatorSessions, request: Request, place: str) -> Response:
    sessions.leave(request.cookies.get(_cookie(request), ""))
    response = RedirectResponse(place, 303)
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    name, secure = _cookie(request), _secure(request)
    response.set_cookie(name, value, seconds, httponly=True, secure=secure, samesite="strict")


def is_from_our_page(request: Request) -> bool:
    """Whether the browser says that one of our pages sent it.

    Pages send no referrer, and then browsers call the origin of a form `null`; what they say
    about the site is true nevertheless. A client that says neither is no browser of ours.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    return request.headers.get("origin") == f"{request.url.scheme}://{request.url.netloc}"


def local_path(wanted: str) -> str:
    """Where to go after signing in: a path here, never another host.

    >>> local_path("/rounds/1f"), local_path("//evil.example"), local_path("https://evil.example")
    ('/rounds/1f', '/', '/')
    """
    plain = wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    return wanted if plain and wanted.startswith("/") and not wanted.startswith("//") else "/"


def _secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _cookie(request: Request) -> str:
    """With TLS, a name that browsers take from this very host and over TLS alone."""
    return "__Host-dhdmm" if _secure(request) else "dhdmm"

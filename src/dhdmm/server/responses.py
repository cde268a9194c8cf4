"""Answers as a web server gives them, and refusals that several parts of the server share."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

from starlette.responses import Response

from dhdmm.network.problems import MEDIA_TYPE, Problem, Reason
from dhdmm.server.asgi import Send

JSON = "application/json"
Headers = tuple[tuple[str, str], ...]


class HttpAnswer(NamedTuple):
    """A whole answer, which is sent as it is; without a body it is a 204."""

    body: bytes | None
    kind: str = ""
    status: int = 200
    headers: Headers = ()

    async def __call__(self, _scope: object, _receive: object, send: Send) -> None:
        status, body, headers = self.status, self.body, [*self.headers]
        if body is None:
            status, body = 204, b""
        else:
            headers += [("content-length", str(len(body))), ("content-type", self.kind)]
        written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": written})
        await send({"type": "http.response.body", "body": body})


def refusal(problem: Problem, headers: Headers = ()) -> HttpAnswer:
    if problem.retry_after is not None:
        headers += (("retry-after", str(problem.retry_after)),)
    if problem.status == 401:
        headers += (("www-authenticate", "Dhdmm-Signature"),)
    return HttpAnswer(json_bytes(problem.document()), MEDIA_TYPE, problem.status, headers)


def problem_response(problem: Problem) -> Response:
    """The same for Starlette."""
    body, kind, status, headers = refusal(problem)
    return Response(body, status, dict(headers), kind)


def json_bytes(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def not_found(what: str) -> Problem:
    return Problem(404, Reason.NOT_FOUND, f"there is no such {what}")


def store_unavailable(retry_after: float = 1.0) -> Problem:
    after = max(math.ceil(retry_after), 1)
    return Problem(503, Reason.STORE, "nothing was kept of this request", retry_after=after)


def internal_error(id: str) -> Problem:
    """The log has the traceback under this id."""
    detail = f"a defect of the coordinator, which its log has as {id}; nothing was kept"
    return Problem(500, Reason.INTERNAL, detail, id=id)

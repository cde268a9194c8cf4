"""How a leader asks its helper: signed requests over TLS, one connection, one at a time.

    PUT  /v1/helper/rounds/ROUND   the plan and the roster: the helper makes its key
    POST /v1/helper/rounds/ROUND   a message of the protocol, answered with one
    GET  /v1/helper/rounds/ROUND   how far the helper is, for people

The helper answers those requests only that a leader it knows has signed.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import cbor2

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.errors import DhdmmError
from dhdmm.network.problems import Reason
from dhdmm.network.signing import sign
from dhdmm.network.trust import Address

ANSWER_SECONDS = 120.0
_REASONS = {reason.value for reason in AbortReason}


class HelperUnavailable(DhdmmError):
    """The helper did not answer, and may do so later."""


def path_of(round_id: str) -> str:
    return f"/v1/helper/rounds/{round_id}"


def encode_opening(plan: bytes, roster: bytes) -> bytes:
    """What a helper needs to know of a round: the plan's bytes and the roster file's."""
    return bytes(cbor2.dumps({"plan": plan, "roster": roster}, canonical=True))


def decode_opening(data: bytes) -> tuple[bytes, bytes] | None:
    try:
        fields = cbor2.loads(data)
        plan, roster = fields["plan"], fields["roster"]
    except (cbor2.CBORDecodeError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    return (plan, roster) if type(plan) is bytes and type(roster) is bytes else None


class HelperLink:
    """Blocking, and used by one thread at a time."""

    def __init__(
        self, address: Address, identity: Identity, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address, self._identity, self._tls = address, identity, tls
        self._connection: http.client.HTTPConnection | None = None

    def another(self) -> HelperLink:
        """With a connection of its own."""
        return HelperLink(self._address, self._identity, self._tls)

    def ask(self, round_id: str, request: bytes, opening: Callable[[], bytes]) -> bytes:
        """The helper's answer; a helper that has not heard of the round is told of it first."""
        status, answer = self._send("POST", path_of(round_id), request)
        if status == 404:
            status, answer = self._send("PUT", path_of(round_id), opening())
            if status < 300:
                status, answer = self._send("POST", path_of(round_id), request)
        if status < 300:
            return answer
        raise _refusal(status, answer, self._address.base)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Once more over a new connection if the old one has gone."""
        fresh = self._connection is None
        try:
            return self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if not fresh:
                with suppress(OSError, http.client.HTTPException):
                    return self._exchange(method, path, body)
                self.close()
            raise HelperUnavailable(
                f"the helper does not answer: {error}", where=self._address.base
            ) from None

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connected()
        headers = sign(self._identity, method, path, body) | {"content-length": str(len(body))}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _connected(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._address.base)
        assert parts.hostname is not None
        if parts.scheme == "http":  # on this machine
            return http.client.HTTPConnection(
                parts.hostname, parts.port or 80, timeout=ANSWER_SECONDS
            )
        return http.client.HTTPSConnection(
            parts.hostname, parts.port or 443, timeout=ANSWER_SECONDS, context=self._tls
        )


def _refusal(status: int, answer: bytes, place: str) -> Exception:
    """A broken protocol ends the round; everything else may pass."""
    try:
        said = json.loads(answer)
        reason, detail = str(said.get("reason")), str(said.get("detail"))
    except (ValueError, AttributeError):
        reason, detail = Reason.INVALID.value, f"status {status}"
    if reason in _REASONS:
        return RemoteProtocolError(AbortReason(reason), f"of the helper: {detail}")
    return HelperUnavailable(f"the helper refuses: {reason}, {detail}", where=place)

"""What a request is answered with when it is refused: application/problem+json (RFC 9457).

`reason` is a stable word, one of secure aggregation's reasons or of `Reason`; `detail` is for
people. Neither ever repeats what was sent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dhdmm.aggregation.errors import RemoteProtocolError

MEDIA_TYPE = "application/problem+json"
LONGEST_RETRY = 15.0
"""Seconds that a participant pauses at most before it repeats what could not be answered."""


class Reason(StrEnum):
    """Why a request was refused, where no message of the protocol is to blame."""

    UNSIGNED = "unsigned"  # no signature, or one that does not hold
    UNKNOWN_IDENTITY = "unknown-identity"  # a key that is not on the round's roster
    BAD_TOKEN = "bad-token"  # unknown, expired, or used by somebody else
    NOT_THE_OPERATOR = "not-the-operator"
    NOT_FOUND = "not-found"
    NOT_YET = "not-yet"  # the plan, the roster or the release does not exist yet
    CLOSED = "closed"  # enrolment is over
    TAKEN = "taken"  # a name or a key that has a seat already
    OVER = "over"  # the round has ended
    TOO_LARGE = "too-large"
    ENCODED = "encoded-body"  # compressed bodies are not read
    SLOW = "slow"  # the body did not arrive in time
    RATE = "rate"  # more requests than one may make
    INVALID = "invalid-request"
    BUSY = "busy"  # come again after `Retry-After` seconds
    STORE = "store-unavailable"  # nothing was kept; come again
    INTERNAL = "internal-error"  # a defect of the coordinator; `id` is in its log
    DRAINING = "draining"  # this process is ending


class Problem(Exception):
    """A refusal with its status."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str = "",
        *,
        hint: str | None = None,
        retry_after: int | None = None,
        id: str | None = None,
    ) -> None:
        self.status, self.reason, self.detail = status, str(reason), detail
        self.hint, self.retry_after, self.id = hint, retry_after, id
        super().__init__(f"{status} {reason}: {detail}" if detail else f"{status} {reason}")

    @classmethod
    def of(cls, error: RemoteProtocolError) -> Problem:
        """The refusal of a participant's message."""
        return cls(error.status_hint, error.reason, error.detail)

    def again(self) -> Problem:
        """The same, for somebody else: an error is raised once."""
        return Problem(
            self.status,
            self.reason,
            self.detail,
            hint=self.hint,
            retry_after=self.retry_after,
            id=self.id,
        )

    def document(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "reason": self.reason,
            "detail": self.detail,
            "hint": self.hint,
            "id": self.id,
        }

"""What a round can be asked to do, and what came of it. Requests of one batch share a turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import Reply
from dhdmm.network.problems import Problem


@dataclass(frozen=True)
class Upload:
    """A participant's message."""

    position: int
    body: bytes = field(repr=False)
    waits: bool = False
    """Whether its sender stays for what comes next."""


@dataclass(frozen=True)
class Enrol:
    """Somebody with a token wants a seat."""

    token: bytes = field(repr=False)
    name: str
    key: bytes


@dataclass(frozen=True)
class Close:
    """The phase is over; nothing happens if another one has begun since this was asked."""

    state: str


@dataclass(frozen=True)
class Abort:
    """The round is to end without a result."""

    reason: AbortReason


@dataclass(frozen=True)
class AskHelper:
    """What is the helper to be asked? It is kept before anybody hears of it."""


@dataclass(frozen=True)
class HelperAnswer:
    """What the helper said."""

    request: bytes = field(repr=False)
    answer: bytes = field(repr=False)


@dataclass(frozen=True)
class EnrolledSeat:
    """An enrolment that holds; `fresh` unless it is the same one again."""

    name: str
    key: bytes
    fresh: bool


Request = Upload | Enrol | Close | Abort | AskHelper | HelperAnswer
Outcome = Reply | EnrolledSeat | bytes | None | Problem

"""Errors of adding up: whose fault it is decides the type, as in h11.

`LocalProtocolError`: our own caller asked for something the protocol forbids; nothing was sent.
`RemoteProtocolError`: the other side sent something that an honest party would not have sent.
Neither ever carries a key, a share, a mask or an input.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Worded(StrEnum):
    """A word of the protocol, and what it means to people."""

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_, member.words = value, words
        return member


class AbortReason(Worded):
    """Why a party left a round, or why it refused a message. Part of the wire format."""

    MALFORMED = "malformed", "a message was not readable"
    WRONG_SESSION = "wrong-session", "a message belonged to another round"
    WRONG_PHASE = "wrong-phase", "a message came out of turn"
    CONFLICTING_MESSAGE = "conflicting-message", "a participant sent two different messages for one"
    UNPINNED_ROSTER = "unpinned-roster", "nobody vouched for the roster"
    REFUSED_PARAMETERS = "refused-parameters", "participants refused the round's parameters"
    BAD_PUBLIC_KEY = "bad-public-key", "a key was not a key"
    BAD_SIGNATURE = "bad-signature", "a signature did not hold"
    BAD_PROOF = "bad-proof", "a proof did not lead to the announced root"
    BAD_CIPHERTEXT = "bad-ciphertext", "a share could not be opened"
    BAD_EVIDENCE = "bad-evidence", "the evidence of who took part did not hold"
    REPEATED_KEY = "repeated-key", "two participants had the same key"
    TOO_MANY_NEIGHBOURS = (
        "too-many-neighbours",
        "a participant was given more neighbours than chance allows",
    )
    SECOND_ROOT = "second-root", "two different sets of keys were announced"
    SECOND_BITMAP = "second-bitmap", "two different sets of survivors were announced"
    DECLARED_DEAD = "declared-dead", "a participant that was there was declared gone"
    PHANTOM_SURVIVOR = "phantom-survivor", "somebody who never took part was declared a survivor"
    TOO_FEW_PARTICIPANTS = (
        "too-few-participants",
        "too few participants were left for the promised noise",
    )
    TOO_FEW_ACKS = "too-few-acks", "too few participants confirmed who the survivors were"
    TOO_FEW_SHARES = "too-few-shares", "too few participants stayed to take the masks off"
    INCONSISTENT_SHARES = "inconsistent-shares", "shares of a key did not fit together"
    BAD_INPUT = "bad-input", "an input was not proved to be within its bound"
    SUM_MISMATCH = "sum-mismatch", "the sum is not what was committed to"
    LOST_KEY = "lost-key", "the helper has lost the round's key, as after a restored backup"
    STOPPED = "stopped", "the operator stopped it"


class AggregationError(Exception):
    """Base of everything that a way to add up raises on purpose."""


class LocalProtocolError(AggregationError):
    """We were asked to do what the protocol forbids."""


class RemoteProtocolError(AggregationError):
    """The other side broke the protocol.

    `status_hint` is the HTTP status with which a server may answer the culprit.
    """

    def __init__(self, reason: AbortReason, detail: str = "", *, status_hint: int = 422) -> None:
        self.reason, self.detail, self.status_hint = reason, detail, status_hint
        super().__init__(f"{reason}: {detail}" if detail else str(reason))


class MalformedMessage(RemoteProtocolError):
    """Bytes that are not a message, or a value that no message can carry."""

    def __init__(self, detail: str) -> None:
        super().__init__(AbortReason.MALFORMED, detail)

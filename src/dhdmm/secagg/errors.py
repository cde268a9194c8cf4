"""Errors of secure aggregation: whose fault it is decides the type, as in h11.

`LocalProtocolError`: our own caller asked for something the protocol forbids; nothing was sent.
`RemoteProtocolError`: the other side sent something that an honest party would not have sent.
Neither ever carries a key, a share, a mask or an input.
"""

from __future__ import annotations

from enum import StrEnum


class AbortReason(StrEnum):
    """Why a party left a round, or why it refused a message. Part of the wire format."""

    MALFORMED = "malformed"  # wrong length, leftover bytes, value out of range
    WRONG_SESSION = "wrong-session"  # a message of another round
    WRONG_PHASE = "wrong-phase"  # early, late or reordered
    CONFLICTING_MESSAGE = "conflicting-message"  # a second message that differs from the first
    UNPINNED_ROSTER = "unpinned-roster"  # a roster nobody outside the coordinator vouches for
    REFUSED_PARAMETERS = "refused-parameters"  # degree and threshold do not give the security asked
    BAD_PUBLIC_KEY = "bad-public-key"  # low order or not canonical
    BAD_SIGNATURE = "bad-signature"  # not made by the pinned identity
    BAD_PROOF = "bad-proof"  # Merkle proof does not lead to the root
    BAD_CIPHERTEXT = "bad-ciphertext"  # a share that does not authenticate
    BAD_EVIDENCE = "bad-evidence"  # "included" or "ack" that does not verify
    REPEATED_KEY = "repeated-key"  # two participants, or we ourselves, with one public key
    TOO_MANY_NEIGHBOURS = "too-many-neighbours"  # more than an honest graph ever has
    SECOND_ROOT = "second-root"  # two key trees in one session
    SECOND_BITMAP = "second-bitmap"  # two survivor sets in one session
    DECLARED_DEAD = "declared-dead"  # we are a survivor, the bitmap says we are not
    PHANTOM_SURVIVOR = "phantom-survivor"  # alive in the bitmap, but its masks are not in ours
    TOO_FEW_PARTICIPANTS = "too-few-participants"  # below the floor that the noise relies on
    TOO_FEW_ACKS = "too-few-acks"  # our neighbours did not agree on the survivor set
    TOO_FEW_SHARES = "too-few-shares"  # a mask cannot be reconstructed
    INCONSISTENT_SHARES = (
        "inconsistent-shares"  # shares not of one polynomial, or of another secret
    )
    STOPPED = "stopped"  # the coordinator's operator ended the round


class SecaggError(Exception):
    """Base of everything that `dhdmm.secagg` raises on purpose."""


class LocalProtocolError(SecaggError):
    """We were asked to do what the protocol forbids."""


class RemoteProtocolError(SecaggError):
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

"""How a round ends for a participant: what it knows by then, and the receipt that it checks.

The coordinator's receipt is short. The whole transcript is for those who want the release.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from dhdmm.aggregation.method import ABORTED, input_phase
from dhdmm.client.http import CoordinatorClient, RequestRefused
from dhdmm.client.seat import Seat
from dhdmm.errors import VerificationError
from dhdmm.release.receipt import MAGIC, Receipt

if TYPE_CHECKING:
    from dhdmm.aggregation.bitmap import Bitmap
    from dhdmm.release.verify import Verified


class Ending(StrEnum):
    """How a round ended for this participant."""

    RELEASED = "released"  # its input is in a release: it has checked the receipt
    LEFT_BEHIND = "left-behind"  # it came too late; the round went on without it
    WITHDREW = "withdrew"  # it left by itself, because the coordinator broke the protocol
    ABORTED = "aborted"  # the coordinator ended the round without a release


@dataclass(frozen=True)
class Participation:
    """What a participant can say of a round when it is over."""

    ending: Ending
    reason: str | None
    paid: bool
    survivors: int | None = None
    checks: tuple[str, ...] = ()
    """What was checked of the release, in words."""
    fingerprint: str | None = None
    """Of the transcript."""
    verified: Verified | None = None
    """The whole release, if it was asked for."""
    warnings: tuple[str, ...] = ()


@dataclass
class Exchange:
    """How the exchange of messages went: whether it ended early and why, and what we were told."""

    ending: Ending | None = None
    reason: str | None = None
    root: bytes | None = None
    survivors: Bitmap | None = None
    last_digest: str = ""
    """Of the coordinator's last message, in hexadecimal: tells it which one we have."""
    sent: list[bytes] = field(default_factory=list)
    """The digests of our messages that were taken, since this process began."""
    receipt: bytes | None = None
    """The coordinator's, once the round is over."""


def note_message(message: bytes | None, exchange: Exchange) -> None:
    """Remember the coordinator's message as the last one that we have."""
    if message is not None:
        exchange.last_digest = sha256(message).hexdigest()
        if message.startswith(MAGIC):
            exchange.receipt = message


def ended(
    client: CoordinatorClient, seat: Seat, paid: bytes, exchange: Exchange, whole: bool
) -> Participation:
    """How the round ended. Messages are waited for, and a status asked for where none comes."""
    with suppress(RequestRefused):  # there will be none any more
        while exchange.receipt is None:
            note_message(client.message(seat.round_id, exchange.last_digest), exchange)
    if exchange.receipt is not None:
        return _released(client, seat, paid, exchange, Receipt.from_bytes(exchange.receipt), whole)
    status = client.status(seat.round_id)
    if status.state != ABORTED.name:
        raise VerificationError("the coordinator gives no receipt", hint="dhdmm verify its release")
    return Participation(Ending.ABORTED, status.reason, True)


def _released(
    client: CoordinatorClient,
    seat: Seat,
    paid: bytes,
    exchange: Exchange,
    receipt: Receipt,
    whole: bool,
) -> Participation:
    """The input that left here must be in the release, or we know why not."""
    plan = seat.reviewed.plan
    if exchange.ending is Ending.LEFT_BEHIND and receipt.input(plan) is None:
        return Participation(Ending.LEFT_BEHIND, exchange.reason, True)
    if receipt.input(plan) != paid:
        raise VerificationError("the input that left here is not in the release")
    *checks, ours = receipt.check(
        plan,
        seat.round_id,
        seat.position,
        exchange.sent,
        exchange.root,
        exchange.survivors,
    )
    verified = _verified(client, seat, receipt) if whole else None
    warnings = []
    if receipt.key == seat.given.registrar:
        warnings.append("the coordinator's key is the registrar's: it vouches for its own roster")
    return Participation(
        Ending.RELEASED,
        None,
        True,
        receipt.phase(input_phase(plan.method).name)["count"],
        (*(checks if verified is None else verified.checks), ours),
        receipt.fingerprint,
        verified,
        tuple(warnings),
    )


def _verified(client: CoordinatorClient, seat: Seat, receipt: Receipt) -> Verified:
    """The whole release, derived anew from the transcript that the receipt is of."""
    from dhdmm.release.transcript import Transcript
    from dhdmm.release.verify import verify

    transcript = Transcript.from_bytes(client.transcript(seat.round_id))
    if transcript.entries != receipt.entries:
        raise VerificationError("the transcript is not the one that the receipt is of")
    return verify(transcript)

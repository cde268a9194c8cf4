"""What a transcript says of the inputs of a validated sum, and what anybody can check of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dhdmm.aggregation import wrapping
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import Checked, PublishedSum
from dhdmm.aggregation.roster import Roster
from dhdmm.validated.attachments import (
    SIGNED_BYTES,
    SignedCommitment,
    agreement_holds,
    root_of,
)
from dhdmm.validated.round import ValidatedRound
from dhdmm.validation.commitment import sum_is_committed
from dhdmm.validation.group import SCALAR_BYTES, EncodingError, Point, decode_point, decode_scalars


@dataclass(frozen=True)
class Account(wrapping.Account):
    """The survivors' signed commitments in the order of the roster, who signed their root, the sum
    of the blindings, and whose inputs were refused and why."""

    about = "validated inputs"

    signed: tuple[SignedCommitment, ...]
    agreed: Mapping[int, bytes]
    blinding: int
    refused: Mapping[int, str]
    below: bytes = b""
    """What the way to add up below says, where it says something."""

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "commitments": b"".join([one.encode() for one in self.signed]),
            "agreed": dict(self.agreed),
            "blinding": self.blinding.to_bytes(SCALAR_BYTES, "little"),
            "refused": dict(self.refused),
        }
        if self.below:
            fields["below"] = self.below
        return fields

    @classmethod
    def _of(cls, fields: Any) -> Self:
        joined, agreed = fields["commitments"], fields["agreed"]
        starts = range(0, len(joined), SIGNED_BYTES)
        (blinding,) = decode_scalars(fields["blinding"])
        return cls(
            tuple(SignedCommitment.decode(joined[at : at + SIGNED_BYTES]) for at in starts),
            {_position(i): signature for i, signature in agreed.items()},
            blinding,
            {_position(i): str(why) for i, why in fields["refused"].items()},
            bytes(fields.get("below", b"")),
        )


def _position(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError("not a position")
    return value


def check_account(round: ValidatedRound, roster: Roster, published: PublishedSum) -> Checked:
    """What it shows of a published sum; `RemoteProtocolError` if something does not hold."""
    account, survivors = Account.decode(published.account or b""), published.survivors
    positions = survivors.members()
    _require(len(account.signed) == len(positions), "not one commitment for each survivor")
    signed = list(zip(positions, account.signed, strict=True))
    for i, one in signed:
        own = one.holds(roster.identities[i], round.session, i)
        _require(own, f"the commitment of {i} is not signed")
    _require(
        sum_is_committed(_points(account), published.measurement, account.blinding),
        "the sum is not what was committed to",
    )
    holds = [f"the sum is the one that {len(positions):,} survivors signed commitments to"]
    root = root_of(round.session, signed)
    for i, signature in account.agreed.items():
        accepted = i in survivors and agreement_holds(
            roster.identities[i], round.session, root, signature
        )
        _require(accepted, f"{i} has not signed this list of commitments")
    for i in account.refused:
        _require(i < round.participants and i not in survivors, "a survivor was refused")
    refused = [
        f"the input of participant {i + 1:,} was refused: {why}"
        for i, why in sorted(account.refused.items())
    ]
    agreed = f"{len(account.agreed):,} survivors signed its list, {round.quorum:,} are needed"
    if not round.list_is_agreed:
        return Checked([*holds, *refused])
    if len(account.agreed) >= round.quorum:
        return Checked([*holds, f"{SETTLED}: {agreed}", *refused])
    return Checked([*holds, *refused], [f"that {SETTLED}: {agreed}"])


SETTLED = "the commitments were settled before the sum was known"


def _points(account: Account) -> list[Point]:
    try:
        return [decode_point(one.commitment) for one in account.signed]
    except EncodingError as error:
        raise RemoteProtocolError(AbortReason.MALFORMED, str(error)) from None


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RemoteProtocolError(AbortReason.SUM_MISMATCH, otherwise)

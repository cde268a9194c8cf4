"""A helper that takes only inputs with a signed commitment and, where it is asked for, a proof.

What it is asked of a batch comes with the attachments of its inputs, and SHA-256 of the messages
that they were attached to: the helper does not see these whole.

    count × (u32 length ‖ attachment ‖ SHA-256 of the message)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from dhdmm.aggregation import wire
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import HelperMachine
from dhdmm.aggregation.roster import Roster
from dhdmm.aggregation.wrapping import Below, attach, detach
from dhdmm.validated.attachments import (
    SignedCommitment,
    proof_context,
    read_hashed_input,
)
from dhdmm.validated.round import ValidatedRound
from dhdmm.validation.verification import Claim

_BLOB, _HASH = wire.Blob(), wire.Fixed(32)

Faults = Callable[[list[Claim]], dict[int, str]]
Attached = tuple[bytes, bytes]
"""An attachment, and the hash of the message that it belongs to."""


def encode_question(attached: Sequence[Attached], request: bytes) -> bytes:
    """The question to the helper, with what was attached to the inputs that it is about."""
    parts = [_BLOB.encode(one) + _HASH.encode(digest) for one, digest in attached]
    return attach(b"".join(parts), request)


def decode_question(data: bytes) -> tuple[list[Attached], bytes]:
    """The inverse."""
    enclosed, request = detach(data)
    reader, found = wire.Reader(enclosed), list[Attached]()
    while not reader.finished:
        found.append((_BLOB.decode(reader), _HASH.decode(reader)))
    return found, request


class ValidatedHelper:
    """The helper of one round, around the one of the way to add up below."""

    accepted = Below[int]()
    refused = Below[int]()
    answered = Below[bool]()

    def __init__(
        self,
        round: ValidatedRound,
        roster: Roster,
        below: HelperMachine,
        asked_about: Callable[[bytes], Sequence[int]],
        faults: Faults,
    ) -> None:
        self._round, self._roster, self.below = round, roster, below
        self._asked_about, self._faults = asked_about, faults

    def answer(self, request: bytes, refused: Collection[int] = ()) -> bytes:
        attached, asked = decode_question(request)
        positions = self._asked_about(asked)
        return self.below.answer(asked, {*refused, *self._invalid(positions, attached)})

    def _invalid(self, positions: Sequence[int], attached: Sequence[Attached]) -> set[int]:
        """Those whose commitment is not signed, or whose proof does not hold."""
        if len(positions) != len(attached):
            return set(positions)
        invalid, places, claims = set[int](), list[int](), list[Claim]()
        for position, (attachment, digest) in zip(positions, attached, strict=True):
            try:
                claims.append(self._claim(position, attachment, digest))
                places.append(position)
            except RemoteProtocolError:
                invalid.add(position)
        found = self._faults(claims) if claims else {}
        return invalid | {places[i] for i in found}

    def _claim(self, position: int, attachment: bytes, digest: bytes) -> Claim:
        signed, proof = read_hashed_input(attachment, digest)
        return claim_of(self._round, self._roster, position, signed, proof)


def claim_of(
    round: ValidatedRound, roster: Roster, position: int, signed: SignedCommitment, proof: bytes
) -> Claim:
    """What is to be verified; refused unless the identity of this seat has signed it."""
    if not 0 <= position < len(roster):
        raise RemoteProtocolError(AbortReason.MALFORMED, "nobody sits there")
    public = roster.identities[position]
    signed.require(public, round.session, position)
    return Claim(proof_context(round.session, position, public), signed.commitment, proof)

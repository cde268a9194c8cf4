"""A participant whose input is committed to, signed, and proved to be short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import ParticipantMachine
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.wrapping import AttachingJournal, ParticipantOver, detach
from dhdmm.validated.attachments import (
    ROOT_BYTES,
    SignedCommitment,
    attached_to_input,
    proof_context,
    sign_agreement,
)
from dhdmm.validated.round import ValidatedRound
from dhdmm.validation.commitment import commit, draw_blinding
from dhdmm.validation.group import encode_point
from dhdmm.validation.proving import BoundExceeded, prove


class ValidatedParticipant(ParticipantOver):
    """One participant in one round, around the machine of the way to add up below.

    Its journal keeps the root that it has accepted.
    `below` makes that machine with the journal that it is given.
    """

    def __init__(
        self,
        round: ValidatedRound,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
        below: Callable[[Journal], ParticipantMachine],
    ) -> None:
        if identity is None:
            raise LocalProtocolError("inputs are signed: a participant needs an identity")
        self._round, self._identity, self._position = round, identity, position
        self._randomness = randomness
        self._given: tuple[bytes, bytes] | None = None  # commitment and proof, about to leave
        self._journal = AttachingJournal(journal, self._attached_to)
        self.below = below(self._journal)
        self.below.agree_also(self._journal.kept)

    def agree_also(self, said: bytes) -> None:
        raise LocalProtocolError("what is agreed on beside the survivors is the root of the inputs")

    def receive(self, data: bytes) -> bytes | None:
        """The first root that comes with a message is what it agrees on; there is no second."""
        root, message = detach(data)
        if len(root) not in ((0, ROOT_BYTES) if self._round.list_is_agreed else (0,)):
            raise RemoteProtocolError(AbortReason.MALFORMED, "not a root of the inputs")
        if root and self._journal.kept not in (b"", root) and not self.over:
            return self.abort(AbortReason.SECOND_BITMAP)
        if root and self.input_is_outgoing:
            self._journal.kept = root
            self.below.agree_also(root)
        return self._sent_or_nothing(self.below.receive(message))

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes:
        """Commit, prove, and hand over the input with its blinding beside it.

        An input that is too long for a proof, once in 2⁸⁰ honest ones, ends the participation.
        """
        if scalar:
            raise LocalProtocolError("what is added up beside the input is its blinding")
        entries = self._round.modulus.signed(vector).tolist()
        blinding = draw_blinding(self._randomness)
        try:
            proof = self._proof(entries, blinding)
        except BoundExceeded:
            return self.abort(AbortReason.STOPPED)
        self._given = encode_point(commit(entries, blinding)), proof
        return self._sent(self.below.give_input(vector, blinding))

    def _proof(self, entries: list[int], blinding: int) -> bytes:
        if self._round.statement is None:
            return b""
        context = proof_context(self._round.session, self._position, self._identity.public)
        return prove(self._round.statement, context, entries, blinding, self._randomness)

    def _attached_to(self, outgoing: bytes) -> tuple[bytes, bytes]:
        return self._attachment(outgoing), self._journal.kept

    def _attachment(self, outgoing: bytes) -> bytes:
        """Of the message that the machine below is about to keep and to give."""
        identity, session = self._identity, self._round.session
        if self.below.abort_reason is not None:
            return b""
        if self._given is not None:
            commitment, proof = self._given
            self._given = None
            signed = SignedCommitment.make(
                identity, session, self._position, commitment, proof, outgoing
            )
            return attached_to_input(signed, proof)
        if self._journal.kept:
            return sign_agreement(identity, session, self._journal.kept)
        return b""

"""What is attached to messages, and what identities sign."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from dhdmm.aggregation.errors import AbortReason, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.identity import SIGNATURE_BYTES, Identity, signature_holds
from dhdmm.validation.group import POINT_BYTES

_HASH_BYTES = 32
_INPUT = b"dhdmm validated input 1"
_CONTEXT = b"dhdmm validated proof 1"
_INPUTS = b"dhdmm validated inputs 1"
_AGREED = b"dhdmm validated agreed 1"
ROOT_BYTES = _HASH_BYTES


class SignedCommitment(NamedTuple):
    """A participant's commitment, signed together with its proof and its masked input.

    `rest` is SHA-256 of the SHA-256 of each of the latter two.
    """

    commitment: bytes
    signature: bytes
    rest: bytes

    @classmethod
    def make(
        cls,
        identity: Identity,
        session: bytes,
        position: int,
        commitment: bytes,
        proof: bytes,
        message: bytes,
    ) -> SignedCommitment:
        rest = _rest(proof, sha256(message).digest())
        said = _said(session, position, commitment, rest)
        return cls(commitment, identity.sign(said), rest)

    def holds(self, public: bytes, session: bytes, position: int) -> bool:
        said = _said(session, position, self.commitment, self.rest)
        return signature_holds(public, said, self.signature)

    def require(self, public: bytes, session: bytes, position: int) -> None:
        if not self.holds(public, session, position):
            raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, "of a commitment")

    def encode(self) -> bytes:
        return self.commitment + self.signature + self.rest

    @classmethod
    def decode(cls, encoded: bytes) -> SignedCommitment:
        signed = POINT_BYTES + SIGNATURE_BYTES
        if len(encoded) != SIGNED_BYTES:
            raise MalformedMessage("not a signed commitment")
        return cls(encoded[:POINT_BYTES], encoded[POINT_BYTES:signed], encoded[signed:])


SIGNED_BYTES = POINT_BYTES + SIGNATURE_BYTES + _HASH_BYTES
ATTACHED_BYTES = POINT_BYTES + SIGNATURE_BYTES
"""Of what is attached to an input, beside its proof."""


def attached_to_input(signed: SignedCommitment, proof: bytes) -> bytes:
    return signed.commitment + signed.signature + proof


def read_input(attachment: bytes, message: bytes) -> tuple[SignedCommitment, bytes]:
    """What was attached to this input: the signed commitment, and the proof."""
    return read_hashed_input(attachment, sha256(message).digest())


def read_hashed_input(attachment: bytes, digest: bytes) -> tuple[SignedCommitment, bytes]:
    """The same where of the input only SHA-256 is known."""
    if len(attachment) < ATTACHED_BYTES:
        raise MalformedMessage("an input without a signed commitment")
    proof = attachment[ATTACHED_BYTES:]
    commitment, signature = attachment[:POINT_BYTES], attachment[POINT_BYTES:ATTACHED_BYTES]
    return SignedCommitment(commitment, signature, _rest(proof, digest)), proof


def proof_context(session: bytes, position: int, public: bytes) -> bytes:
    """Whose proof it is: nobody else's commitment can be sent as one's own."""
    return _CONTEXT + session + position.to_bytes(4, "big") + public


def root_of(session: bytes, signed: Iterable[tuple[int, SignedCommitment]]) -> bytes:
    """The hash of all survivors' signed commitments, in the order of the roster."""
    listed = [position.to_bytes(4, "big") + one.encode() for position, one in signed]
    return sha256(_INPUTS + session + b"".join(listed)).digest()


def sign_agreement(identity: Identity, session: bytes, root: bytes) -> bytes:
    """Says: this is the one list of commitments that I have accepted."""
    return identity.sign(_AGREED + session + root)


def agreement_holds(public: bytes, session: bytes, root: bytes, signature: bytes) -> bool:
    return signature_holds(public, _AGREED + session + root, signature)


def _rest(proof: bytes, digest: bytes) -> bytes:
    return sha256(sha256(proof).digest() + digest).digest()


def _said(session: bytes, position: int, commitment: bytes, rest: bytes) -> bytes:
    return _INPUT + session + position.to_bytes(4, "big") + commitment + rest

"""Ed25519 identities: who somebody is, in rosters, requests and transcripts."""

from __future__ import annotations

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey

from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.randomness import Randomness

KEY_BYTES = 32
SIGNATURE_BYTES = 64


class Identity:
    """A participant's long-lived Ed25519 key."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != KEY_BYTES:
            raise LocalProtocolError("an Ed25519 seed has 32 bytes")
        self._key = SigningKey(seed)
        self.public = bytes(self._key.verify_key)

    @classmethod
    def generate(cls, randomness: Randomness) -> Identity:
        return cls(randomness(KEY_BYTES))

    @property
    def seed(self) -> bytes:
        """The secret, for the owner's key file."""
        return bytes(self._key)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message).signature

    def __repr__(self) -> str:
        return f"Identity(public={self.public!r})"


def signature_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Strict Ed25519 verification: S < L, and no small-order or non-canonical key or R."""
    if len(public) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, public)
    except BadSignatureError:
        return False
    return True

"""HPKE (RFC 9180, base mode): what a participant seals can be opened by the helper alone.

Two suites; the plan names one. Both have HKDF-SHA256 and AES-256-GCM, and differ in the key
encapsulation: MLKEM768-X25519, which a later quantum computer does not open, or X25519.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.randomness import Randomness

_MLKEM_SEED, _MLKEM_PUBLIC, _X25519 = 64, 1184, 32  # bytes
_TAG = 16


class Sealing(StrEnum):
    """The suites, by their names in studies."""

    HYBRID = "mlkem768-x25519"
    X25519 = "x25519"


@dataclass(frozen=True)
class _Suite:
    number: int
    """In what the helper signs; never changed."""
    hpke: hpke.Suite
    encapsulated: int
    secret_bytes: int
    public_bytes: int
    private: Callable[[bytes], Any]
    public: Callable[[bytes], Any]


def _suite(kem: hpke.KEM) -> hpke.Suite:
    return hpke.Suite(kem, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


_SUITES = {
    Sealing.HYBRID: _Suite(
        number=1,
        hpke=_suite(hpke.KEM.MLKEM768_X25519),
        encapsulated=1120,
        secret_bytes=_MLKEM_SEED + _X25519,
        public_bytes=_MLKEM_PUBLIC + _X25519,
        private=lambda data: hpke.MLKEM768X25519PrivateKey(
            MLKEM768PrivateKey.from_seed_bytes(data[:_MLKEM_SEED]),
            X25519PrivateKey.from_private_bytes(data[_MLKEM_SEED:]),
        ),
        public=lambda data: hpke.MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(data[:_MLKEM_PUBLIC]),
            X25519PublicKey.from_public_bytes(data[_MLKEM_PUBLIC:]),
        ),
    ),
    Sealing.X25519: _Suite(
        number=2,
        hpke=_suite(hpke.KEM.X25519),
        encapsulated=_X25519,
        secret_bytes=_X25519,
        public_bytes=_X25519,
        private=X25519PrivateKey.from_private_bytes,
        public=X25519PublicKey.from_public_bytes,
    ),
}


def number_of(sealing: Sealing) -> int:
    """Of the suite, in what the helper signs."""
    return _SUITES[sealing].number


def public_bytes(sealing: Sealing) -> int:
    """Of an encoded public key."""
    return _SUITES[sealing].public_bytes


def sealed_bytes(sealing: Sealing, plaintext_bytes: int) -> int:
    """Encapsulated key, ciphertext and tag."""
    return _SUITES[sealing].encapsulated + plaintext_bytes + _TAG


class PublicKey:
    """What participants seal to."""

    def __init__(self, sealing: Sealing, encoded: bytes) -> None:
        self._suite, self.encoded = _SUITES[sealing], encoded
        if len(encoded) != self._suite.public_bytes:
            raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "of another length")
        try:
            self._key = self._suite.public(encoded)
        except ValueError:
            raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "not a key") from None

    def seal(self, plaintext: bytes, info: bytes) -> bytes:
        """The encapsulated key, then the ciphertext. Its randomness is the library's own, which
        is the operating system's."""
        try:
            return self._suite.hpke.encrypt(plaintext, self._key, info)
        except ValueError:  # a point of low order
            raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "low order") from None


class SecretKey:
    """The helper's, of one round."""

    def __init__(self, sealing: Sealing, secret: bytes) -> None:
        self._suite, self.secret = _SUITES[sealing], secret
        if len(secret) != self._suite.secret_bytes:
            raise LocalProtocolError("a secret key of another length")
        self._key = self._suite.private(secret)

    @classmethod
    def generate(cls, sealing: Sealing, randomness: Randomness) -> SecretKey:
        return cls(sealing, randomness(_SUITES[sealing].secret_bytes))

    @property
    def public(self) -> bytes:
        """The encoded public key."""
        if len(self.secret) == _X25519:
            return bytes(self._key.public_key().public_bytes_raw())
        mlkem = MLKEM768PrivateKey.from_seed_bytes(self.secret[:_MLKEM_SEED])
        x25519 = X25519PrivateKey.from_private_bytes(self.secret[_MLKEM_SEED:])
        return mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        try:
            return self._suite.hpke.decrypt(sealed, self._key, info)
        except (InvalidTag, ValueError):
            raise RemoteProtocolError(AbortReason.BAD_CIPHERTEXT, "a sealed seed") from None

    def __repr__(self) -> str:
        return "<SecretKey>"

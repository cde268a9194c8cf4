"""Keys, and what is said under them.

Whatever two participants derive has one direction and one purpose. Its HKDF info is

    label ‖ session ‖ sender ‖ receiver ‖ public key of sender ‖ public key of receiver

with a 16-byte label, a 32-byte session, 4-byte big-endian roster positions and 32-byte keys, so no
two inputs collide. Evidence is derived like a key: HKDF-Expand is an HMAC, so its output is the
MAC of its info under the pairwise key. Without a direction, a participant's own evidence reflected
back to it would pass as its neighbour's. A mask belongs to both ends alike, so its two ends are put
in order of position.

Assumed of the parts: Gap-DH on X25519 with HKDF as a random oracle; AES-GCM and HMAC as usual.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import RuntimeError as SodiumError

from dhdmm.aggregation.derivation import hkdf_expand, hkdf_extract
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError

KEY_BYTES = 32
EVIDENCE_BYTES = 16
SEAL_OVERHEAD = 16

_STATEMENT = struct.Struct(">16s32sII")
_NONCE = bytes(12)
_FIELD_PRIME = 2**255 - 19
_TOP_BYTE = _FIELD_PRIME >> 248
# the u-coordinates of the points that 8 annihilates, on the curve and on its twist
LOW_ORDER_KEYS = frozenset(
    u.to_bytes(KEY_BYTES, "little")
    for u in (
        0,
        1,
        _FIELD_PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
)


class Label(bytes, Enum):
    """What a key, a hash or a signature is for; 16 bytes each."""

    SHARE = b"dhdmm1 share\0\0\0\0"
    INCLUDED = b"dhdmm1 included\0"
    ACK = b"dhdmm1 ack\0\0\0\0\0\0"
    MASK = b"dhdmm1 mask\0\0\0\0\0"
    SELF_MASK = b"dhdmm1 selfmask\0"
    SEED = b"dhdmm1 seed\0\0\0\0\0"
    KEYS = b"dhdmm1 keys\0\0\0\0\0"


class Endpoint(NamedTuple):
    """One end of a pairwise key: a roster position and the X25519 public key used there."""

    position: int
    public: bytes


@dataclass(frozen=True)
class KeyPair:
    """An X25519 key pair; the secret is kept out of repr and comparisons."""

    public: bytes
    secret: bytes = field(repr=False, compare=False)

    @classmethod
    def from_secret(cls, secret: bytes) -> KeyPair:
        """The pair whose secret is these 32 bytes (clamped in use, as RFC 7748 says)."""
        if len(secret) != KEY_BYTES:
            raise LocalProtocolError("an X25519 secret key has 32 bytes")
        return cls(crypto_scalarmult_base(secret), secret)

    def agree(self, peer_public: bytes) -> bytes:
        """The pairwise pseudorandom key: HKDF-Extract of the X25519 secret; 32 bytes.

        Refuses what no honest key generation produces: an encoding that is not canonical (it would
        be a second name of the same key) and a point of low order (the secret would be zero).
        """
        check_public_key(peer_public)
        try:
            shared = crypto_scalarmult(self.secret, peer_public)
        except SodiumError as error:  # the library's report of an all-zero secret
            raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "low order") from error
        return hkdf_extract(shared)


def check_public_key(public: bytes) -> None:
    """Refuse anything but the canonical encoding of a point that is not of low order.

    Everybody looks at a key when it is first shown: found out later, when a mask is due, a bad key
    of one corrupt participant would stop all its neighbours.
    """
    if len(public) != KEY_BYTES or (
        public[-1] >= _TOP_BYTE and int.from_bytes(public, "little") >= _FIELD_PRIME
    ):
        raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "not a canonical X25519 key")
    if public in LOW_ORDER_KEYS:
        raise RemoteProtocolError(AbortReason.BAD_PUBLIC_KEY, "low order")


def statement(label: Label, session: bytes, sender: int, receiver: int) -> bytes:
    """label ‖ session ‖ sender ‖ receiver: what a key or a ciphertext is bound to."""
    return _STATEMENT.pack(label, session, sender, receiver)


def channel_key(
    pairwise: bytes, label: Label, session: bytes, sender: Endpoint, receiver: Endpoint
) -> bytes:
    """The key for one purpose in one direction; `pairwise` comes from `KeyPair.agree`."""
    return hkdf_expand(pairwise, _info(label, session, sender, receiver))


def _info(label: Label, session: bytes, sender: Endpoint, receiver: Endpoint) -> bytes:
    stated = statement(label, session, sender.position, receiver.position)
    return stated + sender.public + receiver.public


def pairwise_mask_seed(pairwise: bytes, session: bytes, one: Endpoint, other: Endpoint) -> bytes:
    """s_ij, the same whichever end computes it."""
    ends = (one, other) if one < other else (other, one)
    return channel_key(pairwise, Label.MASK, session, *ends)


def self_mask_seed(seed: bytes, session: bytes, position: int) -> bytes:
    """The key of participant i's own mask F(b_i), derived from the shared seed b_i."""
    info = Label.SELF_MASK + session + position.to_bytes(4, "big")
    return hkdf_expand(hkdf_extract(seed), info)


def seed_commitment(seed: bytes, session: bytes, position: int) -> bytes:
    """SHA-256(label ‖ session ‖ i ‖ b_i), by which the coordinator recognises b_i."""
    return sha256(Label.SEED + session + position.to_bytes(4, "big") + seed).digest()


def seal(key: bytes, session: bytes, sender: int, receiver: int, plaintext: bytes) -> bytes:
    """AES-256-GCM under a key that is used for this one message: the nonce may be constant.

    `key` must be fresh from `channel_key`: it is bound to session, direction and both public keys,
    which are one-shot, so (key, nonce) never repeats.
    """
    header = statement(Label.SHARE, session, sender, receiver)
    return AESGCM(key).encrypt(_NONCE, plaintext, header)


def unseal(key: bytes, session: bytes, sender: int, receiver: int, ciphertext: bytes) -> bytes:
    """The inverse of `seal`; a message that does not authenticate is refused."""
    header = statement(Label.SHARE, session, sender, receiver)
    try:
        return AESGCM(key).decrypt(_NONCE, ciphertext, header)
    except InvalidTag as error:
        raise RemoteProtocolError(AbortReason.BAD_CIPHERTEXT, f"from {sender}") from error


def evidence(
    pairwise: bytes,
    label: Label,
    session: bytes,
    sender: Endpoint,
    receiver: Endpoint,
    bitmap_hash: bytes = b"",
) -> bytes:
    """What only the two ends can derive, of purpose, direction and survivors; 16 bytes."""
    info = _info(label, session, sender, receiver)
    return hkdf_expand(pairwise, info + bitmap_hash)[:EVIDENCE_BYTES]


def evidence_holds(tag: bytes, expected: bytes) -> bool:
    """Whether `tag` is the evidence that was expected; compared in constant time."""
    return hmac.compare_digest(tag, expected)

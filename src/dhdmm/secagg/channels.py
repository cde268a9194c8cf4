"""What a participant says to one neighbour, and how it recognises what that neighbour said.

Everything goes through the coordinator. Shares are sealed for the neighbour; "included" and "ack"
have exactly one verifier, so a MAC under the pairwise key is evidence enough for it. Signatures by
the pinned identity say the same to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dhdmm.secagg import keys
from dhdmm.secagg.keys import Endpoint, Identity, KeyPair, Label
from dhdmm.secagg.round import EvidenceKind, Roster


class Neighbour(NamedTuple):
    """One entry of a participant's neighbourhood."""

    position: int
    direction: int  # bits of messages.Direction
    mask_key: bytes  # pk¹
    channel_key: bytes  # pk²


class MacChannels:
    """Channels of one participant in one session, authenticated by pairwise MACs.

    The agreement with a neighbour is computed at most once: it is the larger part of the work.
    """

    def __init__(self, session: bytes, position: int, channel_keys: KeyPair) -> None:
        self._session, self._keys = session, channel_keys
        self._own = Endpoint(position, channel_keys.public)
        self._pairwise: dict[int, bytes] = {}

    def meet(self, neighbours: Iterable[Neighbour]) -> None:
        """Agree with all of them in one go, which is quicker than one by one between other work."""
        for j in neighbours:
            self._agreed(Endpoint(j.position, j.channel_key))

    def seal(self, receiver: Neighbour, plaintext: bytes) -> bytes:
        key = self._key_to(Label.SHARE, receiver)
        return keys.seal(key, self._session, self._own.position, receiver.position, plaintext)

    def unseal(self, sender: Neighbour, ciphertext: bytes) -> bytes:
        key = self._key_from(Label.SHARE, sender)
        return keys.unseal(key, self._session, sender.position, self._own.position, ciphertext)

    def say(self, label: Label, receiver: Neighbour, bitmap_hash: bytes = b"") -> bytes:
        """Evidence for this one receiver."""
        key, session = self._key_to(label, receiver), self._session
        return keys.evidence(
            key, label, session, self._own.position, receiver.position, bitmap_hash
        )

    def heard(self, label: Label, sender: Neighbour, tag: bytes, bitmap_hash: bytes = b"") -> bool:
        """Whether the sender said so to us."""
        key, session = self._key_from(label, sender), self._session
        return keys.evidence_holds(
            tag, key, label, session, sender.position, self._own.position, bitmap_hash
        )

    def _key_to(self, label: Label, receiver: Neighbour) -> bytes:
        other = Endpoint(receiver.position, receiver.channel_key)
        return keys.channel_key(self._agreed(other), label, self._session, self._own, other)

    def _key_from(self, label: Label, sender: Neighbour) -> bytes:
        other = Endpoint(sender.position, sender.channel_key)
        return keys.channel_key(self._agreed(other), label, self._session, other, self._own)

    def _agreed(self, other: Endpoint) -> bytes:
        pairwise = self._pairwise.get(other.position)
        if pairwise is None:
            pairwise = self._pairwise[other.position] = self._keys.agree(other.public)
        return pairwise


class SignatureChannels(MacChannels):
    """The same channels with evidence that third parties can check as well."""

    def __init__(
        self,
        session: bytes,
        position: int,
        channel_keys: KeyPair,
        identity: Identity,
        roster: Roster,
    ) -> None:
        super().__init__(session, position, channel_keys)
        self._identity, self._roster = identity, roster

    def say(self, label: Label, receiver: Neighbour, bitmap_hash: bytes = b"") -> bytes:
        own, to = self._own.position, receiver.position
        return self._identity.sign(keys.statement(label, self._session, own, to, bitmap_hash))

    def heard(self, label: Label, sender: Neighbour, tag: bytes, bitmap_hash: bytes = b"") -> bool:
        own, by = self._own.position, sender.position
        said = keys.statement(label, self._session, by, own, bitmap_hash)
        return keys.signature_holds(self._roster.identities[by], said, tag)


def open_channels(
    evidence: EvidenceKind,
    session: bytes,
    position: int,
    channel_keys: KeyPair,
    identity: Identity | None,
    roster: Roster,
) -> MacChannels:
    if evidence is EvidenceKind.SIGNATURES and identity is not None:
        return SignatureChannels(session, position, channel_keys, identity, roster)
    return MacChannels(session, position, channel_keys)


def keys_statement(session: bytes, position: int, mask_key: bytes, channel_key: bytes) -> bytes:
    """What an identity signs in the malicious model, step 1."""
    return Label.KEYS + session + position.to_bytes(4, "big") + mask_key + channel_key

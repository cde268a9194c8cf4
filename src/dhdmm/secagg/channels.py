"""What a participant says to one neighbour, and how it recognises what that neighbour said.

Everything goes through the coordinator. Shares are sealed for the neighbour; "included" and "ack"
have exactly one verifier, so a MAC under the pairwise key is evidence enough for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dhdmm.secagg import keys
from dhdmm.secagg.keys import Endpoint, KeyPair, Label


class Neighbour(NamedTuple):
    """One entry of a participant's neighbourhood."""

    position: int
    direction: int  # bits of messages.Direction
    mask_key: bytes  # pk¹
    channel_key: bytes  # pk²


class Channels:
    """Channels of one participant in one session, authenticated by pairwise MACs.

    The agreement with a neighbour is computed at most once: it is the larger part of the work.
    """

    def __init__(self, session: bytes, position: int, channel_keys: KeyPair) -> None:
        self._session, self._keys = session, channel_keys
        self._own = Endpoint(position, channel_keys.public)
        self._agreements: dict[int, tuple[Endpoint, bytes]] = {}  # the other end, the pairwise key

    def agree_with(self, neighbours: Iterable[Neighbour]) -> None:
        """Agree with all of them at once, which is faster than one by one between other work."""
        agree = self._keys.agree
        for position, _, _, public in neighbours:
            if position not in self._agreements:
                self._agreements[position] = Endpoint(position, public), agree(public)

    def agreed(self, neighbours: Iterable[Neighbour]) -> list[bytes]:
        """The pairwise keys with them, for `reuse`."""
        return [self._agreed(j)[1] for j in neighbours]

    def reuse(self, neighbours: Iterable[Neighbour], pairwise: Iterable[bytes]) -> None:
        """Take what `agreed` gave earlier instead of agreeing again."""
        for j, key in zip(neighbours, pairwise, strict=True):
            self._agreements[j.position] = Endpoint(j.position, j.channel_key), key

    def seal(self, receiver: Neighbour, plaintext: bytes) -> bytes:
        other, pairwise = self._agreed(receiver)
        key = keys.channel_key(pairwise, Label.SHARE, self._session, self._own, other)
        return keys.seal(key, self._session, self._own.position, other.position, plaintext)

    def unseal(self, sender: Neighbour, ciphertext: bytes) -> bytes:
        other, pairwise = self._agreed(sender)
        key = keys.channel_key(pairwise, Label.SHARE, self._session, other, self._own)
        return keys.unseal(key, self._session, other.position, self._own.position, ciphertext)

    def evidence_for(self, label: Label, receiver: Neighbour, bitmap_hash: bytes = b"") -> bytes:
        """Evidence for this one receiver."""
        other, pairwise = self._agreed(receiver)
        return keys.evidence(pairwise, label, self._session, self._own, other, bitmap_hash)

    def evidence_holds(
        self, label: Label, sender: Neighbour, tag: bytes, bitmap_hash: bytes = b""
    ) -> bool:
        """Whether this is the sender's evidence for us."""
        other, pairwise = self._agreed(sender)
        expected = keys.evidence(pairwise, label, self._session, other, self._own, bitmap_hash)
        return keys.evidence_holds(tag, expected)

    def _agreed(self, neighbour: Neighbour) -> tuple[Endpoint, bytes]:
        if neighbour.position not in self._agreements:
            self.agree_with([neighbour])
        return self._agreements[neighbour.position]


def keys_statement(session: bytes, position: int, mask_key: bytes, channel_key: bytes) -> bytes:
    """What an identity signs in the malicious model, step 1."""
    return Label.KEYS + session + position.to_bytes(4, "big") + mask_key + channel_key

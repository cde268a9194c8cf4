"""Who takes part in a round, and how somebody knows it who has not the whole list.

The digest of a roster is the root of a Merkle tree with a leaf for each participant:

    "dhdmm roster 2" ‖ length of the name ‖ name in UTF-8 ‖ Ed25519 key

the length as a 4-byte big-endian integer. Position and number of participants are in every leaf's
hash. So who is at some places is shown with a proof that is as long as log n for each of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import KEY_BYTES
from dhdmm.aggregation.lists import Slots
from dhdmm.aggregation.merkle import Computed, MerkleTree, verify_multiproof

_LEAF = b"dhdmm roster 2"


class Entry(NamedTuple):
    """Somebody on a roster."""

    name: str
    identity: bytes

    @property
    def leaf(self) -> bytes:
        encoded = self.name.encode()
        return _LEAF + len(encoded).to_bytes(4, "big") + encoded + self.identity


Entries = Mapping[int, Entry]
"""By position."""


class KnownRoster(Protocol):
    """What somebody knows of a roster: all of it, or its root and some of its entries."""

    def __len__(self) -> int: ...

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """The digests that name it, by which plans and people know it."""

    def identity(self, position: int) -> bytes:
        """The key of who is there; refused if nobody has shown who is."""

    def learn(self, entries: Entries, proof: bytes) -> None:
        """Take these in; refused unless the proof shows that they are on the roster."""


class KeyIndex:
    """Where keys are, found by halving: a dictionary of a million takes 100 MB more."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        joined = keys.data if isinstance(keys, Slots) else b"".join(keys)
        self._keys = np.frombuffer(joined, "S32")
        self._order = np.argsort(self._keys)

    @property
    def distinct(self) -> bool:
        """Whether every key is there once."""
        ascending = self._keys[self._order]
        return not np.any(ascending[1:] == ascending[:-1])

    def find(self, key: bytes) -> int | None:
        place = int(np.searchsorted(self._keys, np.bytes_(key), sorter=self._order))
        if place == len(self._order):
            return None
        position = int(self._order[place])
        return position if self._keys[position].ljust(32, b"\0") == key else None


@dataclass(frozen=True)
class Roster:
    """The participants in order: names and Ed25519 identity keys. One identity, one seat."""

    names: Sequence[str]
    identities: Sequence[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.identities) or not _are_keys(self.identities):
            raise LocalProtocolError("a roster pairs every name with a 32-byte identity key")
        if len(set(self.names)) < len(self) or not self.keys.distinct:
            raise LocalProtocolError("a name or an identity key appears twice in the roster")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def tree(self) -> MerkleTree:
        return MerkleTree(Computed(len(self), lambda i: self.entry(i).leaf))

    @property
    def digest(self) -> bytes:
        """What people compare, or a registrar signs: the root of its tree."""
        return self.tree.root

    @cached_property
    def flat_digest(self) -> bytes:
        """What dhdmm 0.1.0 had instead: it can be computed from the whole roster only."""
        hasher = hashlib.sha256(b"dhdmm roster 1" + len(self).to_bytes(4, "little"))
        for i in range(len(self)):
            encoded = self.names[i].encode()
            hasher.update(len(encoded).to_bytes(4, "little") + encoded + self.identities[i])
        return hasher.digest()

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        return self.digest, self.flat_digest

    def entry(self, position: int) -> Entry:
        return Entry(self.names[position], self.identities[position])

    def identity(self, position: int) -> bytes:
        return self.identities[position]

    def position_of(self, identity: bytes) -> int | None:
        """Where this key sits; None if it is not on the roster."""
        return self.keys.find(identity)

    @cached_property
    def keys(self) -> KeyIndex:
        return KeyIndex(self.identities)

    def learn(self, entries: Entries, proof: bytes) -> None:
        """Nothing is new to who has all of it."""


def _are_keys(identities: Sequence[bytes]) -> bool:
    if isinstance(identities, Slots):
        return identities.size == KEY_BYTES
    return all(len(key) == KEY_BYTES for key in identities)


class PartOfRoster:
    """The root of a roster's tree, and the entries that were shown to be in it."""

    def __init__(self, size: int, digest: bytes) -> None:
        self._size, self.digest = size, digest
        self._known: dict[int, Entry] = {}

    @classmethod
    def of(cls, roster: Roster, position: int) -> PartOfRoster:
        """As somebody at this place begins, who knows its own."""
        part = cls(len(roster), roster.digest)
        part._known[position] = roster.entry(position)
        return part

    def __len__(self) -> int:
        return self._size

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        return (self.digest,)

    def identity(self, position: int) -> bytes:
        if position not in self._known:
            raise RemoteProtocolError(
                AbortReason.BAD_PROOF, f"nobody has shown who is at {position}"
            )
        return self._known[position].identity

    def learn(self, entries: Entries, proof: bytes) -> None:
        leaves = {position: entry.leaf for position, entry in entries.items()}
        verify_multiproof(self.digest, self._size, leaves, proof)
        self._known.update(entries)

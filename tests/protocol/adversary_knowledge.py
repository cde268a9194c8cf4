"""What an adversary can compute from the messages it saw and the keys it owns.

`view` is its best guess of the sum of some inputs: their masked inputs minus every mask it can
derive. If a mask is left, the view is uniform in Z_m; if none is, it is the sum itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection

import numpy as np

from dhdmm.aggregation import masks
from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.merkle import MerkleTree
from dhdmm.aggregation.modulus import unpack
from dhdmm.secagg import keys, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import Channels, Neighbour
from dhdmm.secagg.keys import Endpoint, KeyPair, Label
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.round import RoundParameters, session_under_root
from tests.protocol.network import Setting
from tests.secagg.sharing import reconstruct


class Onlooker(ABC):
    """Sees every message of a round; knows what each participant was told."""

    targets: Collection[int] = ()  # whose sum it is after

    def __init__(self, setting: Setting, corrupt: frozenset[int]) -> None:
        self.setting, self.corrupt = setting, corrupt
        self.malicious = setting.parameters.malicious
        self.everybody = frozenset(setting.everybody)
        self.honest = self.everybody - corrupt
        self.said: dict[type[m.Message], dict[int, m.Message]] = defaultdict(dict)
        self.revealed: dict[tuple[int, ShareKind], dict[int, bytes]] = defaultdict(dict)
        self.told_neighbours: dict[int, dict[int, Direction]] = {}
        self.known: dict[bytes, KeyPair] = {}  # key pairs that it owns, by public key

    @abstractmethod
    def parameters_for(self, to: int) -> RoundParameters: ...

    @abstractmethod
    def leaf(self, position: int, to: int) -> bytes: ...

    @abstractmethod
    def keys_of(self, position: int, to: int) -> m.Keys: ...

    @abstractmethod
    def shared(self, to: int) -> Collection[int]: ...

    # What was said

    def sealed(self, sender: int, to: int) -> bytes:
        """What a participant sealed for another."""
        holders = [j for j, way in self.told_neighbours[sender].items() if way & Direction.OUT]
        sealed = dict(zip(holders, self.said[m.Shares][sender].ciphertexts, strict=True))
        return sealed.get(to, bytes(m.CIPHERTEXT_BYTES))

    def tree(self, to: int) -> MerkleTree:
        return MerkleTree([self.leaf(j, to) for j in sorted(self.everybody)])

    def session_of(self, position: int) -> bytes:
        session = self.parameters_for(position).session
        return session_under_root(session, self.tree(position).root) if self.malicious else session

    def said_input(self) -> dict[int, m.Message]:
        return self.said[m.EvidencedInput if self.malicious else m.MaskedInput]

    def evidence_of(self, position: int) -> dict[int, bytes]:
        """To whom an honest participant said "included", and how."""
        said = self.said[m.EvidencedInput].get(position)
        if said is None:
            return {}
        around = list(self.told_neighbours[position])
        members = [around[e] for e in said.included.members()]
        return dict(zip(members, said.evidence, strict=True))

    def masked_with(self, position: int) -> Collection[int]:
        """M_i, as the coordinator knows it."""
        if self.malicious:
            return self.evidence_of(position).keys()
        return set(self.shared(position)) & self.told_neighbours[position].keys()

    def forged(self, label: Label, by: int, to: int, agreed: bytes = b"") -> bytes:
        """A corrupt participant says whatever is useful."""
        own = self.known[self.keys_of(by, to).channel_key]
        return self._channels(by, to, own).evidence_for(label, self._as_neighbour(to), agreed)

    def view(self, positions: Collection[int] | None = None) -> np.ndarray | None:
        """The best guess of the sum of these inputs; None if one was never sent in any form."""
        members = set(self.targets if positions is None else positions)
        said = self.said_input()
        if not members <= said.keys():
            return None
        modulus, length = self.setting.parameters.modulus, self.setting.parameters.length
        total = modulus.zeros(length)
        for i in sorted(members):
            modulus.add(total, unpack(modulus, length, said[i].vector))
            self._remove_masks(i, members, total)
        return modulus.reduce(total)

    def _remove_masks(self, i: int, members: set[int], total: np.ndarray) -> None:
        modulus, session = self.setting.parameters.modulus, self.session_of(i)
        seed = self.seed_of(i)
        if seed is not None:
            masks.add_masks(modulus, total, [(keys.self_mask_seed(seed, session, i), -1)])
        for j in self.masked_with(i):
            if j in members and i in self.masked_with(j):
                continue  # these two cancel each other
            agreed = self._agreement(i, j)
            if agreed is not None:
                ends = self._mask_end(i, i), self._mask_end(j, i)
                mask = keys.pairwise_mask_seed(agreed, session, *ends)
                masks.add_masks(modulus, total, [(mask, -1 if j > i else 1)])

    def _agreement(self, i: int, j: int) -> bytes | None:
        """What i and j agreed on for their mask, if the mask key of either is known."""
        own, other = self._mask_end(i, i), self._mask_end(j, i)
        for secret, public in ((self.mask_key_of(i), other), (self.mask_key_of(j), own)):
            if secret is not None:
                return secret.agree(public.public)
        if other.public in self.known:
            return self.known[other.public].agree(own.public)
        return None

    def seed_of(self, position: int) -> bytes | None:
        seed = self._reconstructed(position, ShareKind.SEED)
        committed = self.said[m.Shares][position].seed_commitment
        session = self.session_of(position)
        known = seed is not None and keys.seed_commitment(seed, session, position) == committed
        return seed if known else None

    def mask_key_of(self, position: int) -> KeyPair | None:
        if position not in self.said[m.Shares]:
            return None
        secret = self._reconstructed(position, ShareKind.MASK_KEY)
        pair = None if secret is None else KeyPair.from_secret(secret)
        return pair if pair and pair.public == self._mask_end(position, position).public else None

    def _reconstructed(self, subject: int, kind: ShareKind) -> bytes | None:
        shares = self._own_shares_of(subject, kind) | self.revealed[subject, kind]
        if not shares:
            return None
        threshold = min(self.setting.parameters.threshold, len(shares))
        try:
            return reconstruct([shares], threshold)[0]
        except RemoteProtocolError:
            return None

    def _own_shares_of(self, subject: int, kind: ShareKind) -> dict[int, bytes]:
        """The shares that were sealed for keys that the adversary owns."""
        opened = {}
        for holder, way in self.told_neighbours[subject].items():
            own = self.known.get(self.keys_of(holder, subject).channel_key)
            if own is None or not way & Direction.OUT:
                continue
            sealed = self.sealed(subject, holder)
            channels, sender = self._channels(holder, subject, own), self._as_neighbour(subject)
            pair = channels.unseal(sender, sealed)
            start = int(kind) * shamir.SHARE_BYTES
            opened[holder] = pair[start : start + shamir.SHARE_BYTES]
        return opened

    def _channels(self, by: int, to: int, own: KeyPair) -> Channels:
        return Channels(self.session_of(to), by, own)

    def _as_neighbour(self, position: int) -> Neighbour:
        shown = self.keys_of(position, position)
        return Neighbour(position, Direction.BOTH, shown.mask_key, shown.channel_key)

    def _mask_end(self, position: int, to: int) -> Endpoint:
        return Endpoint(position, self.keys_of(position, to).mask_key)

    def own(self, *secrets: bytes) -> None:
        self.known |= {pair.public: pair for pair in map(KeyPair.from_secret, secrets)}

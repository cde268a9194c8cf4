"""The steps of a participant that both threat models share, and what it refuses.

Letters as in participant.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from itertools import compress

from dhdmm.aggregation import merkle
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.masks import Sign
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster
from dhdmm.secagg import keys, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import Channels, Neighbour
from dhdmm.secagg.keys import Endpoint, KeyPair
from dhdmm.secagg.machine import JournalledMachine
from dhdmm.secagg.memory import Held
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.round import RoundParameters

OUT, IN = int(Direction.OUT), int(Direction.IN)  # plain integers are quicker to compare


class Steps(JournalledMachine):
    """What the messages of either protocol make a participant do."""

    def __init__(
        self,
        parameters: RoundParameters,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> None:
        super().__init__(parameters, position, journal)
        self._roster, self._identity, self._randomness = roster, identity, randomness
        self._beside_survivors = b""
        self._require_own_seat()

    def agree_also(self, said: bytes) -> None:
        self._beside_survivors = said

    def _share(self, holders: Iterable[int]) -> m.Message:
        """Step 3: shares for all holders; those for absent ones are never sent."""
        memory = self._memory
        memory.seed = self._randomness(shamir.SECRET_BYTES)
        positions = list(holders)
        seeds, mask_keys = shamir.split(
            [memory.seed, memory.mask_secret],
            self.parameters.threshold,
            positions,
            self._randomness,
        )
        pairs = dict(zip(positions, map(bytes.__add__, seeds, mask_keys), strict=True))
        self._channels.agree_with(memory.neighbours)
        out = [j for j in memory.neighbours if j.direction & OUT]
        ciphertexts = tuple([self._channels.seal(j, pairs[j.position]) for j in out])
        commitment = keys.seed_commitment(memory.seed, self._session, self.position)
        return m.Shares(self._session, self.position, commitment, ciphertexts)

    def _on_relayed_shares(self, message: m.RelayedShares) -> None:
        """Step 4 begins: open the shares of the in-neighbours and fix M_i.

        A ciphertext that does not open is as good as none. In the malicious model its sender is
        then in M_i only if i chose it; in the semi-honest model M_i is what the coordinator says.
        """
        shared, unseal = self._where(message.shared), self._channels.unseal
        senders = [j for j in shared if j.direction & IN]
        if len(message.ciphertexts) != len(senders):
            raise RemoteProtocolError(AbortReason.MALFORMED, "not one ciphertext per sender")
        held, closed = [], set()
        for j, ciphertext in zip(senders, message.ciphertexts, strict=True):
            try:
                held.append(Held(j.position, unseal(j, ciphertext)))
            except RemoteProtocolError:
                closed.add(j.position)
        self._memory.held, self._memory.included = tuple(held), message.shared
        if self.parameters.malicious and closed:
            left_out = {j for j in closed if j not in self._memory.out_neighbours}
            places = [e for e, j in enumerate(self._memory.neighbours) if j.position in left_out]
            self._memory.included = message.shared.without(places)

    def _masked(self, element: Element) -> Element:
        """y_i = x_i + F(b_i) + Σ_{j ∈ M_i, j > i} F(s_ij) − Σ_{j ∈ M_i, j < i} F(s_ij)."""
        memory, session, i = self._memory, self._session, self.position
        own, agree = Endpoint(i, self._mask_keys.public), self._mask_keys.agree
        others = [Endpoint(j.position, j.mask_key) for j in self._where(memory.included)]
        # one kind of work after the other: alternating costs a sixth more in cache misses
        agreed = [agree(j.public) for j in others]
        signed_seeds: list[tuple[bytes, Sign]] = [
            (keys.pairwise_mask_seed(key, session, own, j), 1 if j.position > i else -1)
            for j, key in zip(others, agreed, strict=True)
        ]
        signed_seeds.append((keys.self_mask_seed(memory.seed, session, i), 1))
        self.parameters.group.add_masks(element, signed_seeds)
        return element

    def _reveal(self, alive: Bitmap) -> m.Message:
        """Step 6: the seed share of each survivor, the mask-key share of each dropout. Once."""
        reveals = []
        for j, pair in self._memory.held:
            if j in alive:
                reveals.append(m.Reveal(j, ShareKind.SEED, pair[: shamir.SHARE_BYTES]))
            else:
                reveals.append(m.Reveal(j, ShareKind.MASK_KEY, pair[shamir.SHARE_BYTES :]))
        self._forget()
        return m.Unmask(self._session, self.position, tuple(reveals))

    # Refusals

    def _require_own_seat(self) -> None:
        parameters, roster, position = self.parameters, self._roster, self.position
        if parameters.roster_digest not in roster.fingerprints:
            raise LocalProtocolError(f"{AbortReason.UNPINNED_ROSTER}: not the roster of this round")
        if len(roster) != parameters.participants or not 0 <= position < len(roster):
            raise LocalProtocolError("the roster has no such seat")
        if parameters.malicious and (
            self._identity is None or self._identity.public != roster.identity(position)
        ):
            raise LocalProtocolError("the identity does not own this seat of the roster")

    def _require_neighbours(
        self, neighbours: tuple[m.PublicKeys, ...] | tuple[m.SignedPublicKeys, ...], limit: int
    ) -> None:
        """Distinct others of the roster, not too many, with good keys that nobody else has."""
        if len(neighbours) > limit:
            raise RemoteProtocolError(AbortReason.TOO_MANY_NEIGHBOURS)
        positions = [j.position for j in neighbours]  # ascending
        if self.position in positions or (positions and positions[-1] >= len(self._roster)):
            raise RemoteProtocolError(AbortReason.MALFORMED, "a neighbour that cannot be one")
        theirs = [key for j in neighbours for key in (j.mask_key, j.channel_key)]
        check = keys.check_public_key
        for key in theirs:
            check(key)
        seen = [self._mask_keys.public, self._channel_keys.public, *theirs]
        if len(set(seen)) != len(seen):
            raise RemoteProtocolError(AbortReason.REPEATED_KEY)

    def _require_committed(self, neighbours: tuple[m.SignedPublicKeys, ...], proof: bytes) -> None:
        """The tree under the root holds the neighbours' keys and, at our own place, ours."""
        leaves: dict[int, bytes | None] = {
            j.position: j.mask_key + j.channel_key + j.signature for j in neighbours
        }
        own = self._mask_keys.public, self._channel_keys.public, self._memory.signature
        leaves[self.position] = b"".join(own)
        merkle.verify_multiproof(self._memory.root, len(self._roster), leaves, proof)

    def _require_plausible(self, alive: Bitmap) -> None:
        """We are alive, enough others are, and nobody is whose masks are not in y_i."""
        self.survivors = alive
        if alive.size != len(self._roster):
            raise RemoteProtocolError(AbortReason.MALFORMED, "a bitmap of another roster")
        if self.position not in alive:
            raise RemoteProtocolError(AbortReason.DECLARED_DEAD)
        if len(alive) < self.parameters.minimum_survivors:
            raise RemoteProtocolError(AbortReason.TOO_FEW_PARTICIPANTS)
        memory = self._memory
        included = {j.position for j in self._where(memory.included)}
        # also those whom we chose and who are said never to have come: the coordinator may lie
        others = {j.position for j in memory.neighbours}.union(memory.out_neighbours) - included
        if any(j in alive for j in others):
            raise RemoteProtocolError(AbortReason.PHANTOM_SURVIVOR)

    # Plumbing

    @cached_property
    def _mask_keys(self) -> KeyPair:
        return KeyPair.from_secret(self._memory.mask_secret)

    @cached_property
    def _channel_keys(self) -> KeyPair:
        return KeyPair.from_secret(self._memory.channel_secret)

    @cached_property
    def _channels(self) -> Channels:
        return Channels(self._session, self.position, self._channel_keys)

    def _forget_masks(self) -> None:
        """y_i is computed once; afterwards b_i and sk¹_i exist in others' shares only."""
        self._memory.mask_secret = self._memory.seed = b""
        self.__dict__.pop("_mask_keys", None)

    def _forget(self) -> None:
        self._forget_masks()
        self._memory.channel_secret, self._memory.held = b"", ()
        for cached in ("_channel_keys", "_channels"):
            self.__dict__.pop(cached, None)

    def _where(self, bits: Bitmap) -> list[Neighbour]:
        """The neighbours that a bitmap over the neighbourhood names."""
        neighbours = self._memory.neighbours
        if bits.size != len(neighbours):
            raise RemoteProtocolError(AbortReason.MALFORMED, "a bitmap of another neighbourhood")
        return list(compress(neighbours, bits.array().tolist()))


def bitmap_hash(alive: Bitmap, beside: bytes = b"") -> bytes:
    """What an ack says it accepted: the survivors, and what was said beside them."""
    size = alive.size.to_bytes(4, "big")
    return sha256(b"dhdmm1 survivors" + size + alive.data + beside).digest()

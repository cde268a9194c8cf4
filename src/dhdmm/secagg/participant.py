"""A participant of one round, as a state machine that takes messages and gives messages.

The methods follow the steps of docs/secure-aggregation.md. Nothing leaves before it is journalled.
Letters: i is the participant itself, j a neighbour; b_i its seed, sk¹ and sk² its secret keys,
M_i the neighbours it masks with, y_i its masked input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import compress
from typing import Any

from numpy.typing import NDArray

from dhdmm.secagg import keys, masks, merkle, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import MacChannels, Neighbour, keys_statement, open_channels
from dhdmm.secagg.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.secagg.graph import sample_out_neighbours
from dhdmm.secagg.journal import Held, Journal
from dhdmm.secagg.keys import Endpoint, Identity, KeyPair, Label
from dhdmm.secagg.machine import JournalledMachine
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.randomness import Randomness
from dhdmm.secagg.round import Roster, RoundParameters
from dhdmm.secagg.states import Local
from dhdmm.secagg.wire import Bitmap

_OUT, _IN = int(Direction.OUT), int(Direction.IN)  # plain integers are quicker to compare
NEIGHBOUR_LIMIT = 4  # times the degree: more than any honest graph has (E6 of docs/parameters.md)


class Participant(JournalledMachine):
    """One participant, one session, once.

    `begin` gives the first message; `receive` takes the coordinator's and gives the answers;
    when `state` is READY_FOR_INPUT the caller pays for the input and hands it to `give_input`.
    An answer may be an `Aborted` message; then `abort_reason` says why. A message that is not of
    this session or phase raises `RemoteProtocolError` and changes nothing.
    """

    def __init__(
        self,
        parameters: RoundParameters,
        roster: Roster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> None:
        super().__init__(parameters, position, journal)
        self._roster, self._identity, self._randomness = roster, identity, randomness
        self._require_own_seat()

    @classmethod
    def resume(
        cls,
        parameters: RoundParameters,
        roster: Roster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> Participant:
        """The participant as its journal knows it; `outgoing` is to be sent again."""
        participant = cls(parameters, roster, identity, position, randomness, journal)
        participant._recall()
        return participant

    def agreed(self) -> list[bytes]:
        """The keys of the channels, in the neighbourhood's order: secrets, for `take_along`."""
        memory = self._memory
        return self._channels.agreed(memory.neighbours) if memory.channel_secret else []

    def take_along(self, agreed: Sequence[bytes]) -> None:
        """Spare a resumed participant what it had computed before: these and its public keys."""
        memory = self._memory
        if memory.mask_secret:
            self._mask_keys  # noqa: B018 - cached from now on
        if memory.channel_secret and agreed:
            self._channels.reuse(memory.neighbours, agreed)

    # Events

    def begin(self) -> bytes:
        """Step 1 or 2: fresh keys. They are signed in the malicious model."""
        following = self._follow(Local.BEGIN)
        if self._journal.read() is not None:
            raise LocalProtocolError("this session has begun before: resume it")
        memory = self._memory
        memory.mask_secret = self._randomness(keys.KEY_BYTES)
        memory.channel_secret = self._randomness(keys.KEY_BYTES)
        session, i = self.parameters.session, self.position
        public = self._mask_keys.public, self._channel_keys.public
        if self._identity is None or not self.parameters.malicious:
            return self._send(m.Keys(session, i, *public), following)
        memory.signature = self._identity.sign(keys_statement(session, i, *public))
        return self._send(m.SignedKeys(session, i, *public, memory.signature), following)

    def give_input(self, vector: NDArray[Any]) -> bytes:
        """Step 4: the input, residues in Z_m, leaves as y_i. It must be paid for beforehand."""
        following = self._follow(Local.INPUT)
        modulus, i = self.parameters.modulus, self.position
        if vector.shape != (self.parameters.length,) or vector.dtype.kind not in "iu":
            raise LocalProtocolError("the input is not an integer vector of the agreed length")
        if vector.min() < 0 or vector.max() >= modulus.value:
            raise LocalProtocolError("the input is not in Z_m")
        masked = masks.pack(modulus, self._masked(vector.astype(modulus.dtype)))
        self._forget_masks()
        if not self.parameters.malicious:
            return self._send(m.MaskedInput(self._session, i, masked), following)
        included = self._memory.included
        evidence = tuple([self._channels.say(Label.INCLUDED, j) for j in self._where(included)])
        message = m.EvidencedInput(self._session, i, masked, included, evidence)
        return self._send(message, following)

    def _act(self, message: m.Message) -> m.Message | None:
        match message:
            case m.Root():
                return self._on_root(message)
            case m.Neighbours():
                return self._on_neighbours(message)
            case m.ProvenNeighbours():
                return self._on_proven_neighbours(message)
            case m.RelayedShares():
                self._on_relayed_shares(message)
                return None
            case m.EvidencedSurvivors():
                return self._on_evidenced_survivors(message)
            case m.Survivors():
                return self._on_survivors(message)
            case m.RelayedAcks():
                return self._on_relayed_acks(message)
        raise LocalProtocolError(f"the table has a step for {message!r}, this machine has none")

    # The semi-honest protocol

    def _on_neighbours(self, message: m.Neighbours) -> m.Message:
        """Step 3: draw b_i, share it and sk¹_i among the neighbours."""
        told, both = tuple(message.neighbours), int(Direction.BOTH)
        self._require_neighbours(told, limit=self.parameters.degree)
        self._memory.neighbours = tuple(
            [Neighbour(j, both, mask_key, channel_key) for j, mask_key, channel_key in told]
        )
        positions = [j.position for j in told]
        if len(positions) < self.parameters.threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_PARTICIPANTS, "among the neighbours")
        return self._share(positions)

    def _on_survivors(self, message: m.Survivors) -> m.Message:
        """Step 6: check u_min, reveal one share of each neighbour."""
        self._require_plausible(message.alive)
        return self._reveal(message.alive)

    # The malicious protocol

    def _on_root(self, message: m.Root) -> m.Message:
        """Step 2: only now, with the keys committed to, choose the out-neighbours."""
        self._memory.root = message.root
        parameters = self.parameters
        chosen = sample_out_neighbours(
            self.position, parameters.participants, parameters.degree, self._randomness
        )
        self._memory.out_neighbours = tuple(chosen.tolist())
        return m.Choice(self._session, self.position, self._memory.out_neighbours)

    def _on_proven_neighbours(self, message: m.ProvenNeighbours) -> m.Message:
        """Step 2 ends, step 3: nobody's keys are believed that are not committed to and signed."""
        neighbours, memory = tuple(message.neighbours), self._memory
        self._require_neighbours(neighbours, limit=NEIGHBOUR_LIMIT * self.parameters.degree)
        chosen = set(memory.out_neighbours)
        if any((j.position in chosen) != bool(j.direction & _OUT) for j in neighbours):
            raise RemoteProtocolError(AbortReason.MALFORMED, "out-neighbours we did not choose")
        self._require_committed(neighbours, message.proof)
        for j in neighbours:
            said = keys_statement(self.parameters.session, j.position, j.mask_key, j.channel_key)
            if not keys.signature_holds(self._roster.identities[j.position], said, j.signature):
                raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, f"of keys of {j.position}")
        memory.neighbours = tuple([Neighbour(*j[:4]) for j in neighbours])
        return self._share(memory.out_neighbours)

    def _on_evidenced_survivors(self, message: m.EvidencedSurvivors) -> m.Message:
        """Step 5: every alive neighbour must be in M_i and have said that i is in its own."""
        memory, alive = self._memory, message.alive
        self._require_plausible(alive)
        alive_neighbours = [j for j in memory.neighbours if j.position in alive]
        if len(message.evidence) != len(alive_neighbours):
            raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, "not one for each alive neighbour")
        for j, tag in zip(alive_neighbours, message.evidence, strict=True):
            if not self._channels.heard(Label.INCLUDED, j, tag):
                raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, f"of {j.position}")
        memory.alive = alive
        agreed = bitmap_hash(alive)
        holders_of = [j for j in alive_neighbours if j.direction & _IN]
        acks = tuple([self._channels.say(Label.ACK, j, agreed) for j in holders_of])
        return m.Acks(self._session, self.position, acks)

    def _on_relayed_acks(self, message: m.RelayedAcks) -> m.Message:
        """Step 6: at least t out-neighbours accepted the bitmap that i accepted."""
        agreed = bitmap_hash(self._memory.alive)
        acking = self._where(message.acked)
        if len(acking) != len(message.evidence):
            raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, "not one for each ack")
        valid = [
            self._channels.heard(Label.ACK, j, tag, agreed)
            for j, tag in zip(acking, message.evidence, strict=True)
            if j.direction & _OUT
        ]
        if sum(valid) < self.parameters.threshold:
            raise RemoteProtocolError(AbortReason.TOO_FEW_ACKS, f"{sum(valid)} are valid")
        return self._reveal(self._memory.alive)

    # Both

    def _share(self, holders: Iterable[int]) -> m.Message:
        """Step 3: shares for all holders, of which those for absent ones are forgotten unsent."""
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
        self._channels.meet(memory.neighbours)
        out = [j for j in memory.neighbours if j.direction & _OUT]
        ciphertexts = tuple([self._channels.seal(j, pairs[j.position]) for j in out])
        commitment = keys.seed_commitment(memory.seed, self._session, self.position)
        return m.Shares(self._session, self.position, commitment, ciphertexts)

    def _on_relayed_shares(self, message: m.RelayedShares) -> None:
        """Step 4 begins: open the shares of the in-neighbours and fix M_i.

        A ciphertext that does not open is as good as none. In the malicious model its sender is
        then in M_i only if i chose it; in the semi-honest model M_i is what the coordinator says.
        """
        shared, unseal = self._where(message.shared), self._channels.unseal
        senders = [j for j in shared if j.direction & _IN]
        if len(message.ciphertexts) != len(senders):
            raise RemoteProtocolError(AbortReason.MALFORMED, "not one ciphertext a sender")
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

    def _masked(self, vector: masks.Vector) -> masks.Vector:
        """y_i = x_i + F(b_i) + Σ_{j ∈ M_i, j > i} F(s_ij) − Σ_{j ∈ M_i, j < i} F(s_ij)."""
        memory, session, i = self._memory, self._session, self.position
        own, agree = Endpoint(i, self._mask_keys.public), self._mask_keys.agree
        others = [Endpoint(j.position, j.mask_key) for j in self._where(memory.included)]
        # one kind of work after the other: alternating costs a sixth more in cache misses
        agreed = [agree(j.public) for j in others]
        signed_seeds: list[tuple[bytes, masks.Sign]] = [
            (keys.pairwise_mask_seed(key, session, own, j), 1 if j.position > i else -1)
            for j, key in zip(others, agreed, strict=True)
        ]
        signed_seeds.append((keys.self_mask_seed(memory.seed, session, i), 1))
        masks.add_masks(self.parameters.modulus, vector, signed_seeds)
        return vector

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
        if roster.digest != parameters.roster_digest:
            raise LocalProtocolError(f"{AbortReason.UNPINNED_ROSTER}: not the roster of this round")
        if len(roster) != parameters.participants or not 0 <= position < len(roster):
            raise LocalProtocolError("the roster has no such seat")
        if parameters.malicious and (
            self._identity is None or self._identity.public != roster.identities[position]
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
    def _channels(self) -> MacChannels:
        evidence, session, i = self.parameters.evidence, self._session, self.position
        identity, roster = self._identity, self._roster
        return open_channels(evidence, session, i, self._channel_keys, identity, roster)

    def _forget_masks(self) -> None:
        """y_i is computed once; afterwards b_i and sk¹_i live in others' shares alone."""
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


def bitmap_hash(alive: Bitmap) -> bytes:
    """What an ack says it accepted."""
    return sha256(b"dhdmm1 survivors" + alive.size.to_bytes(4, "big") + alive.data).digest()

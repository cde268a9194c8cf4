"""What the coordinator has collected in a round, and what it tells each participant because of it.

Every message to a participant is a function of what had arrived when the phase before was closed:
it is computed when it is asked for, as often as it is asked for, and again after a restart.
Letters: G, A1, A2 are the sets of docs/secure-aggregation.md; an entry (i, j) says that j is a
neighbour of i.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dhdmm.secagg import messages as m
from dhdmm.secagg import wire
from dhdmm.secagg.errors import AbortReason
from dhdmm.secagg.graph import Positions
from dhdmm.secagg.merkle import MerkleTree
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.neighbourhoods import Flags, Indices, Neighbourhoods
from dhdmm.secagg.round import RoundParameters, session_under_root
from dhdmm.secagg.wire import Bitmap


@dataclass
class Collected:
    """Messages by sender. What is derived from a phase is derived after it has been closed."""

    parameters: RoundParameters
    graph: Positions | None  # (n, k); in the malicious model participants choose
    keys: dict[int, m.Keys] = field(default_factory=dict)
    choices: dict[int, m.Choice] = field(default_factory=dict)
    shares: dict[int, m.Shares] = field(default_factory=dict)  # senders: A1
    evidence: dict[int, tuple[bytes, ...]] = field(default_factory=dict)  # senders: A2
    acks: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    reveals: dict[int, m.Unmask] = field(default_factory=dict)
    departed: dict[int, AbortReason] = field(default_factory=dict)  # who said that it left

    def keep(self, message: m.Message) -> None:
        """Count an accepted message in."""
        i = message.position
        match message:
            case m.Keys():
                self.keys[i] = message
            case m.Choice():
                self.choices[i] = message
            case m.Shares():
                self.shares[i] = message
            case m.EvidencedInput():
                self.included[self.neighbourhoods.row(i)] = message.included.array()
                self.evidence[i] = message.evidence
                self._accepted[i] = True
            case m.MaskedInput():
                self.evidence[i] = ()
            case m.Acks():
                self.acks[i] = message.evidence
            case m.Unmask():
                self.reveals[i] = message
            case m.Aborted():
                self.departed[i] = message.reason

    def senders(self, kind: type[m.Message] | None) -> Collection[int]:
        """Whose message of this type counts."""
        by_kind: dict[type[m.Message] | None, Collection[int]] = {
            m.Keys: self.keys,
            m.SignedKeys: self.keys,
            m.Choice: self.choices,
            m.Shares: self.shares,
            m.MaskedInput: self.evidence,
            m.EvidencedInput: self.evidence,
            m.Acks: self.acks,
            m.Unmask: self.reveals,
        }
        return by_kind.get(kind, ())

    # After the keys

    @cached_property
    def tree(self) -> MerkleTree:
        """Over everybody's signed keys, in the order of the roster; absent ones are empty."""
        sent = [self.keys.get(i) for i in range(self.parameters.participants)]
        return MerkleTree([None if keys is None else wire.encode_fields(keys) for keys in sent])

    @cached_property
    def session(self) -> bytes:
        """session, or session' in the malicious model."""
        session = self.parameters.session
        return session_under_root(session, self.tree.root) if self.parameters.malicious else session

    @cached_property
    def _announced(self) -> dict[int, m.PublicKeys]:
        """What neighbours are told of everybody."""
        return {i: m.PublicKeys(i, *wire.values(keys)) for i, keys in self.keys.items()}

    @cached_property
    def _announced_as(self) -> dict[tuple[int, int], m.SignedPublicKeys]:
        """The same in the malicious model, by participant and direction."""
        return {
            (i, direction): m.SignedPublicKeys(i, direction, *wire.values(keys))
            for i, keys in self.keys.items()
            for direction in map(int, Direction)
        }

    def root(self, position: int) -> m.Message:
        return m.Root(self.parameters.session, position, self.tree.root)

    # After G is fixed

    @cached_property
    def neighbourhoods(self) -> Neighbourhoods:
        """The graph among G: who is not in G by now is out for everybody."""
        if self.graph is None:
            choices = sorted(self.choices.items())
            chooser = np.repeat([i for i, _ in choices], self.parameters.degree)
            chosen = np.array([choice.out_neighbours for _, choice in choices]).ravel()
            present = self._members(self.choices)
        else:
            chooser = np.repeat(np.arange(len(self.graph)), self.parameters.degree)
            chosen = self.graph.ravel()
            present = self._members(self.keys)
        both = present[chooser] & present[chosen]
        return Neighbourhoods(self.parameters.participants, chooser[both], chosen[both])

    def neighbours(self, position: int) -> m.Message:
        around, row = self.neighbourhoods, self.neighbourhoods.row(position)
        positions = around.positions[row].tolist()
        if self.graph is not None:
            known = tuple([self._announced[j] for j in positions])
            return m.Neighbours(self.session, position, known)
        directed = zip(positions, around.directions[row].tolist(), strict=True)
        signed = tuple([self._announced_as[entry] for entry in directed])
        proof = self.tree.multiproof([position, *positions])
        return m.ProvenNeighbours(self.session, position, signed, proof)

    def expected_ciphertexts(self, position: int) -> int:
        """One for each present out-neighbour."""
        return len(self.neighbourhoods.entries(position, self._outward))

    # After A1 is fixed

    @cached_property
    def shared(self) -> Flags:
        """The entries (i, j) with j in A1."""
        flags: Flags = self._members(self.shares)[self.neighbourhoods.positions]
        return flags

    @cached_property
    def included(self) -> Flags:
        """The entries (i, j) with j in M_i: in the malicious model as i says in its input."""
        return np.zeros_like(self.shared) if self.parameters.malicious else self.shared.copy()

    def relayed_shares(self, position: int) -> m.Message:
        around, row = self.neighbourhoods, self.neighbourhoods.row(position)
        entries = around.entries(position, self._depositing)
        slots = self._out_ranks[around.reverse[entries]].tolist()
        senders = around.positions[entries].tolist()
        ciphertexts = [self.shares[i].ciphertexts[s] for i, s in zip(senders, slots, strict=True)]
        shared = Bitmap.from_array(self.shared[row])
        return m.RelayedShares(self.session, position, shared, tuple(ciphertexts))

    def is_possible(self, position: int, included: Bitmap) -> bool:
        """Whether an honest participant can say this of its M_i: all out-neighbours that have
        shared, perhaps in-neighbours that have shared, nobody else."""
        row = self.neighbourhoods.row(position)
        if included.size != row.stop - row.start:
            return False
        said, shared = included.array(), self.shared[row]
        owed = shared & self._outward[row]
        return not (owed & ~said).any() and not (said & ~shared).any()

    def is_one_sided(self, position: int, included: Bitmap) -> bool:
        """Whether evidence is missing, either way, between this participant and an accepted one."""
        around, row = self.neighbourhoods, self.neighbourhoods.row(position)
        accepted = self._accepted[around.positions[row]]
        both = included.array() & self.included[around.reverse[row]]
        return bool((accepted & ~both).any())

    # After A2 is fixed

    @cached_property
    def alive(self) -> Bitmap:
        """A2 over the roster."""
        return Bitmap.of(self.parameters.participants, self.evidence)

    @cached_property
    def surviving(self) -> Flags:
        """The entries (i, j) with j in A2."""
        flags: Flags = self._members(self.evidence)[self.neighbourhoods.positions]
        return flags

    def survivors(self, position: int) -> m.Message:
        if self.graph is not None:
            return m.Survivors(self.session, position, self.alive)
        entries = self.neighbourhoods.entries(position, self.surviving)
        evidence = self._said(entries, self._included_ranks, self.evidence)
        return m.EvidencedSurvivors(self.session, position, self.alive, evidence)

    def expected_acks(self, position: int) -> int:
        """One for each alive in-neighbour."""
        return len(self.neighbourhoods.entries(position, self._to_ack))

    def asked_for(self, position: int) -> set[tuple[int, int]]:
        """Those whose shares this participant may hold, and which kind it is to reveal."""
        around = self.neighbourhoods
        entries = around.entries(position, self._depositing)
        kinds = np.where(self.surviving[entries], int(ShareKind.SEED), int(ShareKind.MASK_KEY))
        return set(zip(around.positions[entries].tolist(), kinds.tolist(), strict=True))

    # After the acks

    def relayed_acks(self, position: int) -> m.Message:
        around, row = self.neighbourhoods, self.neighbourhoods.row(position)
        evidence = self._said(around.entries(position, self._acked), self._ack_ranks, self.acks)
        acked = Bitmap.from_array(self._acked[row])
        return m.RelayedAcks(self.session, position, acked, evidence)

    # Entries of special interest, each for the phases after it is fixed, and senders so far

    @cached_property
    def _accepted(self) -> Flags:
        """Whose evidenced input has been accepted so far."""
        return self._members(self.evidence)

    @cached_property
    def _outward(self) -> Flags:
        return self.neighbourhoods.pointing(Direction.OUT)

    @cached_property
    def _inward(self) -> Flags:
        return self.neighbourhoods.pointing(Direction.IN)

    @cached_property
    def _depositing(self) -> Flags:
        """(i, j) with shares of j at i."""
        return self.shared & self._inward

    @cached_property
    def _to_ack(self) -> Flags:
        """(i, j) with an ack due from i to j."""
        return self.surviving & self._inward

    @cached_property
    def _acked(self) -> Flags:
        """(i, j) with an ack from j to i."""
        flags: Flags = self._members(self.acks)[self.neighbourhoods.positions] & self._outward
        return flags

    # Where in its sender's message is what concerns the other end of an entry

    @cached_property
    def _out_ranks(self) -> Indices:
        return self.neighbourhoods.ranks(self._outward)

    @cached_property
    def _included_ranks(self) -> Indices:
        return self.neighbourhoods.ranks(self.included)

    @cached_property
    def _ack_ranks(self) -> Indices:
        return self.neighbourhoods.ranks(self._to_ack)

    def _said(
        self, entries: Indices, ranks: Indices, evidence: dict[int, tuple[bytes, ...]]
    ) -> tuple[bytes, ...]:
        """What the other ends of these entries said to this one."""
        around = self.neighbourhoods
        senders, slots = around.positions[entries].tolist(), ranks[around.reverse[entries]].tolist()
        return tuple([evidence[j][slot] for j, slot in zip(senders, slots, strict=True)])

    def _members(self, positions: Collection[int]) -> Flags:
        flags = np.zeros(self.parameters.participants, dtype=np.bool_)
        flags[list(positions)] = True
        return flags

"""What the coordinator has collected in a round, and the messages that follow from it.

Every message to a participant is a function of what had arrived when the phase before was closed:
it is computed when it is asked for, as often as it is asked for, and again after a restart.
Letters: G, A1, A2 are the sets of docs/secure-aggregation.md; an entry (i, j) says that j is a
neighbour of i.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation import wire
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.lists import RecordTable, Slots, dtype_of
from dhdmm.aggregation.merkle import MerkleTree
from dhdmm.aggregation.messages import HEADER_BYTES
from dhdmm.secagg import messages as m
from dhdmm.secagg.graph import Positions
from dhdmm.secagg.keys import EVIDENCE_BYTES
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.neighbourhoods import EvidenceTable, Flags, Indices, Neighbourhoods
from dhdmm.secagg.round import RoundParameters, session_under_root

DIGEST_BYTES = 32


def record_name(kind: type[m.Message], position: int) -> str:
    """Under which the store keeps a message that counts: its digest, then its encoding.

    Types are known by their numbers on the wire, which stay when a class is given another name.
    """
    return f"{kind.TYPE}/{position}"


@dataclass
class Collected:
    """Who has sent what. What is derived from a phase is derived after it has been closed.

    Here are small things, O(k) a participant; whole records stay in the store.
    """

    parameters: RoundParameters
    graph: Positions | None  # (n, k); in the malicious model participants choose
    records: Mapping[str, bytes]  # the store
    keys: dict[int, m.Keys] = field(default_factory=dict)
    choices: dict[int, Indices] = field(default_factory=dict)
    commitments: dict[int, bytes] = field(default_factory=dict)  # to seeds; senders: A1
    inputs: set[int] = field(default_factory=set)  # A2
    acks: set[int] = field(default_factory=set)
    reveals: set[int] = field(default_factory=set)
    departed: dict[int, AbortReason] = field(default_factory=dict)  # who said that it left

    def keep(self, message: m.Message) -> None:
        """Count an accepted message in."""
        i = message.position
        match message:
            case m.Keys():
                self.keys[i] = message
            case m.Choice():
                self.choices[i] = np.array(message.out_neighbours, dtype=np.int32)
            case m.Shares():
                self.commitments[i] = message.seed_commitment
                self._keep_ciphertexts(i, message.ciphertexts)
            case m.EvidencedInput():
                self.included[self.neighbourhoods.row(i)] = message.included.array()
                self._inclusions.put(i, self.included, message.evidence)
                self.inputs.add(i)
                self._accepted[i] = True
            case m.MaskedInput():
                self.inputs.add(i)
            case m.Acks():
                self._acknowledgements.put(i, self._to_ack, message.evidence)
                self.acks.add(i)
            case m.Unmask():
                self.reveals.add(i)
            case m.Aborted():
                self.departed[i] = message.reason

    def senders(self, kind: type[m.Message] | None) -> Collection[int]:
        """Whose message of this type counts."""
        by_kind: dict[type[m.Message] | None, Collection[int]] = {
            m.Keys: self.keys,
            m.SignedKeys: self.keys,
            m.Choice: self.choices,
            m.Shares: self.commitments,
            m.MaskedInput: self.inputs,
            m.EvidencedInput: self.inputs,
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
    def _announced(self) -> NDArray[np.void]:
        """What neighbours are told of everybody, in the layout they are told it; (n,)."""
        told = m.NEIGHBOURS if self.graph is not None else m.SIGNED_NEIGHBOURS
        direction = () if self.graph is not None else (0,)
        size, n = told.layout.size, self.parameters.participants
        rows = bytearray(size * n)
        for i, keys in self.keys.items():
            told.layout.pack_into(rows, size * i, i, *direction, *wire.values(keys))
        return np.frombuffer(rows, dtype=dtype_of(told.layout.format))

    def root(self, position: int) -> m.Message:
        return m.Root(self.parameters.session, position, self.tree.root)

    # After G is fixed

    @cached_property
    def neighbourhoods(self) -> Neighbourhoods:
        """The graph among G: who is not in G by now is out for everybody."""
        if self.graph is None:
            chooser = np.repeat(list(self.choices), self.parameters.degree)
            chosen = np.concatenate(list(self.choices.values()))
            present = self._members(self.choices)
        else:
            chooser = np.repeat(np.arange(len(self.graph)), self.parameters.degree)
            chosen = self.graph.ravel()
            present = self._members(self.keys)
        both = present[chooser] & present[chosen]
        return Neighbourhoods(self.parameters.participants, chooser[both], chosen[both])

    def neighbours(self, position: int) -> m.Message:
        around, row = self.neighbourhoods, self.neighbourhoods.row(position)
        positions = around.positions[row]
        told = self._announced[positions]
        if self.graph is not None:
            return m.Neighbours(self.session, position, m.NEIGHBOURS.table(told.tobytes()))
        told["f1"] = around.directions[row]
        proof = self.tree.multiproof([position, *positions.tolist()])
        signed = m.SIGNED_NEIGHBOURS.table(told.tobytes())
        return m.ProvenNeighbours(self.session, position, signed, proof)

    def chosen_by(self, position: int) -> list[int]:
        """Whom this participant chose, of those who are present."""
        row = self.neighbourhoods.row(position)
        chosen: list[int] = self.neighbourhoods.positions[row][self._outward[row]].tolist()
        return chosen

    def expected_ciphertexts(self, position: int) -> int:
        """One for each present out-neighbour."""
        return self.neighbourhoods.count(position, self._outward)

    # After A1 is fixed

    @cached_property
    def shared(self) -> Flags:
        """The entries (i, j) with j in A1."""
        flags: Flags = self._members(self.commitments)[self.neighbourhoods.positions]
        return flags

    @cached_property
    def included(self) -> Flags:
        """The entries (i, j) with j in M_i: in the malicious model as i says in its input."""
        return np.zeros_like(self.shared) if self.parameters.malicious else self.shared.copy()

    def relayed_shares(self, position: int) -> m.Message:
        shared = Bitmap.from_array(self.shared[self.neighbourhoods.row(position)])
        return m.RelayedShares(self.session, position, shared, self._ciphertexts_for(position))

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
        return Bitmap.of(self.parameters.participants, self.inputs)

    @cached_property
    def surviving(self) -> Flags:
        """The entries (i, j) with j in A2."""
        flags: Flags = self._members(self.inputs)[self.neighbourhoods.positions]
        return flags

    def survivors(self, position: int) -> m.Message:
        if self.graph is not None:
            return m.Survivors(self.session, position, self.alive)
        evidence = self._inclusions.for_receiver(position, self.surviving)
        return m.EvidencedSurvivors(self.session, position, self.alive, evidence)

    def expected_acks(self, position: int) -> int:
        """One for each alive in-neighbour."""
        return self.neighbourhoods.count(position, self._to_ack)

    def is_asked_for(self, position: int, reveals: RecordTable) -> bool:
        """Whether these are shares that this participant may hold, of the kind to be revealed."""
        columns, row = reveals.columns, self.neighbourhoods.row(position)
        subjects = self.neighbourhoods.positions[row]
        places = np.searchsorted(subjects, columns["f0"])
        if len(places) and places[-1] >= len(subjects):
            return False
        known = (subjects[places] == columns["f0"]) & self._shares_held[row][places]
        return bool((known & (self._asked_for[row][places] == columns["f1"])).all())

    def revealed(self, position: int) -> RecordTable:
        """The shares that this participant revealed: its message's only field, after a count."""
        record = self.records[record_name(m.Unmask, position)]
        return m.REVEALS.table(record[DIGEST_BYTES + HEADER_BYTES + wire.COUNT_BYTES :])

    # After the acks

    def relayed_acks(self, position: int) -> m.Message:
        evidence = self._acknowledgements.for_receiver(position, self._acked)
        acked = Bitmap.from_array(self._acked[self.neighbourhoods.row(position)])
        return m.RelayedAcks(self.session, position, acked, evidence)

    # Entries of special interest, each for the phases after it is fixed, and senders so far

    @cached_property
    def _accepted(self) -> Flags:
        """Whose evidenced input has been accepted so far."""
        return self._members(self.inputs)

    @cached_property
    def _outward(self) -> Flags:
        return self.neighbourhoods.pointing(Direction.OUT)

    @cached_property
    def _inward(self) -> Flags:
        return self.neighbourhoods.pointing(Direction.IN)

    @cached_property
    def _shares_held(self) -> Flags:
        """(i, j) with shares of j at i."""
        return self.shared & self._inward

    @cached_property
    def _asked_for(self) -> NDArray[np.uint8]:
        """Which kind of j's shares i is to reveal."""
        seed, mask_key = np.uint8(ShareKind.SEED), np.uint8(ShareKind.MASK_KEY)
        return np.where(self.surviving, seed, mask_key)

    @cached_property
    def _to_ack(self) -> Flags:
        """(i, j) with an ack due from i to j."""
        return self.surviving & self._inward

    @cached_property
    def _acked(self) -> Flags:
        """(i, j) with an ack from j to i."""
        flags: Flags = self._members(self.acks)[self.neighbourhoods.positions] & self._outward
        return flags

    # Evidence and shares for one neighbour

    @cached_property
    def _inclusions(self) -> EvidenceTable:
        """Of having included the neighbour."""
        return EvidenceTable(self.neighbourhoods, EVIDENCE_BYTES)

    @cached_property
    def _acknowledgements(self) -> EvidenceTable:
        """Of the survivors."""
        return EvidenceTable(self.neighbourhoods, EVIDENCE_BYTES)

    @cached_property
    def _ciphertexts(self) -> NDArray[np.void]:
        """Of everybody's shares, for one holder after the other: in one array, because a receiver's
        come from k senders, and k records are slow to find where there are many."""
        return np.zeros(np.count_nonzero(self._outward), f"V{m.CIPHERTEXT_BYTES}")

    @cached_property
    def _before(self) -> Indices:
        """How many outward entries are before each entry, and in all."""
        return np.concatenate([[0], np.cumsum(self._outward)])

    @cached_property
    def _places(self) -> Indices:
        """Where the ciphertext of j for i is, for each (i, j)."""
        places: Indices = self._before[self.neighbourhoods.reverse]
        return places

    def _keep_ciphertexts(self, position: int, ciphertexts: Sequence[bytes]) -> None:
        assert isinstance(ciphertexts, Slots)  # as decoded
        row = self.neighbourhoods.row(position)
        own = slice(self._before[row.start], self._before[row.stop])
        self._ciphertexts[own] = np.frombuffer(ciphertexts.data, self._ciphertexts.dtype)

    def _ciphertexts_for(self, position: int) -> Slots:
        """The ciphertexts for a participant."""
        row = self.neighbourhoods.row(position)
        relayed = self._ciphertexts.take(self._places[row][self._shares_held[row]])
        return Slots(relayed.tobytes(), m.CIPHERTEXT_BYTES)

    def _members(self, positions: Collection[int]) -> Flags:
        flags = np.zeros(self.parameters.participants, dtype=np.bool_)
        flags[list(positions)] = True
        return flags

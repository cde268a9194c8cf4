"""A malicious coordinator with corrupt participants, and all it can compute from what it saw.

`Adversary` drives honest machines through a round and, by default, tells them the truth. An attack
is a subclass that lies in one of the small methods below "What it tells": each is asked separately
for every participant, so different people can be told different things.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chisquare

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import keys
from dhdmm.secagg import messages as m
from dhdmm.secagg.keys import Label
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import ParticipantState
from dhdmm.secagg.steps import bitmap_hash
from tests.protocol.adversary_knowledge import Onlooker
from tests.protocol.network import MALICIOUS, Setting, Stream, identity, setting

TARGET = 0
MODULUS, LENGTH = 16, 16
RUNS = 20  # with LENGTH coordinates each: 320 samples, 20 expected for each residue
FALSE_ALARM = 1e-6  # of one χ² test; seeds are fixed, so a test that passes goes on passing
NOTHING = bytes(keys.EVIDENCE_BYTES)


@dataclass(frozen=True)
class Group:
    """Few participants, short vectors over Z_16; a complete graph unless a degree is given."""

    participants: int = 5
    corrupt: frozenset[int] = frozenset({4})
    minimum_survivors: int = 4
    degree: int | None = None
    threshold: int | None = None

    def setting(self, threat_model: ThreatModel) -> Setting:
        made = setting(
            self.participants,
            threat_model,
            degree=self.degree,
            threshold=self.threshold,
            minimum_survivors=self.minimum_survivors,
        )
        small = replace(made.parameters, modulus=Modulus(MODULUS), length=LENGTH)
        return replace(made, parameters=small)


class Adversary(Onlooker):
    """Coordinator and corrupt participants in one mind, against honest machines."""

    group = Group()
    targets: Collection[int] = (TARGET,)  # whose sum the attack is after
    corrupt_class = Participant  # what the corrupt run while they pretend

    def __init__(
        self,
        seed: object = 0,
        threat_model: ThreatModel = MALICIOUS,
        honest: type[Participant] = Participant,
    ) -> None:
        super().__init__(self.group.setting(threat_model), self.group.corrupt)
        self._seed, self._honest_class = seed, honest
        self.left: dict[int, AbortReason] = {}
        self.refused: dict[int, AbortReason] = {}
        self.journals = {i: self.journal() for i in self.everybody}
        self.participants = {i: self.participant(i) for i in sorted(self.everybody)}

    # What it tells whom. The truth, unless an attack overrides it.

    def parameters_for(self, to: int) -> RoundParameters:
        return self.setting.parameters

    def leaf(self, position: int, to: int) -> bytes:
        """The signed keys that the tree shown to `to` holds at a position."""
        shown = self.keys_of(position, to)
        return shown.mask_key + shown.channel_key + shown.signature

    def keys_of(self, position: int, to: int) -> m.SignedKeys | m.Keys:
        return self.said[m.SignedKeys if self.malicious else m.Keys][position]

    def neighbours(self, to: int) -> dict[int, Direction]:
        if not self.malicious:
            return dict.fromkeys(sorted(self.everybody - {to}), Direction.BOTH)
        chosen = set(self.said[m.Choice][to].out_neighbours)
        choosing = {j for j, choice in self.said[m.Choice].items() if to in choice.out_neighbours}
        return {
            j: Direction((j in chosen) * Direction.OUT + (j in choosing) * Direction.IN)
            for j in sorted(chosen | choosing)
        }

    def shared(self, to: int) -> Collection[int]:
        """Who is in A1."""
        return self.said[m.Shares].keys()

    def ciphertext(self, sender: int, to: int) -> bytes:
        return self.sealed(sender, to)

    def alive(self, to: int) -> Collection[int]:
        """Who is in A2."""
        return self.everybody

    def included(self, by: int, to: int) -> bytes:
        if by in self.corrupt:
            return self.forged(Label.INCLUDED, by, to)
        return self.evidence_of(by).get(to, NOTHING)

    def ack(self, by: int, to: int) -> bytes:
        agreed = bitmap_hash(Bitmap.of(len(self.everybody), self.alive(to)))
        if by in self.corrupt:
            return self.forged(Label.ACK, by, to, agreed)
        around, alive = self.told_neighbours[by], self.alive(by)
        subjects = [j for j, way in around.items() if way & Direction.IN and j in alive]
        return dict(zip(subjects, self.said[m.Acks][by].evidence, strict=True)).get(to, NOTHING)

    def hears_inputs_of(self) -> Collection[int]:
        """Who is asked for a masked input."""
        return self.honest

    def journal(self) -> MemoryJournal:
        return MemoryJournal()

    def participant(self, position: int) -> Participant:
        made = self.corrupt_class if position in self.corrupt else self._honest_class
        randomness, journal = Stream(self._seed, position), self.journals[position]
        parameters, roster = self.parameters_for(position), self.roster()
        return made(parameters, roster, self.identity(position), position, randomness, journal)

    def roster(self) -> Roster:
        return self.setting.roster

    def identity(self, position: int) -> Identity:
        return identity(position)

    def input(self, position: int) -> np.ndarray:
        return np.full(LENGTH, (3 * position + 5) % MODULUS, dtype=np.int64)

    # The round

    def run(self) -> Adversary:
        for i, participant in self.participants.items():
            self._hear(i, participant.begin())
        self._own_the_corrupt()
        if self.malicious:
            self.tell(self.everybody, self.root_message)
        self.told_neighbours = {i: self.neighbours(i) for i in self._listening()}
        self.tell(self.everybody, self.neighbours_message)
        self.tell(self.hears_inputs_of(), self.shares_message)
        self.ask_for_shares()
        return self

    def ask_for_shares(self) -> None:
        self.tell(self.said_input(), self.survivors_message)
        if self.malicious:
            self.tell(self.said[m.Acks].keys(), self.acks_message)

    def tell(self, whom: Iterable[int], message_for: Callable[[int], m.Message]) -> None:
        """Send each its message, then listen: nobody's answer changes what the others are told."""
        listening = self._listening()
        messages = {i: message_for(i).encode() for i in sorted(whom) if i in listening}
        for i, message in messages.items():
            try:
                self._hear(i, self.participants[i].receive(message))
            except RemoteProtocolError as error:
                self.refused.setdefault(i, error.reason)

    def root_message(self, to: int) -> m.Message:
        return m.Root(self.parameters_for(to).session, to, self.tree(to).root)

    def neighbours_message(self, to: int) -> m.Message:
        around = self.told_neighbours[to]
        if not self.malicious:
            shown = [self.keys_of(j, to) for j in around]
            listed = [m.PublicKeys(k.position, k.mask_key, k.channel_key) for k in shown]
            return m.Neighbours(self.session_of(to), to, tuple(listed))
        signed = []
        for j, way in around.items():
            shown = self.keys_of(j, to)
            pair = shown.mask_key, shown.channel_key
            signed.append(m.SignedPublicKeys(j, way, *pair, shown.signature))
        proof = self.tree(to).multiproof([to, *around])
        return m.ProvenNeighbours(self.session_of(to), to, tuple(signed), proof)

    def shares_message(self, to: int) -> m.Message:
        around, shared = self.told_neighbours[to], set(self.shared(to))
        bits = Bitmap.of(len(around), [e for e, j in enumerate(around) if j in shared])
        senders = [j for j, way in around.items() if j in shared and way & Direction.IN]
        sealed = tuple(self.ciphertext(j, to) for j in senders)
        return m.RelayedShares(self.session_of(to), to, bits, sealed)

    def survivors_message(self, to: int) -> m.Message:
        alive = Bitmap.of(len(self.everybody), self.alive(to))
        if not self.malicious:
            return m.Survivors(self.session_of(to), to, alive)
        evidence = tuple(self.included(j, to) for j in self.told_neighbours[to] if j in alive)
        return m.EvidencedSurvivors(self.session_of(to), to, alive, evidence)

    def acks_message(self, to: int) -> m.Message:
        around = self.told_neighbours[to]
        able = self.corrupt | self.said[m.Acks].keys()
        acking = [j for j, way in around.items() if way & Direction.OUT and j in able]
        bits = Bitmap.of(len(around), [e for e, j in enumerate(around) if j in acking])
        evidence = tuple(self.ack(j, to) for j in acking)
        return m.RelayedAcks(self.session_of(to), to, bits, evidence)

    def _own_the_corrupt(self) -> None:
        for i in self.corrupt:
            memory = self.participants[i]._memory
            self.own(memory.mask_secret, memory.channel_secret)

    def _listening(self) -> frozenset[int]:
        return self.everybody - self.left.keys()

    def _hear(self, position: int, answer: bytes | None) -> None:
        participant = self.participants[position]
        if participant.state is ParticipantState.READY_FOR_INPUT:
            answer = participant.give_input(self.input(position))
        if answer is None:
            return
        message = m.decode(answer)
        self.said[type(message)][position] = message
        if isinstance(message, m.Aborted):
            self.left[position] = message.reason
        if isinstance(message, m.Unmask):
            for subject, kind, share in message.reveals:
                self.revealed[subject, ShareKind(kind)][position] = share


# Measuring what was learned


def assert_learns_nothing(attack: type[Adversary], **options: object) -> None:
    """The view of the targets' sum is uniform in Z_m over many runs, or there is none."""
    views = [attack(("run", seed), **options).run().view() for seed in range(RUNS)]
    assert_uniform([view for view in views if view is not None])


def assert_learns_the_sum(attack: type[Adversary], **options: object) -> None:
    """The weakened variant: the view *is* the sum of the targets' inputs, in every run."""
    for seed in range(4):
        adversary = attack(("run", seed), **options).run()
        expected = sum(adversary.input(i) for i in adversary.targets) % MODULUS
        view = adversary.view()
        assert view is not None
        assert view.tolist() == expected.tolist()


def assert_uniform(samples: list[np.ndarray]) -> None:
    """χ² with 15 degrees of freedom; a false alarm has probability FALSE_ALARM."""
    if samples:
        counts = np.bincount(np.concatenate(samples).astype(np.int64), minlength=MODULUS)
        assert chisquare(counts).pvalue > FALSE_ALARM, counts

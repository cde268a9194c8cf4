"""Parties for tests, and a network on which nothing goes wrong unless a hook makes it so.

Everything is a function of a seed. Oracle for sums: participant i contributes the unit vector e_i,
so the result must be the indicator vector of the announced survivors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal, MemoryJournal
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState, ParticipantState

SEMI_HONEST, MALICIOUS = ThreatModel.SEMI_HONEST, ThreatModel.MALICIOUS
FINAL = (CoordinatorState.FINISHED, CoordinatorState.ABORTED)


class Stream:
    """Uniform bytes from a seed: the randomness of a test, and its dice."""

    def __init__(self, *seed: object) -> None:
        key = sha256(repr(seed).encode()).digest()
        self._encryptor = Cipher(AES256(key), CTR(bytes(16))).encryptor()

    def __call__(self, size: int) -> bytes:
        return self._encryptor.update(bytes(size))

    def below(self, bound: int) -> int:
        return int.from_bytes(self(8), "big") % bound  # a bias of 2⁻⁵⁰ harms no schedule

    def chance(self, probability: float) -> bool:
        return self.below(1 << 32) < probability * (1 << 32)

    def pick(self, items: Iterable[int]) -> int:
        choices = sorted(items)
        return choices[self.below(len(choices))]


@cache
def identity(position: int) -> Identity:
    return Identity(sha256(b"identity of %d" % position).digest())


@cache
def roster_of(participants: int) -> Roster:
    positions = range(participants)
    return Roster(
        tuple(f"participant {i}" for i in positions), tuple(identity(i).public for i in positions)
    )


@dataclass(frozen=True)
class Setting:
    """A round's parameters and how to make its parties."""

    parameters: RoundParameters
    roster: Roster

    @property
    def everybody(self) -> range:
        return range(self.parameters.participants)

    def participant(self, position: int, randomness: Stream, journal: Journal) -> Participant:
        return Participant(
            self.parameters, self.roster, identity(position), position, randomness, journal
        )

    def resumed(self, position: int, randomness: Stream, journal: Journal) -> Participant:
        return self.participant(position, randomness, journal).resume()

    def unit_vector(self, position: int) -> np.ndarray:
        vector = np.zeros(self.parameters.length, dtype=np.int64)
        vector[position] = 1
        return vector


def setting(
    participants: int,
    threat_model: ThreatModel = MALICIOUS,
    *,
    degree: int | None = None,
    threshold: int | None = None,
    minimum_survivors: int | None = None,
    modulus: int = 2**16,
    round_id: bytes = b"a round of tests",
) -> Setting:
    """A complete graph with a bare majority as threshold, unless said otherwise."""
    degree = participants - 1 if degree is None else degree
    parameters = RoundParameters(
        plan_digest=sha256(b"a plan").digest(),
        round_id=round_id,
        threat_model=threat_model,
        roster_digest=roster_of(participants).digest,
        participants=participants,
        degree=degree,
        threshold=degree // 2 + 1 if threshold is None else threshold,
        minimum_survivors=minimum_survivors or max(2, participants - 2),
        modulus=Modulus(modulus),
        length=participants,
    )
    return Setting(parameters, roster_of(participants))


Hook = Callable[[CoordinatorState, int, bytes], bytes | None]


def deliver(_: CoordinatorState, __: int, data: bytes) -> bytes | None:
    return data


@dataclass
class Network:
    """All parties in lockstep.

    A hook sees the phase, the participant and the message, and gives what arrives instead: the
    same, another, or nothing.
    """

    setting: Setting
    coordinator: Coordinator
    participants: dict[int, Participant]
    to_coordinator: Hook = deliver
    to_participant: Hook = deliver

    @classmethod
    def of(cls, setting: Setting, seed: object = 0, **hooks: Hook) -> Network:
        store: dict[str, bytes] = {}
        randomness = Stream(seed, "coordinator")
        coordinator = Coordinator(setting.parameters, setting.roster, randomness, store)
        participants = {
            i: setting.participant(i, Stream(seed, i), MemoryJournal()) for i in setting.everybody
        }
        return cls(setting, coordinator, participants, **hooks)

    def run(self) -> Coordinator:
        """To the end of the round."""
        answers = {i: participant.begin() for i, participant in self.participants.items()}
        while self.coordinator.state not in FINAL:
            answers = self.phase(answers)
        return self.coordinator

    def phase(self, answers: Mapping[int, bytes]) -> dict[int, bytes]:
        """Answers arrive, the phase is closed, everybody invited reacts."""
        for i, answer in answers.items():
            arriving = self.to_coordinator(self.coordinator.state, i, answer)
            if arriving is not None:
                self.coordinator.receive(i, arriving)
        reactions = {}
        for i in sorted(self.coordinator.close_phase() & self.participants.keys()):
            message = self.coordinator.message_for(i)
            arriving = self.to_participant(self.coordinator.state, i, message)
            reaction = None if arriving is None else self.react(i, arriving)
            if reaction is not None:
                reactions[i] = reaction
        return reactions

    def react(self, position: int, message: bytes) -> bytes | None:
        participant = self.participants[position]
        reaction = participant.receive(message)
        if participant.state is ParticipantState.READY_FOR_INPUT:
            return participant.give_input(self.setting.unit_vector(position))
        return reaction


def assert_sum_is_of_announced_survivors(coordinator: Coordinator) -> None:
    """The oracle: the unit vectors in the sum are those of A2, and A2 is large enough."""
    assert coordinator.result is not None
    survivors = coordinator.result.survivors
    assert survivors == coordinator.survivors
    assert len(survivors) >= coordinator.parameters.minimum_survivors
    assert coordinator.result.total.tolist() == survivors.array().astype(int).tolist()

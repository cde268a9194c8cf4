"""What a round is to find out: in the open, and by the real machines of all in one process.

Both give the same result for the same survivors, so whatever is built on one can be tested on the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, AggregationError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import Aggregate
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState, ParticipantState

Inputs = Mapping[int, NDArray[Any]]  # by roster position, residues in Z_m
Dropouts = Mapping[CoordinatorState, Collection[int]]  # who falls silent from which phase on


class NoResult(AggregationError):
    """The round ended without a sum."""

    def __init__(self, reason: AbortReason) -> None:
        self.reason = reason
        super().__init__(f"the round was aborted: {reason}")


@dataclass(frozen=True)
class PlainSum:
    """Everybody hands the input to a trusted party; those who drop out before do not count."""

    parameters: RoundParameters
    dropouts: Dropouts = field(default_factory=dict)

    def sum(self, inputs: Inputs) -> Aggregate:
        modulus = self.parameters.modulus
        late = (CoordinatorState.COLLECTING_ACKS, CoordinatorState.COLLECTING_REVEALS)
        gone = {i for phase, who in self.dropouts.items() if phase not in late for i in who}
        survivors = sorted(set(inputs) - gone)
        if len(survivors) < self.parameters.minimum_survivors:
            raise NoResult(AbortReason.TOO_FEW_PARTICIPANTS)
        total = modulus.zeros(self.parameters.length)
        for i in survivors:
            modulus.add(total, inputs[i].astype(modulus.dtype))
        alive = Bitmap.of(self.parameters.participants, survivors)
        return Aggregate(alive, modulus.reduce(total))


@dataclass(frozen=True)
class SecureAggregation:
    """All parties in one process, with their real messages. Who has no input stays away."""

    parameters: RoundParameters
    roster: Roster
    identities: Sequence[Identity | None] = field(repr=False)
    randomness: Randomness = field(repr=False)
    dropouts: Dropouts = field(default_factory=dict)

    def sum(self, inputs: Inputs) -> Aggregate:
        coordinator = Coordinator(self.parameters, self.roster, self.randomness)
        participants = {i: self._participant(i) for i in sorted(inputs)}
        answers = {i: participant.begin() for i, participant in participants.items()}
        while True:
            for i in self.dropouts.get(coordinator.state, ()):
                participants.pop(i, None)
                answers.pop(i, None)
            for i, answer in answers.items():
                coordinator.receive(i, answer)
            invited = coordinator.close_phase()
            if coordinator.result is not None:
                return coordinator.result
            if coordinator.abort_reason is not None:
                raise NoResult(coordinator.abort_reason)
            answers = {}
            for i in sorted(invited & participants.keys()):
                reaction = self._react(participants[i], coordinator.message_for(i), inputs[i])
                if reaction is not None:
                    answers[i] = reaction

    def _participant(self, position: int) -> Participant:
        identity, journal = self.identities[position], MemoryJournal()
        return Participant(
            self.parameters, self.roster, identity, position, self.randomness, journal
        )

    @staticmethod
    def _react(
        participant: Participant, message: bytes | None, vector: NDArray[Any]
    ) -> bytes | None:
        answer = None if message is None else participant.receive(message)
        if participant.state is ParticipantState.READY_FOR_INPUT:
            return participant.give_input(vector)
        return answer

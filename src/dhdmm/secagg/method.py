"""Secure aggregation as a way to add up (`dhdmm.aggregation.method`), in its two threat models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.messages import VERSION
from dhdmm.aggregation.method import (
    Checked,
    Lookup,
    Phase,
    PublishedSum,
    RoundTerms,
    Store,
    ThreatModel,
    WithoutHelper,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster, Roster
from dhdmm.secagg import messages
from dhdmm.secagg import parameters as graphs
from dhdmm.secagg.parameters import FIELDS, MODELS, GraphParameters
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import COORDINATOR, PHASES, CoordinatorState

if TYPE_CHECKING:
    from dhdmm.secagg.coordinator import Coordinator
    from dhdmm.secagg.counted import CountedMessages
    from dhdmm.secagg.participant import Participant
    from dhdmm.secagg.simplified_participant import SimplifiedParticipant

__all__ = ["MODELS", "SecureAggregation"]

_BY_THRESHOLD = (CoordinatorState.COLLECTING_ACKS, CoordinatorState.COLLECTING_REVEALS)
"""In these phases as many as the threshold are enough; in those before, u_min are needed."""
_INPUTS = (messages.MaskedInput, messages.EvidencedInput)
_PER_NEIGHBOUR, _FIXED = 128, 1024  # bytes of a message beside its vector, at the most


@dataclass(frozen=True)
class SecureAggregation(WithoutHelper):
    """Bell et al. (CCS 2020), see docs/secure-aggregation.md."""

    threat_model: ThreatModel

    version = VERSION
    parameter_names = FIELDS

    @property
    def phases(self) -> tuple[Phase, ...]:
        return tuple(PHASES[state] for state in COORDINATOR[self.threat_model] if state in PHASES)

    @property
    def needs_pinned_roster(self) -> bool:
        return self.threat_model is ThreatModel.MALICIOUS

    announces_root = needs_pinned_roster

    def choose(
        self, participants: int, corrupt_fraction: float, max_dropout: float
    ) -> GraphParameters:
        return graphs.choose(participants, corrupt_fraction, max_dropout, self.threat_model)

    def check(
        self,
        parameters: GraphParameters,
        participants: int,
        corrupt_fraction: float,
        max_dropout: float,
    ) -> None:
        graphs.check(parameters, participants, corrupt_fraction, max_dropout, self.threat_model)

    def parameters_of(self, fields: Mapping[str, int], participants: int) -> GraphParameters:
        known = {name: fields[name] for name in FIELDS}
        return GraphParameters(**known, complete=fields["degree"] == participants - 1)

    def round(self, parameters: GraphParameters, terms: RoundTerms) -> RoundParameters:
        return RoundParameters(
            **terms.agreed(),
            threat_model=self.threat_model,
            degree=parameters.degree,
            threshold=parameters.threshold,
            minimum_survivors=parameters.minimum_survivors,
        )

    def fewest_senders(self, round: RoundParameters, phase: Phase) -> int:
        return round.threshold if phase.name in _BY_THRESHOLD else round.minimum_survivors

    def participant(
        self,
        round: RoundParameters,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> Participant:
        from dhdmm.secagg.participant import Participant  # with libraries that a plan needs not

        return Participant(round, roster, identity, position, randomness, journal).resume()

    def coordinator(
        self,
        round: RoundParameters,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> Coordinator:
        from dhdmm.secagg.coordinator import Coordinator

        return Coordinator(round, roster, randomness, store, shard)

    def largest_message(self, round: RoundParameters) -> int:
        """A packed vector, and so much for every neighbour."""
        return round.input_bytes + _PER_NEIGHBOUR * round.participants + _FIXED

    def carries_input(self, data: bytes) -> bool:
        return messages.type_of(data) in _INPUTS

    def was_received(self, record: Lookup, data: bytes, position: int) -> bool:
        from dhdmm.secagg.collected import record_name

        known = record(record_name(type(messages.decode(data)), position))
        return known is not None and known.startswith(sha256(data).digest())

    def abort_message(self, round: RoundParameters, position: int, reason: AbortReason) -> bytes:
        return messages.Aborted(round.session, position, reason).encode()

    def counted(self, round: RoundParameters) -> CountedMessages:
        from dhdmm.secagg.counted import CountedMessages

        return CountedMessages(round)

    def simplified_participant(
        self,
        round: RoundParameters,
        identity: Identity,
        position: int,
        randomness: Randomness,
        gone: Collection[int],
    ) -> SimplifiedParticipant:
        from dhdmm.secagg.simplified_participant import SimplifiedParticipant

        return SimplifiedParticipant(round, identity, position, randomness, gone)

    def check_account(
        self, round: RoundParameters, roster: Roster, published: PublishedSum
    ) -> Checked:
        """There is none: nothing is known of single inputs."""
        if published.account is not None:
            raise RemoteProtocolError(AbortReason.MALFORMED, "an account of inputs")
        return Checked()

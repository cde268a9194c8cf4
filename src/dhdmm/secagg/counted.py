"""Counts of what each participant handles in a round, from which bytes and seconds follow.

In a real round the counts are read off the messages; for a model they are drawn. A neighbour is
*out* if it holds the participant's shares, *in* if the participant holds its shares; in the
semi-honest model every neighbour is both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.merkle import NODE_BYTES, expected_proof
from dhdmm.aggregation.method import ModelledSeconds
from dhdmm.secagg import costs, sizes
from dhdmm.secagg import messages as m
from dhdmm.secagg.counts import Counts, Numbers
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState


class CountedMessages:
    """Counts of one round, and the bytes and seconds that follow from them."""

    def __init__(self, parameters: RoundParameters) -> None:
        self._parameters = parameters
        self.counts = Counts.zeros(parameters.participants)

    def opened(self, position: int, message: bytes) -> None:
        counts, i = self.counts, position
        match m.decode(message):
            case m.Neighbours(neighbours=neighbours):
                counts.neighbours[i] = len(neighbours)
            case m.ProvenNeighbours(neighbours=signed, proof=proof):
                counts.neighbours[i], counts.proof[i] = len(signed), len(proof) // NODE_BYTES
            case m.RelayedShares(shared=shared, ciphertexts=ciphertexts):
                counts.held[i], counts.included[i] = len(ciphertexts), len(shared)
            case m.EvidencedSurvivors(evidence=evidence):
                counts.alive[i] = len(evidence)
            case m.RelayedAcks(evidence=evidence):
                counts.acked[i] = len(evidence)

    def answered(self, position: int, message: bytes) -> None:
        match m.decode(message):
            case m.Shares(ciphertexts=ciphertexts):
                self.counts.out[position] = len(ciphertexts)
            case m.Acks(evidence=evidence):
                self.counts.to_ack[position] = len(evidence)

    def draw(self, answered: NDArray[np.bool_], binomial: Callable[..., Numbers]) -> None:
        """Of a round that is not executed; `answered` has a row for each phase."""
        parameters = self._parameters
        n, k = parameters.participants, parameters.degree
        share = [1.0, *(row.mean() for row in answered)]
        present, shared, alive = share[-5:-2] if parameters.malicious else share[-4:-1]

        def kept(counts: Numbers, among: float, before: float) -> Numbers:
            return binomial(counts, min(1.0, among / before))

        out = kept(np.full(n, k), present, 1.0)
        inward, mutual = out, out
        if parameters.malicious:
            inward = binomial(round(n * present) - 1, k / (n - 1), n)
            mutual = binomial(np.minimum(out, inward), k / (n - 1))
        neighbours = out + inward - mutual
        held = kept(inward, shared, present)
        included = held + kept(neighbours - inward, shared, present)
        to_ack = kept(held, alive, shared)
        surviving = to_ack + kept(included - held, alive, shared)
        none = np.zeros_like(out)
        counts = Counts(neighbours, out, none, held, included, surviving, to_ack, out)
        if parameters.malicious:
            counts.proof = expected_proof(n, neighbours + 1)
            counts.acked = kept(out, share[-2], present)
        self.counts = counts

    def received_bytes(self) -> dict[str, Numbers]:
        return sizes.received_bytes(self._parameters, self.counts)

    def sent_bytes(self) -> dict[str, Numbers]:
        return sizes.sent_bytes(self._parameters, self.counts)

    def introduced(self) -> dict[str, Numbers]:
        """Whom a participant chose, of those who are present."""
        malicious = self._parameters.malicious
        return {CoordinatorState.COLLECTING_SHARES: self.counts.out} if malicious else {}

    def seconds(self, answered: NDArray[np.bool_]) -> ModelledSeconds:
        parameters, counts = self._parameters, self.counts
        opening, taking = costs.coordinator_seconds(parameters, counts)
        return ModelledSeconds(
            costs.participant_seconds(parameters, counts),
            opening,
            taking,
            costs.closing_seconds(parameters, counts, answered),
        )

"""How much of everything a participant meets in a round: what sizes and operations depend on.

In a real round the counts are read off the messages; for a model they are drawn. A neighbour is
*out* if it holds the participant's shares, *in* if the participant holds its shares; in the
semi-honest model every neighbour is both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.cohort.members import Answer
from dhdmm.secagg import messages as m
from dhdmm.secagg.merkle import NODE_BYTES
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState
from dhdmm.simulation.recorder import Progress, Recorder
from dhdmm.simulation.trace import Flags, Trace

Numbers = NDArray[np.int64]


@dataclass
class Counts:
    """One number a participant, (n,); 0 where it did not get that far."""

    neighbours: Numbers
    out: Numbers
    proof: Numbers  # nodes of the Merkle proof
    deposits: Numbers  # neighbours whose shares it holds
    included: Numbers  # neighbours it masks with
    alive: Numbers  # neighbours that survive
    to_ack: Numbers  # those of them whose shares it holds
    acked: Numbers  # acks it is shown

    @classmethod
    def zeros(cls, participants: int) -> Counts:
        return cls(*(np.zeros(participants, np.int64) for _ in range(8)))


class CountingRecorder(Recorder):
    """A recorder that also reads the messages."""

    def __init__(self, trace: Trace, progress: Progress) -> None:
        super().__init__(trace, progress)
        self.counts = Counts.zeros(trace.participants)

    def opened(
        self, phase: CoordinatorState, position: int, message: bytes, seconds: float
    ) -> None:
        super().opened(phase, position, message, seconds)
        counts, i = self.counts, position
        match m.decode(message):
            case m.Neighbours(neighbours=neighbours):
                counts.neighbours[i] = len(neighbours)
            case m.ProvenNeighbours(neighbours=signed, proof=proof):
                counts.neighbours[i], counts.proof[i] = len(signed), len(proof) // NODE_BYTES
            case m.RelayedShares(shared=shared, ciphertexts=ciphertexts):
                counts.deposits[i], counts.included[i] = len(ciphertexts), len(shared)
            case m.EvidencedSurvivors(evidence=evidence):
                counts.alive[i] = len(evidence)
            case m.RelayedAcks(evidence=evidence):
                counts.acked[i] = len(evidence)

    def answered(
        self, phase: CoordinatorState, position: int, answer: Answer, seconds: float
    ) -> None:
        super().answered(phase, position, answer, seconds)
        match m.decode(answer.message):
            case m.Shares(ciphertexts=ciphertexts):
                self.counts.out[position] = len(ciphertexts)
            case m.Acks(evidence=evidence):
                self.counts.to_ack[position] = len(evidence)


def drawn_counts(parameters: RoundParameters, answered: Flags, seed: int) -> Counts:
    """Counts of a round that is not executed: each neighbour is present, alive, … independently.

    `answered` are the phases' rows of the trace: keys, choices in the malicious model, shares, ….
    """
    n, k = parameters.participants, parameters.degree
    share = [1.0, *(row.mean() for row in answered)]
    present, shared, alive = share[-5:-2] if parameters.malicious else share[-4:-1]
    random = np.random.default_rng(seed)

    def kept(counts: Numbers, among: float, before: float) -> Numbers:
        return random.binomial(counts, min(1.0, among / before))

    out = kept(np.full(n, k), present, 1.0)
    inward, mutual = out, out
    if parameters.malicious:
        inward = random.binomial(round(n * present) - 1, k / (n - 1), n)
        mutual = random.binomial(np.minimum(out, inward), k / (n - 1))
    neighbours = out + inward - mutual
    deposits = kept(inward, shared, present)
    included = deposits + kept(neighbours - inward, shared, present)
    to_ack = kept(deposits, alive, shared)
    surviving = to_ack + kept(included - deposits, alive, shared)
    counts = Counts(neighbours, out, np.zeros_like(out), deposits, included, surviving, to_ack, out)
    if parameters.malicious:
        counts.proof = expected_proof(n, neighbours + 1)
        counts.acked = kept(out, share[-2], present)
    return counts


def expected_proof(size: int, leaves: Numbers) -> Numbers:
    """Nodes of a multiproof for random leaves of a tree of this size, on average.

    Of the nodes over b leaves, those are sent that lead to none of the proven leaves and whose
    sibling does: size/b · (Pr[some proven leaf among 2b] − Pr[among b]).
    """
    total, block = np.zeros(len(leaves)), 1
    while block < size:
        among = [1 - (1 - min(1.0, b / size)) ** leaves for b in (block, 2 * block)]
        total += size / block * (among[1] - among[0])
        block *= 2
    return np.rint(total).astype(np.int64)

"""What a participant of the malicious model does not put up with: one lie at a time.

Each test falsifies one message on its way to participant 0, which must leave with the right reason
and reveal nothing. The honest message is the control: with it the same round finishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dhdmm.aggregation.errors import AbortReason
from dhdmm.secagg import messages as m
from dhdmm.secagg.states import CoordinatorState, ParticipantState
from tests.protocol.network import Network, assert_sum_is_of_announced_survivors, setting

VICTIM = 0
Lie = Callable[[m.Message], m.Message]


def flip(data: bytes) -> bytes:
    return bytes((data[0] ^ 1,)) + data[1:]


def on_first(neighbours: tuple[m.SignedPublicKeys, ...], **changes: object):
    return (neighbours[0]._replace(**changes), *neighbours[1:])


def other_signature(message: m.ProvenNeighbours) -> m.Message:
    first = message.neighbours[0]
    return replace(
        message, neighbours=on_first(message.neighbours, signature=flip(first.signature))
    )


def other_key(message: m.ProvenNeighbours) -> m.Message:
    first = message.neighbours[0]
    return replace(message, neighbours=on_first(message.neighbours, mask_key=flip(first.mask_key)))


def repeated_key(message: m.ProvenNeighbours) -> m.Message:
    second = message.neighbours[1]
    return replace(message, neighbours=on_first(message.neighbours, mask_key=second.mask_key))


def other_proof(message: m.ProvenNeighbours) -> m.Message:
    return replace(message, proof=flip(message.proof))


def longer_proof(message: m.ProvenNeighbours) -> m.Message:
    return replace(message, proof=message.proof + bytes(32))


def fewer_chosen(message: m.ProvenNeighbours) -> m.Message:
    """An out-neighbour presented as if it had not been chosen."""
    out = next(e for e, j in enumerate(message.neighbours) if j.direction & 1)
    neighbours = list(message.neighbours)
    neighbours[out] = neighbours[out]._replace(direction=2)
    return replace(message, neighbours=tuple(neighbours))


def crowd(message: m.ProvenNeighbours) -> m.Message:
    """More neighbours than four times the degree."""
    strangers = tuple(
        m.SignedPublicKeys(position, 2, bytes(32), bytes(32), bytes(64))
        for position in range(1, 42)
    )
    return replace(message, neighbours=strangers)


def dead(message: m.EvidencedSurvivors) -> m.Message:
    members = set(message.alive.members()) - {VICTIM}
    return replace(message, alive=m.Bitmap.of(message.alive.size, members))


def few(message: m.EvidencedSurvivors) -> m.Message:
    return replace(message, alive=m.Bitmap.of(message.alive.size, [VICTIM, 1, 2]))


def without_proof_of_inclusion(message: m.EvidencedSurvivors) -> m.Message:
    return replace(message, evidence=message.evidence[1:])


def false_proof_of_inclusion(message: m.EvidencedSurvivors) -> m.Message:
    return replace(message, evidence=(flip(message.evidence[0]), *message.evidence[1:]))


def swapped_proofs_of_inclusion(message: m.EvidencedSurvivors) -> m.Message:
    first, second, *others = message.evidence
    return replace(message, evidence=(second, first, *others))


def no_acks(message: m.RelayedAcks) -> m.Message:
    return replace(message, acked=m.Bitmap.of(message.acked.size, []), evidence=())


def false_acks(message: m.RelayedAcks) -> m.Message:
    return replace(message, evidence=tuple(flip(tag) for tag in message.evidence))


LIES = [
    (m.ProvenNeighbours, other_signature, AbortReason.BAD_PROOF),
    (m.ProvenNeighbours, other_key, AbortReason.BAD_PROOF),
    (m.ProvenNeighbours, other_proof, AbortReason.BAD_PROOF),
    (m.ProvenNeighbours, longer_proof, AbortReason.BAD_PROOF),
    (m.ProvenNeighbours, repeated_key, AbortReason.REPEATED_KEY),
    (m.ProvenNeighbours, fewer_chosen, AbortReason.MALFORMED),
    (m.ProvenNeighbours, crowd, AbortReason.TOO_MANY_NEIGHBOURS),
    (m.EvidencedSurvivors, dead, AbortReason.DECLARED_DEAD),
    (m.EvidencedSurvivors, few, AbortReason.TOO_FEW_PARTICIPANTS),
    (m.EvidencedSurvivors, without_proof_of_inclusion, AbortReason.BAD_EVIDENCE),
    (m.EvidencedSurvivors, false_proof_of_inclusion, AbortReason.BAD_EVIDENCE),
    (m.EvidencedSurvivors, swapped_proofs_of_inclusion, AbortReason.BAD_EVIDENCE),
    (m.RelayedAcks, no_acks, AbortReason.TOO_FEW_ACKS),
    (m.RelayedAcks, false_acks, AbortReason.TOO_FEW_ACKS),
]


def lying(kind: type[m.Message], lie: Lie):
    def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        return lie(message).encode() if position == VICTIM and type(message) is kind else data

    return hook


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lie", "reason"), LIES, ids=lambda part: getattr(part, "__name__", "")
)
def test_participant_leaves_and_reveals_nothing(
    kind: type[m.Message], lie: Lie, reason: AbortReason
) -> None:
    chosen = setting(50, degree=10, threshold=7, minimum_survivors=40)
    network = Network.of(chosen, to_participant=lying(kind, lie))
    network.run()
    victim = network.participants[VICTIM]
    assert victim.abort_reason is reason
    assert victim.state is ParticipantState.ABORTED
    assert isinstance(m.decode(victim.outgoing), m.Aborted)
    assert not victim._memory.held


@pytest.mark.slow
def test_the_same_round_without_a_lie_finishes() -> None:
    chosen = setting(50, degree=10, threshold=7, minimum_survivors=40)
    assert_sum_is_of_announced_survivors(Network.of(chosen).run())


def test_neighbour_said_to_be_alive_whose_masks_are_not_ours_is_a_phantom() -> None:
    """The victim is told that a neighbour did not share, and later that it survived."""

    def lie(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if position != VICTIM or not isinstance(message, m.RelayedShares):
            return data
        shared = m.Bitmap.of(message.shared.size, message.shared.members()[1:])
        return replace(message, shared=shared, ciphertexts=message.ciphertexts[1:]).encode()

    network = Network.of(setting(5), to_participant=lie)
    included: dict[int, bytes] = {}

    def keep_apart(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        message = m.decode(data)
        if position == VICTIM and isinstance(message, m.EvidencedInput):
            included[position] = data  # an honest coordinator would refuse it
            return None
        return data

    network.to_coordinator = keep_apart
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not CoordinatorState.COLLECTING_ACKS:
        answers = network.phase(answers)
    alive = m.Bitmap.of(5, range(5))
    victim = network.participants[VICTIM]
    bitmap = m.EvidencedSurvivors(victim._session, VICTIM, alive, (bytes(16),) * 4)
    victim.receive(bitmap.encode())
    assert included
    assert victim.abort_reason is AbortReason.PHANTOM_SURVIVOR

"""Dropouts, repeats, lateness and corrupt participants, against an honest coordinator.

Here the oracle is the sum: everybody contributes a unit vector, so the result must be the indicator
of the announced survivors. Each weakened coordinator gives a wrong sum without noticing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.method import Reply
from dhdmm.secagg import messages as m
from dhdmm.secagg import shamir
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.states import COORDINATOR, CoordinatorState, Local
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Hook,
    Network,
    Stream,
    assert_sum_is_of_announced_survivors,
    setting,
)
from tests.protocol.weakened import (
    AddsLateInputs,
    CountsEveryCopy,
    masks_of_dropouts_forgotten,
    seeds_of_the_silent_forgotten,
    unrecognised_seeds,
    vectors_of_any_shape,
)

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])
MODULUS = 2**17
_C = CoordinatorState


def network_of(
    threat_model, coordinator: type[Coordinator] = Coordinator, modulus: int = 2**16
) -> Network:
    chosen = setting(6, threat_model, modulus=modulus)
    network = Network.of(chosen)
    network.coordinator = coordinator(chosen.parameters, chosen.roster, Stream("coordinator"))
    return network


def silencing(who: int, *phases: CoordinatorState) -> Hook:
    return lambda now, i, data: None if i == who and now in phases else data


def assert_wrong_sum(coordinator: Coordinator) -> None:
    with pytest.raises(AssertionError):
        assert_sum_is_of_announced_survivors(coordinator)


def phases_from(threat_model, first: CoordinatorState) -> list[CoordinatorState]:
    table = COORDINATOR[threat_model]
    phases = [phase for phase in table if Local.CLOSE in table[phase]]
    return phases[phases.index(first) :]


@pytest.mark.fault(1)
@pytest.mark.parametrize(
    ("threat_model", "phase"),
    [
        (threat_model, phase)
        for threat_model in (SEMI_HONEST, MALICIOUS)
        for phase in phases_from(threat_model, _C.COLLECTING_KEYS)
    ],
)
def test_dropout_in_any_phase_leaves_the_sum_of_the_survivors(threat_model, phase) -> None:
    network = network_of(threat_model)
    network.to_coordinator = silencing(2, *phases_from(threat_model, phase))
    assert_sum_is_of_announced_survivors(network.run())


@pytest.mark.fault(1)
@BOTH
def test_masks_shared_with_a_dropout_would_stay_in_the_sum(threat_model) -> None:
    network = network_of(threat_model)
    network.to_coordinator = silencing(2, *phases_from(threat_model, _C.COLLECTING_INPUTS))
    with masks_of_dropouts_forgotten():
        assert_wrong_sum(network.run())


@pytest.mark.fault(3)
@BOTH
def test_input_of_one_that_vanishes_after_sending_it_still_counts(threat_model) -> None:
    def run() -> Coordinator:
        network = network_of(threat_model)
        network.to_coordinator = silencing(2, _C.COLLECTING_ACKS, _C.COLLECTING_REVEALS)
        return network.run()

    coordinator = run()
    assert_sum_is_of_announced_survivors(coordinator)
    assert len(coordinator.result.survivors) == 6
    with seeds_of_the_silent_forgotten():
        assert_wrong_sum(run())


def twice(network: Network, other: Callable[[m.Message], m.Message] = lambda said: said) -> Hook:
    """Every masked input is followed by another message from the same participant."""

    def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        said = m.decode(data)
        if not isinstance(said, m.MaskedInput):
            return data
        assert network.coordinator.receive(position, data) is Reply.ACCEPTED
        network.outcomes.append(outcome(network.coordinator, position, other(said).encode()))
        return None

    network.outcomes = []
    return hook


def outcome(coordinator: Coordinator, position: int, data: bytes) -> Reply | AbortReason:
    try:
        return coordinator.receive(position, data)
    except RemoteProtocolError as error:
        return error.reason


@pytest.mark.fault(8)
@BOTH
def test_repeated_input_is_counted_once(threat_model) -> None:
    network = network_of(threat_model)
    network.to_coordinator = twice(network)
    assert_sum_is_of_announced_survivors(network.run())
    assert set(network.outcomes) == {Reply.REPEATED}
    credulous = network_of(threat_model, CountsEveryCopy)
    credulous.to_coordinator = twice(credulous)
    assert_wrong_sum(credulous.run())


def with_another_vector(said: m.MaskedInput) -> m.MaskedInput:
    return replace(said, vector=bytes((said.vector[0] ^ 1,)) + said.vector[1:])


@pytest.mark.fault(9)
@BOTH
def test_second_input_of_other_content_is_refused_and_the_first_kept(threat_model) -> None:
    network = network_of(threat_model)
    network.to_coordinator = twice(network, with_another_vector)
    assert_sum_is_of_announced_survivors(network.run())
    assert set(network.outcomes) == {AbortReason.CONFLICTING_MESSAGE}
    credulous = network_of(threat_model, CountsEveryCopy)
    credulous.to_coordinator = twice(credulous, with_another_vector)
    assert_wrong_sum(credulous.run())


@pytest.mark.fault(9)
@BOTH
def test_participant_told_two_things_leaves(threat_model) -> None:
    """Between the two it has journalled and sent an input; a third version would be its last."""
    network = network_of(threat_model)
    told: list[bytes] = []

    def keep(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        if isinstance(m.decode(data), m.RelayedShares) and position == 1:
            told.append(data)
        return data

    network.to_participant = keep
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not _C.COLLECTING_INPUTS:
        answers = network.phase(answers)
    participant = network.participants[1]
    assert participant.receive(told[0]) == answers[1], "the same again has the same answer"
    first = m.decode(told[0])
    nobody = replace(first, shared=m.Bitmap.of(first.shared.size, []), ciphertexts=())
    left = m.decode(participant.receive(nobody.encode()))
    assert left.reason is AbortReason.CONFLICTING_MESSAGE


@pytest.mark.fault(10)
@BOTH
def test_input_that_comes_after_the_survivors_are_fixed_is_not_added(threat_model) -> None:
    def run(coordinator: type[Coordinator]) -> tuple[Coordinator, Reply | AbortReason]:
        network = network_of(threat_model, coordinator)
        late: list[bytes] = []
        outcomes: list[Reply | AbortReason] = []

        def delay(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
            if phase is _C.COLLECTING_INPUTS and position == 2:
                late.append(data)
                return None
            if phase is _C.COLLECTING_REVEALS and late:
                outcomes.append(outcome(network.coordinator, 2, late.pop()))
            return data

        network.to_coordinator = delay
        return network.run(), outcomes[0]

    coordinator, refusal = run(Coordinator)
    assert refusal is AbortReason.WRONG_PHASE
    assert_sum_is_of_announced_survivors(coordinator)
    assert_wrong_sum(run(AddsLateInputs)[0])


def shorter(vector: bytes) -> bytes:
    return vector[:-1]


def longer(vector: bytes) -> bytes:
    return vector + b"\1"


def padded(vector: bytes) -> bytes:
    """The last plane has six bits; one of the other two of its byte is set."""
    return vector[:-1] + bytes([vector[-1] | 1 << 7])


@pytest.mark.fault(21)
@BOTH
@pytest.mark.parametrize("damage", [shorter, longer, padded])
def test_vector_of_wrong_length_or_padding_is_refused_before_it_is_added(
    threat_model, damage: Callable[[bytes], bytes]
) -> None:
    def damaged(network: Network) -> Hook:
        def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
            said = m.decode(data)
            if not isinstance(said, m.MaskedInput) or position != 2:
                return data
            spoilt = replace(said, vector=damage(said.vector)).encode()
            network.outcomes.append(outcome(network.coordinator, position, spoilt))
            return None

        network.outcomes = []
        return hook

    network = network_of(threat_model, modulus=MODULUS)
    network.to_coordinator = damaged(network)
    assert_sum_is_of_announced_survivors(network.run())
    assert network.outcomes == [AbortReason.MALFORMED]
    credulous = network_of(threat_model, modulus=MODULUS)
    credulous.to_coordinator = damaged(credulous)
    with vectors_of_any_shape():
        credulous.run()
    assert credulous.outcomes == [Reply.ACCEPTED]


@pytest.mark.fault(21)
@pytest.mark.parametrize("kind", [m.EvidencedInput, m.Acks])
def test_evidence_of_the_other_kind_is_refused(kind: type[m.Message]) -> None:
    """Signatures where MACs are due: as many of them, but they fit nowhere."""
    network, outcomes = network_of(MALICIOUS), []

    def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        said = m.decode(data)
        if not isinstance(said, kind) or position != 2:
            return data
        macs = bytes([16]) + len(said.evidence).to_bytes(4, "big") + b"".join(said.evidence)
        signatures = bytes([64]) + macs[1:5] + bytes(64 * len(said.evidence))
        assert data.count(macs) == 1
        signatures = data.replace(macs, signatures)
        outcomes.append(outcome(network.coordinator, position, signatures))
        return None

    network.to_coordinator = hook
    assert_sum_is_of_announced_survivors(network.run())
    assert outcomes == [AbortReason.MALFORMED]


@pytest.mark.fault(21)
@BOTH
@pytest.mark.parametrize(
    "vector",
    [np.zeros(5, np.int64), np.full(6, -1), np.full(6, 2**16), np.zeros(6), np.zeros((6, 1), int)],
    ids=["short", "negative", "too-large", "floating", "matrix"],
)
def test_participant_refuses_an_input_that_is_not_in_the_group(threat_model, vector) -> None:
    network = network_of(threat_model)
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    network.react = lambda i, message: network.participants[i].receive(message)
    while network.coordinator.state is not _C.COLLECTING_INPUTS:
        answers = network.phase(answers)
    with pytest.raises(LocalProtocolError):
        network.participants[0].give_input(vector)
    network.participants[0].give_input(np.zeros(6, np.int64))


def dealing(network: Network, seeds: Callable[[int], bytes]) -> Hook:
    """Participant 2 gives each holder a good share of the seed that this holder is to see."""

    def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        said = m.decode(data)
        if not isinstance(said, m.Shares) or position != 2:
            return data
        dealer = network.participants[2]
        holders = [j for j in dealer._memory.neighbours if j.direction & Direction.OUT]
        threshold = dealer.parameters.threshold
        sealed = []
        for place, holder in enumerate(holders):
            secrets = [seeds(place), dealer._memory.mask_secret]
            everybody = [j.position for j in holders]
            ours, mask_keys = shamir.split(secrets, threshold, everybody, Stream("dealer", secrets))
            sealed.append(dealer._channels.seal(holder, ours[place] + mask_keys[place]))
        return replace(said, ciphertexts=tuple(sealed)).encode()

    return hook


def one_false_seed(place: int) -> bytes:
    return b"not the seed that was committed."


def two_seeds(place: int) -> bytes:
    return bytes((place % 2,)) * 32


@pytest.mark.fault(26)
@BOTH
@pytest.mark.parametrize("seeds", [one_false_seed, two_seeds])
def test_shares_of_another_secret_or_of_none_are_noticed(threat_model, seeds) -> None:
    network = network_of(threat_model)
    network.to_coordinator = dealing(network, seeds)
    coordinator = network.run()
    assert coordinator.result is None
    assert coordinator.abort_reason is AbortReason.INCONSISTENT_SHARES


@pytest.mark.fault(26)
@BOTH
def test_shares_of_another_secret_would_spoil_the_sum(threat_model) -> None:
    network = network_of(threat_model)
    network.to_coordinator = dealing(network, one_false_seed)
    with unrecognised_seeds():
        assert_wrong_sum(network.run())

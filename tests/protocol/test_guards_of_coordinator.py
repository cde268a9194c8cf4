"""Each guard of the coordinator on its own: one message that no honest participant sends.

It is refused and changes nothing, so that the round still gives the sum of the survivors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.method import Reply
from dhdmm.secagg import messages as m
from dhdmm.secagg import shamir
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.keys import KeyPair
from dhdmm.secagg.messages import Direction, ShareKind
from dhdmm.secagg.states import CoordinatorState
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Hook,
    Network,
    Setting,
    Stream,
    assert_sum_is_of_announced_survivors,
    identity,
    roster_of,
    setting,
)

LIAR = 2
BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])
SPARSE = setting(9, degree=4, threshold=3, minimum_survivors=6)
Lie = Callable[[Network, m.Message], m.Message]


def refused(chosen: Setting, kind: type[m.Message], lie: Lie) -> AbortReason | None:
    """Why this message of the liar was refused, if it was; then the honest one follows."""
    network, reasons = Network.of(chosen), list[AbortReason | None]()

    def falsify(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        message = m.decode(data)
        if position != LIAR or type(message) is not kind:
            return data
        try:
            network.coordinator.receive(position, lie(network, message).encode())
        except RemoteProtocolError as error:
            reasons.append(error.reason)
            return data
        reasons.append(None)
        return None

    network.to_coordinator = falsify
    coordinator = network.run()
    (reason,) = reasons
    if reason is not None:
        assert_sum_is_of_announced_survivors(coordinator)
    return reason


# Keys and choices


def test_one_key_for_masks_and_channels_is_refused() -> None:
    def lie(_: Network, message: m.Keys) -> m.Message:
        return replace(message, channel_key=message.mask_key)

    assert refused(setting(5, SEMI_HONEST), m.Keys, lie) is AbortReason.REPEATED_KEY


def test_keys_in_anothers_name_are_refused() -> None:
    """The right statement, signed by another member of the roster."""
    chosen = setting(5)
    coordinator = Coordinator(chosen.parameters, chosen.roster, Stream(0))
    public = [KeyPair.from_secret(Stream("keys", i)(32)).public for i in range(2)]
    session = chosen.parameters.session
    signature = identity(4).sign(keys_statement(session, 1, *public))
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(1, m.SignedKeys(session, 1, *public, signature).encode())
    assert refusal.value.reason is AbortReason.BAD_SIGNATURE


@pytest.mark.parametrize(
    "chosen",
    [(0, 1, 3), (0, 1, 3, 4, 5), (0, 1, LIAR, 3), (0, 1, 3, 9)],
    ids=["too few", "too many", "itself", "beyond the roster"],
)
def test_choice_that_cannot_be_one_is_refused(chosen: tuple[int, ...]) -> None:
    def lie(_: Network, message: m.Choice) -> m.Message:
        return replace(message, out_neighbours=chosen)

    assert refused(SPARSE, m.Choice, lie) is AbortReason.MALFORMED


def test_a_coordinator_serves_the_roster_of_its_round() -> None:
    five, six = setting(5), setting(6)
    with pytest.raises(LocalProtocolError, match="not the roster"):
        Coordinator(five.parameters, six.roster, Stream(0))
    inflated = replace(six.parameters, roster_digest=five.roster.digest)
    with pytest.raises(LocalProtocolError, match="not the roster"):
        Coordinator(inflated, roster_of(5), Stream(0))


# Shares and inputs


@BOTH
def test_shares_for_some_holders_only_are_refused(threat_model) -> None:
    def lie(_: Network, message: m.Shares) -> m.Message:
        return replace(message, ciphertexts=message.ciphertexts[1:])

    assert refused(setting(5, threat_model), m.Shares, lie) is AbortReason.MALFORMED


def saying(included_of: Callable[[Network, set[int]], set[int]], more: int = 0) -> Lie:
    """An input with this set of included neighbours, in positions, and as much evidence."""

    def lie(network: Network, message: m.EvidencedInput) -> m.Message:
        around = [j.position for j in network.participants[LIAR]._memory.neighbours]
        honest = {around[e] for e in message.included.members()}
        said = included_of(network, honest)
        bits = Bitmap.of(len(around) + more, [e for e, j in enumerate(around) if j in said])
        return replace(message, included=bits, evidence=(bytes(16),) * len(said))

    return lie


def without_a_chosen_one(network: Network, honest: set[int]) -> set[int]:
    return honest - set(network.participants[LIAR]._memory.out_neighbours[:1])


def everybody(network: Network, honest: set[int]) -> set[int]:
    return honest


def test_input_that_leaves_out_a_chosen_neighbour_is_refused() -> None:
    lie = saying(without_a_chosen_one)
    assert refused(setting(5), m.EvidencedInput, lie) is AbortReason.MALFORMED


def test_input_masked_with_one_who_has_not_shared_is_refused() -> None:
    """Participant 0 falls silent before it has shared, and the liar says that it masked with it."""
    chosen = setting(5)
    network, outcomes = Network.of(chosen), list[AbortReason]()

    def falsify(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        message = m.decode(data)
        if position == 0 and isinstance(message, m.Shares | m.EvidencedInput):
            return None
        if position == LIAR and isinstance(message, m.EvidencedInput):
            lie = saying(lambda network, honest: honest | {0})(network, message)
            with pytest.raises(RemoteProtocolError) as refusal:
                network.coordinator.receive(position, lie.encode())
            outcomes.append(refusal.value.reason)
        return data

    network.to_coordinator = falsify
    assert_sum_is_of_announced_survivors(network.run())
    assert outcomes == [AbortReason.MALFORMED]


def test_input_with_a_bitmap_of_another_neighbourhood_is_refused() -> None:
    lie = saying(everybody, more=1)
    assert refused(setting(5), m.EvidencedInput, lie) is AbortReason.MALFORMED


def test_input_with_less_evidence_than_neighbours_is_refused() -> None:
    def lie(_: Network, message: m.EvidencedInput) -> m.Message:
        return replace(message, evidence=message.evidence[1:])

    assert refused(setting(5), m.EvidencedInput, lie) is AbortReason.MALFORMED


def _accused(network: Network) -> int:
    """One who chose the liar and was not chosen by it: the liar may leave it out of M_i."""
    around = network.participants[LIAR]._memory.neighbours
    return next(j.position for j in around if j.direction == Direction.IN)


@pytest.mark.parametrize("liar_first", [True, False])
def test_input_that_lacks_evidence_to_or_from_an_accepted_one_is_excluded(liar_first: bool) -> None:
    """The liar leaves one out whose input was accepted before, or comes after."""
    network = Network.of(SPARSE)
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not CoordinatorState.COLLECTING_INPUTS:
        answers = network.phase(answers)
    accused = _accused(network)
    lie = saying(lambda _, honest: honest - {accused})(network, m.decode(answers[LIAR]))
    inputs = [(LIAR, lie.encode()), (accused, answers[accused])]
    ordered = inputs if liar_first else reversed(inputs)
    replies = [network.coordinator.receive(*each) for each in ordered]
    assert replies == [Reply.ACCEPTED, Reply.EXCLUDED]


# Reveals


def with_reveal(change: Callable[[Network, m.Reveal], m.Reveal]) -> Lie:
    """The last share that the liar reveals, changed."""

    def lie(network: Network, message: m.Unmask) -> m.Message:
        *others, last = message.reveals
        return replace(message, reveals=(*others, change(network, last)))

    return lie


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        lambda _, last: last._replace(kind=ShareKind.MASK_KEY),
        lambda _, last: last._replace(position=8),
    ],
    ids=["other kind", "nobody's"],
)
def test_share_that_was_not_asked_for_is_refused(threat_model, change) -> None:
    assert refused(setting(5, threat_model), m.Unmask, with_reveal(change)) is AbortReason.MALFORMED


def test_share_of_one_who_gave_this_holder_none_is_refused() -> None:
    """An out-neighbour's: it holds the liar's shares, the liar holds none of its."""

    def lie(network: Network, message: m.Unmask) -> m.Message:
        around = network.participants[LIAR]._memory.neighbours
        chosen = next(j.position for j in around if j.direction == Direction.OUT)
        reveal = m.Reveal(chosen, ShareKind.SEED, bytes(shamir.SHARE_BYTES))
        return replace(message, reveals=tuple(sorted([*message.reveals, reveal])))

    assert refused(SPARSE, m.Unmask, lie) is AbortReason.MALFORMED


@pytest.mark.fault(26)
@BOTH
def test_false_mask_key_of_a_dropout_is_noticed(threat_model) -> None:
    """The liar deals good shares of a key that is not its own, and drops out."""
    network = Network.of(setting(6, threat_model))

    def deal(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        message = m.decode(data)
        if position != LIAR or phase is CoordinatorState.COLLECTING_KEYS:
            return data
        if phase is CoordinatorState.COLLECTING_CHOICES:
            return data
        return _with_false_mask_key(network, message) if isinstance(message, m.Shares) else None

    network.to_coordinator = deal
    coordinator = network.run()
    assert coordinator.result is None
    assert coordinator.abort_reason is AbortReason.INCONSISTENT_SHARES


def _with_false_mask_key(network: Network, message: m.Shares) -> bytes:
    dealer = network.participants[LIAR]
    holders = [j for j in dealer._memory.neighbours if j.direction & Direction.OUT]
    secrets = [dealer._memory.seed, Stream("another key")(32)]
    positions, threshold = [j.position for j in holders], dealer.parameters.threshold
    seeds, others = shamir.split(secrets, threshold, positions, Stream("dealer"))
    sealed = [
        dealer._channels.seal(j, seed + key)
        for j, seed, key in zip(holders, seeds, others, strict=True)
    ]
    return replace(message, ciphertexts=tuple(sealed)).encode()


# Senders


@BOTH
def test_message_in_anothers_name_is_refused(threat_model) -> None:
    """Every message of the round, delivered by another participant than it says."""
    network = Network.of(setting(5, threat_model))

    def impersonate(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        with pytest.raises(RemoteProtocolError) as refusal:
            network.coordinator.receive((position + 1) % 5, data)
        assert refusal.value.reason is AbortReason.WRONG_SESSION
        return data

    network.to_coordinator = impersonate
    assert_sum_is_of_announced_survivors(network.run())


def absent_in(*phases: CoordinatorState) -> Hook:
    return lambda phase, position, data: None if position == LIAR and phase in phases else data


@BOTH
def test_who_was_not_invited_to_a_phase_does_not_speak_in_it(threat_model) -> None:
    """Its masked input did not come; shares of others it reveals all the same."""
    network = Network.of(setting(6, threat_model))
    network.to_coordinator = absent_in(CoordinatorState.COLLECTING_INPUTS)
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not CoordinatorState.COLLECTING_REVEALS:
        answers = network.phase(answers)
    session = network.coordinator._collected.session
    with pytest.raises(RemoteProtocolError) as refusal:
        network.coordinator.receive(LIAR, m.Unmask(session, LIAR, ()).encode())
    assert (refusal.value.reason, refusal.value.detail) == (AbortReason.WRONG_PHASE, "not invited")


@BOTH
def test_a_round_with_one_survivor_too_few_goes_no_further(threat_model) -> None:
    """In each phase of those that fix who takes part: with as many as promised it goes on."""
    chosen = setting(6, threat_model, minimum_survivors=5)
    for silent, reason in (({4}, None), ({4, 5}, AbortReason.TOO_FEW_PARTICIPANTS)):
        network = Network.of(chosen)
        network.to_coordinator = lambda phase, i, data, silent=silent: (
            None if i in silent and phase is CoordinatorState.COLLECTING_SHARES else data
        )
        answers = {i: participant.begin() for i, participant in network.participants.items()}
        while network.coordinator.state is not CoordinatorState.COLLECTING_SHARES:
            answers = network.phase(answers)
        network.phase(answers)
        assert network.coordinator.abort_reason is reason

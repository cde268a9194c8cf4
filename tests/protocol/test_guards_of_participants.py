"""Each guard of a participant on its own: one lie that nothing else would notice.

Participant 0 is told one thing that is false, in a round that is otherwise honest. It must leave
with the reason that belongs to the lie, before it has said anything more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import Neighbour, keys_statement
from dhdmm.secagg.keys import KeyPair, Label
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.states import CoordinatorState
from dhdmm.secagg.steps import bitmap_hash
from tests.protocol.adversary import TARGET, Adversary
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Network,
    Setting,
    Stream,
    assert_sum_is_of_announced_survivors,
    identity,
    setting,
)

VICTIM = 0
BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])
Lie = Callable[[Network, m.Message], m.Message]
SPARSE = setting(9, degree=4, threshold=3, minimum_survivors=6)


def left_after(chosen: Setting, lies: dict[type[m.Message], Lie]) -> AbortReason | None:
    """Why the victim left, if it did, after these messages to it were falsified."""
    network, told = Network.of(chosen), set[type[m.Message]]()

    def falsify(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        kind = type(message)
        if position != VICTIM or kind not in lies:
            return data
        told.add(kind)
        return lies[kind](network, message).encode()

    network.to_participant = falsify
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while told != lies.keys():
        answers = network.phase(answers)
    return network.participants[VICTIM].abort_reason


def truth(_: Network, message: m.Message) -> m.Message:
    return message


def neighbours_in(threat_model) -> type[m.Message]:
    return m.ProvenNeighbours if threat_model is MALICIOUS else m.Neighbours


def survivors_in(threat_model) -> type[m.Message]:
    return m.EvidencedSurvivors if threat_model is MALICIOUS else m.Survivors


# Neighbours


def stranger(position: int) -> m.PublicKeys:
    """Keys that nobody else has, at some place of the roster."""
    stream = Stream("a stranger", position)
    mask, channel = (KeyPair.from_secret(stream(32)).public for _ in range(2))
    return m.PublicKeys(position, mask, channel)


@pytest.mark.parametrize("position", [VICTIM, 6], ids=["itself", "beyond the roster"])
def test_neighbour_that_cannot_be_one_is_refused(position: int) -> None:
    def lie(_: Network, message: m.Neighbours) -> m.Message:
        kept = list(message.neighbours)[:-1]  # lest they be too many
        return replace(message, neighbours=tuple(sorted([*kept, stranger(position)])))

    chosen = setting(6, SEMI_HONEST)
    assert left_after(chosen, {m.Neighbours: truth}) is None
    assert left_after(chosen, {m.Neighbours: lie}) is AbortReason.MALFORMED


OTHERS_KEYS = {
    "our mask key": lambda network, _: network.participants[VICTIM]._mask_keys.public,
    "our channel key": lambda network, _: network.participants[VICTIM]._channel_keys.public,
    "another's mask key": lambda _, message: message.neighbours[1].mask_key,
    "another's channel key": lambda _, message: message.neighbours[1].channel_key,
}


@BOTH
@pytest.mark.parametrize("field", ["mask_key", "channel_key"])
@pytest.mark.parametrize("whose", OTHERS_KEYS)
def test_key_that_somebody_else_has_is_refused(threat_model, field: str, whose: str) -> None:
    def lie(network: Network, message: m.Message) -> m.Message:
        first, *others = message.neighbours
        changed = first._replace(**{field: OTHERS_KEYS[whose](network, message)})
        return replace(message, neighbours=(changed, *others))

    told = neighbours_in(threat_model)
    assert left_after(setting(5, threat_model), {told: lie}) is AbortReason.REPEATED_KEY


def test_more_neighbours_than_the_graph_has_are_refused() -> None:
    """In the semi-honest model the coordinator draws the graph, but its degree is agreed upon."""

    def crowd(_: Network, message: m.Neighbours) -> m.Message:
        listed = {j.position for j in message.neighbours}
        added = stranger(next(j for j in range(1, 8) if j not in listed))
        return replace(message, neighbours=tuple(sorted([*message.neighbours, added])))

    chosen = setting(8, SEMI_HONEST, degree=4)
    assert left_after(chosen, {m.Neighbours: truth}) is None
    assert left_after(chosen, {m.Neighbours: crowd}) is AbortReason.TOO_MANY_NEIGHBOURS


def test_fewer_neighbours_than_the_threshold_are_refused() -> None:
    def few(_: Network, message: m.Neighbours) -> m.Message:
        return replace(message, neighbours=tuple(message.neighbours)[:2])

    chosen = setting(6, SEMI_HONEST)
    assert chosen.parameters.threshold == 3
    assert left_after(chosen, {m.Neighbours: few}) is AbortReason.TOO_FEW_PARTICIPANTS


def test_chosen_neighbour_presented_as_one_that_was_not_is_refused() -> None:
    def lie(_: Network, message: m.ProvenNeighbours) -> m.Message:
        first, *others = message.neighbours
        return replace(message, neighbours=(first._replace(direction=Direction.IN), *others))

    assert left_after(setting(5), {m.ProvenNeighbours: lie}) is AbortReason.MALFORMED


# Signatures


class SignsFalselyFor(Adversary):
    """The keys at one place of the tree are the coordinator's, with a signature of its making."""

    impersonated = 1

    def signed(self, statement: bytes) -> bytes:
        return bytes(64)

    def keys_of(self, position: int, to: int) -> m.SignedKeys:
        honest = super().keys_of(position, to)
        if position != self.impersonated:
            return honest
        secrets = [Stream("false keys", kind, self._seed)(32) for kind in ("mask", "channel")]
        self.own(*secrets)
        public = [KeyPair.from_secret(secret).public for secret in secrets]
        said = keys_statement(honest.session, position, *public)
        return m.SignedKeys(honest.session, position, *public, self.signed(said))


@pytest.mark.fault(14)
@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_the_signature_of_every_chosen_neighbour_counts(place: int) -> None:
    """On a complete graph the target has chosen all others: the first, the last, any."""

    class Here(SignsFalselyFor):
        impersonated = place

    assert Here().run().left[TARGET] is AbortReason.BAD_SIGNATURE


class SignsAsACorruptParticipant(SignsFalselyFor):
    """A good signature of the right statement by the wrong member of the roster."""

    def signed(self, statement: bytes) -> bytes:
        return identity(4).sign(statement)


@pytest.mark.fault(14)
def test_signature_of_another_member_of_the_roster_does_not_count() -> None:
    assert SignsAsACorruptParticipant().run().left[TARGET] is AbortReason.BAD_SIGNATURE


# Bitmaps and lists


@BOTH
def test_ciphertexts_that_belong_to_nobody_are_refused(threat_model) -> None:
    def lie(_: Network, message: m.RelayedShares) -> m.Message:
        return replace(message, ciphertexts=(*message.ciphertexts, message.ciphertexts[0]))

    chosen = setting(5, threat_model)
    assert left_after(chosen, {m.RelayedShares: lie}) is AbortReason.MALFORMED


@BOTH
@pytest.mark.parametrize("size", [3, 5])
def test_bitmap_of_another_neighbourhood_is_refused(threat_model, size: int) -> None:
    def lie(_: Network, message: m.RelayedShares) -> m.Message:
        said = min(size, 4)
        shared = Bitmap.of(size, range(said))
        return replace(message, shared=shared, ciphertexts=message.ciphertexts[:said])

    chosen = setting(5, threat_model)
    assert left_after(chosen, {m.RelayedShares: lie}) is AbortReason.MALFORMED


@BOTH
def test_bitmap_of_another_roster_is_refused(threat_model) -> None:
    """Everybody in it is alive, and there is one more place than on the roster."""

    def lie(_: Network, message: m.Survivors) -> m.Message:
        return replace(message, alive=Bitmap.of(6, message.alive.members()))

    told = survivors_in(threat_model)
    assert left_after(setting(5, threat_model), {told: lie}) is AbortReason.MALFORMED


@BOTH
def test_one_phantom_is_enough_to_leave(threat_model) -> None:
    """Two neighbours are said not to have shared; of these one is said to be alive later on."""
    network = Network.of(setting(6, threat_model))
    victim, silent = network.participants[VICTIM], (1, 2)

    def without_two(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if position != VICTIM or not isinstance(message, m.RelayedShares):
            return data
        told = [e for e, j in enumerate(victim._memory.neighbours) if j.position not in silent]
        sealed = tuple(message.ciphertexts[e] for e in told)
        return replace(message, shared=Bitmap.of(5, told), ciphertexts=sealed).encode()

    network.to_participant = without_two
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not CoordinatorState.COLLECTING_INPUTS:
        answers = network.phase(answers)
    alive = Bitmap.of(6, [0, 2, 3, 4, 5])
    announced = survivors_in(threat_model)(victim._session, VICTIM, alive, *_evidence(threat_model))
    victim.receive(announced.encode())
    assert victim.abort_reason is AbortReason.PHANTOM_SURVIVOR


def _evidence(threat_model) -> list[tuple[bytes, ...]]:
    """One for each of four alive neighbours, good or not: it is looked at later."""
    return [(bytes(16),) * 4] if threat_model is MALICIOUS else []


# Evidence


def test_evidence_of_a_neighbour_that_did_not_choose_us_is_checked_too() -> None:
    """Of each alive neighbour in turn, whichever way the edge points."""
    ways = set[int]()
    for place in range(len(_alive_neighbours(SPARSE))):

        def lie(network: Network, message: m.EvidencedSurvivors, place: int = place) -> m.Message:
            ways.add(network.participants[VICTIM]._memory.neighbours[place].direction)
            tags = list(message.evidence)
            tags[place] = bytes(16)
            return replace(message, evidence=tuple(tags))

        assert left_after(SPARSE, {m.EvidencedSurvivors: lie}) is AbortReason.BAD_EVIDENCE
    assert ways >= {Direction.IN, Direction.OUT}


def _alive_neighbours(chosen: Setting) -> list[Neighbour]:
    """The victim's neighbours in a round in which nobody drops out."""
    found: list[Neighbour] = []

    def note(network: Network, message: m.EvidencedSurvivors) -> m.Message:
        found.extend(network.participants[VICTIM]._memory.neighbours)
        return message

    left_after(chosen, {m.EvidencedSurvivors: note})
    return found


@pytest.mark.parametrize("change", [lambda tags: tags[1:], lambda tags: (*tags, tags[0])])
def test_evidence_that_is_missing_or_left_over_is_refused(change) -> None:
    def lie(_: Network, message: m.EvidencedSurvivors) -> m.Message:
        return replace(message, evidence=change(tuple(message.evidence)))

    assert left_after(setting(5), {m.EvidencedSurvivors: lie}) is AbortReason.BAD_EVIDENCE


def test_acks_that_are_named_and_not_shown_are_refused() -> None:
    def lie(_: Network, message: m.RelayedAcks) -> m.Message:
        return replace(message, evidence=message.evidence[1:])

    assert left_after(setting(5), {m.RelayedAcks: lie}) is AbortReason.BAD_EVIDENCE


def acks_from(way: Direction) -> Lie:
    """Good acks, but only of those neighbours to whom the edge points this way and no other."""

    def lie(network: Network, message: m.RelayedAcks) -> m.Message:
        memory = network.participants[VICTIM]._memory
        agreed, places = bitmap_hash(memory.alive), list[int]()
        tags = list[bytes]()
        for place, j in enumerate(memory.neighbours):
            if j.direction == way:
                other = network.participants[j.position]
                us = next(n for n in other._memory.neighbours if n.position == VICTIM)
                places.append(place)
                tags.append(other._channels.evidence_for(Label.ACK, us, agreed))
        assert len(places) >= network.setting.parameters.threshold
        return replace(message, acked=Bitmap.of(message.acked.size, places), evidence=tuple(tags))

    return lie


def test_acks_of_those_who_chose_us_do_not_count() -> None:
    """They hold none of our shares, and corrupt ones could choose us in any number."""
    chosen = setting(20, degree=3, threshold=2, minimum_survivors=8)
    assert left_after(chosen, {m.RelayedAcks: acks_from(Direction.OUT)}) is None
    assert left_after(chosen, {m.RelayedAcks: acks_from(Direction.IN)}) is AbortReason.TOO_FEW_ACKS


# Addresses


@BOTH
def test_messages_for_others_and_under_the_first_session_are_refused(threat_model) -> None:
    """Every message of the round in turn; refusing them changes nothing, and the round goes on."""
    chosen = setting(5, threat_model)
    network, under_root = Network.of(chosen), 0

    def misdirect(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        nonlocal under_root
        message, session = m.decode(data), chosen.parameters.session
        misdirected = [replace(message, position=(position + 1) % 5)]
        if message.session != session:
            misdirected.append(replace(message, session=session))
            under_root += 1
        for other in misdirected:
            with pytest.raises(RemoteProtocolError) as refusal:
                network.participants[position].receive(other.encode())
            assert refusal.value.reason is AbortReason.WRONG_SESSION
        return data

    network.to_participant = misdirect
    assert_sum_is_of_announced_survivors(network.run())
    assert (under_root > 0) == (threat_model is MALICIOUS)

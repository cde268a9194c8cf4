"""A coordinator that lies about who is who: rosters, keys, key trees, neighbours, plans, rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from dhdmm.secagg import keys, masks
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.secagg.journal import MemoryJournal
from dhdmm.secagg.keys import Identity, KeyPair
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.round import Roster, RoundParameters
from dhdmm.secagg.states import ParticipantState
from tests.protocol.adversary import (
    LENGTH,
    MODULUS,
    RUNS,
    TARGET,
    Adversary,
    Group,
    assert_learns_nothing,
    assert_learns_the_sum,
    assert_uniform,
    fault,
)
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Network,
    Stream,
    identity,
    roster_of,
    setting,
)
from tests.protocol.weakened import (
    TakesAnotherRoot,
    TakesAnyRoster,
    TakesNeighboursAsGiven,
    any_number_of_neighbours,
    malleable_signatures,
    points_of_low_order,
    session_of_roster_alone,
    session_without_plan_or_root,
    session_without_root,
    shares_without_authentication,
    unproven_keys,
    unsigned_keys,
)

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])


def states(adversary: Adversary) -> set[ParticipantState]:
    return {adversary.participants[i].state for i in adversary.honest}


# Rosters


class HandsOutARosterOfItsOwn(Adversary):
    """Everybody but the target is the coordinator in disguise."""

    group = Group(5, frozenset({1, 2, 3, 4}))
    corrupt_class = TakesAnyRoster

    def roster(self) -> Roster:
        public = tuple(self.identity(i).public for i in sorted(self.everybody))
        return Roster(self.setting.roster.names, public)

    def identity(self, position: int) -> Identity:
        return identity(position if position == TARGET else 100 + position)


@fault(19)
def test_roster_that_is_not_the_pinned_one_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="unpinned-roster"):
        HandsOutARosterOfItsOwn()
    assert_learns_the_sum(HandsOutARosterOfItsOwn, honest=TakesAnyRoster)


class InflatesTheRoster(Adversary):
    """Nine seats, five people: with four invented survivors three real ones pass for seven."""

    group = Group(9, frozenset({5, 6, 7, 8}), minimum_survivors=7, threshold=6)
    corrupt_class = TakesAnyRoster
    targets = (0, 1, 2)

    def parameters_for(self, to: int) -> RoundParameters:
        return replace(self.setting.parameters, roster_digest=roster_of(5).digest)

    def alive(self, to: int) -> frozenset[int]:
        return self.corrupt | {0, 1, 2}


@fault(17, 19)
def test_more_participants_than_the_pinned_roster_has_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="unpinned-roster"):
        InflatesTheRoster()
    assert_learns_the_sum(InflatesTheRoster, honest=TakesAnyRoster)


@fault(17)
def test_plan_for_more_participants_than_the_roster_has_is_refused() -> None:
    five, nine = setting(5), setting(9)
    inflated = replace(nine.parameters, roster_digest=five.roster.digest)
    with pytest.raises(LocalProtocolError, match="no such seat"):
        replace(five, parameters=inflated).participant(0, Stream(0), MemoryJournal())


@fault(19)
def test_one_identity_has_one_seat() -> None:
    with pytest.raises(LocalProtocolError, match="twice"):
        Roster(("a", "b"), (identity(0).public, identity(0).public))


# Keys


class GivesTheTargetItsOwnKeys(Adversary):
    """The target is shown the coordinator's keys as everybody else's; its own leaf is true."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._false = {j: Stream("false keys", self._seed, j) for j in self.everybody - {TARGET}}
        self._shown: dict[int, m.SignedKeys] = {}

    def keys_of(self, position: int, to: int) -> m.SignedKeys:
        if to != TARGET or position == TARGET:
            return super().keys_of(position, to)
        if position not in self._shown:
            mask, channel = self._false[position](32), self._false[position](32)
            self.own(mask, channel)
            public = KeyPair.from_secret(mask).public, KeyPair.from_secret(channel).public
            truth = super().keys_of(position, to)
            self._shown[position] = replace(truth, mask_key=public[0], channel_key=public[1])
        return self._shown[position]


@fault(14)
def test_keys_that_the_pinned_identity_did_not_sign_are_refused() -> None:
    adversary = GivesTheTargetItsOwnKeys().run()
    assert adversary.left[TARGET] is AbortReason.BAD_SIGNATURE
    assert TARGET not in adversary.said_input()
    assert_learns_nothing(GivesTheTargetItsOwnKeys)
    with unsigned_keys():
        assert_learns_the_sum(GivesTheTargetItsOwnKeys)


class ShowsTwoKeysOfOneCorrupt(Adversary):
    """A corrupt participant signed two pairs; the target is shown the one not in the tree."""

    def keys_of(self, position: int, to: int) -> m.SignedKeys:
        truth = super().keys_of(position, to)
        if to != TARGET or position not in self.corrupt:
            return truth
        stream = Stream("another pair", self._seed)
        secrets = stream(32), stream(32)
        self.own(*secrets)
        public = [KeyPair.from_secret(secret).public for secret in secrets]
        said = keys_statement(self.setting.parameters.session, position, *public)
        signature = identity(position).sign(said)
        return m.SignedKeys(truth.session, position, *public, signature)

    def leaf(self, position: int, to: int) -> bytes:
        return super().leaf(position, to=position)


@fault(14)
def test_keys_that_are_not_in_the_committed_tree_are_refused() -> None:
    adversary = ShowsTwoKeysOfOneCorrupt().run()
    assert adversary.left[TARGET] is AbortReason.BAD_PROOF
    with unproven_keys():
        deceived = ShowsTwoKeysOfOneCorrupt().run()
    assert states(deceived) == {ParticipantState.DONE}, "nobody notices"


class ShowsTheTargetAnotherRoot(ShowsTwoKeysOfOneCorrupt):
    """The same two pairs, each in a tree of its own: every proof is right."""

    def leaf(self, position: int, to: int) -> bytes:
        return Adversary.leaf(self, position, to)


@fault(14)
def test_participants_shown_different_roots_share_no_keys() -> None:
    adversary = ShowsTheTargetAnotherRoot().run()
    assert adversary.session_of(TARGET) != adversary.session_of(1)
    assert {adversary.left[i] for i in adversary.honest} == {AbortReason.BAD_EVIDENCE}
    assert_learns_nothing(ShowsTheTargetAnotherRoot)
    with session_without_root():
        deceived = ShowsTheTargetAnotherRoot().run()
    assert states(deceived) == {ParticipantState.DONE}, "nobody notices"


class ShowsRootsUntilTheChoiceSuits(Adversary):
    """A fresh root for the target until it has chosen holders that the coordinator owns."""

    group = Group(12, frozenset({8, 9, 10, 11}), degree=3, threshold=2, minimum_survivors=8)
    attempt = 0
    unused_seat = 11  # its leaf may be anything: it is nobody's neighbour by the time it matters

    def leaf(self, position: int, to: int) -> bytes:
        if to == TARGET and position == self.unused_seat:
            return self.attempt.to_bytes(128, "big")
        return super().leaf(position, to)

    def neighbours(self, to: int) -> dict[int, Direction]:
        if to == TARGET:
            while not self.suits() and self.attempt < 500 and TARGET not in self.left:
                self.attempt += 1
                self.tell([TARGET], self.root_message)
        around = super().neighbours(to)
        around.pop(self.unused_seat, None)
        return around

    def suits(self) -> bool:
        return {8, 9, 10}.issuperset(self.said[m.Choice][TARGET].out_neighbours)


@fault(14, 18)
def test_second_root_is_refused() -> None:
    adversary = ShowsRootsUntilTheChoiceSuits().run()
    assert adversary.attempt == 1
    assert adversary.left[TARGET] is AbortReason.SECOND_ROOT
    assert TARGET not in adversary.said_input()
    deceived = ShowsRootsUntilTheChoiceSuits(honest=TakesAnotherRoot).run()
    assert deceived.view().tolist() == deceived.input(TARGET).tolist()


# Neighbours


class ChoosesTheTargetsNeighbours(Adversary):
    """All holders of the target's shares are to be corrupt."""

    group = Group(12, frozenset({8, 9, 10, 11}), degree=3, threshold=2, minimum_survivors=8)

    def neighbours(self, to: int) -> dict[int, Direction]:
        around = super().neighbours(to)
        if to == TARGET:
            return dict.fromkeys((8, 9, 10), Direction.BOTH)
        around.pop(TARGET, None)
        return around


@fault(18)
def test_neighbours_that_the_participant_did_not_choose_are_refused() -> None:
    adversary = ChoosesTheTargetsNeighbours().run()
    assert adversary.left[TARGET] is AbortReason.MALFORMED
    assert_learns_nothing(ChoosesTheTargetsNeighbours)
    assert_learns_the_sum(ChoosesTheTargetsNeighbours, honest=TakesNeighboursAsGiven)


class FloodsTheTarget(Adversary):
    """Everybody is said to have chosen the target."""

    group = Group(22, frozenset({20, 21}), degree=4, threshold=3, minimum_survivors=18)

    def neighbours(self, to: int) -> dict[int, Direction]:
        around = super().neighbours(to)
        if to != TARGET:
            return around
        others = sorted(self.everybody - {TARGET})
        return {j: Direction(around.get(j, 0) | Direction.IN) for j in others}


@fault(18)
def test_more_neighbours_than_an_honest_graph_has_are_refused() -> None:
    adversary = FloodsTheTarget().run()
    assert adversary.left[TARGET] is AbortReason.TOO_MANY_NEIGHBOURS
    assert TARGET not in adversary.said[m.Shares]
    with any_number_of_neighbours():
        flooded = FloodsTheTarget().run()
    assert len(flooded.participants[TARGET]._memory.neighbours) == 21 > 4 * 4


# Plans and rounds


class GivesTheTargetAnotherPlan(Adversary):
    """The others measure nothing (the zero strategy), so the sum would be the target's input."""

    targets = (0, 1, 2, 3)

    def parameters_for(self, to: int) -> RoundParameters:
        plan = b"the agreed strategy" if to == TARGET else b"the zero strategy"
        return replace(self.setting.parameters, plan_digest=sha256(plan).digest())

    def input(self, position: int) -> np.ndarray:
        return super().input(position) * (position == TARGET)


@fault(15)
def test_different_plans_are_noticed_and_masks_do_not_cancel() -> None:
    adversary = GivesTheTargetAnotherPlan().run()
    assert set(adversary.left.values()) == {AbortReason.BAD_SIGNATURE}
    assert not adversary.said_input()
    assert_learns_nothing(GivesTheTargetAnotherPlan, threat_model=SEMI_HONEST)
    with unsigned_keys():  # even so, the masks are bound to the plan
        assert_learns_nothing(GivesTheTargetAnotherPlan)
    with session_of_roster_alone():
        assert_learns_the_sum(GivesTheTargetAnotherPlan)
        assert_learns_the_sum(GivesTheTargetAnotherPlan, threat_model=SEMI_HONEST)


class RoundOf(Adversary):
    """A truthful round with a given id; everybody's randomness depends on the seed alone."""

    round_id = b"the first round."

    def parameters_for(self, to: int) -> RoundParameters:
        return replace(self.setting.parameters, round_id=self.round_id)


class TheNextRound(RoundOf):
    round_id = b"the second round"

    def input(self, position: int) -> np.ndarray:
        return (super().input(position) + np.arange(LENGTH)) % MODULUS


def difference_between_rounds(seed: object, threat_model) -> np.ndarray:
    """y_target of the second round minus y_target of the first."""
    parties = [kind(seed, threat_model) for kind in (RoundOf, TheNextRound)]
    first, second = (
        [said.vector for said in party.run().said_input().values()] for party in parties
    )
    modulus = parties[0].setting.parameters.modulus

    result = masks.unpack(modulus, LENGTH, second[TARGET])
    modulus.add(result, masks.unpack(modulus, LENGTH, first[TARGET]), -1)
    return modulus.reduce(result)


@fault(11)
@BOTH
def test_rounds_share_no_masks_even_if_the_randomness_repeats(threat_model) -> None:
    """A virtual machine set back draws the same keys and seed again; the session differs."""
    assert_uniform([difference_between_rounds(seed, threat_model) for seed in range(RUNS)])
    with session_without_plan_or_root():
        assert difference_between_rounds(0, threat_model).tolist() == list(range(LENGTH))


@fault(11)
@BOTH
def test_messages_of_another_round_are_refused_and_change_nothing(threat_model) -> None:
    def replayed() -> Adversary:
        other = RoundOf(threat_model=threat_model).run()
        fresh = TheNextRound(threat_model=threat_model)
        for participant in fresh.participants.values():
            participant.begin()
        opening = other.root_message if other.malicious else other.neighbours_message
        fresh.tell(fresh.honest, opening)
        return fresh

    assert replayed().refused == dict.fromkeys(range(4), AbortReason.WRONG_SESSION)
    with session_of_roster_alone():
        assert not replayed().refused


# Ciphertexts


class TampersWithShares(Adversary):
    """One bit of what the target sealed for participant 1 is flipped."""

    def ciphertext(self, sender: int, to: int) -> bytes:
        truth = super().ciphertext(sender, to)
        return bytes((truth[0] ^ 1,)) + truth[1:] if (sender, to) == (TARGET, 1) else truth


class SwapsShares(Adversary):
    """What participant 2 sealed for participant 1 is delivered as the target's."""

    def ciphertext(self, sender: int, to: int) -> bytes:
        return super().ciphertext(2 if (sender, to) == (TARGET, 1) else sender, to)


@fault(25)
@pytest.mark.parametrize("attack", [TampersWithShares, SwapsShares])
def test_share_that_is_not_the_senders_counts_as_none(attack: type[Adversary]) -> None:

    def held_by_1() -> set[int]:
        revealed = attack().run().revealed
        return {subject for (subject, _), by_holder in revealed.items() if 1 in by_holder}

    assert held_by_1() == {2, 3, 4}
    assert_learns_nothing(attack)
    with shares_without_authentication():
        assert held_by_1() == {TARGET, 2, 3, 4}


@fault(25)
def test_sender_whose_share_was_tampered_with_is_masked_with_only_if_chosen() -> None:
    """On a sparse graph the receiver leaves out a sender that it did not choose itself."""

    class SpoilsEverything(Adversary):
        group = Group(12, frozenset({11}), degree=5, threshold=4, minimum_survivors=8)

        def ciphertext(self, sender: int, to: int) -> bytes:
            return bytes(m.CIPHERTEXT_BYTES)

    adversary = SpoilsEverything().run()
    for i in adversary.honest:
        assert set(adversary.masked_with(i)) == set(adversary.said[m.Choice][i].out_neighbours)
    # so that whoever is left out misses evidence from alive neighbours
    assert set(adversary.left.values()) <= {
        AbortReason.PHANTOM_SURVIVOR,
        AbortReason.BAD_EVIDENCE,
    }
    assert adversary.left.keys() == adversary.honest


# Curves

LOW_ORDER = sorted(keys.LOW_ORDER_KEYS)


class Zero:
    """The owner of a point of low order: every agreement with it is on zero."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def agree(self, _: bytes) -> bytes:
        return keys.hkdf_extract(bytes(32))


class GivesKeysOfLowOrder(Adversary):
    """The target's two neighbours have keys with which everybody agrees on zero."""

    group = Group(3, frozenset({2}), minimum_survivors=2)

    def keys_of(self, position: int, to: int) -> m.Keys:
        truth = super().keys_of(position, to)
        if to != TARGET or position == TARGET:
            return truth
        points = LOW_ORDER[2 * position - 2 : 2 * position]
        self.known |= {point: Zero(point) for point in points}
        return replace(truth, mask_key=points[0], channel_key=points[1])


@fault(27)
def test_keys_of_low_order_are_refused() -> None:
    adversary = GivesKeysOfLowOrder(threat_model=SEMI_HONEST).run()
    assert adversary.left[TARGET] is AbortReason.BAD_PUBLIC_KEY
    assert_learns_nothing(GivesKeysOfLowOrder, threat_model=SEMI_HONEST)
    with points_of_low_order():
        assert_learns_the_sum(GivesKeysOfLowOrder, threat_model=SEMI_HONEST)


@pytest.mark.parametrize("field", ["mask_key", "channel_key"])
@pytest.mark.parametrize(
    "spoil",
    [lambda key: LOW_ORDER[1], lambda key: key[:31] + bytes((key[31] | 0x80,))],
    ids=["low-order", "second-name"],
)
@fault(27)
def test_bad_key_that_a_corrupt_participant_signed_is_refused_when_it_is_shown(
    field: str, spoil: Callable[[bytes], bytes]
) -> None:
    """By the coordinator when it arrives, and by participants before they seal or mask anything."""

    class SignsBadKeys(Adversary):
        def keys_of(self, position: int, to: int) -> m.SignedKeys:
            truth = super().keys_of(position, to)
            if position not in self.corrupt or to == position:
                return truth
            bad = spoil(getattr(truth, field))
            own = self.known[getattr(truth, field)]
            self.known[bad] = Zero(bad) if bad in LOW_ORDER else replace(own, public=bad)
            shown = replace(truth, **{field: bad})
            said = keys_statement(truth.session, position, shown.mask_key, shown.channel_key)
            return replace(shown, signature=identity(position).sign(said))

    adversary = SignsBadKeys().run()
    assert {adversary.left[i] for i in adversary.honest} == {AbortReason.BAD_PUBLIC_KEY}
    coordinator = Coordinator(adversary.setting.parameters, adversary.setting.roster, Stream(0))
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(4, adversary.keys_of(4, TARGET).encode())
    assert refusal.value.reason is AbortReason.BAD_PUBLIC_KEY
    with points_of_low_order():
        deceived = SignsBadKeys().run()
    assert states(deceived) == {ParticipantState.DONE}, "nobody notices"


@fault(27)
def test_second_form_of_a_signature_is_refused() -> None:
    """S + L is as good as S to a verifier that does not compare S with L."""
    order = 2**252 + 27742317777372353535851937790883648493
    network = Network.of(setting(5))

    def replies() -> AbortReason | None:
        coordinator = Network.of(setting(5)).coordinator
        said = m.decode(network.participants[0].outgoing)
        s = int.from_bytes(said.signature[32:], "little") + order
        other = replace(said, signature=said.signature[:32] + s.to_bytes(32, "little"))
        try:
            coordinator.receive(0, other.encode())
        except RemoteProtocolError as error:
            return error.reason
        return None

    network.participants[0].begin()
    assert replies() is AbortReason.BAD_SIGNATURE
    with malleable_signatures():
        assert replies() is None

"""A coordinator that lies about whose keys are whose, or hands out keys and shares that are bad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.secagg import keys
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.keys import KeyPair, Label
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.shamir import SHARE_BYTES
from dhdmm.secagg.states import ParticipantState
from tests.protocol.adversary import (
    TARGET,
    Adversary,
    Group,
    assert_learns_nothing,
    assert_learns_the_sum,
)
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Network,
    Stream,
    identity,
    setting,
)
from tests.protocol.weakened import (
    TakesAnotherRoot,
    malleable_signatures,
    points_of_low_order,
    session_without_root,
    shares_without_authentication,
    unproven_keys,
    unsigned_keys,
)

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])


def states(adversary: Adversary) -> set[ParticipantState]:
    return {adversary.participants[i].state for i in adversary.honest}


# Keys


class GivesTheTargetItsOwnKeys(Adversary):
    """The target is shown the coordinator's keys as everybody else's; its own leaf is true."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.false = self.everybody - {TARGET}
        self._shown: dict[int, m.SignedKeys] = {}

    def keys_of(self, position: int, to: int) -> m.SignedKeys:
        if to != TARGET or position not in self.false:
            return super().keys_of(position, to)
        if position not in self._shown:
            stream = Stream("false keys", self._seed, position)
            mask, channel = stream(32), stream(32)
            self.own(mask, channel)
            public = KeyPair.from_secret(mask).public, KeyPair.from_secret(channel).public
            truth = super().keys_of(position, to)
            self._shown[position] = replace(truth, mask_key=public[0], channel_key=public[1])
        return self._shown[position]


@pytest.mark.fault(14)
def test_keys_that_the_pinned_identity_did_not_sign_are_refused() -> None:
    adversary = GivesTheTargetItsOwnKeys().run()
    assert adversary.left[TARGET] is AbortReason.BAD_SIGNATURE
    assert TARGET not in adversary.said_input()
    assert_learns_nothing(GivesTheTargetItsOwnKeys)
    with unsigned_keys():
        assert_learns_the_sum(GivesTheTargetItsOwnKeys)


SPARSE = Group(12, frozenset({11}), degree=4, threshold=3, minimum_survivors=4)


class GuessesWhomTheTargetWillChoose(GivesTheTargetItsOwnKeys):
    """The luckiest coordinator: only the keys of those whom the target will not choose are false.

    They pretend to have chosen the target, share secrets with it and say whatever is useful.
    """

    group = SPARSE

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        rehearsal = SparseTruth(*arguments, **options).run()
        self.guessed = frozenset(rehearsal.said[m.Choice][TARGET].out_neighbours)
        self.false = self.honest - self.guessed - {TARGET}

    def neighbours(self, to: int) -> dict[int, Direction]:
        around = super().neighbours(to)
        if to != TARGET:
            return around
        return dict(sorted((around | dict.fromkeys(self.false, Direction.IN)).items()))

    def ciphertext(self, sender: int, to: int) -> bytes:
        if (to, sender in self.false) != (TARGET, True):
            return super().ciphertext(sender, to)
        own = self.known[self.keys_of(sender, to).channel_key]
        return self._channels(sender, to, own).seal(self._as_neighbour(to), bytes(2 * SHARE_BYTES))

    def included(self, by: int, to: int) -> bytes:
        impersonated = to == TARGET and by in self.false
        return self.forged(Label.INCLUDED, by, to) if impersonated else super().included(by, to)


class SparseTruth(Adversary):
    group = SPARSE


class DoesNotGuess(GivesTheTargetItsOwnKeys):
    """The keys of the chosen are false as well."""

    group = SPARSE


@pytest.mark.fault(14)
def test_false_keys_of_those_who_chose_the_target_are_worth_no_more_than_corrupt_ones() -> None:
    """It masks with all of them, and is hidden by those it chose, whose signatures it checked."""
    adversary = GuessesWhomTheTargetWillChoose().run()
    assert set(adversary.masked_with(TARGET)) == adversary.false | adversary.guessed
    assert adversary.left[TARGET] is AbortReason.BAD_EVIDENCE, "the chosen know another root"
    assert_learns_nothing(GuessesWhomTheTargetWillChoose)
    assert DoesNotGuess().run().left[TARGET] is AbortReason.BAD_SIGNATURE
    with unsigned_keys():
        assert_learns_the_sum(DoesNotGuess)


class ImpersonatesOneHonest(Adversary):
    """Everybody is shown the same tree, with the coordinator's keys at one honest place."""

    group = SPARSE
    impersonated = 1

    def keys_of(self, position: int, to: int) -> m.SignedKeys:
        truth = super().keys_of(position, to)
        if position != self.impersonated:
            return truth
        secrets = [Stream("false keys", kind, self._seed)(32) for kind in ("mask", "channel")]
        self.own(*secrets)
        mask, channel = (KeyPair.from_secret(secret).public for secret in secrets)
        return replace(truth, mask_key=mask, channel_key=channel)


@pytest.mark.fault(14)
def test_impersonated_participant_and_all_who_chose_it_leave() -> None:
    adversary = ImpersonatesOneHonest().run()
    choices = adversary.said[m.Choice]
    chose = {i for i in adversary.honest if adversary.impersonated in choices[i].out_neighbours}
    assert adversary.left[adversary.impersonated] is AbortReason.BAD_PROOF
    assert chose
    assert {i for i, why in adversary.left.items() if why is AbortReason.BAD_SIGNATURE} == chose
    assert_learns_nothing(ImpersonatesOneHonest)
    with unsigned_keys():
        deceived = ImpersonatesOneHonest().run()
    assert AbortReason.BAD_SIGNATURE not in deceived.left.values()


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


@pytest.mark.fault(14)
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


@pytest.mark.fault(14)
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


@pytest.mark.fault(14, 18)
def test_second_root_is_refused() -> None:
    adversary = ShowsRootsUntilTheChoiceSuits().run()
    assert adversary.attempt == 1
    assert adversary.left[TARGET] is AbortReason.SECOND_ROOT
    assert TARGET not in adversary.said_input()
    deceived = ShowsRootsUntilTheChoiceSuits(honest=TakesAnotherRoot).run()
    assert deceived.view().tolist() == deceived.input(TARGET).tolist()


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


@pytest.mark.fault(25)
@pytest.mark.parametrize("attack", [TampersWithShares, SwapsShares])
def test_share_that_is_not_the_senders_counts_as_none(attack: type[Adversary]) -> None:

    def held_by_1() -> set[int]:
        revealed = attack().run().revealed
        return {subject for (subject, _), by_holder in revealed.items() if 1 in by_holder}

    assert held_by_1() == {2, 3, 4}
    assert_learns_nothing(attack)
    with shares_without_authentication():
        assert held_by_1() == {TARGET, 2, 3, 4}


@pytest.mark.fault(25)
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


@pytest.mark.fault(27)
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
@pytest.mark.fault(27)
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


@pytest.mark.fault(27)
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

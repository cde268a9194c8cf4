"""A coordinator that lies about who has shared, who survived, and what was already revealed."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, MalformedMessage
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.secagg import messages as m
from dhdmm.secagg.messages import Direction, Reveal, ShareKind
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.states import ParticipantState
from tests.protocol.adversary import (
    TARGET,
    Adversary,
    Group,
    assert_learns_nothing,
    assert_learns_the_sum,
)
from tests.protocol.network import MALICIOUS, SEMI_HONEST, Stream, identity
from tests.protocol.weakened import (
    BelievesInPhantoms,
    ForgetsAbsentNeighbours,
    JournalRestoredFromBackup,
    RevealsAgain,
    TakesPlainSurvivors,
    WithLowerThreshold,
    WithoutAckThreshold,
    WithoutFloor,
    WithoutIncludedEvidence,
    WithoutOwnMask,
    undirected_channels,
)

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])


@BOTH
def test_truthful_round_shows_the_sum_and_nothing_of_one_input(threat_model) -> None:
    """The harness itself: without a lie everybody finishes, and the sum over all is learned."""
    adversary = Adversary(threat_model=threat_model).run()
    assert {adversary.participants[i].state for i in adversary.honest} == {ParticipantState.DONE}
    expected = sum(adversary.input(i) for i in adversary.honest) % 16
    assert adversary.view(adversary.honest).tolist() == expected.tolist()
    assert_learns_nothing(Adversary, threat_model=threat_model)


class DeclaresTheTargetDropped(Adversary):
    """The target's masked input is there, but late, or said to be missing."""

    def alive(self, to: int) -> Collection[int]:
        return self.everybody - {TARGET}


@pytest.mark.fault(1, 10)
@BOTH
def test_input_of_one_declared_dropped_stays_masked(threat_model) -> None:
    """Its mask key is revealed, as it should be; its own mask remains."""
    adversary = DeclaresTheTargetDropped(threat_model=threat_model).run()
    assert adversary.mask_key_of(TARGET) is not None
    assert adversary.left == {TARGET: AbortReason.DECLARED_DEAD}
    assert_learns_nothing(DeclaresTheTargetDropped, threat_model=threat_model)
    assert_learns_the_sum(
        DeclaresTheTargetDropped, threat_model=threat_model, honest=WithoutOwnMask
    )


class DeclaresMostDropped(Adversary):
    """Three alive where four are promised."""

    targets = (0, 1, 2)

    def alive(self, to: int) -> Collection[int]:
        return self.targets


@pytest.mark.fault(2, 16)
@BOTH
def test_dropouts_beyond_the_floor_unmask_nothing(threat_model) -> None:
    adversary = DeclaresMostDropped(threat_model=threat_model).run()
    assert {adversary.left[i] for i in (0, 1, 2)} == {AbortReason.TOO_FEW_PARTICIPANTS}
    assert not adversary.revealed
    assert_learns_nothing(DeclaresMostDropped, threat_model=threat_model)
    assert_learns_the_sum(DeclaresMostDropped, threat_model=threat_model, honest=WithoutFloor)


class HearsTwoReveals(Adversary):
    """The others fall silent: with the corrupt one's there are at most three shares of a seed."""

    group = Group(threshold=4)
    targets = (0, 1, 2, 3)

    def ask_for_shares(self) -> None:
        self.tell([0, 1], self.survivors_message)


@pytest.mark.fault(2)
def test_fewer_reveals_than_the_threshold_unmask_nothing() -> None:
    adversary = HearsTwoReveals(threat_model=SEMI_HONEST).run()
    assert all(adversary.seed_of(i) is None for i in adversary.honest)
    assert_learns_nothing(HearsTwoReveals, threat_model=SEMI_HONEST)
    assert_learns_the_sum(HearsTwoReveals, threat_model=SEMI_HONEST, honest=WithLowerThreshold)


class TellsTheTargetOnlyCorruptShared(Adversary):
    """The A1 lie: the target is to mask with corrupt neighbours only."""

    def shared(self, to: int) -> Collection[int]:
        return self.corrupt if to == TARGET else super().shared(to)


@pytest.mark.fault(12)
def test_target_told_that_only_corrupt_neighbours_shared_is_not_unmasked() -> None:
    """Its neighbours miss its "included" and leave; without asking for it they reveal the seed."""
    adversary = TellsTheTargetOnlyCorruptShared().run()
    assert set(adversary.masked_with(TARGET)) == adversary.corrupt
    assert adversary.left == {
        TARGET: AbortReason.PHANTOM_SURVIVOR,
        **dict.fromkeys((1, 2, 3), AbortReason.BAD_EVIDENCE),
    }
    assert_learns_nothing(TellsTheTargetOnlyCorruptShared)
    assert_learns_the_sum(TellsTheTargetOnlyCorruptShared, honest=WithoutIncludedEvidence)


class ReflectsEvidence(TellsTheTargetOnlyCorruptShared):
    """For the missing "included" of the target, everybody is handed its own to the target."""

    def included(self, by: int, to: int) -> bytes:
        return self.evidence_of(to)[by] if by == TARGET else super().included(by, to)


@pytest.mark.fault(12)
def test_own_evidence_reflected_is_not_the_neighbours() -> None:
    adversary = ReflectsEvidence().run()
    assert {adversary.left[i] for i in (1, 2, 3)} == {AbortReason.BAD_EVIDENCE}
    assert_learns_nothing(ReflectsEvidence)
    with undirected_channels():
        assert_learns_the_sum(ReflectsEvidence)


class TellsOthersTheTargetDidNotShare(Adversary):
    """The A1 lie the other way round."""

    def shared(self, to: int) -> Collection[int]:
        return {to, *self.corrupt} if to != TARGET else super().shared(to)


@pytest.mark.fault(12)
def test_those_told_that_others_did_not_share_refuse_them_as_survivors() -> None:
    adversary = TellsOthersTheTargetDidNotShare().run()
    assert {adversary.left[i] for i in (1, 2, 3)} == {AbortReason.PHANTOM_SURVIVOR}
    assert not adversary.revealed
    assert_learns_nothing(TellsOthersTheTargetDidNotShare)


class ShowsEverybodyAnotherBitmap(Adversary):
    """Each bitmap has four alive, as promised; together they declare 2 and 3 dropped.

    For 2, participants 0 and 3 are to give up the mask key, for 3 it is 1 and 2, and the corrupt
    one has a share of each: then the sum of the inputs of 0 and 1 lies bare, without 2 and 3.
    """

    targets = (0, 1)
    dropped_for = (2, 3, 3, 2)

    def alive(self, to: int) -> Collection[int]:
        return self.everybody - {self.dropped_for[to]}


@pytest.mark.fault(12, 16)
def test_different_survivor_sets_for_different_people_unmask_nothing() -> None:
    """Everybody accepts its bitmap and nobody finds enough others who accepted the same one."""
    adversary = ShowsEverybodyAnotherBitmap().run()
    assert adversary.said[m.Acks].keys() == adversary.honest
    assert adversary.left == dict.fromkeys(adversary.honest, AbortReason.TOO_FEW_ACKS)
    assert_learns_nothing(ShowsEverybodyAnotherBitmap)
    assert_learns_the_sum(ShowsEverybodyAnotherBitmap, honest=WithoutAckThreshold)


class AsksInTheWordsOfTheOtherModel(ShowsEverybodyAnotherBitmap):
    """The semi-honest model's message, which asks for shares at once: no evidence, no acks."""

    def survivors_message(self, to: int) -> m.Message:
        alive = Bitmap.of(len(self.everybody), self.alive(to))
        return m.Survivors(self.session_of(to), to, alive)


@pytest.mark.fault(10, 12)
def test_message_of_the_other_model_is_refused_by_phase() -> None:
    adversary = AsksInTheWordsOfTheOtherModel().run()
    assert adversary.refused == dict.fromkeys(adversary.honest, AbortReason.WRONG_PHASE)
    assert not adversary.revealed
    assert_learns_nothing(AsksInTheWordsOfTheOtherModel)
    assert_learns_the_sum(AsksInTheWordsOfTheOtherModel, honest=TakesPlainSurvivors)


@pytest.mark.fault(10)
@BOTH
def test_messages_out_of_order_are_refused_and_change_nothing(threat_model) -> None:
    """Everything that comes after the keys, to a participant that has only sent its keys."""
    adversary = Adversary(threat_model=threat_model).run()
    early = [adversary.shares_message, adversary.survivors_message]
    early += [adversary.acks_message] if adversary.malicious else []
    fresh = Adversary(threat_model=threat_model)
    for i, participant in fresh.participants.items():
        participant.begin()
        if adversary.malicious:  # so that the session is the right one, and only the order is not
            participant.receive(adversary.root_message(i).encode())
    before = {i: participant._memory.encode() for i, participant in fresh.participants.items()}
    for message_for in early:
        fresh.tell(fresh.honest, message_for)
        assert fresh.refused == dict.fromkeys(fresh.honest, AbortReason.WRONG_PHASE)
    assert before == {
        i: participant._memory.encode() for i, participant in fresh.participants.items()
    }


class CountsPhantoms(Adversary):
    """4 and 5 never shared; said to be alive, they lift the survivors above the floor."""

    group = Group(7, frozenset({6}), minimum_survivors=6)
    targets = (0, 1, 2, 3)

    def shared(self, to: int) -> Collection[int]:
        return {*self.targets, *self.corrupt}

    def hears_inputs_of(self) -> Collection[int]:
        return self.targets


@pytest.mark.fault(16)
@BOTH
def test_phantom_survivors_unmask_nothing(threat_model) -> None:
    adversary = CountsPhantoms(threat_model=threat_model).run()
    assert adversary.left == dict.fromkeys(adversary.targets, AbortReason.PHANTOM_SURVIVOR)
    assert_learns_nothing(CountsPhantoms, threat_model=threat_model)
    assert_learns_the_sum(CountsPhantoms, threat_model=threat_model, honest=BelievesInPhantoms)


class CountsPhantomsSaidToBeAbsent(CountsPhantoms):
    """4 and 5 are in nobody's list of neighbours: they are said never to have chosen theirs."""

    def neighbours(self, to: int) -> dict[int, Direction]:
        return {j: way for j, way in super().neighbours(to).items() if j not in (4, 5)}


@pytest.mark.fault(16)
def test_phantom_survivors_among_chosen_neighbours_said_to_be_absent_unmask_nothing() -> None:
    """Who chose them remembers that it did."""
    adversary = CountsPhantomsSaidToBeAbsent().run()
    assert {adversary.left[i] for i in adversary.targets} == {AbortReason.PHANTOM_SURVIVOR}
    assert_learns_nothing(CountsPhantomsSaidToBeAbsent)
    assert_learns_the_sum(CountsPhantomsSaidToBeAbsent, honest=ForgetsAbsentNeighbours)


class CountsPhantomsThatShared(CountsPhantoms):
    """4 and 5 have shared, so their neighbours mask with them, but their inputs never came."""

    def shared(self, to: int) -> Collection[int]:
        return Adversary.shared(self, to)


@pytest.mark.fault(16)
def test_phantom_survivors_that_shared_lack_evidence() -> None:
    adversary = CountsPhantomsThatShared().run()
    assert adversary.left == dict.fromkeys(adversary.targets, AbortReason.BAD_EVIDENCE)
    assert_learns_nothing(CountsPhantomsThatShared)


class AsksAgain(Adversary):
    """First the target is alive; when its seed is out, it is declared dropped."""

    asking_again = False

    def alive(self, to: int) -> Collection[int]:
        return self.everybody - {TARGET} if self.asking_again else self.everybody

    def run(self) -> Adversary:
        super().run()
        self.asking_again = True
        self.said.pop(m.Acks, None)  # they were for the first bitmap
        self.meanwhile()
        self.tell(self.honest - {TARGET}, self.survivors_message)
        if self.malicious:
            self.tell(self.honest - {TARGET}, self.acks_message)
        return self

    def meanwhile(self) -> None:
        """Between the two requests."""


@pytest.mark.fault(13)
@BOTH
def test_seed_and_mask_key_of_one_participant_are_never_both_revealed(threat_model) -> None:
    adversary = AsksAgain(threat_model=threat_model).run()
    assert adversary.seed_of(TARGET) is not None
    assert adversary.mask_key_of(TARGET) is None
    refused = {adversary.refused[i] for i in adversary.honest - {TARGET}}
    assert refused == {AbortReason.SECOND_BITMAP}
    assert_learns_nothing(AsksAgain, threat_model=threat_model)
    assert_learns_the_sum(AsksAgain, threat_model=threat_model, honest=RevealsAgain)


@pytest.mark.fault(13)
def test_a_message_with_both_shares_of_one_participant_cannot_be_written() -> None:
    reveals = tuple(Reveal(3, kind, bytes(36)) for kind in ShareKind)
    with pytest.raises(MalformedMessage, match="ascending"):
        m.Unmask(bytes(32), 0, reveals).encode()


class AsksAgainAfterARestart(AsksAgain):
    """Everybody crashes after it has revealed, and comes back from its journal."""

    def meanwhile(self) -> None:
        parameters, roster = self.setting.parameters, self.setting.roster
        for i in self.honest:
            randomness = Stream("after the restart", i)
            self.participants[i] = Participant(
                parameters, roster, identity(i), i, randomness, self.journals[i]
            ).resume()


class AsksAgainAfterARestore(AsksAgainAfterARestart):
    """The same, and the journals come from a backup made before."""

    def journal(self) -> MemoryJournal:
        return JournalRestoredFromBackup()


@pytest.mark.fault(6)
@BOTH
def test_restart_after_revealing_does_not_reveal_the_other_share(threat_model) -> None:
    adversary = AsksAgainAfterARestart(threat_model=threat_model).run()
    assert adversary.mask_key_of(TARGET) is None
    assert_learns_nothing(AsksAgainAfterARestart, threat_model=threat_model)
    assert_learns_the_sum(AsksAgainAfterARestore, threat_model=threat_model)

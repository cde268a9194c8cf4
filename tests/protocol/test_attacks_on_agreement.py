"""A coordinator that lies about what was agreed: roster, neighbours, plan, round."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.modulus import unpack
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import messages as m
from dhdmm.secagg.messages import Direction
from dhdmm.secagg.round import RoundParameters
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
)
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Stream,
    identity,
    roster_of,
    setting,
)
from tests.protocol.weakened import (
    TakesAnyRoster,
    TakesNeighboursAsGiven,
    any_number_of_neighbours,
    session_of_roster_alone,
    session_without_plan_or_root,
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


@pytest.mark.fault(19)
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


@pytest.mark.slow
@pytest.mark.fault(17, 19)
def test_more_participants_than_the_pinned_roster_has_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="unpinned-roster"):
        InflatesTheRoster()
    assert_learns_the_sum(InflatesTheRoster, honest=TakesAnyRoster)


@pytest.mark.fault(17)
def test_plan_for_more_participants_than_the_roster_has_is_refused() -> None:
    five, nine = setting(5), setting(9)
    inflated = replace(nine.parameters, roster_digest=five.roster.digest)
    with pytest.raises(LocalProtocolError, match="no such seat"):
        replace(five, parameters=inflated).participant(0, Stream(0), MemoryJournal())


@pytest.mark.fault(19)
def test_one_identity_has_one_seat() -> None:
    with pytest.raises(LocalProtocolError, match="twice"):
        Roster(("a", "b"), (identity(0).public, identity(0).public))


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


@pytest.mark.slow
@pytest.mark.fault(18)
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


@pytest.mark.slow
@pytest.mark.fault(18)
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


@pytest.mark.slow
@pytest.mark.fault(15)
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

    result = unpack(modulus, LENGTH, second[TARGET])
    return modulus.reduce(result - unpack(modulus, LENGTH, first[TARGET]))


@pytest.mark.slow
@pytest.mark.fault(11)
@BOTH
def test_rounds_share_no_masks_even_if_the_randomness_repeats(threat_model) -> None:
    """A virtual machine set back draws the same keys and seed again; the session differs."""
    assert_uniform([difference_between_rounds(seed, threat_model) for seed in range(RUNS)])
    with session_without_plan_or_root():
        assert difference_between_rounds(0, threat_model).tolist() == list(range(LENGTH))


@pytest.mark.fault(11)
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

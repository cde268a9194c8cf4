"""What a plan and its review say where excess noise is removed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dhdmm import Study
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.members import permissive, pinned
from dhdmm.errors import PolicyReason, PolicyRefusal
from dhdmm.participant.policy import review
from dhdmm.planning.draft import plan
from dhdmm.planning.figures import excess_words, liar_errors, plan_figures
from dhdmm.planning.plan import Plan
from dhdmm.study.describe import aggregation_words
from tests.removal.test_rounds import study


def roster() -> Roster:
    keys = [Identity(bytes([i]) * 32).public for i in range(10)]
    return Roster(tuple(f"p{i}" for i in range(10)), tuple(keys))


def kept(asked: Study) -> Study:
    return asked.with_aggregation(excess_noise=None)


def test_expected_errors_are_those_of_what_is_left() -> None:
    removing, keeping = plan(study()), plan(kept(study()))
    assert keeping.removable is None
    # ten survivors keep as much as nine honest ones need, seven all that six need
    for survivors in (10, 9, 8, 7):
        ratio = removing.expected_error(survivors).rmse / keeping.expected_error(survivors).rmse
        assert ratio == pytest.approx(np.sqrt(6 / (survivors - 1)), rel=0.01)
        assert ratio >= np.sqrt(6 / (survivors - 1)) * (1 - 1e-9)
    assert removing.expected_error(7).rmse == keeping.expected_error(7).rmse
    some = removing.noise_variance(10, 4)
    assert some == 6 * removing.removable.base + 4 * removing.participant_variance
    assert removing.lasting_variance == removing.removable.base


def test_the_promise_is_that_of_a_round_that_keeps_all() -> None:
    removing, keeping = plan(study()), plan(kept(study()))
    assert removing.promise.epsilon == pytest.approx(keeping.promise.epsilon, rel=1e-9)
    assert removing.promise.epsilon >= keeping.promise.epsilon
    assert removing.digest != keeping.digest


def test_the_scale_leaves_room_for_parts() -> None:
    """Many participants add little noise each; where it is divided, each part must do."""
    many = {"participants": 100_000, "max_dropout": 0.1, "threat_model": "semi-honest"}
    keeping = plan(kept(study()).with_aggregation(**many))
    removing = plan(study().with_aggregation(**many))
    assert keeping.participant_variance < 20
    assert removing.removable.parts == 3
    assert removing.removable.smallest >= 9
    assert replace(keeping, study=removing.study).removable.parts == 0


def test_a_reviewer_computes_the_parts_for_itself() -> None:
    members = roster()
    made = plan(study(), roster=members)
    policy = pinned(permissive(made), members)
    assert review(made.to_bytes(), policy, members).plan.removable == made.removable
    less = replace(made, participant_variance=made.participant_variance * Fraction(99, 100))
    with pytest.raises(PolicyRefusal) as refusal:
        review(less.to_bytes(), policy, members)
    assert refusal.value.reason is PolicyReason.NOISE_TOO_SMALL


def test_people_are_told() -> None:
    made = plan(study())
    words = excess_words(made)
    assert "if all 10 do, root mean square" in words
    assert "18.4 % less than with all noise kept; if only 7 do" in words
    assert "removed when it is known who dropped out" in aggregation_words(made.study.aggregation)
    assert plan_figures(made)["excess"] == words
    keeping = plan(kept(study()))
    assert plan_figures(keeping)["excess_noise"] == "keep"
    assert excess_words(keeping).startswith("all noise stays")
    little = replace(made, participant_variance=Fraction(10))
    assert excess_words(little) == "there is too little noise to remove any of it: all of it stays"


def test_false_seeds_are_counted_among_what_a_liar_can_do() -> None:
    bounded = study(validation="bounded")
    removing, keeping = plan(bounded), plan(kept(bounded))
    assert removing.norm_bound == keeping.norm_bound
    assert liar_errors(removing) > 1.2 * liar_errors(keeping)


def test_a_plan_is_read_as_it_was_written() -> None:
    made = plan(study())
    read = Plan.from_bytes(made.to_bytes())
    assert read.removable == made.removable
    assert read.terms(bytes(16)) == made.terms(bytes(16))

"""Plans that break one rule and by very little, with every other number made to fit."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dhdmm.aggregation.modulus import Modulus
from dhdmm.errors import PolicyReason, PolicyRefusal
from dhdmm.participant import policy
from dhdmm.planning.calibrate import modulus_above
from dhdmm.planning.plan import Plan
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.zcdp import release_rho
from tests.participant.data_holder import POLICY, ROSTER, DataHolder
from tests.planning.studies import planned, replanned, with_triangle


def refusal(plan: Plan, **limits: object) -> PolicyReason | None:
    """Why this plan is refused, if it is."""
    try:
        policy.review(plan.to_bytes(), POLICY.model_copy(update=limits), ROSTER)
    except PolicyRefusal as refused:
        return refused.reason
    return None


def cost(plan: Plan) -> Fraction:
    return release_rho(
        plan.sensitivity_squared, plan.participant_variance, plan.honest_floor, plan.strategy.rows
    )


def at_its_price(plan: Plan, factor: Fraction = Fraction(1)) -> Plan:
    """A plan that charges what it costs, times a factor, with the modulus that its sums need."""
    rho = Fraction(math.ceil(cost(plan) * factor * 2**150), 2**150)
    return replace(plan, rho=rho, modulus=modulus_above(plan.modulus_needed))


def test_noise_below_three_is_refused_even_if_its_price_is_right() -> None:
    """A′ = I is so short that variance 8.99 gives a small ρ: only the accounting of τ suffers."""
    unit = with_triangle(planned().strategy, np.eye(5, dtype=np.int64))
    coarse, enough = (
        at_its_price(replace(planned(), strategy=unit, participant_variance=variance))
        for variance in (Fraction(899, 100), Fraction(9))
    )
    assert refusal(coarse) is PolicyReason.NOISE_TOO_SMALL
    assert refusal(enough) is None


def test_a_price_a_little_above_the_cost_is_refused() -> None:
    assert refusal(at_its_price(planned())) is None
    assert refusal(at_its_price(planned(), 1 + Fraction(1, 2**39))) is PolicyReason.OVERCHARGED
    assert refusal(at_its_price(planned(), Fraction(11, 10))) is PolicyReason.OVERCHARGED


def test_a_price_a_little_below_the_cost_is_refused() -> None:
    assert refusal(at_its_price(planned(), 1 - Fraction(1, 2**60))) is PolicyReason.NOISE_TOO_SMALL


def test_a_study_that_promises_rho_keeps_it() -> None:
    honest = replanned(privacy={"epsilon": None, "rho": 0.02})
    assert refusal(honest) is None
    dearer = replace(
        honest,
        rho=honest.rho * Fraction(1001, 1000),
        participant_variance=honest.participant_variance * Fraction(1000, 1001),
    )
    assert refusal(dearer) is PolicyReason.PROMISE


def test_a_study_that_promises_epsilon_keeps_it() -> None:
    """The policy itself would allow twice as much."""
    dearer = replace(
        planned(),
        rho=planned().rho * Fraction(1001, 1000),
        participant_variance=planned().participant_variance * Fraction(1000, 1001),
    )
    assert refusal(dearer, max_epsilon=2.0) is PolicyReason.PROMISE
    assert refusal(planned(), max_epsilon=2.0) is None


def test_limits_are_kept_to_the_last_digit() -> None:
    epsilon = epsilon_promised([planned().noise], POLICY.max_delta)
    assert refusal(planned(), max_epsilon=epsilon) is None
    assert refusal(planned(), max_epsilon=epsilon * (1 - 1e-9)) is PolicyReason.BUDGET
    assert refusal(planned(), max_honest_floor=10) is None
    assert refusal(planned(), max_honest_floor=9) is PolicyReason.HONEST_FLOOR
    limits = {"max_honest_floor": 9}
    with pytest.raises(PolicyRefusal, match="write 'max_honest_floor: 10' in your policy"):
        policy.review(planned().to_bytes(), POLICY.model_copy(update=limits), ROSTER)
    assert refusal(planned(), min_participants=12) is None
    assert refusal(planned(), min_participants=13) is PolicyReason.TOO_FEW_PARTICIPANTS
    assert refusal(planned(), min_corrupt_fraction=0.1) is None
    assert refusal(planned(), min_corrupt_fraction=0.1000001) is PolicyReason.CORRUPT_FRACTION
    assert refusal(planned(), max_rows=5) is None
    assert refusal(planned(), max_rows=4) is PolicyReason.TOO_LARGE
    size = len(planned().to_bytes())
    assert refusal(planned(), max_plan_bytes=size) is None
    assert refusal(planned(), max_plan_bytes=size - 1) is PolicyReason.TOO_LARGE


def test_the_smallest_modulus_that_suffices_is_accepted_and_no_other() -> None:
    enough = planned().modulus.value
    for modulus in (enough // 2, 2 * enough):
        assert refusal(replace(planned(), modulus=Modulus(modulus))) is PolicyReason.MODULUS
    assert refusal(replace(planned(), modulus=Modulus(enough))) is None


def test_what_is_reserved_is_the_price(tmp_path: Path) -> None:
    holder = DataHolder.with_budget(tmp_path / "ledger")
    holder.take_part(planned().to_bytes())
    assert holder.ledger.reserved() == planned().rho >= cost(planned())


@pytest.mark.parametrize("digest", [bytes(32), b"\1" + bytes(31)])
def test_another_roster_of_as_many_is_refused(digest: bytes) -> None:
    assert refusal(replace(planned(), roster_digest=digest)) is PolicyReason.ROSTER_MISMATCH

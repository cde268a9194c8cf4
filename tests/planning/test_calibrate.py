"""Noise, modulus and scale are rounded to the safe side, and leave room for what is added later."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dhdmm.aggregation.method import ThreatModel
from dhdmm.errors import PrivacyError
from dhdmm.planning.calibrate import (
    calibrated_variance,
    modulus_bound,
    noise_reach,
    sum_ranges,
    unit_sensitivity_squared,
)
from dhdmm.planning.draft import draft
from dhdmm.planning.draft import plan as make_plan
from dhdmm.privacy.zcdp import Conversion, release_rho
from dhdmm.secagg.parameters import choose
from tests.planning.studies import planned, replanned, study, with_triangle
from tests.planning.test_unit_sensitivity import UNITS


@pytest.mark.parametrize(
    ("variance", "participants", "rows"),
    list(itertools.product([9, Fraction(1000, 7), 10**9, 10**18], [3, 10**6], [1, 5, 10**6])),
)
def test_the_reach_of_the_noise_is_rounded_up(variance, participants, rows) -> None:
    """√(2nσ_c² ln(2k·2⁶⁴)) with fifty digits; it is never more than two and a billionth above."""
    with mpmath.workdps(50):
        exact = Fraction(variance)
        square = 2 * participants * mpmath.mpf(exact.numerator) / exact.denominator
        least = mpmath.sqrt(square * mpmath.log(2 * rows * mpmath.mpf(2) ** 64))
        reach = noise_reach(exact, participants, rows)
        assert least <= reach <= least * (1 + 1e-9) + 2


def test_truth_and_noise_of_either_sign_fit_into_the_modulus() -> None:
    """The largest sum and the smallest one, each with its noise, are different residues."""
    variance, participants, rows, records, entry = Fraction(50), 20, 6, 3, 11
    bound = modulus_bound(variance, participants, rows, records, entry)
    furthest = participants * records * entry + noise_reach(variance, participants, rows)
    assert len(range(-furthest, furthest + 1)) == bound


def test_truth_and_noise_of_every_row_fit_into_its_range() -> None:
    """The smallest and the largest sum of a row, with noise, and no bit more than they take."""
    variance, participants, records = Fraction(50), 20, 3
    rows = [(2, -4, 11), (1, 0, 1), (3, -11, 0)]
    noise, all_records = noise_reach(variance, participants, 6), participants * records
    ranges = sum_ranges(variance, participants, records, rows)
    for (count, low, high), found in zip(rows, ranges, strict=True):
        furthest = all_records * high + noise
        assert (found.rows, found.low) == (count, all_records * low - noise)
        assert found.low + 2 ** (found.bits - 1) <= furthest < found.low + 2**found.bits


@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(1, 10**6), Fraction(30)])
def test_the_price_of_summing_discrete_noises_fits_into_the_budget(rho: Fraction) -> None:
    """At σ_c = 3, a million honest shares and a million rows, where it is largest."""
    floor = rows = 10**6
    sensitivity_squared = int(18 * rho * floor)
    variance = calibrated_variance(sensitivity_squared, rho, floor)
    paid = release_rho(sensitivity_squared, variance, floor, rows)
    assert paid - Fraction(sensitivity_squared) / (2 * floor * variance) > 0
    assert rho * (1 - Fraction(1, 10**12)) < paid <= rho


def test_noise_beyond_the_exact_sampler_is_refused() -> None:
    assert calibrated_variance(10**18, Fraction(1, 2) / (1 - Fraction(1, 2**40)), 1) <= 10**18
    with pytest.raises(PrivacyError, match="beyond the sampler"):
        calibrated_variance(10**18, Fraction(1, 4), 1)


@pytest.mark.parametrize("participants", [12, 1000, 20_000])
def test_everybody_has_a_noise_of_three_at_least(participants: int) -> None:
    asked = study(privacy={"epsilon": None, "rho": 0.1}, aggregation={"participants": participants})
    unit = with_triangle(planned().strategy, np.eye(5, dtype=np.int64))
    assert make_plan(asked, strategy=unit).participant_variance >= 9


def test_everybody_has_enough_noise_whoever_enrols() -> None:
    """Of 2,019 participants more are certain to be honest survivors than of 2,020.

    ρ is such that the scale 2,000 would just do for 2,020; for 2,019 it would not.
    """
    sections = {"corrupt_fraction": 0.05}, {"max_dropout": 0.05, "threat_model": "semi-honest"}
    floors = [choose(n, 0.05, 0.05, ThreatModel.SEMI_HONEST).honest_floor for n in (2019, 2020)]
    assert floors[0] > floors[1]
    rho = round(2000**2 / (18 * floors[1]) * (1 - 1e-7), 8)
    asked = study(
        privacy={"epsilon": None, "rho": rho, **sections[0]},
        aggregation={"participants": {"min": 2019, "max": 2020}, **sections[1]},
    )
    drafted = draft(asked, with_triangle(planned().strategy, np.eye(5, dtype=np.int64)))
    assert all(drafted.plan(n).participant_variance >= 9 for n in (2019, 2020))


@pytest.mark.parametrize("rho", [0.001, 0.1, 2.0])
def test_a_promise_exceeds_the_gaussian_curve_by_a_ten_thousandth_at_most(rho: float) -> None:
    """The scale is raised until it does; the scale that σ_c ≥ 3 asks for gives far more."""
    asked = study(privacy={"epsilon": None, "rho": rho})
    plan = make_plan(asked, strategy=with_triangle(planned().strategy, np.eye(5, dtype=np.int64)))
    curve = Conversion.GAUSSIAN.epsilon(plan.rho, plan.promise.delta)
    assert curve < plan.promise.epsilon <= curve * (1 + 1.01e-4)


def test_the_noise_relies_on_honest_survivors_alone() -> None:
    """Twelve participants, one may drop out, one may be corrupt: ten shares are certain."""
    plan = planned()
    assert plan.honest_floor == 10
    cost = Fraction(plan.sensitivity_squared) / (2 * 10 * plan.participant_variance)
    assert plan.rho * (1 - Fraction(1, 2**39)) < cost <= plan.rho


@pytest.mark.parametrize(("unit", "records"), UNITS, ids=lambda value: str(value)[:40])
def test_a_unit_is_protected_with_all_the_records_it_may_have(unit, records: int) -> None:
    """All of them in the longest column; or, replaced, from there to where it is furthest away."""
    A = planned().strategy.to_sparse().toarray()
    longest = max(np.square(A).sum(axis=0))
    furthest = max(np.square(A[:, :, None] - A[:, None, :]).sum(axis=0).max(), longest)
    assert furthest > longest
    for relation, column in (("zero-out", longest), ("replace", furthest)):
        asked = study(privacy={"unit": unit, "relation": relation})
        assert unit_sensitivity_squared(asked, planned().strategy) == records**2 * column


def test_a_stated_promise_is_kept_by_the_plan_itself() -> None:
    plan = replanned(privacy={"epsilon": 0.5, "delta": 1e-7})
    assert 0.499 < plan.promise.epsilon <= 0.5
    assert plan.promise.delta == 1e-7

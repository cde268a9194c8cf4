"""The budget of several releases: ρ adds, ε is of all rounds together, units are kept apart."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import dhdmm
from dhdmm.privacy.budgets import epsilon_within
from dhdmm.privacy.zcdp import Conversion, release_rho
from dhdmm.release.release import Release
from dhdmm.release.spending import accounts, different_rounds, spent
from tests.release.releases import TERMS, plan_of, release_of, study_of

ITEMS = "  - {name: sexes, by: [sex]}"


def rounds(count: int) -> list[Release]:
    first = release_of(study_of(ITEMS))
    return [replace(first, round_id=bytes([i] * 16)) for i in range(count)]


def test_rho_adds_exactly_and_epsilon_is_less_than_the_sum():
    several = rounds(4)
    cost = spent(several)
    assert cost.rho == 4 * several[0].plan.noise.rho
    single = several[0].plan.promise
    assert single.epsilon < cost.epsilon < 4 * single.epsilon
    curve = Conversion.GAUSSIAN.epsilon(float(cost.rho), cost.delta)
    assert curve <= cost.epsilon < 1.001 * curve


def test_rounds_chosen_in_view_of_earlier_ones_are_converted_as_any_zcdp_mechanism():
    """With ρ′ of each, which has the term for sums of discrete noise."""
    several = rounds(4)
    cost = spent(several)
    noise = several[0].plan.noise
    each = release_rho(noise.sensitivity_squared, noise.variance, noise.honest_floor, noise.rows)
    assert cost.epsilon_adaptive == Conversion.CKS.epsilon(4 * each, cost.delta)
    assert cost.epsilon_adaptive > 1.05 * cost.epsilon


def test_epsilon_within_a_total_is_found_for_every_total():
    """And does not fall where the solver gives way to the closed formula."""
    totals = [Fraction(1, 10**7), Fraction(1), Fraction(100), Fraction(101), Fraction(10**6)]
    found = [epsilon_within(total, 1e-6) for total in totals]
    assert found == sorted(found)


def test_one_round_costs_what_its_release_says():
    release = rounds(1)[0]
    cost = spent([release])
    assert (cost.epsilon, cost.delta) == (release.plan.promise.epsilon, release.plan.promise.delta)


def test_a_round_given_twice_counts_once():
    several = rounds(2)
    assert len(different_rounds([*several, several[0]])) == 2
    assert accounts([*several, several[0]])[0].together == spent(several)


def test_studies_are_listed_and_added_up():
    named, small = rounds(2), release_of()
    (account,) = accounts([*named, small])
    assert list(account.by_study) == ["named", "small"]
    assert account.by_study["named"] == spent(named)
    assert account.together.rounds == 3
    assert account.together.rho == sum((s.rho for s in account.by_study.values()), Fraction(0))


def test_largest_delta_is_the_one_of_all():
    strict = dhdmm.plan(
        dhdmm.Study.from_text(study_of(ITEMS) + TERMS.replace("1e-5", "1e-7")), participants=60
    )
    one = rounds(1)[0]
    other = Release(strict, bytes([7] * 16), 57, one.measurement)
    assert spent([one, other]).delta == 1e-5


@pytest.mark.parametrize(
    "change",
    [
        ("unit: record", "unit: {person: {column: id, max_records: 2, max_participants: 1}}"),
        ("unit: record", "unit: record, relation: replace"),
    ],
)
def test_different_units_and_relations_are_never_added(change):
    study = dhdmm.Study.from_text(study_of(ITEMS) + TERMS.replace(*change))
    plan = dhdmm.plan(study, participants=60)
    one = release_of(study_of(ITEMS))
    other = Release(plan, bytes([8] * 16), 57, one.measurement)
    found = accounts([one, other])
    assert len(found) == 2
    assert {account.together.rounds for account in found} == {1}
    assert plan_of(study_of(ITEMS)).study.privacy.relation == "zero-out"

"""The whole path from histogram to decoded sum keeps its claim; each known mistake breaks it.

Every audit raises a false alarm with probability below 2·10⁻⁴ (audit.FALSE_ALARM, twice), and is
seeded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from hashlib import sha256

import numpy as np
import pytest

from dhdmm.participant.measure import measure
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.secagg.states import CoordinatorState
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.planning.studies import records
from tests.privacy.audit import ALARM, Contribute, Verdict, audit, in_bulk, measured, views
from tests.protocol.network import Stream, identity, roster_of
from tests.sums import PlainSum, SecureAggregation

STUDY = """
study: audited
schema:
  value: {{type: integer, range: [0, 2]}}
workload:
  - {{name: prefixes, ranges: {{of: value, kind: prefix}}}}
privacy: {{unit: {unit}, rho: 0.5, corrupt_fraction: 0.25, relation: {relation}}}
aggregation:
  {{threat_model: semi-honest, participants: 4, max_dropout: 0.25, max_records_per_participant: 2}}
"""


@cache
def planned(unit: str = "record", relation: str = "zero-out") -> Plan:
    """Four participants of whom one may drop out and one is corrupt: h = 2."""
    study = Study.from_text(STUDY.format(unit=unit, relation=relation))
    return make_plan(study, roster=roster_of(4))


OTHER = records(1)
WITH, WITHOUT = records(0, 2), records(2)
PAIRS = {
    ("record", "zero-out"): (WITH, WITHOUT),
    ("record", "replace"): (records(0), records(2)),
    ("participant", "zero-out"): (records(0, 0), records()),
    ("participant", "replace"): (records(0, 0), records(2, 2)),
}
"""Neighbours at the largest distance, or close to it."""


def judge(
    plan: Plan,
    contribute: Contribute,
    runs: int,
    pair: tuple[Histogram, Histogram] = (WITH, WITHOUT),
    seed: object = 0,
    colluder: Contribute | None = None,
) -> Verdict:
    stream = KeyStream.from_key_for_tests(sha256(repr(seed).encode()).digest())
    one, zero = (views(plan, contribute, victim, OTHER, runs, stream, colluder) for victim in pair)
    return audit(one, zero, float(plan.rho), plan.promise.epsilon, plan.promise.delta)


def share_of_claim(plan: Plan, pair: tuple[Histogram, Histogram]) -> float:
    """How close the pair is to the worst neighbours: ‖A′(x − x′)‖²/Δ′²."""
    one, zero = (plan.strategy.measure(histogram) for histogram in pair)
    return float(((one - zero) ** 2).sum() / plan.sensitivity_squared)


def test_worst_neighbours_are_audited():
    for (unit, relation), pair in PAIRS.items():
        assert share_of_claim(planned(unit, relation), pair) > 0.9


@pytest.mark.slow
def test_real_measurements_stay_within_the_claim():
    verdict = judge(planned(), measured(planned()), 2000, colluder=in_bulk(planned()))
    assert not verdict.violations
    assert abs(verdict.mu - 1) < ALARM * verdict.standard_error + 0.05  # and noise is not wasted


@pytest.mark.parametrize(("unit", "relation"), PAIRS)
def test_every_unit_and_relation_stays_within_the_claim(unit, relation):
    plan, pair = planned(unit, relation), PAIRS[unit, relation]
    verdict = judge(plan, in_bulk(plan), 100_000, pair)
    assert not verdict.violations
    expected = np.sqrt(2 * float(plan.rho) * share_of_claim(plan, pair))
    assert abs(verdict.mu - expected) < ALARM * verdict.standard_error


# ---- mistakes that the same audit must catch ----------------------------------------------------


def with_variance(plan: Plan, variance: Fraction) -> Plan:
    return replace(plan, participant_variance=variance)


def no_noise(plan: Plan) -> Contribute:
    def contribute(histogram, runs, _stream):
        exact = plan.modulus.residues(plan.strategy.measure(histogram))
        return np.tile(exact, (runs, 1))

    return contribute


def theta_misplaced(plan: Plan) -> Contribute:
    """Noise variance θΔ²/(2nρ), as the paper's prose has it."""
    privacy = plan.study.privacy
    theta = Fraction(repr(privacy.corrupt_fraction))
    scale = 2 * plan.participants * plan.rho
    return in_bulk(with_variance(plan, theta * plan.sensitivity_squared / scale))


def dropout_ignored(plan: Plan) -> Contribute:
    """Noise variance Δ²/(2(1−θ)nρ): right if nobody honest dropped out."""
    privacy = plan.study.privacy
    honest = (1 - Fraction(repr(privacy.corrupt_fraction))) * plan.participants
    return in_bulk(with_variance(plan, plan.sensitivity_squared / (2 * honest * plan.rho)))


def floor_of_real_strategy(plan: Plan) -> Contribute:
    """⌊Ax⌋ + noise for Δ₂ of a real matrix A, in which all rows but one are tiny and negative."""
    cells, tiny_rows = plan.strategy.cells, 200
    A = np.concatenate([np.full((1, cells), 10.0), np.full((tiny_rows, cells), -1e-9)])
    delta_squared = Fraction(float((A**2).sum(axis=0).max()))
    noise = DiscreteGaussian(delta_squared / (2 * plan.honest_floor * plan.rho))

    def contribute(histogram, runs, stream):
        x = np.zeros(cells)
        x[histogram.codes[:, 0]] = histogram.counts
        exact = np.floor(A @ x).astype(np.int64)
        drawn = noise.sample(runs * len(A), stream).reshape(runs, len(A))
        return plan.modulus.residues(exact + drawn)

    return contribute


MISTAKES = {
    no_noise: (4000, {"rho", "epsilon"}),
    theta_misplaced: (40_000, {"rho", "epsilon"}),
    floor_of_real_strategy: (4000, {"rho"}),
    dropout_ignored: (4000, {"rho"}),
}
"""With how many rounds it takes to be sure, and which of the two tests notice."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_each_mistake_is_caught(mistake):
    runs, caught_by = MISTAKES[mistake]
    verdict = judge(planned(), mistake(planned()), runs, (records(0), records()))
    assert verdict.violations >= caught_by


def test_ignored_dropout_costs_what_the_formula_says():
    """ρ grows by (1−θ)n/h = 3/2."""
    verdict = judge(planned(), dropout_ignored(planned()), 100_000)
    claimed = 0.5 * share_of_claim(planned(), (WITH, WITHOUT))
    assert verdict.rho == pytest.approx(1.5 * claimed, rel=0.04)


# ---- through the real aggregation ---------------------------------------------------------------


@pytest.mark.parametrize("run", range(3))
def test_secure_aggregation_decodes_to_the_survivors_sum(run):
    """Dropouts at the limit: the decoded sum is A′x plus the survivors' noise, and no more."""
    plan = planned()
    parameters = plan.round(bytes([run]) * 16)
    stream = KeyStream.from_key_for_tests(bytes([run]) * 32)
    histograms = [WITH, OTHER, OTHER, OTHER]
    inputs = {i: measure(plan, histogram, stream) for i, histogram in enumerate(histograms)}
    dropouts = {CoordinatorState.COLLECTING_INPUTS: [1 + run]}
    identities = [identity(i) for i in range(4)]
    real = SecureAggregation(
        parameters, roster_of(4), identities, Stream("audit", run), dropouts
    ).sum(inputs)
    ideal = PlainSum(parameters, dropouts).sum(inputs)
    assert real.survivors == ideal.survivors
    assert len(real.survivors) == plan.parameters.minimum_survivors
    signed = sum(plan.modulus.signed(inputs[i]) for i in real.survivors.members())
    assert decode(plan, real.total).tolist() == signed.tolist()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_many_real_measurements_stay_within_the_claim(seed):
    verdict = judge(planned(), measured(planned()), 20_000, seed=seed, colluder=in_bulk(planned()))
    assert not verdict.violations


@pytest.mark.soak
@pytest.mark.parametrize(("unit", "relation"), PAIRS)
def test_two_million_rounds_stay_within_the_claim(unit, relation):
    plan, pair = planned(unit, relation), PAIRS[unit, relation]
    verdict = judge(plan, in_bulk(plan), 2_000_000, pair, seed=1)
    assert not verdict.violations
    expected = np.sqrt(2 * float(plan.rho) * share_of_claim(plan, pair))
    assert verdict.mu == pytest.approx(expected, abs=ALARM * verdict.standard_error)

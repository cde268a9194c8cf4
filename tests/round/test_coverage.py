"""Answers are as good as the plan says: intervals cover, errors are the expected ones.

Everything is at its limit: as many participants have dropped out as the study allows, and for some
questions as many of the others collude as it allows. A round through the ideal sum is the round of
the real protocol with the same noise, to the bit; so most rounds go through the ideal sum.

What a round is measured by is independent from round to round, so a mean over 16 rounds is
compared within SIGMAS of its own standard errors: a false alarm in 5,000 seeds. Seeds are fixed.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dhdmm.participant.measure import measure
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.release.decode import decode
from dhdmm.release.release import Release
from dhdmm.runner import enrol, run_round
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from dhdmm.study.workload import Product
from tests.round.parties import ideal_measurement, noise_of, real_measurement

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
ROUNDS = 10
SIGMAS = 5.0
CASES = [("census-sf1", 1), ("adult-5", 3)]
"""Example, and records a participant."""
BOTH_EXAMPLES = pytest.mark.parametrize(("example", "records"), CASES)
BOTH_MODELS = pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])


@cache
def plan_of(example: str, participants: int = 1000, threat_model: str = "malicious") -> Plan:
    """The example's plan; smaller rounds borrow its strategy, which is what takes time."""
    text = (EXAMPLES / example / "study.yaml").read_text(encoding="utf-8")
    smaller = text.replace("participants: 1000", "participants: {min: 20, max: 1000}")
    study = Study.from_text(smaller.replace("{min: 100,", "{min: 20,"))
    if (participants, threat_model) == (1000, "malicious"):
        return make_plan(study, participants)
    borrowed = plan_of(example).strategy
    return make_plan(
        study.with_aggregation(threat_model=threat_model), participants, strategy=borrowed
    )


@cache
def people(example: str, participants: int, records: int) -> list[Histogram]:
    shape = plan_of(example).study.schema.shape
    generator = np.random.default_rng(participants)
    return [
        Histogram.of_records(generator.binomial(np.array(shape) - 1, 0.3, (records, len(shape))))
        for _ in range(participants)
    ]


def allowed_dropouts(plan: Plan) -> list[int]:
    return list(range(plan.participants - plan.parameters.minimum_survivors))


def counted(plan: Plan, histogram: Histogram) -> np.ndarray:
    """W x by counting: the strategy plays no part in it."""
    terms = plan.study.workload.terms
    return np.concatenate(
        [sum(_count(product, histogram) for product in term.products) for term in terms]
    )


def _count(product: Product, histogram: Histogram) -> np.ndarray:
    """A row of the product holds for a record where each attribute's row holds for its value."""
    holds = np.ones((1, len(histogram.counts)))
    for factor, codes in zip(product.factors, histogram.codes.T, strict=True):
        rows = factor.to_sparse()[:, codes].toarray()
        holds = (holds[:, None, :] * rows[None, :, :]).reshape(-1, holds.shape[1])
    return float(product.coefficient) * (holds @ histogram.counts)


@dataclass(frozen=True)
class Errors:
    """answer − truth, (rounds, queries), and the standard errors that the releases state."""

    errors: np.ndarray
    without_colluders: np.ndarray
    """The same once colluders have subtracted their own noise from the release."""
    standard_errors: np.ndarray
    survivors: int


def ideal_rounds(example: str, records: int, rounds: range) -> Errors:
    plan = plan_of(example)
    gone = len(allowed_dropouts(plan))
    together = Histogram.total(people(example, plan.participants, records)[gone:])
    measured, truth = plan.strategy.measure(together), counted(plan, together)
    errors, without = [], []
    for number in rounds:
        noise = noise_of_survivors(plan, number)
        colluding = noise[: plan.parameters.corrupt].sum(axis=0)
        total = plan.modulus.residues(measured + noise.sum(axis=0))
        release = Release(plan, bytes(16), len(noise), decode(plan, total))
        errors.append(release.answers - truth)
        without.append(plan.strategy.reconstruct(release.measurement - colluding) - truth)
    return Errors(np.array(errors), np.array(without), release.standard_errors, len(noise))


def noise_of_survivors(plan: Plan, number: int) -> np.ndarray:
    gaussian, rows = DiscreteGaussian(plan.participant_variance), plan.strategy.rows
    alive = range(len(allowed_dropouts(plan)), plan.participants)
    return np.array([gaussian.sample(rows, noise_of(i, number)) for i in alive])


seeded_rounds = cache(ideal_rounds)


def z_of_mean(values: np.ndarray, expected: float) -> float:
    """How many standard errors the mean over the rounds is away from what is expected."""
    deviation = values.std(ddof=1) / np.sqrt(len(values))
    return float((values.mean() - expected) / deviation)


def squared_errors(errors: np.ndarray, rmse: float) -> np.ndarray:
    return np.mean(errors**2, axis=1) / rmse**2


@BOTH_EXAMPLES
def test_95_percent_intervals_cover_95_percent(example: str, records: int) -> None:
    found = seeded_rounds(example, records, range(ROUNDS))
    covered = np.mean(np.abs(found.errors) <= 1.959964 * found.standard_errors, axis=1)
    assert abs(z_of_mean(covered, 0.95)) < SIGMAS
    assert covered.mean() == pytest.approx(0.95, abs=0.005)


@BOTH_EXAMPLES
def test_error_is_what_the_plan_expects_of_the_survivors(example: str, records: int) -> None:
    plan, found = plan_of(example), seeded_rounds(example, records, range(ROUNDS))
    rmse = plan.expected_error(found.survivors).rmse
    assert abs(z_of_mean(squared_errors(found.errors, rmse), 1.0)) < SIGMAS


@BOTH_EXAMPLES
def test_expected_error_of_all_participants_would_be_noticed(example: str, records: int) -> None:
    """The same question to a wrong figure: a twentieth of the noise dropped out."""
    plan, found = plan_of(example), seeded_rounds(example, records, range(ROUNDS))
    standardised = (found.errors / found.standard_errors) ** 2
    wrong = plan.participants / found.survivors
    assert abs(z_of_mean(standardised.mean(axis=1), 1.0)) < SIGMAS
    assert abs(z_of_mean(standardised.mean(axis=1), wrong)) > SIGMAS


@BOTH_EXAMPLES
def test_what_colluders_cannot_subtract_is_no_less_than_a_curators_noise(
    example: str, records: int
) -> None:
    plan, found = plan_of(example), seeded_rounds(example, records, range(ROUNDS))
    curator = plan.sensitivity_squared / (2 * float(plan.rho)) * np.mean(plan.strategy.variances())
    honest = plan.expected_error(found.survivors - plan.parameters.corrupt).rmse
    assert plan.parameters.corrupt == 50
    assert honest >= np.sqrt(curator)
    assert abs(z_of_mean(squared_errors(found.without_colluders, honest), 1.0)) < SIGMAS


def test_rounds_above_are_sums_of_real_measurements() -> None:
    plan = plan_of("adult-5", 100)
    gone = len(allowed_dropouts(plan))
    histograms = people("adult-5", 100, 3)[gone:]
    total = plan.modulus.zeros(plan.strategy.rows)
    for i, histogram in enumerate(histograms):
        plan.modulus.add(total, measure(plan, histogram, noise_of(gone + i)))
    measured = plan.strategy.measure(Histogram.total(histograms))
    drawn = measured + noise_of_survivors(plan, 0).sum(axis=0)
    assert np.array_equal(plan.modulus.signed(plan.modulus.reduce(total)), drawn)


@BOTH_MODELS
@pytest.mark.parametrize("participants", [40, pytest.param(100, marks=pytest.mark.soak)])
def test_real_protocol_gives_these_sums_to_the_bit(threat_model: str, participants: int) -> None:
    enrolment = enrol(plan_of("adult-5", participants, threat_model))
    histograms, silent = people("adult-5", participants, 3), allowed_dropouts(enrolment.plan)
    assert len(silent) == participants // 20
    real = real_measurement(enrolment, histograms, silent)
    assert np.array_equal(real, ideal_measurement(enrolment, histograms, silent))


@BOTH_MODELS
@BOTH_EXAMPLES
def test_real_rounds_cover_too(example: str, records: int, threat_model: str) -> None:
    """Fresh noise. A round's coverage has a deviation below 1 %, so six of them: 10⁻⁸."""
    plan, histograms = plan_of(example, 20, threat_model), people(example, 20, records)
    outcome = run_round(enrol(plan), histograms, dropout=0.05)
    assert len(outcome.survivors) == plan.parameters.minimum_survivors
    truth = counted(plan, Histogram.total(histograms[i] for i in outcome.survivors))
    standardised = (outcome.release.answers - truth) / outcome.release.standard_errors
    assert np.mean(np.abs(standardised) <= 1.959964) == pytest.approx(0.95, abs=0.06)


@pytest.mark.soak
@BOTH_EXAMPLES
def test_95_percent_intervals_cover_95_percent_in_many_rounds(example: str, records: int) -> None:
    found = ideal_rounds(example, records, range(1000, 1400))
    covered = np.mean(np.abs(found.errors) <= 1.959964 * found.standard_errors, axis=1)
    assert abs(z_of_mean(covered, 0.95)) < SIGMAS
    assert covered.mean() == pytest.approx(0.95, abs=0.001)
    rmse = plan_of(example).expected_error(found.survivors).rmse
    assert abs(z_of_mean(squared_errors(found.errors, rmse), 1.0)) < SIGMAS

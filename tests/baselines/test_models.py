"""Central, local and shuffle models: sampled errors are the analytic ones."""

import math
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import PrivacyError, StrategyError
from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.zcdp import Conversion
from dhdmm.strategy.optimise import optimise
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from research.baselines import amplification
from research.baselines.central import central, exact_answers, local_gaussian, zero_answer_rmse
from research.baselines.local import Chances, LocalModel
from research.baselines.patterns import pattern_table

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT = 4.5
"""Standard errors; a false alarm of all tests here has chance below 1e-4."""

SMALL = """
study: small
schema:
  kind:  {type: category, values: [a, b, c]}
  size:  {type: integer, range: [0, 5]}
groupings:
  overlapping: {of: size, sets: [{label: low, values: [0, 1, 2]}, {label: even, values: [0, 2, 4]}]}
workload:
  - {name: pairs, by: [kind, size]}
  - {name: sets, by: [overlapping], where: kind = 'a' OR size = 5}
  - {name: everybody, total: true}
privacy: {unit: record, epsilon: 1.0, delta: 1e-5, corrupt_fraction: 0.05}
aggregation: {participants: 60, max_dropout: 0, max_records_per_participant: 1}
"""


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.from_text(SMALL)


@pytest.fixture(scope="module")
def codes(study: Study) -> np.ndarray:
    generator = np.random.default_rng(5)
    return np.stack([generator.integers(0, size, 60) for size in study.schema.shape], axis=1)


def test_patterns_answer_overlapping_rows_exactly(study: Study, codes: np.ndarray) -> None:
    table = pattern_table(study.workload, study.workload.terms)
    counts = np.bincount(table.of(codes), minlength=table.patterns)
    truth = exact_answers(optimise(study.workload), Histogram.of_records(codes))
    assert table.answers(counts) == pytest.approx(truth)


def test_patterns_of_rows_that_overlap_are_their_different_combinations(study: Study) -> None:
    sets = pattern_table(study.workload, study.workload.items[1].terms)
    assert sets.queries == 2
    assert sets.patterns == 4  # neither, low, even, both


@pytest.mark.parametrize("chances", ["equal", "best"])
@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_local_reports_are_unbiased_with_the_analytic_variance(
    study: Study, codes: np.ndarray, chances: Chances, epsilon: float
) -> None:
    mechanism = LocalModel.of(study.workload).mechanism(epsilon, len(codes), chances)
    truth = exact_answers(optimise(study.workload), Histogram.of_records(codes))
    generator = np.random.default_rng(8)
    errors = np.array([mechanism.answers(codes, generator) - truth for _ in range(1500)])
    variances = mechanism.variances(codes)
    bias = np.abs(errors.mean(axis=0)) - LIMIT * np.sqrt(variances / len(errors))
    assert bias.max() < 1e-9
    squared = (errors**2).mean(axis=1)
    margin = LIMIT * squared.std() / math.sqrt(len(errors))
    assert abs(squared.mean() - mechanism.expected_rmse(codes) ** 2) < margin


def test_equal_chances_have_the_textbook_variance_of_marginals() -> None:
    """M·n·v + n·f·(M − 1) for a cell nobody is in, and over all cells of marginals Σf = M."""
    marginals = Study.from_text(SMALL.replace("{name: sets", "{name: size, by: [size]}\n  #"))
    by_term = LocalModel.of(marginals.workload).divisions[:1]
    nobody = np.zeros((100, 2), np.int64)
    mechanism = LocalModel(by_term).mechanism(1.0, 100)
    reported = [report for report in mechanism.reports if report.randomiser]
    M = len(reported)
    assert M == 2
    for report in reported:
        r = report.randomiser
        assert r is not None
        v = r.q * (1 - r.q) / (r.p - r.q) ** 2
        own = np.bincount(report.table.of(nobody), minlength=report.table.patterns)
        assert report.variances(own.astype(float))[-1] == pytest.approx(M * 100 * v)


def test_best_chances_are_never_worse(study: Study, codes: np.ndarray) -> None:
    model = LocalModel.of(study.workload)
    for epsilon in (0.5, 2.0, 5.0):
        equal, best = (model.mechanism(epsilon, 60, way) for way in ("equal", "best"))
        assert best.uniform_cost(60) <= equal.uniform_cost(60)


def test_the_number_of_records_costs_nothing(study: Study, codes: np.ndarray) -> None:
    mechanism = LocalModel.of(study.workload).mechanism(1.0, len(codes))
    assert mechanism.variances(codes)[-1] == 0
    assert mechanism.answers(codes, np.random.default_rng(1))[-1] == len(codes)


def test_tables_too_large_for_reports_are_refused() -> None:
    wide = "\n".join(f"  a{i}: {{type: integer, range: [0, 99]}}" for i in range(4))
    text = f"study: wide\nschema:\n{wide}\nworkload:\n  - {{name: all, marginals: {{ways: 4}}}}\n"
    with pytest.raises(StrategyError, match="too large"):
        LocalModel.of(Study.from_text(text).workload)


def test_gaussian_models_have_the_analytic_error(study: Study, codes: np.ndarray) -> None:
    strategy = optimise(study.workload).rescaled(1000)
    histogram = Histogram.of_records(codes)
    truth = exact_answers(strategy, histogram)
    for mechanism in (central(study, strategy), local_gaussian(study, strategy, 9)):
        noise = KeyStream.from_key_for_tests(bytes(31) + b"\x07")
        squared = np.array(
            [np.mean((mechanism.answers(histogram, noise) - truth) ** 2) for _ in range(250)]
        )
        margin = LIMIT * squared.std() / math.sqrt(len(squared))
        assert abs(squared.mean() - mechanism.expected_rmse**2) < margin


def test_everybody_for_himself_costs_the_root_of_n(study: Study) -> None:
    strategy = optimise(study.workload)
    ratio = (
        local_gaussian(study, strategy, 900).expected_rmse / central(study, strategy).expected_rmse
    )
    assert ratio == pytest.approx(30)


def test_zero_answers_err_by_the_counts_themselves(study: Study) -> None:
    everyone_alike = Histogram.of_records(np.zeros((10, 2), np.int64))
    # ten in one cell of pairs, in both sets, and in the total: 4 of 21 answers
    assert zero_answer_rmse(optimise(study.workload), everyone_alike) == pytest.approx(
        10 * math.sqrt(4 / 21)
    )


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(1, 2.92), (2, 3.65), (3, 3.83), (4, 4.06), (5, 5.0)]
)
def test_amplified_reports_at_a_thousand(epsilon: float, expected: float) -> None:
    assert amplification.report_epsilon(epsilon, 1000, 1e-5) == pytest.approx(expected, abs=6e-3)


def test_amplification_of_two_reports_by_hand() -> None:
    """n = 1: nobody to hide among; the hockey-stick at ε₀ is then exactly zero."""
    assert amplification.shuffled_epsilon(1.0, 1, 1e-9) == pytest.approx(1.0, abs=1e-5)
    assert amplification.shuffled_epsilon(1.0, 10_000, 1e-6) < 0.2


def test_amplification_without_a_delta_is_refused() -> None:
    with pytest.raises(PrivacyError):
        amplification.shuffled_epsilon(1.0, 1000, 0.0)


def test_ratios_on_adult_at_a_thousand_participants() -> None:
    """Local 14.9 and shuffle 3.8 times the distributed error at ε = 1, for replacement."""
    study = Study.load(EXAMPLES / "adult-5" / "study.yaml")
    strategy, model = optimise(study.workload), LocalModel.of(study.workload)
    generator = np.random.default_rng(1)
    codes = np.stack([generator.integers(0, size, 1000) for size in study.schema.shape], axis=1)
    local = model.mechanism(1.0, 1000).expected_rmse(codes)
    shuffled = model.mechanism(2.924, 1000).expected_rmse(codes)
    replaced, removed = (
        unit_sensitivity_squared(study.with_privacy(relation=relation), strategy)
        for relation in ("replace", "zero-out")
    )
    rho = float(Conversion.GAUSSIAN.rho(1.0, 1e-5))
    distributed = strategy.rmse * math.sqrt(replaced / removed) / math.sqrt(2 * rho * 0.95)
    assert local / distributed == pytest.approx(14.9, rel=0.01)
    assert shuffled / distributed == pytest.approx(3.79, rel=0.01)

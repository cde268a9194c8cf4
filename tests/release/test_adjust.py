"""Adjusted answers: what they promise, what they leave alone, and that they own up to their bias.

Rounds are simulated with seeds, so nothing here fails by chance.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import DhdmmError
from dhdmm.release import effect as effects
from dhdmm.release.release import Release
from tests.amounts import examples
from tests.release.releases import plan_of, records, release_of

RULES = [
    {"nonnegative": True},
    {"integers": True},
    {"nonnegative": True, "integers": True},
]
SPARSE = """
study: sparse
schema:
  place: {type: integer, range: [0, 39]}
workload:
  - {name: places, by: [place]}
"""
PAIRS = """
study: pairs
schema:
  a: {type: integer, range: [0, 9]}
  b: {type: integer, range: [0, 11]}
  c: {type: integer, range: [0, 19]}
workload:
  - {name: pairs, marginals: {ways: 2}}
"""
NO_EFFECT = effects.Effect(
    answers=2,
    moved=0,
    mean_shift=0.0,
    largest_shift=0.0,
    largest_shift_in_errors=0.0,
    disagreement=None,
)


@pytest.fixture(autouse=True)
def few_components(monkeypatch):
    """Enough for small domains, and quicker."""
    monkeypatch.setattr("dhdmm.release.model.COMPONENTS", 40)


@pytest.fixture(scope="module")
def release():
    return release_of()


@pytest.mark.slow
@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("rules", RULES)
def test_answers_are_what_was_asked_for(release, rules, consistent):
    answers = release.adjusted(**rules, consistent=consistent, replicates=0).answers
    if rules.get("nonnegative"):
        assert release.answers.min() < 0 <= answers.min()
    if rules.get("integers"):
        assert np.array_equal(answers, np.rint(answers))


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
def test_consistent_totals_are_the_sums_of_their_parts(release, rules):
    adjusted = release.adjusted(**rules, replicates=0)
    crossed = adjusted["crossed"].values.reshape(3, 4)  # sexes and total by bands and total
    assert crossed[:2, :3].sum(axis=0) == pytest.approx(crossed[2, :3])
    assert crossed[:, :3].sum(axis=1) == pytest.approx(crossed[:, 3])
    assert adjusted["everyone"].values[0] == pytest.approx(crossed[2, 3])
    assert adjusted["prefixes"].values[[29, 59]].sum() == pytest.approx(crossed[2, 3])
    assert adjusted.effect.disagreement == 0


def test_answers_adjusted_one_by_one_disagree_and_say_by_how_much(release):
    adjusted = release.adjusted(nonnegative=True, consistent=False, replicates=0)
    spread, everyone = adjusted["spread"].values.sum(), adjusted["everyone"].values[0]
    assert adjusted.effect.disagreement >= abs(spread - everyone) > 1
    assert f"{adjusted.effect.disagreement:.3g}" in str(adjusted.effect)


@pytest.mark.slow
def test_raw_answers_stay_beside_the_adjusted_ones(release):
    adjusted = release.adjusted(nonnegative=True, replicates=2)
    table = adjusted["crossed"].to_arrow()
    raw = release["crossed"].to_arrow()
    assert table.select(raw.column_names).equals(raw)
    assert table.column_names[-2:] == ["adjusted_value", "estimated_bias"]
    assert list(adjusted) == list(release)
    assert len(adjusted) == len(release)


def test_answers_without_noise_stay_within_their_error_bars():
    plan = plan_of(SPARSE)
    truth = plan.strategy.measure(np.full(40, 1000))
    exact = Release(plan, bytes(16), 57, truth)
    for rules in RULES:
        adjusted = exact.adjusted(**rules, replicates=0)
        assert np.all(np.abs(adjusted.answers - 1000) < 4 * exact.standard_errors)
        assert adjusted.answers.sum() == pytest.approx(40_000)


def test_accurate_answers_are_fitted_as_closely_as_their_errors_say():
    """Counts of a million with errors of a few: more steps are taken until they agree."""
    plan = plan_of(SPARSE)
    exact = Release(plan, bytes(16), 57, plan.strategy.measure(10**6 * (1 + np.arange(40) % 7)))
    adjusted = exact.adjusted(nonnegative=True)
    assert adjusted.effect.misfit < 1
    assert np.abs(adjusted.answers / exact.answers - 1).max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("rules", [{"nonnegative": True}, {"integers": True}])
def test_adjusted_answers_are_nearer_to_the_truth_than_raw_ones(rules):
    plan, errors = plan_of(PAIRS), []
    for seed in range(3):
        noisy = release_of(PAIRS, seed)
        measured = plan.strategy.measure(records(plan, np.random.default_rng(seed)))
        truth = plan.strategy.reconstruct(measured)
        adjusted = noisy.adjusted(**rules).answers
        errors.append([np.mean((x - truth) ** 2) for x in (noisy.answers, adjusted)])
    raw, fitted = np.sqrt(np.mean(errors, axis=0))
    assert fitted < 0.9 * raw


def test_the_total_is_held(release):
    adjusted = release.adjusted(nonnegative=True)
    assert adjusted["everyone"].values == pytest.approx(release["everyone"].values)


@pytest.mark.slow
def test_a_domain_of_any_size_is_adjusted():
    """10¹⁵ cells, of which tables of two attributes were measured."""
    names = [f"q{i}" for i in range(15)]
    attributes = "\n".join(f"  {name}: {{type: integer, range: [0, 9]}}" for name in names)
    tables = "\n".join(f"  - {{name: {a}-{b}, by: [{a}, {b}]}}" for a, b in pairwise(names))
    text = f"\nstudy: wide\nschema:\n{attributes}\nworkload:\n{tables}\n"
    release = release_of(text)
    adjusted = release.adjusted(nonnegative=True)
    assert release.plan.study.schema.cells == 10**15
    assert release.answers.min() < 0 <= adjusted.answers.min()
    for left, right in pairwise(adjusted.values()):
        down, across = left.values.reshape(10, 10), right.values.reshape(10, 10)
        assert down.sum(axis=0) == pytest.approx(across.sum(axis=1))


def test_estimated_bias_is_that_of_many_real_rounds():
    """40 places with nobody in them: cutting at 0 adds σ/√(2π) to each answer, 0.4 σ."""
    plan = plan_of(SPARSE)
    empty = plan.strategy.measure(np.zeros(40, int))
    rng = np.random.default_rng(5)
    noise = rng.normal(0, float(57 * plan.participant_variance) ** 0.5, (400, len(empty)))
    rounds = [Release(plan, bytes(16), 57, np.rint(n).astype(np.int64)) for n in noise]
    cut = [r.adjusted(nonnegative=True, consistent=False, replicates=0) for r in rounds]
    measured = np.mean([one.answers.mean() for one in cut])
    error = rounds[0].standard_errors.mean()
    assert measured == pytest.approx(error / np.sqrt(2 * np.pi), rel=0.05)
    # Simulated rounds are around the adjusted answers, which are not all 0: a smaller bias.
    stated = rounds[0].adjusted(nonnegative=True, consistent=False, replicates=200).effect
    assert 0.3 * measured < stated.mean_bias < measured
    assert stated.rms_bias_in_errors == pytest.approx(stated.mean_bias / error, rel=0.5)


def test_effect_counts_what_moved_and_speaks_of_bias(release):
    adjusted = release.adjusted(nonnegative=True, consistent=False, replicates=3)
    effect = adjusted.effect
    assert effect.moved <= np.count_nonzero(release.answers < 0)
    assert effect.largest_shift == pytest.approx(-release.answers.min())
    assert effect.mean_shift == pytest.approx((adjusted.answers - release.answers).mean())
    assert "biases the answers; the raw ones are unbiased" in str(effect)
    unestimated = release.adjusted(nonnegative=True, consistent=False)
    assert "bias was not estimated" in str(unestimated.effect)
    assert "In 3 simulated rounds" in str(effect)
    assert adjusted.bias.shape == release.answers.shape


@settings(max_examples=examples(40, 1000), deadline=None, derandomize=True)
@given(
    st.integers(2, 6).flatmap(
        lambda answers: st.lists(
            st.lists(st.floats(-1e3, 1e3), min_size=answers, max_size=answers),
            min_size=2,
            max_size=6,
        )
    )
)
def test_the_mean_bias_is_never_above_the_root_mean_square(errors):
    bias = np.array(errors)
    ones = np.ones(bias.shape[1])
    effect = effects.with_bias(NO_EFFECT, bias, ones)
    assert abs(effect.mean_bias) <= effect.rms_bias_in_errors
    assert effect.rms_bias == effect.rms_bias_in_errors
    halved = effects.with_bias(NO_EFFECT, bias, 2 * ones)
    assert halved.rms_bias_in_errors == pytest.approx(effect.rms_bias / 2)


def test_answers_that_err_together_have_a_root_mean_square():
    """Rounds that move all answers alike: their variance hides the bias of a single answer."""
    errors = np.array([[-0.9, -0.9], [0.45, 0.45]])
    effect = effects.with_bias(NO_EFFECT, errors, np.ones(2))
    assert (effect.mean_bias, effect.rms_bias) == pytest.approx((-0.225, 0.225))
    assert "-0.225 ± 0.68 on average, and 0.225 (0.23 standard errors) in root mean" in str(effect)


def test_nothing_to_do_and_one_replicate_are_refused(release):
    with pytest.raises(DhdmmError, match="nothing to adjust"):
        release.adjusted()
    with pytest.raises(DhdmmError, match="at least 2"):
        release.adjusted(integers=True, replicates=1)


def test_rounding_each_answer_costs_little_beside_the_noise(release):
    effect = release.adjusted(integers=True, consistent=False).effect
    assert effect.largest_shift_in_errors < 0.6


def test_means_are_those_of_the_adjusted_sums_and_counts():
    study = SPARSE + "  - {name: mean place, mean: {of: place}}\n"
    plan = plan_of(study)
    release = Release(plan, bytes(16), 57, plan.strategy.measure(np.arange(40)))
    adjusted = release.adjusted(nonnegative=True, replicates=2)
    total, count = adjusted.answers[release.rows("mean place")]
    table = adjusted["mean place"]
    assert table.values[0] == pytest.approx(total / count)
    assert table.raw.values[0] == pytest.approx(release["mean place"].values[0])
    assert table.bias is None
    assert table.to_arrow().column_names[-1] == "adjusted_value"

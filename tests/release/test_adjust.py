"""Adjusted answers: what they promise, what they leave alone, and that they own up to their bias.

Rounds are simulated with seeds, so nothing here fails by chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import DhdmmError
from dhdmm.release import adjust as adjusting
from dhdmm.release import effect as effects
from dhdmm.release.release import Release
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
NO_EFFECT = effects.Effect(
    answers=2,
    moved=0,
    mean_shift=0.0,
    largest_shift=0.0,
    largest_shift_in_errors=0.0,
    disagreement=None,
)


@pytest.fixture(scope="module")
def release():
    return release_of()


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("rules", RULES)
def test_answers_are_what_was_asked_for(release, rules, consistent):
    answers = release.adjusted(**rules, consistent=consistent, replicates=0).answers
    if rules.get("nonnegative"):
        assert release.answers.min() < 0 <= answers.min()
    if rules.get("integers"):
        assert np.array_equal(answers, np.rint(answers))


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


def test_raw_answers_stay_beside_the_adjusted_ones(release):
    adjusted = release.adjusted(nonnegative=True, replicates=2)
    table = adjusted["crossed"].to_arrow()
    raw = release["crossed"].to_arrow()
    assert table.select(raw.column_names).equals(raw)
    assert table.column_names[-2:] == ["adjusted_value", "estimated_bias"]
    assert list(adjusted) == list(release)
    assert len(adjusted) == len(release)


def test_nothing_moves_where_nothing_is_negative_or_broken():
    plan = plan_of(SPARSE)
    truth = plan.strategy.measure(np.full(40, 1000))
    exact = Release(plan, bytes(16), 57, truth)
    for rules in RULES:
        adjusted = exact.adjusted(**rules, replicates=0)
        assert np.allclose(adjusted.answers, 1000, atol=1e-2)
        assert adjusted.effect.moved == 0


@pytest.mark.parametrize("seed", range(4))
def test_nonnegative_fit_is_never_farther_from_the_truth_than_the_measurement(seed):
    plan, rng = plan_of(), np.random.default_rng(seed)
    truth = plan.strategy.measure(records(plan, rng))
    noisy = release_of(seed=seed)
    fit = adjusting._OneHistogram(noisy, adjusting.Rules(True, False, True))
    assert np.linalg.norm(fit.A @ fit.x - truth) < np.linalg.norm(noisy.measurement - truth)


def test_nonnegative_fit_is_the_least_squares_optimum(release):
    """Karush–Kuhn–Tucker: no cell at 0 pulls upwards, no positive cell pulls at all."""
    fit = adjusting._OneHistogram(release, adjusting.Rules(True, False, True))
    sigma = effects.deviation(release)
    pull = fit.A.T @ ((release.measurement - fit.A @ fit.x) / sigma) / sigma
    scale = np.sqrt(np.square(fit.A.toarray()).sum(axis=0).max()) / sigma
    assert pull.max() < 1e-2 * scale
    assert np.abs(fit.x * pull).sum() < 1e-2 * len(fit.x)


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
    assert "In 3 simulated rounds" in str(effect)
    assert adjusted.bias.shape == release.answers.shape


@settings(max_examples=100, deadline=None, derandomize=True)
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


def test_rounding_costs_little_beside_the_noise(release):
    effect = release.adjusted(integers=True, replicates=0).effect
    assert effect.largest_shift_in_errors < 0.6


def test_too_many_cells_for_one_histogram_are_refused_with_the_way_out(release, monkeypatch):
    monkeypatch.setattr(adjusting, "LARGEST_MATRIX", 1000)
    with pytest.raises(DhdmmError, match="too many to fit one histogram") as error:
        release.adjusted(nonnegative=True)
    assert "each answer by itself" in error.value.hint
    release.adjusted(nonnegative=True, consistent=False, replicates=0)


def test_nothing_to_do_and_one_replicate_are_refused(release):
    with pytest.raises(DhdmmError, match="nothing to adjust"):
        release.adjusted()
    with pytest.raises(DhdmmError, match="at least 2"):
        release.adjusted(integers=True, replicates=1)

"""Two releases compared: matched by SQL, errors of independent rounds, one round refused."""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.errors import DhdmmError
from dhdmm.release.comparison import compare
from dhdmm.release.intervals import critical
from dhdmm.release.release import Release
from tests.release.releases import plan_of, records, release_of, study_of


def another_round(release: Release, number: int, survivors: int = 57) -> Release:
    return Release(release.plan, bytes([number] * 16), survivors, release.measurement)


@pytest.fixture(scope="module")
def rounds():
    first = release_of(seed=1)
    second = release_of(seed=2, survivors=60)
    return first, Release(second.plan, b"the second round", 60, second.measurement)


def test_every_query_of_the_same_study_is_compared(rounds):
    first, second = rounds
    found = compare(first, second)
    assert [one.name for one in found] == list(first)
    for one in found:
        assert np.allclose(one.first, first[one.name].values)
        assert np.allclose(one.second, second[one.name].values)
        assert np.allclose(one.values, second[one.name].values - first[one.name].values)


def test_standard_error_is_of_two_independent_rounds(rounds):
    first, second = rounds
    for one in compare(first, second):
        squares = first[one.name].standard_errors ** 2 + second[one.name].standard_errors ** 2
        assert np.allclose(one.standard_errors**2, squares)


@pytest.mark.parametrize(
    ("pairs", "within"), [(200, 0.4), pytest.param(500, 0.3, marks=pytest.mark.soak)]
)
def test_z_of_two_rounds_over_the_same_records_is_standard_normal(pairs, within):
    """The mean square of z leaves 1 ± 0.4 of 200 for about one seed in 6,000, ± 0.3 of 500 for one
    in 150,000."""
    plan = plan_of(study_of("  - {name: everyone, total: true}"))
    truth = plan.strategy.measure(records(plan, np.random.default_rng(0)))
    deviation = float(57 * plan.participant_variance) ** 0.5
    noise = np.rint(np.random.default_rng(1).normal(0, deviation, (2 * pairs, len(truth))))
    z = []
    for i in range(0, 2 * pairs, 2):
        pair = [
            Release(plan, bytes([j] * 16), 57, truth + noise[i + j].astype(np.int64))
            for j in range(2)
        ]
        z.append(compare(*pair)[0].z[0])
    assert np.mean(np.square(z)) == pytest.approx(1, abs=within)


def test_table_has_labels_both_answers_and_the_difference(rounds):
    table = next(one for one in compare(*rounds) if one.name == "crossed").to_arrow()
    assert table.column_names == [
        *("sex", "band", "first", "second", "difference", "standard_error", "low", "high", "z")
    ]
    row = table.to_pylist()[0]
    assert row["z"] == pytest.approx(row["difference"] / row["standard_error"])
    assert row["low"] < row["difference"] < row["high"]


def test_a_single_total_is_called_total(rounds):
    everyone = next(one for one in compare(*rounds) if one.name == "everyone")
    assert everyone.to_arrow().to_pylist()[0]["query"] == "total"


def test_other_studies_share_the_queries_of_equal_sql():
    first = release_of()
    study = """
study: other
schema:
  sex: {type: category, values: [Female, Male]}
  age: {type: integer, range: [0, 29]}
workload:
  - {name: mine, by: [sex], where: "age >= 18"}
  - {name: different, by: [sex], where: "age >= 19"}
"""
    second = another_round(release_of(study), 9)
    found = {one.name: one for one in compare(first, second)}
    assert np.allclose(found["adults"].second, second["mine"].values)
    assert len(found["adults"]) == 2
    assert set(found) == {"adults"}


def test_two_copies_of_one_round_are_refused(rounds):
    with pytest.raises(DhdmmError, match="same round"):
        compare(rounds[0], rounds[0])


def test_studies_without_a_common_query_are_refused(rounds):
    other = study_of("  - {name: races, by: [sex]}", values="[a, b, c]")
    with pytest.raises(DhdmmError, match="no query in common"):
        compare(rounds[0], another_round(release_of(other), 3))


AGES = """
study: ages
schema:
  sex: {type: category, values: [Female, Male]}
  age: {type: integer, range: [0, 59]}
workload:
"""
MEANS = f"""{AGES}  - {{name: mean age, mean: {{of: age, by: [sex]}}}}
  - {{name: median age, quantiles: {{of: age, at: [0.5]}}}}
"""


def test_means_and_quantiles_are_compared_as_such():
    first = release_of(MEANS, seed=1)
    second = release_of(MEANS, seed=2, survivors=60)
    mean, median = compare(first, Release(second.plan, b"2" * 16, 60, second.measurement))
    for one in (mean, median):
        assert np.allclose(one.values, second[one.name].values - first[one.name].values)
        assert one.to_arrow()["difference"].to_pylist() == one.values.tolist()
    assert mean.labels.to_pydict()["age"] == ["mean", "mean"]
    errors = [release["mean age"].standard_errors for release in (first, second)]
    assert np.allclose(mean.standard_errors, np.hypot(*errors))


def test_of_other_quantiles_the_counts_are_compared():
    first = release_of(MEANS)
    others = release_of(MEANS.replace("0.5", "0.9"))
    found = {one.name: one for one in compare(first, another_round(others, 9))}
    assert len(found["mean age"]) == 2
    assert len(found["median age"]) == 60  # the records up to each age


def test_the_interval_of_a_difference_of_counts_is_exact(rounds):
    for one in compare(*rounds):
        low, high = one.bounds()
        assert np.allclose(high - one.values, critical(0.95) * one.standard_errors)
        assert np.allclose(one.values - low, critical(0.95) * one.standard_errors)


def test_intervals_of_differences_of_means_hold():
    """Of 200 pairs 190 ± 3.1 hold: fewer than 176 for one seed in 100,000."""
    plan = plan_of(f"{AGES}  - {{name: mean age, mean: {{of: age}}}}")
    truth = plan.strategy.measure(records(plan, np.random.default_rng(0)))
    deviation = float(57 * plan.participant_variance) ** 0.5
    noise = np.rint(np.random.default_rng(3).normal(0, deviation, (400, len(truth))))
    drawn = truth + noise.astype(np.int64)
    held = 0
    for i in range(0, 400, 2):
        (one,) = compare(*(Release(plan, bytes([j % 2] * 16), 57, drawn[j]) for j in (i, i + 1)))
        (low,), (high,) = one.bounds()
        held += low <= 0 <= high
    assert held >= 176

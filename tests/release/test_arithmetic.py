"""Arithmetic of answers: exact covariances, Fieller's intervals, and their coverage.

Rounds are simulated with seeds, so nothing here fails by chance; with another seed a coverage is
further from 95 % than `slack` with a probability of 0.4 %.
"""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.errors import DhdmmError, UnknownTable
from dhdmm.release.intervals import critical, fieller
from dhdmm.release.release import Release
from tests.release.releases import ROUNDS, plan_of, records, release_of, slack


@pytest.fixture(scope="module")
def release():
    return release_of()


@pytest.fixture(scope="module")
def dense(release):
    """W (A'ᵀA')⁺ Wᵀ, written out."""
    A = release.plan.strategy.to_sparse().toarray().astype(float)
    W = release.plan.study.workload.to_sparse().toarray().astype(float)
    return release.measurement_variance * W @ np.linalg.pinv(A.T @ A) @ W.T


@pytest.fixture(scope="module", params=ROUNDS)
def rounds(request):
    """Simulated rounds over the same records, and the answers without noise."""
    plan, rng = plan_of(), np.random.default_rng(8)
    truth = plan.strategy.measure(records(plan, rng))
    deviation = float(57 * plan.participant_variance) ** 0.5
    noise = np.rint(rng.normal(0, deviation, (request.param, len(truth)))).astype(np.int64)
    found = [Release(plan, i.to_bytes(16, "big"), 57, truth + n) for i, n in enumerate(noise, 1)]
    exact = Release(plan, bytes(16), 57, truth)
    for one in found:  # covariances are those of the plan, the same in every round
        vars(one)["_covariances"] = exact._covariances
    return found, exact


@pytest.mark.parametrize("name", ["parts", "crossed", "coupled", "prefixes", "spread", "cube"])
def test_covariance_is_that_of_the_written_out_matrices(release, dense, name):
    rows = release.rows(name)
    assert np.allclose(release.covariance(name), dense[rows, rows], atol=1e-6 * dense.max())


def test_covariance_of_two_tables(release, dense):
    expected = dense[release.rows("prefixes"), release.rows("cube")]
    assert np.allclose(release.covariance("prefixes", "cube"), expected, atol=1e-6 * dense.max())


def test_covariance_has_the_squared_standard_errors_on_its_diagonal(release):
    found = np.diag(release.covariance("crossed"))
    assert np.allclose(found, release["crossed"].standard_errors ** 2)


def test_covariance_of_an_unknown_table_or_a_huge_one_is_refused(release, monkeypatch):
    with pytest.raises(UnknownTable, match="crossing"):
        release.covariance("crossing")
    monkeypatch.setattr("dhdmm.release.covariance.LARGEST_MATRIX", 100)
    with pytest.raises(DhdmmError, match="465 × 465 answers is too large"):
        release.covariance("intervals")


def test_sums_of_parts_have_the_error_of_their_total(release):
    parts = release["spread"].answers.sum()
    assert parts.values == pytest.approx(release["everyone"].values)
    assert parts.standard_errors == pytest.approx(release["everyone"].standard_errors)


def test_differences_agree_with_matrices(release, dense):
    spread = release["spread"]
    difference = spread.select(sex="Female") - spread.select(sex="Male")
    rows = release.rows("spread")
    C = np.hstack([np.eye(9), -np.eye(9)])
    assert np.allclose(difference.covariance, C @ dense[rows, rows] @ C.T, atol=1e-6 * dense.max())
    assert difference.values == pytest.approx(C @ spread.values)
    assert difference.to_arrow().column_names[:2] == ["band", "by_value"]


def test_answers_of_two_tables_share_their_noise(release):
    apart = release["everyone"].answers - release["spread"].answers.sum()
    assert apart.values == pytest.approx([0], abs=1e-6)
    assert apart.standard_errors == pytest.approx([0], abs=1e-3)


def test_noise_of_two_rounds_is_independent_and_that_of_a_copy_is_the_same(release):
    copy = Release(release.plan, release.round_id, 57, release.measurement)
    other = Release(release.plan, bytes(16), 57, release.measurement)
    same = copy["crossed"].answers - release["crossed"].answers
    new = other["crossed"].answers - release["crossed"].answers
    assert same.standard_errors == pytest.approx(np.zeros(12), abs=1e-3)
    assert new.standard_errors == pytest.approx(2**0.5 * release["crossed"].standard_errors)


def test_shares_add_up_to_one(release):
    table = release["spread"].answers
    shares = table / table.sum()
    assert shares.values.sum() == pytest.approx(1)
    low, high = shares.bounds()
    assert np.all((low < shares.values) & (shares.values < high))


def test_growth_is_a_quotient_less_one(release):
    later = release_of(seed=2)
    later = Release(later.plan, bytes(16), 57, later.measurement)
    growth = later["crossed"].answers / release["crossed"].answers - 1
    ratio = later["crossed"].values / release["crossed"].values
    assert growth.values == pytest.approx(ratio - 1)
    quotient = (later["crossed"].answers / release["crossed"].answers).bounds()
    assert growth.bounds()[0] == pytest.approx(quotient[0] - 1)
    percent = 100 * growth
    assert percent.standard_errors == pytest.approx(100 * growth.standard_errors)


def test_an_interval_without_ends_where_the_denominator_may_be_zero(release):
    difference = release["crossed"].answers[0] - release["crossed"].answers[0]
    low, high = (release["everyone"].answers / difference).bounds()
    assert (low[0], high[0]) == (-np.inf, np.inf)


def test_rows_that_do_not_go_together_are_refused(release):
    with pytest.raises(DhdmmError, match="18 answers do not go with 12"):
        release["spread"].answers - release["crossed"].answers


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({"sez": "Female"}, "no column 'sez'"),
        ({"sex": "female"}, "no row says 'female' under 'sex'"),
        ({"sex": "total", "band": "0–9", "by_value": "[0, 10)"}, "no column 'by_value'"),
    ],
)
def test_labels_that_do_not_exist_are_refused(release, labels, complaint):
    with pytest.raises(DhdmmError, match=complaint):
        release["crossed"].select(**labels)


def covered(rounds, what) -> float:
    """The share of rounds and rows in which the interval holds the value without noise."""
    found, exact = rounds
    truth = what(exact).values
    bounds = [what(one).bounds() for one in found]
    return float(np.mean([(low <= truth) & (truth <= high) for low, high in bounds]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        lambda r: r["adults"].select(sex="Female") - r["adults"].select(sex="Male"),
        lambda r: r["adults"].answers / r["everyone"].answers,
        lambda r: r["adults"].select(sex="Male") / r["adults"].answers.sum(),
    ],
    ids=["differences", "shares of a total", "shares of a sum"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(rounds, what):
    assert abs(covered(rounds, what) - 0.95) < slack(len(rounds[0]))


@pytest.mark.slow
def test_intervals_of_growth_between_rounds_hold_as_often_as_they_say(rounds):
    found, _exact = rounds
    halves = list(zip(found[::2], found[1::2], strict=True))

    def growth(pair):
        return pair[1]["adults"].answers / pair[0]["adults"].answers - 1

    bounds = [growth(pair).bounds() for pair in halves]
    held = np.mean([(low <= 0) & (high >= 0) for low, high in bounds])
    assert abs(held - 0.95) < slack(len(bounds))


@pytest.mark.slow
def test_intervals_of_differences_of_shares_hold_at_least_as_often_as_they_say(rounds):
    """Conservative, and said to be; the quotients here share all their noise or none of it."""
    found, exact = rounds

    def change(first, second):
        shares = [
            r["adults"].select(sex="Male") / r["adults"].answers.sum() for r in (first, second)
        ]
        return shares[1] - shares[0]

    def between(r):
        women, men = (r["adults"].select(sex=sex) for sex in ("Female", "Male"))
        return women / r["everyone"].answers - men / r["adults"].answers.sum()

    assert covered(rounds, between) > 0.95
    pairs = zip(found[::2], found[1::2], strict=True)
    bounds = [change(*pair).bounds() for pair in pairs]
    assert np.mean([(low <= 0) & (high >= 0) for low, high in bounds]) > 0.95
    assert change(exact, exact).values == pytest.approx([0])
    assert (
        len(
            (
                between(exact) + found[0]["adults"].select(sex="Male") / exact["everyone"].answers
            ).parts
        )
        == 3
    )


@pytest.mark.parametrize("denominator", [0.0, 0.5, 1.0, 2.0, 5.0, 50.0])
def test_fieller_holds_as_often_as_it_says_whatever_the_denominator(denominator):
    """The delta method does not: the weakened variant at a denominator of half its error."""
    rng = np.random.default_rng(3)
    sigma = np.array([[1.0, 0.6], [0.6, 1.0]])
    truth = 3.0 if denominator else np.inf
    n, d = rng.multivariate_normal([3 * (denominator or 1), denominator], sigma, 4000).T
    low, high = fieller(n, d, np.ones(4000), np.full(4000, 0.6), np.ones(4000), critical())
    held = (low <= truth) & (truth <= high)
    assert held.mean() > 0.93  # conservative where a set without ends is told as the whole line
    if denominator >= 5:
        assert held.mean() < 0.97
    if denominator == 0.5:
        error = np.sqrt(np.maximum(1 - 1.2 * n / d + (n / d) ** 2, 0)) / np.abs(d)
        assert np.mean(np.abs(n / d - truth) <= critical() * error) < 0.85

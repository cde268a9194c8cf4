"""Reports have the means and variances that the formulas say, and are ε-private."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from research.baselines.randomisers import (
    Randomiser,
    candidates,
    subset_selection,
    unary_encoding,
)

RANDOMISERS: dict[str, Callable[[], Randomiser]] = {
    "GRR": lambda: subset_selection(7, 1.0, 1),
    "OUE": lambda: unary_encoding(7, 1.0),
    "SS(2)": lambda: subset_selection(7, 1.0, 2),
    "SS(3)": lambda: subset_selection(9, 0.5, 3),
    "two values": lambda: subset_selection(2, 2.0, 1),
}
QUERIES = [[1, 0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0, 0], [2, -1, 0, 1, 1, 0, 3, 0, 0]]
REPEATS = 20_000
LIMIT = 4.5
"""Standard errors; 30 figures are looked at, so a false alarm has chance below 3e-4."""


@pytest.mark.parametrize("name", RANDOMISERS)
def test_estimates_have_the_mean_and_the_variance_of_the_formula(name: str) -> None:
    randomiser = RANDOMISERS[name]()
    d = randomiser.values
    own = np.array([0, 0, min(3, d - 1)])
    generator = np.random.default_rng(11)
    reports = randomiser.draw(np.tile(own, REPEATS), generator).reshape(REPEATS, len(own), d)
    z = ((reports - randomiser.q) / (randomiser.p - randomiser.q)).sum(axis=1)
    for query in np.array(QUERIES, float)[:, :d]:
        found, truth = z @ query, float(query[own].sum())
        variance = float(
            randomiser.total_variance(
                query.sum()[None],
                (query**2).sum()[None],
                np.array([truth]),
                (query[own] ** 2).sum()[None],
                len(own),
            )[0]
        )
        assert abs(found.mean() - truth) <= LIMIT * math.sqrt(variance / REPEATS) + 1e-9
        squares = (found - truth) ** 2
        assert abs(squares.mean() - variance) <= LIMIT * squares.std() / math.sqrt(REPEATS) + 1e-9


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_variances_are_the_published_ones(epsilon: float) -> None:
    """v_OUE = 4e^ε/(e^ε−1)², v_GRR = (d−2+e^ε)/(e^ε−1)² for a value that nobody holds."""
    d, gain = 12, math.exp(epsilon)
    zero, one = np.zeros(1), np.ones(1)
    for randomiser, published in [
        (unary_encoding(d, epsilon), 4 * gain / (gain - 1) ** 2),
        (subset_selection(d, epsilon, 1), (d - 2 + gain) / (gain - 1) ** 2),
    ]:
        found = randomiser.total_variance(one, one, zero, zero, 100)[0]
        assert found == pytest.approx(100 * published)


@pytest.mark.parametrize("d", [2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_report_is_likelier_than_privacy_allows(d: int, epsilon: float) -> None:
    """A subset with the own value against one without; for OUE the two values' bits."""
    for randomiser in candidates(d, epsilon):
        p, q = randomiser.p, randomiser.q
        if randomiser.name == "OUE":
            ratio = p * (1 - q) / ((1 - p) * q)
        else:
            size = round(p + (d - 1) * q)
            with_own, without = math.comb(d - 1, size - 1), math.comb(d - 1, size)
            ratio = (p / with_own) / ((1 - p) / without)
        assert ratio == pytest.approx(math.exp(epsilon))


def test_a_louder_report_fails_the_privacy_ratio() -> None:
    louder = subset_selection(5, 1.5, 1)
    ratio = (louder.p / 1) / ((1 - louder.p) / 4)
    assert ratio > 1.5 * math.exp(1.0)


def test_subsets_count_exactly_the_total() -> None:
    randomiser = subset_selection(6, 1.0, 2)
    ones, n = np.ones(1), 50
    total = randomiser.total_variance(6 * ones, 6 * ones, n * ones, n * ones, n)
    assert total[0] == pytest.approx(0, abs=1e-9)
    estimate = randomiser.estimate(np.zeros(n, np.int64), np.random.default_rng(3))
    assert estimate.sum() == pytest.approx(n)

"""The figures the optimiser must reach on the workloads that the project reports on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from workloads import (
    ADULT_5,
    ADULT_14,
    marginal_factors,
    marginals,
    one_attribute,
    plain,
    sf1,
    sf1_states,
)

from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Histogram, Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Workload

QUICK = {
    "Adult-5": (lambda: marginals(ADULT_5, 2), 3459, 2.342),
    "Adult-14": (lambda: marginals(ADULT_14, 2), 141159, 6.39),
    "AllRange 256": (lambda: one_attribute(Ranges.all(256)), 256, 2.910),
    "Prefix 256": (lambda: one_attribute(Ranges.prefixes(256)), 256, 2.532),
}
SLOW = {
    "AllRange 1024": (lambda: one_attribute(Ranges.all(1024)), 1024, 3.526),
    "SF1 x 51 states": (sf1_states, 158712, 2.125),
}


def check_figures(w: Workload, rows: int, rmse: float) -> Strategy:
    strategy = optimise(w)
    assert strategy.rows == rows
    assert strategy.rmse <= rmse
    assert strategy.ratio <= 1.005
    decoded = Strategy.from_bytes(strategy.to_bytes())
    assert decoded.sensitivity_squared == strategy.sensitivity_squared
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(0, n, 20) for n in w.schema.shape], axis=1)
    measured = decoded.measure(Histogram(codes, np.ones(20, np.int64)))
    answers = strategy.reconstruct(measured)
    assert len(answers) == w.queries
    assert np.allclose(answers, np.rint(answers), atol=1e-6)
    assert len(strategy.variances()) == w.queries
    return strategy


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_reaches_its_figures(name):
    make, rows, rmse = QUICK[name]
    check_figures(make(), rows, rmse)


@pytest.mark.slow
def test_sf1_reaches_its_figures():
    strategy = check_figures(sf1(), 3112, 1.9115)
    assert 1.9038 <= strategy.lower_bound <= 1.9044
    assert len(strategy.to_bytes()) < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_ranges_of_2048_values_are_within_a_fifth_of_a_percent_in_100_kilobytes(kind):
    strategy = optimise(one_attribute(kind(2048)))
    assert strategy.ratio <= 1.002
    assert len(strategy.to_bytes()) < 100_000


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", SLOW)
def test_reaches_its_figures_on_larger_workloads(name):
    make, rows, rmse = SLOW[name]
    check_figures(make(), rows, rmse)


def mixed_adult(kind) -> Workload:
    """All pairs of attributes, and ranges over every numeric attribute, alone and by sex."""
    products = [marginal_factors(ADULT_14, by) for by in itertools.combinations(range(14), 2)]
    for a in (0, 2, 9, 10, 11):
        for by in ((), (8,)):
            factors = marginal_factors(ADULT_14, by)
            factors[a] = kind(ADULT_14[a])
            products.append(factors)
    return plain(ADULT_14, products)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_mixed_workloads_get_a_good_strategy_with_an_honest_bound(kind):
    strategy = check_mixed(mixed_adult(kind))
    assert strategy.rows == 141159
    assert strategy.ratio <= 1.03


def check_mixed(w: Workload) -> Strategy:
    strategy = optimise(w)
    assert strategy.ratio >= 1
    assert strategy.contains(w)
    return strategy

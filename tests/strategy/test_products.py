"""Strategies that are products on every block, forced on small domains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dense import check_against_dense, random_workload
from workloads import marginal_factors, one_attribute, plain, rows

from dhdmm.effort import Limit, limited
from dhdmm.strategy import sizes
from dhdmm.strategy.optimise import optimise
from dhdmm.study.factor import Ranges
from tests.amounts import seeds

pytestmark = pytest.mark.slow


@pytest.fixture
def components_only(monkeypatch):
    monkeypatch.setattr(sizes, "ORBITS", 0)
    monkeypatch.setattr(sizes, "STEP", 0)


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_components_match_dense_arithmetic(components_only, seed):
    w = random_workload(seed)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert strategy.ratio >= 1 - 1e-9


@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_ranges_crossed_with_tables_are_near_the_optimum(components_only, monkeypatch, kind):
    """With sides of at most 20 rows the pair of long attributes is a product of two sides."""
    shape = (8, 7, 3, 2)
    products = []
    for by in itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(3)):
        factors = marginal_factors(shape, by)
        for a in {0, 1}.intersection(by):
            factors[a] = kind(shape[a])
        products.append(factors)
    w = plain(shape, products)
    monkeypatch.setattr(sizes, "ROWS_OVER_AXES", 20)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert any(len(block.sides) > 1 for block in strategy.blocks)
    monkeypatch.undo()
    best = optimise(w)
    assert strategy.lower_bound <= best.rmse
    assert strategy.rmse <= 1.03 * best.rmse


PRODUCTS = {
    "rectangles": [Ranges.all(6), Ranges.all(5)],
    "prefixes of three": [Ranges.prefixes(4), Ranges.prefixes(3), Ranges.prefixes(5)],
    "prefixes by value": [Ranges.prefixes(7), Ranges.each(4)],
    "values of a condition": [rows([[1, 1, 0, 0], [1, 0, 1, 0]]), Ranges.all(4)],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_single_product_gets_the_product_of_optima(components_only, monkeypatch, name):
    factors = PRODUCTS[name]
    w = plain([f.shape[1] for f in factors], [factors])
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert strategy.ratio <= 1.006
    monkeypatch.undo()
    bounds = [optimise(one_attribute(f)).lower_bound for f in factors]
    assert np.isclose(strategy.lower_bound, np.prod(bounds), rtol=1e-3)


def test_few_rows_over_many_cells_need_no_matrix_of_cells():
    """Weeks, weekdays and waits: 1,470 cells in a block of few rows."""
    days, waits = 42, 35
    weeks = Ranges(np.arange(0, days, 7), np.arange(7, days + 1, 7), days)
    weekdays = rows(np.equal.outer(np.arange(7), np.arange(days) % 7))
    part, steps = Ranges(np.array([3, 0]), np.array([20, 9]), waits), Ranges.prefixes(waits)
    terms = [[weeks, Ranges.total(waits)], [weekdays, part], [Ranges.total(days), steps]]
    w = plain((days, waits), terms)
    strategy = optimise(w)
    assert math.prod(len(axis.sizes) for axis in strategy.axes) == 1470
    with limited(Limit(megabytes=4, seconds=1)):  # the matrix of 1,470 × 1,470 has 17 MB
        strategy.variances()
    check_against_dense(strategy, w)

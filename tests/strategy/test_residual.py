"""Families for workloads whose symmetric blocks are too large, forced on small domains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dense import check_against_dense, dense_rmse, random_workload
from workloads import marginal_factors, one_attribute, plain, rows

from dhdmm.strategy import components, product_dual
from dhdmm.strategy import optimise as optimise_module
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges

pytestmark = pytest.mark.slow

SIZES = (8, 7, 3, 2)


@pytest.fixture
def components_only(monkeypatch):
    monkeypatch.setattr(optimise_module, "LONGEST_AXIS", 0)
    monkeypatch.setattr(optimise_module, "LARGEST_STEP", 0)


@pytest.fixture
def cut_axes(components_only, monkeypatch):
    monkeypatch.setattr(product_dual, "LARGEST_SIDE", 13)
    monkeypatch.setattr(product_dual, "DIMENSIONS", 2)


def pairs_with_ranges(kind):
    """All pairs of attributes, the first two by ranges instead of values."""
    products = []
    for by in itertools.combinations(range(4), 2):
        factors = marginal_factors(SIZES, by)
        for a in by:
            if a < 2:
                factors[a] = kind(SIZES[a])
        products.append(factors)
    return plain(SIZES, products)


def pairs_and_ranges(kind):
    """All pairs of attributes by values, and ranges over the first two."""
    products = [marginal_factors(SIZES, by) for by in itertools.combinations(range(4), 2)]
    for a in range(2):
        factors = marginal_factors(SIZES, (3,))
        factors[a] = kind(SIZES[a])
        products.append(factors)
    return plain(SIZES, products)


@pytest.mark.parametrize("seed", range(40))
def test_components_match_dense_arithmetic(components_only, seed):
    w = random_workload(seed)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert strategy.ratio >= 1 - 1e-9


@pytest.mark.parametrize("make", [pairs_with_ranges, pairs_and_ranges])
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_components_keep_rank_many_rows_and_an_honest_bound(
    components_only, monkeypatch, make, kind
):
    w = make(kind)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    monkeypatch.undo()
    assert strategy.lower_bound <= optimise(w).rmse


def check_answers(strategy, w):
    W, A = w.to_sparse().toarray(), strategy.to_sparse().toarray()
    assert np.allclose(W, W @ np.linalg.pinv(A) @ A, atol=1e-9)
    assert np.isclose(strategy.rmse, dense_rmse(W, A))
    assert strategy.sensitivity_squared == int(np.square(A.astype(object)).sum(axis=0).max())
    x = np.random.default_rng(1).integers(0, 9, strategy.shape)
    assert np.array_equal(strategy.measure(x), A @ x.ravel())
    assert np.allclose(strategy.reconstruct(strategy.measure(x)), W @ x.ravel(), atol=1e-6)
    assert np.allclose(strategy.variances(), np.square(W @ np.linalg.pinv(A)).sum(axis=1))
    assert strategy.contains(w)
    assert Strategy.from_bytes(strategy.to_bytes()).to_bytes() == strategy.to_bytes()


@pytest.mark.parametrize("make", [pairs_with_ranges, pairs_and_ranges])
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_cut_axes_answer_everything_with_an_honest_bound(cut_axes, monkeypatch, make, kind):
    w = make(kind)
    strategy = optimise(w)
    check_answers(strategy, w)
    assert any(len(axis.extra) for axis in strategy.axes), "no axis was cut"
    monkeypatch.undo()
    best = optimise(w)
    assert strategy.rows == best.rows
    assert strategy.lower_bound <= best.rmse <= strategy.rmse * (1 + 1e-3)
    assert strategy.rmse <= 1.25 * best.rmse


@pytest.mark.parametrize("widest", [10**6, 100])
def test_pairs_of_three_long_attributes_are_cut(cut_axes, monkeypatch, widest):
    """Below 100 combinations blocks are split by the first axis that is not constant."""
    monkeypatch.setattr(components, "LARGEST_TABLE", widest)
    monkeypatch.setattr(product_dual, "LARGEST_SIDE", 30)
    sizes = (8, 7, 9, 2)
    products = [marginal_factors(sizes, by) for by in itertools.combinations(range(4), 2)]
    for by, factors in zip(itertools.combinations(range(4), 2), products, strict=True):
        for a in {0, 1, 2}.intersection(by):
            factors[a] = Ranges.prefixes(sizes[a])
    w = plain(sizes, products)
    strategy = optimise(w)
    check_answers(strategy, w)
    monkeypatch.undo()
    best = optimise(w)
    assert strategy.rows == best.rows
    assert strategy.lower_bound <= best.rmse
    assert best.rmse * 0.999 <= strategy.rmse <= 1.3 * best.rmse


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

"""Families for workloads whose symmetric blocks are too large, forced on small domains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dense import check_against_dense, dense_rmse, random_workload
from workloads import marginal_factors, plain

from dhdmm.strategy import component_basis, residual, sides
from dhdmm.strategy import optimise as optimise_module
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges

pytestmark = pytest.mark.slow

SIZES = (6, 5, 3, 2)


@pytest.fixture
def components_only(monkeypatch):
    monkeypatch.setattr(optimise_module, "LONGEST_AXIS", 0)
    monkeypatch.setattr(optimise_module, "LARGEST_STEP", 0)
    monkeypatch.setattr(sides, "LARGEST_TABLE", 0)


@pytest.fixture
def split_sets(components_only, monkeypatch):
    for module in (component_basis, residual):
        monkeypatch.setattr(module, "LARGEST_RANK", 12)


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


@pytest.mark.parametrize("make", [pairs_with_ranges, pairs_and_ranges])
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_split_sets_answer_everything_with_an_honest_bound(split_sets, monkeypatch, make, kind):
    w = make(kind)
    strategy = optimise(w)
    assert any(len(block.sides) > 1 for block in strategy.blocks) or make is pairs_and_ranges
    W, A = w.to_sparse().toarray(), strategy.to_sparse().toarray()
    assert np.allclose(W, W @ np.linalg.pinv(A) @ A, atol=1e-9)
    assert np.isclose(strategy.rmse, dense_rmse(W, A))
    assert strategy.sensitivity_squared == int(np.square(A.astype(object)).sum(axis=0).max())
    x = np.random.default_rng(1).integers(0, 9, SIZES)
    assert np.array_equal(strategy.measure(x), A @ x.ravel())
    assert np.allclose(strategy.reconstruct(strategy.measure(x)), W @ x.ravel(), atol=1e-7)
    assert np.allclose(strategy.variances(), np.square(W @ np.linalg.pinv(A)).sum(axis=1))
    assert Strategy.from_bytes(strategy.to_bytes()).to_bytes() == strategy.to_bytes()
    monkeypatch.undo()
    assert strategy.lower_bound <= optimise(w).rmse

"""Blocks that are cut into sets of axes, forced on small domains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dense import check_against_dense, random_workload
from workloads import marginal_factors, plain

from dhdmm.strategy import sizes
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from tests.amounts import seeds

pytestmark = pytest.mark.slow

SIZES = (6, 5, 3, 2)


@pytest.fixture(params=[700, 12, 0])
def cut(request, monkeypatch):
    """All blocks are cut; sets of so many rows stay together."""
    monkeypatch.setattr(sizes, "ORBITS", 0)
    monkeypatch.setattr(sizes, "STEP", 0)
    monkeypatch.setattr(sizes, "ROWS_OVER_AXES", 0)
    monkeypatch.setattr(sizes, "ROWS_TOGETHER", request.param)
    monkeypatch.setattr(BasisBuilder, "is_full", lambda self, block: False)


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


@pytest.mark.parametrize("seed", seeds(5, 15))
def test_cut_blocks_match_dense_arithmetic(cut, monkeypatch, seed):
    """Rows may be more than rank(W) where queries neither see a total nor are orthogonal to it."""
    w = random_workload(seed)
    strategy = optimise(w)
    check_against_dense(strategy, w, more_rows=strategy.rows)
    least = np.linalg.matrix_rank(w.to_sparse().toarray())
    assert rank(w) in (None, least)
    assert strategy.rows == least or rank(w) is None, "a participant would refuse it"
    monkeypatch.undo()
    assert strategy.lower_bound <= optimise(w).rmse


@pytest.mark.parametrize("make", [pairs_with_ranges, pairs_and_ranges])
@pytest.mark.parametrize("kind", [Ranges.prefixes, Ranges.all])
def test_tables_of_ranges_and_values_keep_rank_many_rows(cut, monkeypatch, make, kind):
    w = make(kind)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert strategy.rows == rank(w)
    assert Strategy.from_bytes(strategy.to_bytes()).to_bytes() == strategy.to_bytes()
    monkeypatch.undo()
    best = optimise(w)
    assert strategy.lower_bound <= best.rmse
    assert strategy.rmse <= 1.25 * best.rmse

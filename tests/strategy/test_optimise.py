"""The strategy's claims on small domains, where everything can be recomputed densely."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dense import check_against_dense, dense_rmse, random_workload
from scipy.optimize import minimize
from workloads import marginals, one_attribute, plain, rows, with_total, workload

import dhdmm.strategy.optimise as optimising
from dhdmm.effort import TooLong, allocate, borrow, within, work
from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.measuring import _numbered
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Histogram, Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Product, Term, Workload
from tests.amounts import seeds

SUPPORTED = {
    "one cell": one_attribute(Ranges.total(1)),
    "a single query": plain((4, 3), [[rows([[1, 0, 1, 0]]), Ranges.total(3)]]),
    "a single signed query": one_attribute(rows([[1, -1, 0, 2]])),
    "cells that no query touches": one_attribute(rows([[1, 1, 0, 0], [1, 0, 0, 0]])),
    "an unused attribute": plain((5, 3), [[Ranges.each(5), Ranges.total(3)]]),
    "duplicate queries": one_attribute(rows([[1, 0, 1]] * 3 + [[0, 1, 0]])),
    "a rank-deficient union": plain((3, 4), [[with_total(Ranges.each(3)), Ranges.prefixes(4)]] * 2),
    "values that merge": one_attribute(Ranges(np.array([0, 2]), np.array([2, 7]), 7)),
    "contrasts alone": one_attribute(rows([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])),
    "weights far apart": workload(
        (6,), (1e-3, [(1, [Ranges.prefixes(6)])]), (1e3, [(1, [Ranges.total(6)])])
    ),
    "a coupled condition": workload(
        (4, 3),
        (
            1.0,
            [
                (1, [rows([[0, 0, 1, 1]]), Ranges.total(3)]),
                (1, [Ranges.total(4), rows([[1, 0, 0]])]),
                (-1, [rows([[0, 0, 1, 1]]), rows([[1, 0, 0]])]),
            ],
        ),
    ),
    "a coupled group-by": workload(
        (5, 3),
        (
            2.0,
            [
                (Fraction(1, 2), [Ranges.each(5), Ranges.total(3)]),
                (Fraction(-1, 3), [Ranges.each(5), rows([[1, 0, 0]])]),
            ],
        ),
        (1.0, [(1, [Ranges.total(5), Ranges.each(3)])]),
    ),
    "marginals": marginals((5, 4, 3), 2),
    "all ranges": one_attribute(Ranges.all(8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUPPORTED)
def test_claims_match_dense_arithmetic(name):
    w = SUPPORTED[name]
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert 1 - 1e-9 <= strategy.ratio <= 1.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20, 1060))
def test_random_unions_match_dense_arithmetic(seed):
    w = random_workload(seed)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert 1 - 1e-9 <= strategy.ratio <= 1.02
    assert Strategy.from_bytes(strategy.to_bytes()).to_bytes() == strategy.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_bound_lies_between_dense_optimum_and_itself(seed):
    """An independent primal solve over A itself reaches the bound and never passes it."""
    rng = np.random.default_rng(seed)
    W = rng.integers(0, 2, (5, 4)) + np.eye(5, 4, dtype=int)
    strategy = optimise(Workload.from_kronecker([(1.0, [W])]))

    def error(flat):
        """Total error with columns rescaled to length 1: any square root of any feasible X."""
        A = flat.reshape(4, 4)
        A = A / np.linalg.norm(A, axis=0)
        return np.square(W @ np.linalg.inv(A)).sum()

    starts = [np.linalg.cholesky(W.T @ W + 0.1 * np.eye(4)).T.ravel(), rng.normal(size=16)]
    best = min(minimize(error, start, tol=1e-12).fun for start in starts)
    reached = np.sqrt(best / len(W))
    assert strategy.lower_bound <= reached * (1 + 1e-9)
    assert reached <= strategy.lower_bound * (1 + 1e-3)


def test_a_weakened_bound_would_be_noticed():
    """The certificate separates: a strategy that is not the best lies visibly above the bound."""
    w = one_attribute(Ranges.prefixes(16))
    W = w.to_sparse().toarray()
    bound = optimise(w).lower_bound
    assert dense_rmse(W, np.eye(16)) > 1.2 * bound
    assert dense_rmse(W, W) > 1.05 * bound


def test_error_agrees_with_monte_carlo():
    """4,000 seeded draws; the mean square of 9 · 4,000 dependent errors strays by 4 % at most.

    Its relative standard deviation is below 0.9 %, so the false-alarm rate is below 10⁻⁵.
    """
    w = marginals((4, 3, 2), 2)
    strategy = optimise(w)
    rng = np.random.default_rng(11)
    x = rng.integers(0, 20, strategy.shape)
    truth = w.to_sparse() @ x.ravel()
    sigma = np.sqrt(strategy.sensitivity_squared)
    noise = rng.normal(size=(4000, strategy.rows)) * sigma
    measured = strategy.measure(x)
    linear = np.stack([strategy.reconstruct(unit) for unit in np.eye(strategy.rows)], axis=1)
    errors = strategy.reconstruct(measured) + noise @ linear.T - truth
    assert np.isclose(np.sqrt(np.square(errors).mean()), strategy.rmse, rtol=0.04)
    predicted = strategy.variances() * strategy.sensitivity_squared
    assert np.allclose(errors.var(axis=0), predicted, rtol=0.15)
    assert np.all(np.abs(errors.mean(axis=0)) < 5 * np.sqrt(predicted / len(errors)))


def test_rescaled_lifts_the_sensitivity_and_keeps_the_error():
    strategy = optimise(marginals((4, 3), 1))
    larger = strategy.rescaled(10 * np.sqrt(strategy.sensitivity_squared))
    assert larger.sensitivity_squared == 100 * strategy.sensitivity_squared
    assert np.isclose(larger.rmse, strategy.rmse)
    assert strategy.rescaled(1.0).sensitivity_squared == strategy.sensitivity_squared
    with pytest.raises(StrategyError, match="53 bits"):
        strategy.rescaled(2.0**60)


def one_product(*factors):
    return Term(1.0, (Product(Fraction(1), factors),), (None,) * len(factors))


def test_a_later_query_in_the_row_space_gets_its_value_and_variance():
    strategy = optimise(marginals((4, 3), 2))
    x = np.arange(12).reshape(4, 3)
    term = one_product(rows([[1, 1, 0, 0]]), rows([[0, 1, 1]]))
    values = strategy.estimate(strategy.measure(x)).term(term)
    variances = strategy.reconstruction.variances(term)
    row = np.kron([1, 1, 0, 0], [0, 1, 1])
    inverse = np.linalg.pinv(strategy.to_sparse().toarray())
    assert np.allclose(values, row @ x.ravel())
    assert np.allclose(variances, np.square(row @ inverse).sum())
    assert strategy.membership.contains(term)


def test_a_query_outside_the_row_space_is_told_apart():
    strategy = optimise(marginals((4, 3), 1))
    cell = one_product(rows([[1, 0, 0, 0]]), rows([[1, 0, 0]]))
    assert not strategy.membership.contains(cell)
    assert not strategy.contains(marginals((4, 3), 2))
    with pytest.raises(StrategyError, match="does not measure"):
        strategy.attach(marginals((4, 3), 2))


def test_a_query_that_tells_merged_values_apart_is_outside():
    strategy = optimise(one_attribute(Ranges(np.array([0, 2]), np.array([2, 7]), 7)))
    assert not strategy.contains(one_attribute(rows([[1, 0, 0, 0, 0, 0, 0]])))
    assert not strategy.contains(one_attribute(Ranges.prefixes(7)))


def test_cells_keep_different_numbers_where_64_bits_do_not_hold_them_all():
    random = np.random.default_rng(5)
    digits = random.integers(0, 3, (50, 10))[:, random.integers(0, 10, 40)] * (2**31 - 1)
    numbers = _numbered(list(digits), [2**32] * 50, digits[0])
    same = (digits[:, :, None] == digits[:, None, :]).all(axis=0)
    assert np.array_equal(numbers[:, None] == numbers[None, :], same)


def test_sparse_and_dense_histograms_measure_the_same():
    strategy = optimise(marginals((5, 4, 3), 2))
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, n, 50) for n in strategy.shape], axis=1)
    x = np.zeros(strategy.shape, int)
    np.add.at(x, tuple(codes.T), 1)
    sparse = strategy.measure(Histogram(codes, np.ones(50, np.int64)))
    assert np.array_equal(sparse, strategy.measure(x))
    assert sparse.dtype == np.int64
    assert not np.any(strategy.measure(Histogram(codes[:0], np.zeros(0, np.int64))))


def test_histograms_that_do_not_fit_are_refused():
    strategy = optimise(marginals((5, 4), 1))
    one = np.ones(1, np.int64)
    with pytest.raises(StrategyError, match="outside"):
        strategy.measure(Histogram(np.array([[5, 0]]), one))
    with pytest.raises(StrategyError, match="attributes"):
        strategy.measure(Histogram(np.array([[0]]), one))
    with pytest.raises(StrategyError, match="overflow"):
        strategy.measure(Histogram(np.array([[0, 0]]), one * 2**61))


def test_zero_workload_is_refused():
    with pytest.raises(StrategyError, match="asks nothing"):
        optimise(one_attribute(rows([[0, 0, 0]])))


def test_refuses_to_compare_too_many_values_with_each_other():
    with pytest.raises(StrategyError, match="20,000 values of one attribute"):
        optimise(one_attribute(Ranges.windows(20_000, 100)))


def test_what_takes_too_long_is_given_up_in_words(monkeypatch):
    monkeypatch.setattr(optimising, "LATEST", -1.0)
    monkeypatch.setattr(optimising, "SHORTEST", -1.0)
    for w in (marginals((3, 4, 2), 2), plain((70, 70), [[Ranges.prefixes(70)] * 2])):
        with pytest.raises(StrategyError, match="in the time allowed") as error:
            optimise(w)
        assert "more seconds" in str(error.value.hint)
    monkeypatch.setattr(sizes, "WRITTEN_OUT", 4)
    assert optimise(one_attribute(Ranges.prefixes(9))).rows == 9, "halves end by themselves"


def test_time_is_over_for_work_and_memory_alike_and_only_inside():
    for count in (work, allocate, borrow):
        with within(-1.0), pytest.raises(TooLong):
            count(1)
        with within(-1.0), within(math.inf):
            count(1)
        count(1)

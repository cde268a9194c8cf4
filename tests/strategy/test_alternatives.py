"""Baselines' figures, computed from Grams, equal those of the matrices written out."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dhdmm.strategy import alternatives, sizes
from dhdmm.strategy.alternatives import GramSum, PIdentity
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.study.factor import Ranges, Rows
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Item, Product, Term, Workload


def union() -> Workload:
    """Weighted, with a repeated query, values that no query tells apart, and a signed row."""
    signed = np.array([[1, 1, 0, 0], [1, -1, 2, 2]])
    return Workload.from_kronecker(
        [
            (1.0, [np.eye(3), np.tri(4)]),
            (2.0, [np.ones((1, 3)), signed]),
            (0.5, [np.ones((1, 3)), np.ones((1, 4))]),
            (0.5, [np.ones((1, 3)), np.ones((1, 4))]),
        ]
    )


def merging() -> Workload:
    """Nine values that the queries see as three."""
    bins = np.repeat(np.eye(3), 3, axis=1)
    return Workload.from_kronecker([(1.0, [bins, np.eye(2)]), (3.0, [bins, np.ones((1, 2))])])


def coupled() -> Workload:
    """A term of two products: first = 0 or second = 0."""
    one = Rows(np.array([[1, 0, 0]]))
    either = tuple(
        Product(Fraction(c), factors)
        for c, factors in [
            (1, (one, Ranges.total(3))),
            (1, (Ranges.total(3), one)),
            (-1, (one, one)),
        ]
    )
    each = (Product(Fraction(1), (Ranges.each(3), Ranges.total(3))),)
    terms = (Term(1.0, either, (None, None)), Term(1.0, each, (None, None)))
    return Workload(Schema.of_sizes((3, 3)), (Item("coupled", terms),))


WORKLOADS = {"union": union, "merging": merging, "coupled": coupled}


def dense_rmse(workload: Workload, A: np.ndarray) -> float:
    """√(max column norm² · ‖W A⁺‖²_F / queries) with every matrix written out."""
    W = workload.to_sparse().toarray()
    reached = W @ np.linalg.pinv(A)
    assert np.allclose(reached @ A, W, atol=1e-8)  # unbiased
    return math.sqrt((A**2).sum(axis=0).max() * (reached**2).sum() / len(W))


@pytest.fixture(params=WORKLOADS.values(), ids=WORKLOADS.keys())
def workload(request: pytest.FixtureRequest) -> Workload:
    return request.param()


def test_identity_counts_every_cell(workload: Workload) -> None:
    found = alternatives.identity(workload, GramSum(reduce_workload(workload)))
    assert found.rows == workload.cells
    assert found.rmse == pytest.approx(dense_rmse(workload, np.eye(workload.cells)), rel=1e-9)


def test_workload_itself_is_measured_and_solved_by_least_squares(workload: Workload) -> None:
    W = workload.to_sparse().toarray()
    rank = int(np.linalg.matrix_rank(W))
    found = alternatives.itself(workload, GramSum(reduce_workload(workload)), rank)
    assert found.rows == len(W)
    assert found.rmse == pytest.approx(dense_rmse(workload, W), rel=1e-9)


def test_hdmm_has_l1_sensitivity_one_and_its_stated_l2_error(workload: Workload) -> None:
    grams = GramSum(reduce_workload(workload))
    A = np.ones((1, 1))
    for axis, part in zip(grams.axes, alternatives.kronecker(grams), strict=True):
        stacked = np.vstack([np.eye(part.theta.shape[1]), part.theta])
        normalised = stacked / stacked.sum(axis=0)
        assert (normalised**2).sum(axis=0).max() == pytest.approx(part.largest_column)
        A = np.kron(A, normalised[:, axis.merged])
    assert np.allclose(np.abs(A).sum(axis=0), 1)
    found = alternatives.hdmm(workload, grams)
    assert found.rows == np.count_nonzero(A.any(axis=1))
    assert found.rmse == pytest.approx(dense_rmse(workload, A), rel=1e-7)


def test_ours_is_no_worse_than_any_baseline(workload: Workload) -> None:
    ours = optimise(workload)
    for other in alternatives.compare(workload, ours.rows):
        assert other.rmse is not None
        assert ours.lower_bound <= other.rmse * (1 + 1e-9)
        assert ours.rmse <= other.rmse * 1.003


def test_gradient_agrees_with_differences() -> None:
    source = np.random.default_rng(1)
    theta, root = source.random((2, 5)), source.random((7, 5))
    _, gradient = alternatives.error_and_gradient(theta, root.T @ root)
    for index in np.ndindex(*theta.shape):
        step = np.zeros_like(theta)
        step[index] = 1e-6
        above, below = (
            alternatives.error_and_gradient(theta + sign * step, root.T @ root)[0]
            for sign in (1, -1)
        )
        assert (above - below) / 2e-6 == pytest.approx(gradient[index], rel=1e-4, abs=1e-4)


def test_search_improves_on_its_start_and_on_identity() -> None:
    workload = Workload.from_kronecker([(1.0, [np.tri(64)])])
    grams = GramSum(reduce_workload(workload))
    V = grams.surrogate(0, [{}])
    start = PIdentity(np.full((4, 64), 0.1))
    found = alternatives.improve(start, V)
    assert found.theta.min() >= 0
    error = alternatives.error_and_gradient(found.theta, V)[0]
    assert error < 0.8 * alternatives.error_and_gradient(start.theta, V)[0]
    assert error < 0.8 * np.trace(V)


@pytest.mark.slow
def test_range_strategy_is_a_good_one_and_not_a_straw_man() -> None:
    """Identity has 9.27 on all ranges of 256 values; a search that stopped early would show."""
    workload = Workload.from_kronecker([(1.0, [_all_ranges(256)])])
    found = alternatives.hdmm(workload, GramSum(reduce_workload(workload)))
    assert 5.4 < found.rmse < 5.64


def _all_ranges(size: int) -> np.ndarray:
    return Ranges.all(size).to_sparse().toarray()


@pytest.mark.slow
def test_says_what_it_skips() -> None:
    size = sizes.BASELINE_VALUES + 1
    schema = Schema.of_sizes((size,))
    term = Term(1.0, (Product(Fraction(1), (Ranges.prefixes(size),)),), (None,))
    found = alternatives.compare(Workload(schema, (Item("prefixes", (term,)),)), size)
    assert found[2].rmse is None
    assert "2,048 values" in found[2].note
    assert found[0].rmse == pytest.approx(math.sqrt((size + 1) / 2))
    assert found[1].rmse == pytest.approx(math.sqrt(size))

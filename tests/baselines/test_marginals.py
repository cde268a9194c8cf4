"""Others' strategies for marginals, against strategies that are written out."""

import math
from itertools import combinations

import numpy as np
import pytest

from dhdmm.strategy.optimise import optimise
from dhdmm.study.workload import Workload
from research.baselines.marginals import residual_planner, weighted_marginals

ADULT_5 = (75, 16, 5, 2, 20)
ADULT_14 = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)


def pairs(shape):
    return list(combinations(range(len(shape)), 2))


def rows(shape, marginal):
    parts = [np.eye(n) if i in marginal else np.ones((1, n)) for i, n in enumerate(shape)]
    total = np.ones((1, 1))
    for part in parts:
        total = np.kron(total, part)
    return total


def rmse(W, A):
    squared = np.linalg.norm(A, axis=0).max() ** 2
    return math.sqrt(squared * np.linalg.norm(W @ np.linalg.pinv(A)) ** 2 / len(W))


@pytest.mark.parametrize(
    ("shape", "residual", "weighted"),
    [(ADULT_5, 2.3308, 2.3655), (ADULT_14, 6.3587, 6.5041)],
)
def test_figures_of_adult(shape, residual, weighted):
    assert residual_planner(shape, pairs(shape)) == pytest.approx(residual, abs=6e-5)
    assert weighted_marginals(shape, pairs(shape)) == pytest.approx(weighted, abs=6e-5)


def test_residual_planner_is_the_optimum_that_ours_is_certified_against():
    shape = (4, 3, 5)
    terms = [
        (
            1.0,
            [np.eye(n, dtype=int) if i in S else np.ones((1, n), int) for i, n in enumerate(shape)],
        )
        for S in pairs(shape)
    ]
    strategy = optimise(Workload.from_kronecker(terms))
    assert residual_planner(shape, pairs(shape)) == pytest.approx(strategy.lower_bound, rel=1e-4)


def test_no_weights_of_marginals_are_better_than_those_found():
    shape = (3, 4, 2)
    wanted = pairs(shape)
    W = np.concatenate([rows(shape, S) for S in wanted])
    found, generator = weighted_marginals(shape, wanted), np.random.default_rng(3)
    measured = [S for size in range(3) for S in combinations(range(3), size)]
    tried = []
    for _ in range(200):
        weights = generator.dirichlet(np.full(len(measured), 0.5))
        A = np.concatenate(
            [math.sqrt(w) * rows(shape, S) for w, S in zip(weights, measured, strict=True)]
        )
        tried.append(rmse(W, A))
    assert found <= min(tried)
    assert found <= rmse(W, W)
    assert found >= residual_planner(shape, wanted)

"""Lower bounds on the error of every strategy: below the truth, and near it where it is known."""

from __future__ import annotations

import numpy as np
import pytest
from dense import random_workload
from workloads import marginals, one_attribute, rows

from dhdmm.strategy.optimum import Dual, DualBlock
from dhdmm.strategy.residual import ResidualProblem
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.strategy.unmixed import UnmixedBound, root_trace, split_gram
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Workload


@pytest.mark.parametrize("n", [1, 4, 16, 64])
def test_certified_bound_stays_below_a_bound_that_is_known_exactly(n: int) -> None:
    """All values of one attribute, n a power of four: ‖D^½‖_*² = n, without any rounding."""
    dual = Dual([DualBlock(np.eye(n), np.zeros(n, np.int64), 1)], np.array([float(n)]))
    bound = dual.certified_bound(np.ones(1))
    assert n * (1 - 1e-11) < bound < n


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_trace_of_a_root_is_rounded_down(n: int) -> None:
    for scale in (1.0, 4.0, 0.25):
        trace = root_trace(scale * np.eye(n))
        assert n * scale**0.5 * (1 - 1e-11) < trace < n * scale**0.5


def unmixed(w: Workload) -> float:
    """The bound on tr (D^½ V D^½)^½ for equal weights, over all components."""
    problem = ResidualProblem(reduce_workload(w))
    return UnmixedBound(problem.finder, problem.uniform).contribution(problem.finder.components())


def nuclear(w: Workload) -> float:
    """‖W D^½‖_* with equal weights, densely."""
    W = w.to_sparse().toarray()
    return float(np.linalg.svd(W, compute_uv=False).sum() / np.sqrt(W.shape[1]))


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_bound_for_large_workloads_is_exact_where_nothing_mixes(ways: int) -> None:
    w = marginals((5, 4, 3), ways)
    assert nuclear(w) * (1 - 1e-8) < unmixed(w) < nuclear(w)


MIXING = {
    "prefixes": one_attribute(Ranges.prefixes(6)),
    "all ranges": one_attribute(Ranges.all(5)),
    "one and two": one_attribute(rows([[1, 1, 0], [0, 1, 1], [1, 0, 0]])),
}


@pytest.mark.parametrize("name", MIXING)
def test_bound_for_large_workloads_is_a_bound_where_sets_mix(name: str) -> None:
    assert 0 < unmixed(MIXING[name]) < nuclear(MIXING[name])


@pytest.mark.parametrize("seed", range(20))
def test_a_split_gram_lies_below_the_gram(seed: int) -> None:
    """[[(1−θ)γ, 0], [0, G₁ − g gᵀ/(θγ)]] ⪯ G: so its root's trace is no larger than G's."""
    rng = np.random.default_rng(seed)
    factor = rng.integers(-2, 3, (4, 5))
    gram, d = factor.T @ factor, np.full(5, 0.2)
    eigenvalues = np.linalg.eigvalsh(gram * 0.2)
    whole = np.sqrt(np.maximum(eigenvalues, 0)).sum()
    for share in (1.0, 0.75, 0.5, 0.25):
        alone, rest = split_gram(gram, d, share)
        assert np.sqrt(alone) + rest <= whole * (1 + 1e-9)


def test_differences_that_cancel_are_split_whatever_their_rounding() -> None:
    """γ is 0 and g is too, but for rounding that differs among processors."""
    gram = np.array([[1, 0, -1], [0, 0, 0], [-1, 0, 1]])
    for weight in (1 / 3, np.nextafter(1 / 3, 1)):
        alone, rest = split_gram(gram, np.array([1 / 3, 1 / 3, weight]), 1.0)
        assert alone == pytest.approx(0, abs=1e-15)
        assert rest == pytest.approx((2 / 3) ** 0.5, rel=1e-9)


def test_random_workloads_stay_below_their_nuclear_norm() -> None:
    for seed in range(12):
        w = random_workload(seed)
        assert unmixed(w) <= nuclear(w) * (1 + 1e-9)

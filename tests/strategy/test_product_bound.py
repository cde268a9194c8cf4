"""The bound for dual weights that are a product: below the truth, and near it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense import random_workload
from workloads import marginals, one_attribute, plain

from dhdmm.strategy.bound import WHOLE, ProductBound, unmixed
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Workload
from tests.amounts import seeds


def uniform(w: Workload, kept: int = WHOLE) -> float:
    """The bound on tr (D^½ V D^½)^½ for equal weights."""
    reduction = reduce_workload(w)
    d = [axis.sizes / axis.sizes.sum() for axis in reduction.axes]
    return ProductBound(reduction, d).root_trace(kept)


def nuclear(w: Workload) -> float:
    """‖W D^½‖_* with equal weights for all merged cells, densely."""
    W = np.unique(w.to_sparse().toarray(), axis=1)
    return float(np.linalg.svd(W, compute_uv=False).sum() / np.sqrt(W.shape[1]))


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_bound_for_large_workloads_is_exact_where_nothing_is_cut(ways: int) -> None:
    w = marginals((5, 4, 3), ways)
    assert nuclear(w) * (1 - 1e-8) < uniform(w) <= nuclear(w) * (1 + 1e-12)


CROSSED = plain(
    (12, 11), [[Ranges.prefixes(12), Ranges.total(11)], [Ranges.all(12)] * 1 + [Ranges.each(11)]]
)
MIXING = {
    "prefixes": one_attribute(Ranges.prefixes(12)),
    "all ranges": one_attribute(Ranges.all(11)),
    "prefixes by value": CROSSED,
}


@pytest.mark.parametrize("kept", [1, 3, 4])
@pytest.mark.parametrize("name", MIXING)
def test_bound_for_large_workloads_is_a_bound_where_axes_are_cut(name: str, kept: int) -> None:
    whole, cut = uniform(MIXING[name]), uniform(MIXING[name], kept)
    assert whole == pytest.approx(nuclear(MIXING[name]))
    assert 0.5 * whole < cut < whole


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_an_unmixed_gram_lies_below_the_gram(seed: int) -> None:
    """And is positive semidefinite, so that products of such matrices lie below products."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(9, 7))
    gram = factor.T @ factor
    for share in (0.0, 0.25, 1.0):
        A, C = unmixed(gram[:3, :3], gram[:3, 3:], gram[3:, 3:], share)
        below = np.block([[A, np.zeros((3, 4))], [np.zeros((4, 3)), C]])
        assert np.linalg.eigvalsh(below)[0] > -1e-9
        assert np.linalg.eigvalsh(gram - below)[0] > -1e-9


@pytest.mark.slow
def test_the_root_of_the_trace_is_that_of_the_workload_written_out() -> None:
    for seed in range(12):
        w = random_workload(seed)
        W = np.unique(w.to_sparse().toarray(), axis=1)
        reduction = reduce_workload(w)
        if math.prod(len(axis.orbit) for axis in reduction.axes) == W.shape[1]:
            d = [axis.sizes / axis.sizes.sum() for axis in reduction.axes]
            found = ProductBound(reduction, d).root_of_trace
            assert found == pytest.approx(np.sqrt(np.square(W).sum() / W.shape[1]))


def test_random_workloads_stay_below_their_nuclear_norm() -> None:
    for seed in range(12):
        w = random_workload(seed)
        if not any(len(term.products) > 1 for term in w.terms):
            assert uniform(w) <= nuclear(w) * (1 + 1e-9)

"""An objective is a value: another one changes what is minimised, shown and bounded."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from workloads import marginal_factors, workload

from dhdmm.strategy import sizes
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.strategy.optimise import optimise
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Item, Workload

SIZES = (6, 5, 3, 2)


def example() -> Workload:
    """All pairs of attributes, the first two by prefixes, each weighted differently."""
    products = [marginal_factors(SIZES, by) for by in itertools.combinations(range(4), 2)]
    for by, factors in zip(itertools.combinations(range(4), 2), products, strict=True):
        for a in {0, 1}.intersection(by):
            factors[a] = Ranges.prefixes(SIZES[a])
    return workload(SIZES, *((1.0 + i, [(1, f)]) for i, f in enumerate(products)))


@pytest.fixture(params=["exact", "products", "joint", "cut"])
def path(request, monkeypatch) -> str:
    """Every way to a strategy."""
    if request.param != "exact":
        monkeypatch.setattr(sizes, "ORBITS", 0)
        monkeypatch.setattr(sizes, "STEP", 0)
    if request.param in {"joint", "cut"}:
        monkeypatch.setattr(sizes, "ROWS_OVER_AXES", 0)
        monkeypatch.setattr(BasisBuilder, "is_full", lambda self, block: False)
    if request.param == "cut":
        monkeypatch.setattr(sizes, "ROWS_TOGETHER", 12)
    return request.param


@dataclass(frozen=True)
class EachTermAlike(Objective):
    """The sum over terms of the mean squared error of their queries, whatever their weights."""

    def weights(self, workload):
        return [term.queries**-0.5 for term in workload.terms]


@dataclass(frozen=True)
class InOtherUnits(Objective):
    """Four times the total squared error."""

    def value(self, traces, largest):
        return 4 * super().value(traces, largest)

    def share(self, trace, value):
        return super().share(4 * trace, value)

    def bound(self, root):
        return 4 * super().bound(root)


@pytest.mark.slow
def test_weights_of_an_objective_count_in_place_of_the_workloads(path: str) -> None:
    w = example()
    found = optimise(w, objective=EachTermAlike())
    terms = (replace(t, weight=t.queries**-0.5) for t in w.terms)
    weighted = optimise(Workload(w.schema, (Item("weighted", tuple(terms)),)))
    assert found.to_bytes() == weighted.to_bytes() != optimise(w).to_bytes()
    assert (found.error, found.lower_bound) == (weighted.error, weighted.lower_bound)
    assert found.rmse > optimise(w).lower_bound


@pytest.mark.slow
def test_an_objective_in_other_units_finds_the_same_strategy_and_shows_its_own(path: str) -> None:
    found, plain = (optimise(example(), objective=o) for o in (InOtherUnits(), Objective()))
    assert any(len(block.sides) > 1 for block in found.blocks) == (path == "cut")
    assert found.to_bytes() == plain.to_bytes()
    assert (found.error, found.lower_bound) == (2 * plain.error, 2 * plain.lower_bound)
    assert found.ratio == plain.ratio


def test_scaling_blocks_best_reaches_the_bound_of_their_contributions() -> None:
    """(Σ e/s)(Σ m s) is least, over all scales s of the blocks, at (Σ √(e m))²."""
    rng = np.random.default_rng(4)
    blocks = rng.uniform(0.1, 3, (5, 2)).tolist()

    def value(scales):
        traces = [e / s for (e, _), s in zip(blocks, scales, strict=True)]
        largest = sum(m * s for (_, m), s in zip(blocks, scales, strict=True))
        return TOTAL_SQUARED_ERROR.value(traces, largest)

    least = TOTAL_SQUARED_ERROR.bound(sum(TOTAL_SQUARED_ERROR.contribution(*b) for b in blocks))
    best = [TOTAL_SQUARED_ERROR.scale(*b) for b in blocks]
    assert value(best) == pytest.approx(least)
    assert value([7 * s for s in best]) == pytest.approx(least), "a common scale changes nothing"
    assert all(value(best * rng.uniform(0.5, 2, 5)) > least for _ in range(50))

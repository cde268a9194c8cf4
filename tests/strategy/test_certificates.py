"""Certificates against an optimum that shares no code with the optimiser, on every path."""

from __future__ import annotations

import numpy as np
import pytest
from dense import check_against_dense, dense_optimum, random_workload

from dhdmm.strategy import sizes
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.optimise import optimise

SOAK = pytest.mark.soak
SEEDS = [
    *range(6),
    141,
    *(pytest.param(seed, marks=SOAK) for seed in range(100, 150) if seed != 141),
]


def force(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Lower the limits until a small workload takes the path of a large one."""
    if path == "columns":
        monkeypatch.setattr(sizes, "FEW_CELLS", 0)
    if path in {"products", "cut"}:
        monkeypatch.setattr(sizes, "ORBITS", 0)
        monkeypatch.setattr(sizes, "STEP", 0)
    if path == "cut":
        monkeypatch.setattr(sizes, "ROWS_OVER_AXES", 0)
        monkeypatch.setattr(BasisBuilder, "is_full", lambda self, block: False)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["exact", "columns", "products", "cut"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_certificate_exceeds_the_optimum(monkeypatch, seed: int, path: str) -> None:
    force(monkeypatch, path)
    w = random_workload(seed)
    W = w.to_sparse().toarray()
    bound, reached = (value / np.sqrt(len(W)) for value in dense_optimum(W))
    strategy = optimise(w)
    assert 0 < strategy.lower_bound <= reached * (1 + 1e-9)
    assert strategy.rmse >= bound * (1 - 1e-9)
    if path in {"exact", "columns"}:
        assert strategy.rmse <= 1.004 * reached, "and the strategy is the optimum, rounded"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["exact", "columns", "products", "cut"])
def test_a_search_without_time_still_answers_everything(monkeypatch, path: str) -> None:
    force(monkeypatch, path)
    w = random_workload(3)
    heard: list[float] = []
    strategy = optimise(w, seconds=0.0, report=heard.append)
    check_against_dense(strategy, w, more_rows=strategy.rows)
    assert strategy.lower_bound <= dense_optimum(w.to_sparse().toarray())[1] / np.sqrt(w.queries)
    assert heard, "whoever waits hears how good it is"
    assert strategy.ratio <= max(heard) * (1 + 1e-9)

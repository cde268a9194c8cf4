"""The different columns of Kronecker rows, and their norms, against all cells written out."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from dense import check_against_dense
from workloads import plain, workload

from dhdmm.strategy import sizes
from dhdmm.strategy.basis import kronecker_rows
from dhdmm.strategy.columns import Columns, TooManyColumns
from dhdmm.strategy.optimise import optimise
from dhdmm.study.factor import Ranges
from tests.amounts import seeds


def random_tables(seed: int) -> list[np.ndarray]:
    """(products, values) of every axis: ranges, mostly of all values."""
    rng = np.random.default_rng(seed)
    sizes, products = rng.integers(1, 6, rng.integers(1, 5)), rng.integers(1, 8)
    low = -1 if seed % 3 == 0 else 0
    tables = [rng.integers(low, 2, (products, n)) for n in sizes]
    return [np.where(rng.random((products, 1)) < 0.4, 1, T) for T in tables]


def written_out(tables: list[np.ndarray]) -> np.ndarray:
    """K, all cells."""
    ids = np.tile(np.arange(len(tables[0]))[:, None], (1, len(tables)))
    return kronecker_rows(ids, tables)


@pytest.mark.parametrize("seed", seeds(10, 30))
def test_columns_are_those_of_all_cells(seed: int) -> None:
    tables = random_tables(seed)
    found, K = Columns.of(tables), written_out(tables)
    different = np.unique(K, axis=1).T
    assert np.array_equal(np.unique(found.all_columns(), axis=0), different)
    assert len(found.all_codes()) == len(different) <= found.most
    at = np.ravel_multi_index(found.all_codes().T, [T.shape[1] for T in tables])
    assert np.array_equal(np.unique(K[:, at], axis=1).T, different)


@pytest.mark.parametrize("seed", seeds(10, 30))
def test_norms_are_exact_whatever_the_size_of_entries(seed: int) -> None:
    tables = random_tables(seed)
    found, K = Columns.of(tables), written_out(tables).astype(object)
    for bits in (3, 22, 28, 40):
        A = np.random.default_rng(seed).integers(2**bits, 2 ** (bits + 1), (4, len(K)))
        A = A.astype(object) * 2 + 1
        truth = max(np.square(A @ K).sum(axis=0))
        parts = list(found.largest(A.T @ A))
        assert max(int(norms.max()) for norms, _ in parts) == truth
        for norms, cells in parts:
            at = np.ravel_multi_index(cells.T, [T.shape[1] for T in tables])
            assert list(norms) == list(np.square(A @ K[:, at]).sum(axis=0))


def test_columns_that_are_too_many_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(sizes, "COLUMN_BYTES", 100)
    with pytest.raises(TooManyColumns, match="too many cells"):
        Columns.of([np.eye(6, dtype=np.int64)] * 3)


def conditions(seed: int, count: int = 6):
    """Counts with ranges on two of four attributes, one of them with OR."""
    rng, sizes = np.random.default_rng(seed), (5, 4, 3, 4)
    total = [Ranges.total(n) for n in sizes]

    def condition():
        factors = list(total)
        for a in rng.choice(4, 2, replace=False):
            low, high = np.sort(rng.choice(sizes[a] + 1, 2, replace=False))
            factors[a] = Ranges(np.array([low]), np.array([high]), sizes[a])
        return factors

    either = [condition(), condition()]
    both = [
        Ranges(
            np.maximum(f.low, g.low),
            np.maximum(np.minimum(f.high, g.high), np.maximum(f.low, g.low)),
            n,
        )
        for f, g, n in zip(*either, sizes, strict=True)
    ]
    terms = [(1.0, [(Fraction(1), condition())]) for _ in range(count)]
    coupled = [(Fraction(1), either[0]), (Fraction(1), either[1]), (Fraction(-1), both)]
    return workload(sizes, *terms, (2.0, coupled))


@pytest.mark.parametrize("way", ["all columns", "one after the other"])
@pytest.mark.parametrize("seed", seeds(3, 10))
def test_conditions_get_the_optimum(monkeypatch, seed: int, way: str) -> None:
    w = conditions(seed)
    best = optimise(w)
    monkeypatch.setattr(sizes, "FEW_CELLS", 0)
    if way == "one after the other":
        monkeypatch.setattr(sizes, "MATRICES", 7 * 7 + 1)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert strategy.lower_bound <= best.rmse
    assert strategy.ratio <= 1.006


@pytest.mark.slow
def test_conditions_beside_tables_get_the_optimum(monkeypatch) -> None:
    """Residual blocks see one orbit of an attribute only."""
    shape = (5, 4, 3)
    total = [Ranges.total(n) for n in shape]
    tables = [[Ranges.each(5), *total[1:]], [total[0], Ranges.each(4), total[2]]]
    ranges = [
        [
            Ranges(np.array([i]), np.array([i + 3]), 5),
            total[1],
            Ranges(np.array([0]), np.array([2]), 3),
        ]
        for i in range(3)
    ]
    for chosen in itertools.combinations(tables + ranges, 3):
        w = plain(shape, chosen)
        best = optimise(w)
        with monkeypatch.context() as patch:
            patch.setattr(sizes, "FEW_CELLS", 0)
            strategy = optimise(w)
        check_against_dense(strategy, w)
        assert strategy.rmse == pytest.approx(best.rmse, rel=3e-3)

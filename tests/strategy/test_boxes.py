"""Squared columns of conditions that are ranges, for all cells by running sums."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from dense import check_against_dense, dense_optimum

from bench.wide import CONDITIONS, conditions, union
from dhdmm.errors import StrategyError
from dhdmm.strategy import blocks, exact, optimum, sensitivity, sizes
from dhdmm.strategy.basis import Basis, kronecker_rows
from dhdmm.strategy.blocks import Block, MeasuredAxis, Side
from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.columns import Columns
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.optimum import BoxDual
from dhdmm.strategy.strategy import Histogram, Strategy
from dhdmm.strategy.tree import Tree
from dhdmm.study.factor import Factor, Ranges


def ranges(rng: np.random.Generator, products: int, size: int) -> np.ndarray:
    ends = np.sort([rng.choice(size + 1, 2, replace=False) for _ in range(products)], axis=1)
    values = np.arange(size)
    return ((values >= ends[:, :1]) & (values < ends[:, 1:])).astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_every_cell_has_its_squared_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [ranges(rng, 9, size) for size in (4, 1, 5, 3)]
    A = rng.integers(-20, 20, (6, 9))
    boxes = Boxes.of(tables)
    assert boxes is not None
    K = kronecker_rows(np.tile(np.arange(9)[:, None], 4), tables)
    expected = np.square(A @ K).sum(axis=0)
    S = A.T @ A
    assert np.array_equal(boxes.norms(S).ravel(), expected)
    (found, cells), *others = boxes.largest(S)
    assert not others
    assert np.array_equal(expected[np.ravel_multi_index(cells.T, boxes.shape)], found)
    assert found.max() == expected.max()
    assert found.max() == max(norms.max() for norms, _ in Columns.of(tables).largest(S))
    held = boxes.holding(3)
    inside = np.all([table[:, held[:, a]] for a, table in enumerate(tables)], axis=0)
    assert np.all(np.count_nonzero(inside, axis=1) >= 1)


def test_what_is_no_range_is_left_to_others() -> None:
    assert Boxes.of([np.array([[1, 0, 1]])]) is None
    assert Boxes.of([np.array([[0, 2, 0]])]) is None
    assert Boxes.of([np.ones((1, 2**13), np.int64)] * 3) is None


@pytest.mark.parametrize("entry", [1, 2**20, 2**29, 2**34])
def test_the_longest_column_is_exact_whatever_the_size_of_entries(monkeypatch, entry: int) -> None:
    monkeypatch.setattr(sensitivity, "FEW_CELLS", 0)
    rng, sizes = np.random.default_rng(1), (4, 5, 3)
    tables = [np.maximum(ranges(rng, 9, n), np.arange(n) == 1) for n in sizes]
    tables = [np.maximum.accumulate(table, axis=1) for table in tables]
    axes = [MeasuredAxis(np.arange(n), Tree.flat(np.arange(n)), table)
            for n, table in zip(sizes, tables, strict=True)]  # fmt: skip
    ids = np.stack([1 + n + np.arange(9) for n in sizes], axis=1)
    T = np.triu(rng.integers(1, 3, (9, 9))) * entry
    block = Block((), (Side((0, 1, 2), Basis.plain(ids), T),))
    assert Boxes.of(tables) is not None
    A = T.astype(object) @ kronecker_rows(np.tile(np.arange(9)[:, None], 3), tables).astype(object)
    found = sensitivity.sensitivity_squared(axes, [block], [block.pieces(axes)])
    assert found == int(np.square(A).sum(axis=0).max())


@pytest.mark.parametrize("seed", range(5))
def test_the_gram_of_weights_is_that_of_all_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [ranges(rng, 9, size) for size in (4, 1, 5, 3)]
    boxes = Boxes.of(tables)
    assert boxes is not None
    K = kronecker_rows(np.tile(np.arange(9)[:, None], 4), tables)
    d = rng.dirichlet(np.full(K.shape[1], 0.1))
    expected = (K * d) @ K.T
    assert np.abs(boxes.gram(d) - expected).max() <= boxes.gram_error
    assert np.allclose(boxes.gram(d.astype(np.float32)), expected, atol=1e-5)


@pytest.fixture
def weights_everywhere(monkeypatch) -> None:
    """Small conditions are solved as hundreds of them are: no columns are listed."""
    for name in ("FEW_CELLS", "MATRICES", "BOXES_BY_COLUMNS"):
        monkeypatch.setattr(sizes, name, 0)
    monkeypatch.setattr(exact.SymmetricProblem, "_fits", lambda self, ranks, sizes: sizes[0] == 1)


@pytest.mark.usefixtures("weights_everywhere")
@pytest.mark.parametrize("seed", range(6))
def test_weights_on_all_cells_find_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, terms = (5, 4, 6), []
    for _ in range(7):
        factors: list[Factor] = [Ranges.total(n) for n in sizes]
        for a in rng.choice(3, 2, replace=False):
            low, high = np.sort(rng.choice(sizes[a] + 1, 2, replace=False))
            factors[a] = Ranges(np.array([low]), np.array([high]), sizes[a])
        terms.append([(1, factors)])
    w = union(sizes, terms)
    with mock.patch.object(BoxDual, "solve", autospec=True, side_effect=BoxDual.solve) as solved:
        strategy = optimise(w)
    assert solved.called
    check_against_dense(strategy, w)
    bound, reached = (
        value / np.sqrt(w.queries) for value in dense_optimum(w.to_sparse().toarray())
    )
    assert strategy.lower_bound <= reached
    assert strategy.lower_bound >= 0.99 * bound
    assert bound <= strategy.rmse < 1.01 * bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "written", "steps"),
    [(60, 2**16, optimum.STEPS), pytest.param(300, 2**24, 2, marks=pytest.mark.soak)],
)
def test_more_numbers_than_are_written_out_are_applied_as_products(
    monkeypatch: pytest.MonkeyPatch, count: int, written: int, steps: int
) -> None:
    monkeypatch.setattr(blocks, "CHEAP_TABLE", min(written, blocks.CHEAP_TABLE))
    monkeypatch.setattr(blocks, "LARGEST_WRITTEN", written)
    monkeypatch.setattr(optimum, "STEPS", steps)
    w = conditions(count, CONDITIONS)
    strategy = optimise(w)
    assert strategy.rows == count
    (side,) = strategy.blocks[0].sides
    widest = max(side.pieces(strategy.axes), key=lambda piece: piece.entries)
    assert widest.entries > written
    read = Strategy.from_bytes(strategy.to_bytes())
    assert read.sensitivity_squared == strategy.sensitivity_squared
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, n, 50) for n in CONDITIONS], axis=1)
    measured = read.measure(Histogram(codes, np.ones(50, np.int64)))
    inside = [
        np.all(
            [
                (f.low <= c) & (c < f.high)
                for f, c in zip(term.products[0].factors, codes.T, strict=True)
            ],
            axis=0,
        ).sum()
        for term in w.terms
    ]
    assert np.allclose(read.attach(w).reconstruct(measured), inside, atol=1e-6)
    with pytest.raises(StrategyError, match="too many to write out"):
        widest.table  # noqa: B018

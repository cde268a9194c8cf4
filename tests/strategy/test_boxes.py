"""Squared columns of conditions that are ranges, for all cells by running sums."""

from __future__ import annotations

import numpy as np
import pytest

from bench.wide import CONDITIONS, conditions
from dhdmm.errors import StrategyError
from dhdmm.strategy import sensitivity
from dhdmm.strategy.basis import Basis, kronecker_rows
from dhdmm.strategy.blocks import Block, MeasuredAxis, Side
from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.columns import Columns
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.tree import Tree


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


@pytest.mark.slow
def test_more_sums_than_participants_could_write_out_are_refused_before_the_search() -> None:
    asked = conditions(300, CONDITIONS)
    with pytest.raises(StrategyError, match=r"300 sums over .* 16,777,216") as error:
        optimise(asked, seconds=1)
    assert "fewer conditions" in str(error.value.hint)

"""Exact arithmetic where 53, 63 and 64 bits end: what a hostile plan would aim at."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from dense import random_workload, ranges_of_rows, replace_squared
from workloads import marginals, one_attribute, plain, rows

from dhdmm.strategy import blocks as blocks_module
from dhdmm.strategy import matrix, maximise, sensitivity
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.matrix import largest, multiply, squared_column_norms
from dhdmm.strategy.maximise import TableSum, maximum
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from tests.planning.studies import with_triangle

# Products


@pytest.mark.parametrize("bits", range(20, 40))
@pytest.mark.parametrize("columns", [1, 2, 64])
def test_products_are_exact_at_every_size(bits: int, columns: int) -> None:
    """Odd entries just above a power of two: one lost bit shows."""
    left = np.full((2, columns), 2**bits + 1)
    left[1] = -left[1]
    right = np.full((columns, 1), 2**bits + 3)
    expected = left.astype(object) @ right.astype(object)
    assert multiply(left, right).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("entry", "columns", "dtype", "cost"),
    [
        (2**53 - 1, 1, np.int64, matrix.FLOAT),
        (2**53 + 1, 1, np.int64, matrix.WHOLE),
        (2**62 - 1, 2, np.int64, matrix.WHOLE),
        (2**62, 2, object, matrix.BIG),
    ],
)
def test_products_change_their_arithmetic_at_the_first_digit_it_would_lose(
    monkeypatch, entry: int, columns: int, dtype: type, cost: float
) -> None:
    counted: list[float] = []
    monkeypatch.setattr(matrix, "work", counted.append)
    product = multiply(np.full((1, columns), entry), np.ones((columns, 1), np.int64))
    assert product.tolist() == [[entry * columns]]
    assert (product.dtype, counted) == (np.dtype(dtype), [cost * columns])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 64])
@pytest.mark.parametrize("bits", [25, 28, 30, 31, 32, 40])
def test_squared_norms_are_exact_at_every_size(bits: int, rows: int) -> None:
    M = np.full((rows, 2), 2**bits)
    M[0, 1] = -(2**bits) - 1
    expected = np.square(M.astype(object)).sum(axis=0)
    assert squared_column_norms(M).tolist() == expected.tolist()


def test_the_largest_entry_may_be_the_most_negative_one() -> None:
    assert largest(np.array([[3, -7]])) == 7
    assert largest(np.array([np.iinfo(np.int64).min])) == 2**63
    assert largest(np.zeros((0, 3), np.int64)) == 0


# Sensitivity


def magnified(strategy: Strategy, factor: int) -> Strategy:
    blocks = (
        replace(
            block,
            sides=(replace(block.sides[0], T=block.sides[0].T * factor), *block.sides[1:]),
        )
        for block in strategy.blocks
    )
    return replace(strategy, blocks=tuple(blocks))


WORKLOADS = {
    "marginals": marginals((4, 3, 2), 2),
    "many rows": marginals((9, 8), 2),
    "random": random_workload(7),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_sensitivity_is_exact_whatever_the_size_of_entries(name: str) -> None:
    """From entries of 20 bits to those of 50: Δ² passes 2⁶³ and 2⁶⁴ on the way."""
    strategy = optimise(WORKLOADS[name])
    A = strategy.to_sparse().toarray().astype(object)
    zeroed, replaced = max(np.square(A).sum(axis=0)), replace_squared(A)
    for bits in range(20, 50):
        factor = 2**bits // strategy.max_entry + 1
        wide = magnified(strategy, factor)
        assert wide.sensitivity_squared == zeroed * factor**2
        assert wide.replace_sensitivity_squared == replaced * factor**2
        assert wide.max_entry == np.abs(A).max() * factor


def test_the_last_column_of_a_contrast_may_be_the_longest() -> None:
    """The optimiser chooses no such contrast, a stranger may."""
    strategy = optimise(marginals((4, 5), 1))
    steep = tuple(
        replace(
            block,
            residuals=tuple(
                replace(r, contrast=Contrast(r.contrast.n, 50, 1)) for r in block.residuals
            ),
        )
        for block in strategy.blocks
    )
    changed = replace(strategy, blocks=steep)
    A = changed.to_sparse().toarray().astype(object)
    assert changed.sensitivity_squared == max(np.square(A).sum(axis=0))


def test_sensitivity_of_many_equal_rows_is_exact() -> None:
    """A column of 64 entries, each as large as any: the sum has six bits more than a square."""
    ones = with_triangle(
        optimise(one_attribute(Ranges.prefixes(64))), np.triu(np.ones((64, 64), np.int64))
    )
    A = ones.to_sparse().toarray().astype(object)
    assert max(np.square(A).sum(axis=0)) == 64 * np.abs(A).max() ** 2
    for bits in range(24, 34):
        wide = magnified(ones, 2**bits + 1)
        assert wide.sensitivity_squared == 64 * (2**bits + 1) ** 2 * np.abs(A).max() ** 2


@pytest.mark.parametrize("seed", range(12))
def test_sensitivity_of_large_pieces_is_exact_and_entries_are_bounded(monkeypatch, seed) -> None:
    """Sides that are too large to write out are sums of pieces, whose entries add up."""
    strategy = optimise(random_workload(seed))
    A = strategy.to_sparse().toarray().astype(object)
    monkeypatch.setattr(blocks_module, "LARGEST_TABLE", 0)
    pieced = replace(strategy)
    assert pieced.max_entry >= np.abs(A).max()
    for cheap in (blocks_module.CHEAP_TABLE, 0):
        monkeypatch.setattr(blocks_module, "CHEAP_TABLE", cheap)
        lows, highs = ranges_of_rows(replace(strategy))
        assert all(lows <= A.min(axis=1, initial=0))
        assert all(highs >= A.max(axis=1, initial=0))
    assert pieced.sensitivity_squared == max(np.square(A).sum(axis=0))
    assert pieced.replace_sensitivity_squared == replace_squared(A)


@pytest.mark.slow
def test_some_sides_fall_into_pieces_and_their_entries_add_up(monkeypatch) -> None:
    """Otherwise the test before this one shows nothing."""
    monkeypatch.setattr(blocks_module, "LARGEST_TABLE", 0)
    exceeded = 0
    for seed in range(12):
        strategy = optimise(random_workload(seed))
        highest = int(np.abs(strategy.to_sparse().toarray()).max())
        single = max(
            largest(piece.table)
            for block in strategy.blocks
            for side in block.pieces(strategy.axes)
            for piece in side
        )
        exceeded += highest > single
    assert exceeded


# Maxima


def small_tables(seed: int) -> tuple[dict[int, int], list]:
    """Values so close to each other that the winner wins by one."""
    rng = np.random.default_rng(seed)
    domain = dict.fromkeys(range(4), 4)
    sets = list(itertools.combinations(range(4), 2))
    return domain, [(s, rng.integers(0, 4, [domain[a] for a in s])) for s in sets]


def written_out(domain: dict[int, int], tables: list) -> np.ndarray:
    total = np.zeros(list(domain.values()), object)
    for held, T in tables:
        total = total + T.reshape([domain[a] if a in held else 1 for a in domain])
    return total


@pytest.mark.parametrize("seed", range(40))
def test_a_maximum_that_wins_by_one_is_found(seed: int) -> None:
    domain, tables = small_tables(seed)
    total = TableSum(domain, [held for held, _ in tables], np.int64, 0)
    for table in tables:
        total.add(table)
    assert len(total.tables) > 1
    assert maximum(total.tables) == written_out(domain, tables).max()


@pytest.mark.parametrize("place", range(12))
@pytest.mark.parametrize("height", [2, 3, 9])
def test_a_maximum_among_many_local_ones_is_found(place: int, height: int) -> None:
    """Moving one attribute at a time ends at whatever place of the diagonal is near."""
    T = np.eye(12, dtype=np.int64)
    T[place, place] = height
    tables = [((0, 1), T), ((2, 3), T.copy())]
    assert maximum(tables) == 2 * height


@pytest.mark.parametrize("seed", range(10))
def test_moving_value_between_tables_keeps_their_sum(seed: int) -> None:
    domain, tables = small_tables(seed)
    moved = maximise._diffuse(tables)
    assert written_out(domain, moved).tolist() == written_out(domain, tables).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_sensitivity_by_different_columns_is_that_of_all_cells(monkeypatch, seed: int) -> None:
    """A few conditions on three attributes: one side, whose equal columns are looked at once."""
    rng = np.random.default_rng(seed)
    sizes = (5, 4, 3)
    w = plain(sizes, [[rows(rng.integers(-1, 2, (1, n))) for n in sizes] for _ in range(4)])
    if not np.any(w.to_sparse().toarray()):
        return
    strategy = optimise(w)
    monkeypatch.setattr(sensitivity, "FEW_CELLS", 0)
    is_alone = len(strategy.blocks) == 1 and not strategy.blocks[0].residuals
    different = sensitivity._one_side(strategy.axes, strategy.blocks)
    assert (different is not None) == is_alone
    again = Strategy.from_bytes(strategy.to_bytes())
    A = strategy.to_sparse().toarray()
    assert again.sensitivity_squared == int(np.square(A.astype(object)).sum(axis=0).max())
    assert again.replace_sensitivity_squared == replace_squared(A)

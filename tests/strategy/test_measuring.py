"""A' x by counting each block's cells is the product with the matrix written out, to the digit."""

from __future__ import annotations

import numpy as np
import pytest
from dense import random_workload
from workloads import ADULT_14, marginals, plain

from dhdmm.strategy import measuring
from dhdmm.strategy.measuring import Counted, total_count
from dhdmm.strategy.optimise import optimise
from dhdmm.study.factor import Ranges
from dhdmm.study.histogram import Histogram
from tests.amounts import seeds


@pytest.mark.parametrize("seed", seeds(8, 25))
@pytest.mark.parametrize("few", [0, 2**14])
@pytest.mark.parametrize("table", [1, 2**22])
def test_every_way_to_count_gives_the_product(monkeypatch, seed: int, few: int, table: int) -> None:
    """Cells written out or by contrasts; counted by number or sorted; also negative counts."""
    monkeypatch.setattr(measuring, "FEW_ENTRIES", few)
    monkeypatch.setattr(measuring, "LARGEST_TABLE", table)
    strategy = optimise(random_workload(seed))
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, n, 40) for n in strategy.shape], axis=1)
    counts = random.integers(-9, 10, 40)
    x = np.zeros(strategy.shape, np.int64)
    np.add.at(x, tuple(codes.T), counts)
    expected = strategy.to_sparse().toarray().astype(object) @ x.ravel().astype(object)
    assert strategy.measure(Histogram(codes, counts)).tolist() == expected.tolist()


@pytest.mark.parametrize("count", [1, 2**40 + 1, 2**53 + 1])
def test_counts_are_added_exactly_beyond_doubles(monkeypatch, count: int) -> None:
    monkeypatch.setattr(measuring, "FEW_ENTRIES", 0)
    strategy = optimise(plain((3, 2), [[Ranges.total(3), Ranges.total(2)]]))
    assert strategy.max_entry < 2**4
    codes = np.stack(np.divmod(np.arange(6), 2), axis=1)
    measured = strategy.measure(Histogram(codes, np.full(6, count)))
    entry = int(strategy.to_sparse().toarray()[0, 0])
    assert measured.tolist() == [6 * count * entry]


@pytest.mark.slow
def test_attributes_are_counted_once_and_fewer_from_more() -> None:
    """Only the 91 pairs of attributes are counted from the records."""
    strategy = optimise(marginals(ADULT_14, 2))
    random = np.random.default_rng(1)
    codes = np.stack([random.integers(0, n, 5000) for n in ADULT_14], axis=1)
    counted = Counted.of(strategy.axes, codes, np.ones(5000, np.int64))
    pair, single = counted.over(frozenset({1, 8})), counted.over(frozenset({8}))
    assert len(pair.counts) == 18
    assert np.array_equal(single.counts, np.bincount(codes[:, 8]))
    assert counted.over(frozenset()).counts.tolist() == [5000]
    assert counted.over(frozenset({1, 8})) is pair


def test_the_number_of_records_is_exact_whatever_the_counts() -> None:
    lowest = np.array([-(2**63), 2**63 - 1])
    assert total_count(lowest) == 2**64 - 1
    assert total_count(np.array([3, -4])) == 7
    assert total_count(np.zeros(0, np.int64)) == 0

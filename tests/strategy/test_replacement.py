"""How far replacing one record moves the measurement: both ways, against all pairs of cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dense import random_workload, replace_squared
from test_exact_integers import magnified
from workloads import marginals, one_attribute, plain, rows

from dhdmm.errors import StrategyError
from dhdmm.strategy import replacement, sensitivity
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.replacement import largest_distance
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from tests.planning.studies import with_triangle

WORKLOADS = {
    **{f"random {seed}": random_workload(seed) for seed in range(20)},
    "marginals": marginals((4, 3, 2, 5), 2),
    "one contrast": marginals((6,), 1),
    "prefixes": one_attribute(Ranges.prefixes(7)),
    "prefixes by tables": plain(
        (5, 3, 2),
        [
            [Ranges.prefixes(5), Ranges.each(3), Ranges.total(2)],
            [Ranges.total(5), Ranges.total(3), Ranges.each(2)],
        ],
    ),
    "kinds of several values": one_attribute(rows([[1, 1, 1, 0, 0, 0, 0], *np.eye(7).tolist()])),
}


def distance(strategy: Strategy) -> int | None:
    return largest_distance(strategy.axes, strategy.blocks, strategy._pieces)


@pytest.mark.parametrize("way", ["columns", "tables"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_largest_difference_is_that_of_all_pairs(monkeypatch, name: str, way: str) -> None:
    if way == "tables":
        monkeypatch.setattr(replacement, "MOST_OPERATIONS", 0)
        monkeypatch.setattr(sensitivity, "MOST_COMPARED", 0)
    strategy = optimise(WORKLOADS[name])
    assert (distance(strategy) is None) == (way == "tables")
    assert strategy.replace_sensitivity_squared == replace_squared(strategy.to_sparse().toarray())


@pytest.mark.parametrize("together", [1, 50, 2**21])
def test_cells_may_be_compared_in_parts(monkeypatch, together: int) -> None:
    monkeypatch.setattr(replacement, "COMPARED_TOGETHER", together)
    for name in ("marginals", "prefixes by tables"):
        strategy = optimise(WORKLOADS[name])
        assert distance(strategy) == replace_squared(strategy.to_sparse().toarray())


def test_entries_beyond_doubles_are_compared_another_way() -> None:
    strategy = magnified(optimise(WORKLOADS["prefixes by tables"]), 2**20 + 1)
    assert distance(strategy) is None
    assert strategy.replace_sensitivity_squared == replace_squared(strategy.to_sparse().toarray())


def test_tables_that_would_not_fit_are_refused_before_they_are_made(monkeypatch) -> None:
    monkeypatch.setattr(replacement, "MOST_OPERATIONS", 0)
    monkeypatch.setattr(sensitivity, "LARGEST_PAIRS", 1000)
    strategy = optimise(plain((9, 9), [[Ranges.prefixes(9), Ranges.prefixes(9)]]))
    with pytest.raises(StrategyError, match="zero-out"):
        _ = strategy.replace_sensitivity_squared


def test_a_multiple_of_a_strategy_has_the_multiple_of_what_is_known() -> None:
    strategy = optimise(WORKLOADS["marginals"])
    known = strategy.sensitivity_squared, strategy.replace_sensitivity_squared
    larger = strategy.rescaled(3.5 * known[0] ** 0.5)
    A = larger.to_sparse().toarray()
    assert larger.sensitivity_squared == int(np.square(A).sum(axis=0).max()) == 16 * known[0]
    assert larger.replace_sensitivity_squared == replace_squared(A) == 16 * known[1]


@pytest.mark.parametrize("seed", range(30))
def test_a_pair_that_is_further_apart_by_one_is_found(monkeypatch, seed: int) -> None:
    monkeypatch.setattr(replacement, "COMPARED_TOGETHER", 1)
    random = np.random.default_rng(seed)
    T = np.triu(random.integers(-2, 3, (6, 6)), 1) + np.diag(random.choice([-2, -1, 1, 2], 6))
    strategy = with_triangle(optimise(one_attribute(Ranges.prefixes(6))), T)
    assert distance(strategy) == replace_squared(strategy.to_sparse().toarray())


def test_the_furthest_may_be_two_values_of_one_kind() -> None:
    """Five values one by one, and two that nobody asks for: columns of E differ by 2p² = 72."""
    strategy = optimise(one_attribute(rows(np.eye(5, 7))))
    total, each = strategy.blocks
    uneven = replace(each, residuals=(replace(each.residuals[0], contrast=Contrast(5, 6, 1)),))
    total = replace(total, sides=(replace(total.sides[0], T=np.ones((1, 1), np.int64)),))
    strategy = replace(strategy, blocks=(total, uneven))
    assert len(strategy.axes[0].sizes) == 2
    assert distance(strategy) == 72 == replace_squared(strategy.to_sparse().toarray())

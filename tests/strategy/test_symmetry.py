"""Twins, orbits and rank, found without writing a Gram out, against dense arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dense import random_workload, unweighted
from workloads import plain, rows

from dhdmm.effort import Limit, limited
from dhdmm.errors import StrategyError, TooCostly
from dhdmm.strategy import membership, sizes
from dhdmm.strategy.contrast import Nest, contrasts
from dhdmm.strategy.membership import Queries
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import orbits, reduce_workload
from dhdmm.study.factor import Ranges, group_sums
from tests.amounts import seeds


def random_factors(seed: int, size: int = 7) -> list:
    """Factors with many single-value rows, so that some values are twins and some are not."""
    chance = np.random.default_rng(seed)
    found = [Ranges.each(size), Ranges.total(size)]
    for _ in range(chance.integers(1, 4)):
        singles = np.eye(size, dtype=np.int64)[chance.integers(0, size, 4)] * chance.integers(1, 3)
        sets = chance.integers(0, 2, (chance.integers(1, 3), size))
        found.append(rows(np.concatenate([singles, sets])))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_rows_summed_over_groups_are_those_of_the_whole_matrix(seed):
    group = np.random.default_rng(seed).integers(0, 4, 7)
    for factor in [*random_factors(seed), Ranges.all(7).take(np.array([3, 0, 3]))]:
        together = factor.to_sparse().toarray() @ np.eye(4, dtype=np.int64)[group]
        assert group_sums(factor, group, 4).tolist() == together.tolist()


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_orbits_and_grams_are_those_of_the_whole_matrices(seed):
    reduction = reduce_workload(plain((7,), [[factor] for factor in random_factors(seed)]))
    (axis,) = reduction.axes
    dense = [factor.to_sparse().toarray() for factor in axis.factors]
    whole = {(i, i): F.T @ F for i, F in enumerate(dense)}
    assert axis.orbit.tolist() == orbits(list(whole.values())).tolist()
    indicator = np.eye(len(axis.sizes))[axis.orbit]
    root = np.sqrt(np.outer(axis.sizes, axis.sizes))
    for key, G in whole.items():
        assert np.array_equal(axis.gram(key), G)
        assert np.allclose(axis.trivial[key], indicator.T @ G @ indicator / root)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12, 40))
@pytest.mark.parametrize("exact", [True, False])
def test_rank_is_that_of_the_whole_matrix(monkeypatch, seed, exact):
    if not exact:
        monkeypatch.setattr(sizes, "ORBITS", 0)
        monkeypatch.setattr(sizes, "STEP", 0)
    w = random_workload(seed)
    assert rank(w) == np.linalg.matrix_rank(unweighted(w))


def test_a_table_by_many_attributes_is_not_begun_within_limits():
    deep = plain((2,) * 30, [[Ranges.each(2)] * 30])
    with limited(Limit(megabytes=300, seconds=2)), pytest.raises(TooCostly):
        rank(deep)


@pytest.mark.slow
def test_many_values_that_are_counted_one_by_one_cost_nothing():
    size = 100_000
    (axis,) = reduce_workload(plain((size,), [[Ranges.each(size)], [Ranges.total(size)]])).axes
    assert len(axis.twins.shown) == 2
    assert axis.sizes.tolist() == [size]


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_a_contrast_by_its_structure_is_the_matrix(n):
    for contrast in contrasts(Nest(n)):
        E = contrast.columns(np.arange(n))
        left = contrast.p * np.eye(n - 1, dtype=np.int64) - contrast.q
        assert np.array_equal(E[:, :-1], left)
        assert not E.sum(axis=1).any()
        assert contrast.largest == np.abs(E).max()
        assert contrast.columns(np.array([n - 1, -1])).tolist() == [[e, 0] for e in E[:, -1]]
        Y = np.arange(2.0 * (n - 1) * 3).reshape(2, n - 1, 3)
        whole = np.moveaxis(np.tensordot(np.linalg.pinv(E), Y, axes=(1, 1)), 0, 1)
        assert np.allclose(contrast.apply_pseudo_inverse(Y, 1), whole)


def test_probes_follow_from_their_seed(monkeypatch):
    """With a probe that is known beforehand a query can be chosen that it does not notice."""
    monkeypatch.setattr(membership, "PROBES", 1)
    values = 24
    strategy = optimise(plain((values,), [[Ranges.total(values)]]))
    probe, (every,) = strategy.membership.probe, plain((values,), [[Ranges.each(values)]]).terms
    prime, (lost,) = int(probe.p[0]), probe.lost(Queries.one_by_one(every, probe.p))
    left, right = lost[:12], lost[12:]
    halves = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    seen = {int(s) % prime: h for h, s in zip(halves, halves @ left, strict=True)}
    unnoticed = next(
        [*seen[-int(s) % prime], *h]
        for h, s in zip(halves[1:-1], halves[1:-1] @ right, strict=True)
        if -int(s) % prime in seen
    )
    asked = plain((values,), [[rows([unnoticed])]])
    assert strategy.contains(asked)
    assert not strategy.contains(asked, seed=b"a plan's digest")


def test_as_many_rows_as_values_that_depend_on_each_other_do_not_measure_them_all():
    """A stranger's basis may repeat a row; T is not singular all the same."""
    values = 4
    asked = plain((values,), [[Ranges.prefixes(values)]])
    strategy = optimise(asked)
    (block,) = strategy.blocks
    (side,) = block.sides
    repeated = replace(side.basis, ids=np.where(side.basis.ids == values, 1, side.basis.ids))
    blocks = (replace(block, sides=(replace(side, basis=repeated),)),)
    hostile = Strategy.from_bytes(replace(strategy, blocks=blocks).to_bytes())
    with pytest.raises(StrategyError, match="depend on each other"):
        hostile.contains(asked)

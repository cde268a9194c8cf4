"""Nested sets in one attribute: orbits that are trees, exact whatever the order of the values."""

from __future__ import annotations

import itertools
import math

import cbor2
import numpy as np
import pytest
from dense import check_against_dense, dense_optimum
from scipy import sparse
from workloads import plain

from dhdmm.errors import StrategyError
from dhdmm.strategy.asked import nothing_more
from dhdmm.strategy.contrast import Contrast, Nest, contrasts
from dhdmm.strategy.encoding import pack
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.strategy.tree import Tree, find_tree
from dhdmm.study.factor import Factor, Ranges, Rows
from dhdmm.study.workload import Workload
from tests.amounts import seeds

Nested = int | list["Nested"]
"""A number of leaves, or groups."""


def leaves(group: Nested) -> int:
    return group if isinstance(group, int) else sum(map(leaves, group))


def depth(group: Nested) -> int:
    return 0 if isinstance(group, int) else 1 + max(map(depth, group))


def labels(group: list[Nested], level: int) -> list[int]:
    """The number of leaves of every group at a level below the root."""
    if level == 0:
        return [leaves(child) for child in group]
    found = []
    for child in group:
        found += [leaves(child)] if isinstance(child, int) else labels(child, level - 1)
    return found


def hierarchy(group: list[Nested], seed: int | None = None, total: bool = False) -> list[Factor]:
    """Every value, every level's groups, and the total if asked; values in any order."""
    size = leaves(group)
    order = np.arange(size) if seed is None else np.random.default_rng(seed).permutation(size)
    factors: list[Factor] = [Ranges.each(size)]
    for level in range(depth(group)):
        counts = labels(group, level)
        label = np.repeat(np.arange(len(counts)), counts)[order]
        ones = np.ones(size, np.int64)
        factors.append(Rows(sparse.csr_array((ones, (label, np.arange(size))))))
    return [*factors, Ranges.total(size)] if total else factors


def alone(factors: list[Factor]) -> Workload:
    return plain((factors[0].shape[1],), [[factor] for factor in factors])


def crossed(factors: list[Factor]) -> Workload:
    """Every level by a question with three answers, and by prefixes of four values."""
    size = factors[0].shape[1]
    wide = [[f, Ranges.each(3), Ranges.total(4)] for f in factors[1:]]
    long = [[f, Ranges.total(3), Ranges.prefixes(4)] for f in factors[-1:]]
    return plain((size, 3, 4), [*wide, *long])


SMALL = {
    "even": alone(hierarchy([[3, 3], [3, 3]], seed=1)),
    "even, with the total": alone(hierarchy([[3, 3], [3, 3]], seed=1, total=True)),
    "four levels": alone(hierarchy([[[2, 2], [2, 2]], [[2, 2], [2, 2]]], seed=2)),
    "uneven": alone(hierarchy([[2, 2, 3], [3, 3, 1, 1], [5]], seed=3)),
    "uneven, with the total": alone(hierarchy([[2, 2, 3], [3, 3, 1, 1], [5]], seed=3, total=True)),
    "states alike": alone(hierarchy([[2, 2, 3], [2, 2, 3]], seed=4)),
    "groups without counties": alone(hierarchy([[[2, 2], [3]], [[4], [2, 2]]], seed=5)),
    "crossed": crossed(hierarchy([[2, 2], [2, 2], [1, 3]], seed=6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_everything_that_it_says_of_itself_is_true(name: str) -> None:
    w = SMALL[name]
    strategy = optimise(w)
    assert strategy.axes[0].tree.levels > 1
    check_against_dense(strategy, w)
    assert strategy.rows == rank(w)
    read = Strategy.from_bytes(strategy.to_bytes())
    assert read.format == 3
    assert read.to_bytes() == strategy.to_bytes()
    assert (read.to_sparse() != strategy.to_sparse()).nnz == 0
    assert read.sensitivity_squared == strategy.sensitivity_squared
    assert read.contains(w)
    assert nothing_more(read.membership, w.terms) or name == "crossed"


@pytest.mark.parametrize("name", [name for name in SMALL if name != "crossed"])
def test_the_bound_is_below_the_optimum_and_the_strategy_near_it(name: str) -> None:
    strategy, W = optimise(SMALL[name]), SMALL[name].to_sparse().toarray()
    bound, reached = (root / math.sqrt(len(W)) for root in dense_optimum(W))
    assert strategy.lower_bound is not None
    assert strategy.lower_bound <= reached * (1 + 1e-9)
    assert strategy.error >= bound * (1 - 1e-9)
    assert strategy.error <= 1.005 * strategy.lower_bound


def test_more_is_measured_than_a_coarser_workload_asks() -> None:
    """Without tracts the residuals of tracts are too many: the check sees it."""
    factors = hierarchy([[3, 3], [3, 3]], seed=1)
    strategy = optimise(alone(factors))
    fewer = alone(factors[1:])
    assert strategy.contains(fewer)
    assert not nothing_more(strategy.membership, fewer.terms)
    assert not optimise(fewer).contains(alone(factors))


def swapped(factors: list[Factor], permutation: np.ndarray) -> bool:
    """Whether permuting the values leaves every Gram as it is."""
    for factor in factors:
        F = factor.to_sparse().toarray()
        G = F.T @ F
        if not np.array_equal(G[np.ix_(permutation, permutation)], G):
            return False
    return True


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_exchanging_two_children_of_a_node_changes_no_gram(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group: list[Nested] = [rng.integers(1, 4, rng.integers(1, 4)).tolist() for _ in range(3)]
    factors = hierarchy(group, seed)
    tree = find_tree([[factor] for factor in factors])
    assert tree is not None
    assert sorted(map(math.prod, tree.shapes)) == sorted(tree.sizes.tolist())
    for part in range(tree.parts):
        nest = tree.nest(part)
        if nest is None:
            continue
        below = tree.members(part).reshape(nest.outer, nest.n, nest.inner)
        for node, (i, j) in itertools.product(
            range(nest.outer), itertools.combinations(range(nest.n), 2)
        ):
            permutation = np.arange(len(tree.orbit))
            permutation[below[node, i]] = below[node, j]
            permutation[below[node, j]] = below[node, i]
            assert swapped(factors, permutation)


def test_sets_that_cut_across_each_other_are_no_tree() -> None:
    assert find_tree([[Ranges(np.array([0, 1]), np.array([2, 3]), 4)]]) is None
    weighted = Rows(sparse.csr_array(np.array([[1, 2, 0]])))
    assert find_tree([[weighted]]) is None


def test_products_of_one_term_belong_together() -> None:
    """Rows (1, 2) and (3, 4) of two factors are pairs; a swap must carry pairs into pairs."""
    first = Rows(sparse.csr_array(np.array([[1, 1, 0, 0], [0, 0, 1, 1]])))
    same = Rows(sparse.csr_array(np.array([[1, 1, 0, 0], [0, 0, 1, 1]])))
    other = Rows(sparse.csr_array(np.array([[1, 1, 0, 0], [0, 0, 2, 2]])))
    alike, different = find_tree([[first, same]]), find_tree([[first, other]])
    assert alike is not None
    assert different is not None
    assert alike.shapes == ((2, 2),)
    assert different.shapes == ((2,), (2,))


@pytest.mark.parametrize("nest", [Nest(3, 2, 2), Nest(2, 3), Nest(4, 1, 3)])
def test_a_nested_contrast_by_its_structure_is_the_matrix(nest: Nest) -> None:
    for contrast in contrasts(nest):
        E = contrast.columns(np.arange(nest.values))
        one = Contrast(nest.n, contrast.p, contrast.q).columns(np.arange(nest.n))
        assert np.array_equal(
            E, np.kron(np.kron(np.eye(nest.outer), one), np.ones((1, nest.inner)))
        )
        Z = np.arange(2 * nest.values * 3).reshape(2, nest.values, 3)
        assert np.array_equal(contrast.apply(Z, 1), np.einsum("ij,ajb->aib", E, Z))
        Y = np.arange(2.0 * nest.rows * 3).reshape(2, nest.rows, 3)
        inverse = np.linalg.pinv(E)
        assert np.allclose(
            contrast.apply_pseudo_inverse(Y, 1), np.einsum("ij,ajb->aib", inverse, Y)
        )
        assert np.isclose(contrast.inverse_trace, np.trace(np.linalg.inv(E @ E.T)))
        worst = nest.values * np.diag(np.linalg.pinv(E.T @ E)).max()
        assert np.isclose(contrast.largest_inverse, worst)


@pytest.mark.slow
def test_the_cost_grows_with_the_different_subtrees() -> None:
    """A thousand even states of ten counties with ten tracts are four blocks."""
    strategy = optimise(alone(hierarchy([[10] * 10] * 1000)))
    assert len(strategy.blocks) == 4
    assert len(strategy.to_bytes()) < 5 * 100_000
    uneven = [[1 + (s * c) % 7 for c in range(40)] for s in range(50)]
    axis = reduce_workload(alone(hierarchy(uneven, seed=1))).axes[0]
    assert len(axis.sizes) <= 50 * 7


@pytest.mark.slow
def test_groups_that_are_all_different_are_refused_in_words() -> None:
    different = [[[1 + (s + t) % 4 for t in range(1 + s % 60)] for s in range(1600)]]
    with pytest.raises(StrategyError, match=r"6,212 kinds of values, more than 3,000"):
        optimise(alone(hierarchy(different)))


NESTED = optimise(SMALL["uneven"])


def document() -> list:
    return cbor2.loads(NESTED.to_bytes())


def refuse(changed: list, reason: str) -> None:
    with pytest.raises(StrategyError, match=reason):
        Strategy.from_bytes(cbor2.dumps(changed, canonical=True))


def test_levels_from_a_stranger_are_checked() -> None:
    tree: Tree = NESTED.axes[0].tree
    places = tree.places.copy()
    places[tree.members(0)[0]] = 1
    changed = document()
    changed[2][0][8] = pack(places)
    refuse(changed, "the positions in an orbit leave gaps")
    shapes = np.array([(*s, *[1] * (tree.levels - len(s))) for s in tree.shapes])
    for wrong, reason in [
        (shapes * 2, "do not add up to its values"),
        (shapes[:, ::-1], "are not its nodes' children"),
        (shapes - 1, "are not its nodes' children"),
    ]:
        changed = document()
        changed[2][0][7] = [tree.levels, pack(wrong)]
        refuse(changed, reason)
    changed = document()
    changed[2][0][7] = [tree.levels + 1, pack(np.pad(shapes, ((0, 0), (0, 1)), constant_values=1))]
    refuse(changed, "levels without children")
    missing = next(p for p in range(tree.parts) if tree.nest(p) is None)
    changed = document()
    block = next(b for b in changed[3] if b[0])
    block[0][0][1] = missing + 1
    refuse(changed, "a residual of a single value")

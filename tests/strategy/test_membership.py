"""Which queries follow from a strategy, and whether it measures anything else: against dense rank.

Probes miss a query with a chance of 10⁻¹⁴: no test here fails by chance.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dense import random_workload
from workloads import marginals, one_attribute, plain, rows, sf1, workload

from dhdmm.errors import StrategyError
from dhdmm.strategy import asked, membership
from dhdmm.strategy.asked import nothing_more
from dhdmm.strategy.blocks import WHOLE, Residual
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.membership import PRIMES, Membership
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.residues import SHARED, inverse, solve, solve_in_groups
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Item, Term, Workload
from tests.amounts import seeds

P = np.array(PRIMES[:3])
OR = workload(
    (6, 3),
    (1.0, [(Fraction(1), [Ranges.prefixes(6), Ranges.total(3)])]),
    (
        1.0,
        [
            (Fraction(1), [rows([[0, 0, 0, 0, 1, 1]]), Ranges.total(3)]),
            (Fraction(1), [Ranges.total(6), rows([[1, 0, 0]])]),
            (Fraction(-1), [rows([[0, 0, 0, 0, 1, 1]]), rows([[1, 0, 0]])]),
        ],
    ),
)


def dense_rank(*matrices: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(np.concatenate(matrices).astype(float)))


def written(asked_for: Workload) -> np.ndarray:
    return asked_for.to_sparse().toarray()


def row_space(strategy: Strategy, seed: bytes = b"seed") -> Membership:
    return Membership(strategy.axes, strategy.blocks, seed)


def variants(seed: int) -> tuple[Workload, Workload]:
    """Two workloads over the same attributes, often with some terms in common."""
    whole = random_workload(seed)
    terms = sorted(whole.terms, key=lambda term: not written(alone(whole, term)).any())
    return whole, alone(whole, *terms[: 1 + seed % len(terms)])


def alone(whole: Workload, *terms: Term) -> Workload:
    return Workload(whole.schema, (Item("workload", terms),))


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_rows_are_in_the_row_space_if_they_do_not_raise_the_rank(seed: int) -> None:
    whole, part = variants(seed)
    strategy = optimise(part)
    A, space = strategy.to_sparse().toarray(), row_space(strategy)
    for term in whole.terms:
        expected = [dense_rank(A, row[None]) == len(A) for row in written(alone(whole, term))]
        assert space.measured(term).tolist() == expected
        assert space.contains(term) == all(expected)
    assert space.contains(*whole.terms) == (dense_rank(A, written(whole)) == len(A))


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_what_is_said_to_be_all_that_was_asked_for_is(seed: int) -> None:
    """The strategy for more terms is never taken for one that is needed for fewer."""
    whole, part = variants(seed)
    more, exact = row_space(optimise(whole)), row_space(optimise(part))
    surplus = dense_rank(written(whole)) > dense_rank(written(part))
    assert more.contains(*part.terms)
    assert not (surplus and nothing_more(more, part.terms))
    if all(len(term.products) == 1 for term in part.terms) and len(part.terms) == 1:
        assert nothing_more(exact, part.terms)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked_for",
    [
        sf1(),
        marginals((5, 4, 3, 2), 2),
        one_attribute(Ranges.all(30)),
        one_attribute(Ranges(np.array([0, 4]), np.array([4, 9]), 9)),
        plain((4, 5), [[Ranges.prefixes(4), Ranges.prefixes(5)]]),
        plain((2, 3), [[Ranges.total(2), Ranges.each(3)], [rows([[1, 0]]), Ranges.each(3)]]),
    ],
    ids=["sf1", "marginals", "ranges", "bins", "product", "a total and one part"],
)
def test_strategies_of_common_workloads_are_seen_to_be_asked_for(asked_for: Workload) -> None:
    strategy = optimise(asked_for)
    space = row_space(strategy)
    assert space.contains(*asked_for.terms)
    assert nothing_more(space, asked_for.terms)
    assert not nothing_more(space, marginals(strategy.shape, 0).terms)


def test_what_several_products_ask_for_is_left_to_the_rank() -> None:
    strategy = optimise(OR)
    assert row_space(strategy).contains(*OR.terms)
    assert not nothing_more(row_space(strategy), OR.terms)


@pytest.mark.parametrize("probes", [3, 1])
def test_multiples_of_a_prime_hide_nothing_from_the_others(monkeypatch, probes: int) -> None:
    """Modulo the first prime the query is the first value; with that prime alone it is believed."""
    monkeypatch.setattr(membership, "PROBES", probes)
    hiding = one_attribute(rows([[1 + PRIMES[0], PRIMES[0], 0]])).terms
    space = row_space(optimise(one_attribute(rows([[1, 0, 0]]))))
    believed = probes == 1
    assert space.contains(*hiding) == believed
    assert nothing_more(space, hiding) == believed


def test_without_random_numbers_a_strategy_that_measures_more_is_accepted(monkeypatch) -> None:
    """The same attack on a weakened check: z that is 0 is orthogonal to everything."""
    part, whole = marginals((4, 3), 1), marginals((4, 3), 2)
    space = row_space(optimise(whole))
    assert not nothing_more(space, part.terms)
    monkeypatch.setattr(
        asked, "random_residues", lambda _n, count, p, _s: np.zeros((len(p), count), np.int64)
    )
    assert nothing_more(space, part.terms)


def test_without_random_weights_a_query_outside_passes(monkeypatch) -> None:
    strategy = optimise(marginals((4, 3), 1))
    cells = marginals((4, 3), 2).terms
    assert not row_space(strategy).contains(*cells)
    drawn = membership.random_residues
    monkeypatch.setattr(
        membership,
        "random_residues",
        lambda name, count, p, seed: (
            np.ones((len(p), count), np.int64) if "weights" in name else drawn(name, count, p, seed)
        ),
    )
    assert row_space(strategy).contains(*cells), "the sum of all cells is measured"


def test_queries_in_parts_of_which_a_prime_divides_the_number_are_judged_too() -> None:
    """A record in 1,048,573 steps: the coefficients are fractions that this prime cannot tell."""
    whole = [Ranges.each(4), Ranges.total(3)], [Ranges.total(4), Ranges.each(3)]
    asked_for = workload((4, 3), *((1.0, [(Fraction(1, PRIMES[0]), term)]) for term in whole))
    strategy = optimise(marginals((4, 3), 1))
    assert row_space(strategy).contains(*asked_for.terms)
    assert not row_space(optimise(marginals((4, 3), 0))).contains(*asked_for.terms)


def test_more_rows_than_a_prime_are_counted_by_their_residuals() -> None:
    """Of 108³ rows each prime only knows the number modulo itself."""
    asked_for = marginals((109, 109, 109), 3)
    strategy = optimise(asked_for)
    space = row_space(strategy)
    assert strategy.rows > max(PRIMES)
    assert space.contains(*asked_for.terms)
    assert nothing_more(space, asked_for.terms)
    assert not nothing_more(space, marginals((109, 109, 109), 2).terms)


@pytest.mark.parametrize(("part", "most"), [(0, 3), (WHOLE, 4)])
def test_rows_with_other_residuals_need_not_be_told_apart(monkeypatch, part, most) -> None:
    """Residuals on all values may share directions with others."""
    monkeypatch.setattr(asked, "FEW_ROWS", 0)
    strategy = optimise(plain((4, 2), [[rows([[1, 1, 0, 0]]), Ranges.each(2)]]))
    residuals = (Residual(1, part, Contrast(2, 2, 1)),)
    first, second = (replace(strategy.blocks[0], residuals=one) for one in ((), residuals))
    assert asked._most_rows([first, second, second, second]) == most


def test_a_block_that_is_there_twice_is_noticed() -> None:
    strategy = optimise(marginals((4, 3), 1))
    twice = Membership(strategy.axes, (*strategy.blocks, strategy.blocks[-1]), b"seed")
    assert not twice.contains(*marginals((4, 3), 1).terms)


@pytest.mark.parametrize("n", [1, 7, 48, 49, 130])
def test_modular_systems_are_solved_exactly(n: int) -> None:
    rng = np.random.default_rng(n)
    root = rng.integers(-5, 6, (n, n + 3))
    gram = np.stack([root @ root.T % prime for prime in P])
    right = rng.integers(0, P.min(), (3, n, 2))
    solved = solve(gram, right, P)
    for G, X, R, prime in zip(gram, solved, right, P, strict=True):
        assert np.array_equal(G.astype(object) @ X % prime, R)


@pytest.mark.parametrize("seed", range(10))
def test_systems_of_groups_are_solved_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.choice([SHARED, 3, 5, 8], 14, p=[0.2, 0.4, 0.3, 0.1])
    root = np.zeros((14, 74), np.int64)
    root[:, 60:] = np.eye(14)  # so that no row depends on others
    for i, number in enumerate(group):
        held = slice(60) if number == SHARED else slice(6 * number, 6 * number + 6)
        root[i, held] = rng.integers(-5, 6, 60)[held]
    gram = np.stack([root @ root.T % prime for prime in P])
    right = rng.integers(0, P.min(), (3, 14, 1))
    solved = solve_in_groups(lambda row, column: gram[:, row, column], right, group, P)
    for G, X, R, prime in zip(gram, solved, right, P, strict=True):
        assert np.array_equal(G.astype(object) @ X % prime, R)


def test_inverses_are_those_of_every_prime() -> None:
    numbers = np.array([[1, 2, 1048506], [3, 1048506, 4], [5, 6, 7]])
    assert np.all(numbers * inverse(numbers, P) % P[:, None] == 1)


def test_a_row_that_is_there_twice_is_noticed() -> None:
    strategy = optimise(one_attribute(Ranges.prefixes(3)))
    (block,), (side,) = strategy.blocks, strategy.blocks[0].sides
    ids = side.basis.ids.copy()
    ids[0] = ids[1]
    repeated = replace(block, sides=(replace(side, basis=replace(side.basis, ids=ids)),))
    with pytest.raises(StrategyError, match="depend on each other"):
        Membership(strategy.axes, (repeated,), b"seed").contains(*marginals((3,), 1).terms)


@pytest.mark.parametrize("limit", [0, 2**14])
def test_rows_are_written_out_or_not_with_one_verdict(monkeypatch, limit) -> None:
    """Sparse and dense matrices say the same of what is asked for."""
    monkeypatch.setattr(asked, "SMALL_MATRIX", limit)
    whole = sf1()
    strategy = optimise(whole)
    space = Membership(strategy.axes, strategy.blocks, b"seed")
    assert space.contains(*whole.terms)
    assert nothing_more(space, whole.terms)
    fewer = whole.terms[: len(whole.terms) // 2]
    assert not nothing_more(Membership(strategy.axes, strategy.blocks, b"seed"), fewer)

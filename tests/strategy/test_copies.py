"""Blocks that differ only by their attributes are one block, however many cells there are."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import cbor2
import numpy as np
import pytest
from dense import check_against_dense
from scipy import sparse
from workloads import edges, marginal_factors, plain

from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import apart
from dhdmm.strategy.encoding import pack
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import orbits, reduce_workload
from dhdmm.study.factor import Ranges, Rows
from dhdmm.study.histogram import Histogram
from dhdmm.study.workload import Workload
from tests.amounts import seeds


def tables(sizes: tuple[int, ...], ways: int) -> Workload:
    """All tables of at most so many attributes."""
    chosen = [by for k in range(ways + 1) for by in itertools.combinations(range(len(sizes)), k)]
    return plain(sizes, [marginal_factors(sizes, by) for by in chosen])


def tree(sizes: list[list[int]], seed: int | None = None) -> Workload:
    """Tracts, counties and states: for each state the tracts of its counties, in any order."""
    county = np.repeat(np.arange(sum(map(len, sizes))), [n for state in sizes for n in state])
    state = np.repeat(np.arange(len(sizes)), [sum(counties) for counties in sizes])
    order = (
        np.arange(len(county))
        if seed is None
        else np.random.default_rng(seed).permutation(len(county))
    )

    def level(label: np.ndarray) -> Rows:
        ones = np.ones(len(label), np.int64)
        return Rows(sparse.csr_array((ones, (label[order], np.arange(len(label))))))

    return plain((len(county),), [[Ranges.each(len(county))], [level(county)], [level(state)]])


def closed_form(sizes: tuple[int, ...], ways: int) -> float:
    """The least root mean square error for all tables, by ResidualPlanner's closed form.

    V has on the residual space of a set S the number λ = Σ over tables T ⊇ S of ∏ n over what T
    leaves out; the least error is (Σ_S ∏ (n − 1) · √λ)² / cells.
    """
    count, n = len(sizes), sizes[0]
    assert {*sizes} == {n}
    roots = []
    for s in range(ways + 1):
        containing = [math.comb(count - s, t - s) * n ** (count - t) for t in range(s, ways + 1)]
        number = math.comb(count, s) * (n - 1) ** s
        roots.append(number * math.sqrt(sum(containing) / n**count))
    queries = sum(math.comb(count, t) * n**t for t in range(ways + 1))
    return sum(roots) / math.sqrt(queries)


SMALL = {
    "yes or no": tables((2,) * 5, 2),
    "three answers": tables((3, 3, 3), 2),
    "two sizes": tables((2, 3, 2, 3), 2),
    "with a long one": plain(
        (5, 3, 3), [[Ranges.prefixes(5), Ranges.each(3), Ranges.total(3)],
                    [Ranges.prefixes(5), Ranges.total(3), Ranges.each(3)]],
    ),
    "an even tree": tree([[2, 2], [2, 2], [2, 2]]),
    "an uneven tree": tree([[1, 2, 3], [5], [2, 2]]),
    "an uneven tree out of order": tree([[1, 2, 3], [5], [2, 2]], seed=4),
    "bins in two halves": plain((6,), [[edges([0, 2, 3], 6)], [edges([3, 5, 6], 6)]]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_everything_that_it_says_of_itself_is_true(name: str) -> None:
    strategy = optimise(SMALL[name])
    check_against_dense(strategy, SMALL[name])
    assert strategy.rows == rank(SMALL[name])
    assert strategy.ratio is not None
    assert strategy.ratio <= 1.005
    read = Strategy.from_bytes(strategy.to_bytes())
    assert read.to_bytes() == strategy.to_bytes()
    assert (read.to_sparse() != strategy.to_sparse()).nnz == 0
    assert read.replace_sensitivity_squared == strategy.replace_sensitivity_squared


@pytest.mark.parametrize("name", SMALL)
def test_copies_taken_apart_are_the_same_strategy(name: str) -> None:
    strategy = optimise(SMALL[name])
    single = replace(strategy, blocks=apart(strategy.blocks))
    assert all(block.copies == 1 for block in single.blocks)
    assert (single.to_sparse() != strategy.to_sparse()).nnz == 0
    assert single.sensitivity_squared == strategy.sensitivity_squared
    nested = any(axis.tree.levels > 1 for axis in strategy.axes)
    assert single.format == (3 if nested else 1)
    assert Strategy.from_bytes(single.to_bytes()).format == single.format


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "ways"),
    [
        ((2,) * 30, 2),
        ((5,) * 30, 2),
        ((10,) * 12, 3),
        pytest.param((2,) * 70, 2, marks=pytest.mark.soak),
    ],
)
def test_any_number_of_cells_reaches_the_closed_form(sizes: tuple[int, ...], ways: int) -> None:
    asked = tables(sizes, ways)
    strategy = optimise(asked)
    best = closed_form(sizes, ways)
    assert strategy.lower_bound == pytest.approx(best, rel=1e-9)
    assert strategy.rmse <= 1.005 * best
    assert len(strategy.blocks) == ways + 1, "as many as there are different ones"
    assert strategy.format == 2
    assert len(strategy.to_bytes()) < 8000


@pytest.mark.slow
def test_answers_without_noise_are_exact_over_ten_to_the_twentyone_cells() -> None:
    asked = tables((2,) * 70, 1)
    strategy = optimise(asked)
    records = np.random.default_rng(5).integers(0, 2, (50, 70))
    answers = strategy.reconstruct(strategy.measure(Histogram.of_records(records)))
    counts = np.stack([50 - records.sum(axis=0), records.sum(axis=0)], axis=1)
    assert np.allclose(answers, np.append(50, counts), atol=1e-6)
    assert strategy.variances().shape == (141,)


def test_more_sums_than_can_be_sent_are_refused_before_they_are_computed() -> None:
    many = plain((1000,) * 3, [[Ranges.each(1000)] * 3])
    with pytest.raises(StrategyError, match="1,000,000,000 measured sums, more than 67,108,864"):
        optimise(many)


YES_NO = optimise(SMALL["yes or no"])
PAIRS = next(i for i, block in enumerate(YES_NO.blocks) if len(block.residuals) == 2)


def with_copies(count: int, places: list[int]) -> bytes:
    document = cbor2.loads(YES_NO.to_bytes())
    document[3][PAIRS][2] = [count, pack(np.array(places, np.int64))]
    return cbor2.dumps(document, canonical=True)


HOSTILE = {
    "an attribute that does not exist": ((1, [0, 5]), "does not exist"),
    "an attribute below all": ((1, [-1, 3]), "does not exist"),
    "the same attribute twice": ((1, [2, 2]), "occurs twice"),
    "attributes out of order": ((1, [3, 2]), "residuals are not in order"),
    "the first copy again": ((1, [0, 1]), "copies are not in order"),
    "copies out of order": ((2, [1, 3, 1, 2]), "copies are not in order"),
    "another number of attributes": ((6, [0, 2, 0]), "does not have 12 entries"),
    "more copies than sums": ((2**26 + 1, []), "number of copies"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_copies_from_a_stranger_are_checked(name: str) -> None:
    (count, places), reason = HOSTILE[name]
    with pytest.raises(StrategyError, match=reason):
        Strategy.from_bytes(with_copies(count, places))
    assert Strategy.from_bytes(with_copies(1, [0, 2])).rows < YES_NO.rows, "and this is readable"


def test_a_copy_over_an_attribute_of_another_size_is_refused() -> None:
    strategy = optimise(tables((2, 2, 2, 3), 1))
    document = cbor2.loads(strategy.to_bytes())
    number = next(i for i, block in enumerate(strategy.blocks) if block.others)
    document[3][number][2] = [1, pack(np.array([3]))]
    with pytest.raises(StrategyError, match="another number of values"):
        Strategy.from_bytes(cbor2.dumps(document, canonical=True))


def test_a_strategy_without_copies_is_not_written_in_the_later_format() -> None:
    single = replace(YES_NO, blocks=apart(YES_NO.blocks))
    document = cbor2.loads(single.to_bytes())
    document[1] = 2
    document[3] = [[*block, [0, pack(np.zeros(0, np.int64))]] for block in document[3]]
    with pytest.raises(StrategyError, match="its version is too high"):
        Strategy.from_bytes(cbor2.dumps(document, canonical=True))


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_orbits_are_those_of_all_swaps(seed: int) -> None:
    """Against the definition: both rows and both columns of every Gram, value by value."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (4, 7)) * rng.integers(1, 3, (4, 1))
    grams = [rows.T @ rows, rows.T @ np.roll(rows, seed % 2, axis=1)]
    found = orbits(grams)
    for u, v in itertools.combinations(range(7), 2):
        swap = np.arange(7)
        swap[[u, v]] = v, u
        same = all(np.array_equal(G[np.ix_(swap, swap)], G) for G in grams)
        assert same == (found[u] == found[v])


def test_states_that_no_query_joins_are_solved_apart() -> None:
    """And the plan grows with the largest of them, not with the square of all."""
    strategy = optimise(tree([[1, 2, 3], [2, 3, 4, 5], [1, 5]]))
    sides = [side for block in strategy.blocks for side in block.sides if side.axes]
    assert sorted(len(side.T) for side in sides) == [2, 3, 4]
    assert len(reduce_workload(SMALL["an even tree"]).axes[0].sizes) == 1

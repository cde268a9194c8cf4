"""Prefixes and ranges of long attributes, on short ones: integer, exact, unbiased, bounded."""

from __future__ import annotations

from typing import Any

import cbor2
import numpy as np
import pytest
from dense import check_against_dense, dense_optimum
from hypothesis import given
from hypothesis import strategies as st
from workloads import plain

from dhdmm.effort import Limit, limited
from dhdmm.errors import StrategyError, StudyError, TooCostly
from dhdmm.strategy import sensitivity, sizes
from dhdmm.strategy.asked import nothing_more
from dhdmm.strategy.dyadic import Dyadic, Halves
from dhdmm.strategy.dyadic_inverse import DyadicInverse
from dhdmm.strategy.dyadic_optimum import Field, Line
from dhdmm.strategy.encoding import pack
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.watch import Watch
from dhdmm.study.factor import Ranges, Rows
from dhdmm.study.workload import Workload

KINDS = {"prefixes": Ranges.prefixes, "all": Ranges.all}


def asked(kind: str, n: int) -> Workload:
    return plain((n,), [[KINDS[kind](n)]])


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch):
    """Every attribute of more than four values is a long one."""
    monkeypatch.setattr(sizes, "WRITTEN_OUT", 4)


def transform(halves: Halves) -> np.ndarray:
    return np.stack([halves.transform(unit) for unit in np.eye(halves.n, dtype=np.int64)], axis=1)


@st.composite
def matrices(draw: Any) -> Dyadic:
    halves = Halves(draw(st.integers(2, 40)), draw(st.integers(1, 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = []
    for m in halves.levels:
        entries = rng.integers(-9, 10, halves.shape(m))
        for wider, i, _, inside in halves.slots(m):
            entries[wider - m, i] *= inside
        entries[0, halves.reach] = rng.integers(5, 10, halves.counts[m])
        rows.append(entries)
    return Dyadic(halves, tuple(rows))


@pytest.mark.slow
@given(matrices())
def test_everything_about_a_matrix_is_that_of_its_entries(matrix):
    n = len(matrix)
    A = matrix.T.toarray() @ transform(matrix.halves)
    assert np.linalg.matrix_rank(transform(matrix.halves)) == n
    assert np.array_equal(matrix.columns(np.arange(n)), A)
    assert np.array_equal(matrix.squared_norms, np.square(A).sum(axis=0))
    assert matrix.largest >= np.abs(A).max()
    x = np.random.default_rng(n).integers(-9, 10, n)
    assert np.array_equal(matrix.apply(x), A @ x)
    inverse = DyadicInverse(0, matrix)
    exact = np.linalg.inv(A)
    largest = np.abs(exact).max()
    assert np.allclose(
        inverse.solve((A @ x).astype(float)), x, atol=1e-9 * largest * np.abs(A @ x).sum()
    )
    ranges = Ranges.all(n)
    W = ranges.to_sparse().toarray()
    expected = np.square(W @ exact).sum(axis=1)
    by_rows = inverse.covariance(Rows(W), Rows(W))
    one_by_one = inverse.covariance(ranges.take(np.arange(3)), ranges.take(np.arange(3)))
    assert np.allclose(inverse.covariance(ranges, ranges), expected, rtol=1e-6)
    assert np.allclose(by_rows, expected, rtol=1e-6)
    assert np.allclose(one_by_one, expected[:3], rtol=1e-6)
    assert np.isclose(inverse.total(ranges, ranges), expected.sum(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [5, 8, 21, 33])
def test_everything_that_a_strategy_says_of_itself_is_true(kind, n):
    w = asked(kind, n)
    strategy = optimise(w)
    assert strategy.format == 4
    assert rank(w) == strategy.rows
    check_against_dense(strategy, w)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [6, 32, 45])
def test_the_bound_is_below_the_dense_optimum_and_nearly_reached(kind, n):
    w = asked(kind, n)
    strategy = optimise(w)
    found = np.array(dense_optimum(w.to_sparse().toarray()))
    bound, reached = found / np.sqrt(w.queries)
    assert strategy.lower_bound <= reached
    assert strategy.lower_bound >= 0.999 * bound
    assert bound <= strategy.rmse < 1.01 * bound


@pytest.mark.parametrize("is_all", [False, True])
def test_columns_of_the_best_strategy_are_those_of_the_dense_root(is_all):
    line, d = Line(30, is_all), np.random.default_rng(1).uniform(0.1, 1, 30)
    d /= d.sum()
    W = (Ranges.all(30) if is_all else Ranges.prefixes(30)).to_sparse().toarray() * np.sqrt(d)
    _, s, Vt = np.linalg.svd(W, full_matrices=False)
    assert np.allclose(line.columns(d), np.square(Vt).T @ s / d, rtol=1e-5)
    assert s.sum() * (1 - 1e-5) < line.bound(d) < s.sum()


def test_the_bound_allows_for_the_step_of_its_integral(monkeypatch):
    """With a step so long that the rule is seen to be too large, the bound is not."""
    from dhdmm.strategy import dyadic_optimum

    monkeypatch.setattr(dyadic_optimum, "FINE", 4.0)
    line, d, roots = Line(6, False), np.full(6, 1 / 6), []
    root = np.linalg.svd(np.tri(6) / np.sqrt(6), compute_uv=False).sum()
    for i in range(8):
        monkeypatch.setattr(dyadic_optimum, "MARGIN", 20 + i / 2)
        assert line.bound(d) < root
        roots.append(float(d @ line.columns(d)) / root)
    assert max(roots) > 1.01


@pytest.mark.parametrize("is_all", [False, True])
def test_covariances_of_rows_are_those_of_the_dense_inverse(is_all):
    n, halves = 37, Halves(37, 2)
    line, d = Line(n, is_all), np.random.default_rng(2).dirichlet(np.full(n, 9.0))
    W = (Ranges.all(n) if is_all else Ranges.prefixes(n)).to_sparse().toarray() * np.sqrt(d)
    _, s, Vt = np.linalg.svd(W, full_matrices=False)
    H = transform(halves)
    theta = H @ ((Vt.T / s) @ Vt * np.sqrt(np.outer(d, d))) @ H.T
    unit = np.sqrt(np.diag(theta))
    field = Field(line, d, halves)
    for m in halves.levels:
        for wider in range(m, halves.top + 1):
            near = field.near(m, wider)
            for o in range(-4, 5):
                k = np.arange(halves.counts[m])
                other = (k >> (wider - m)) + o
                inside = (other >= 0) & (other < halves.counts[wider])
                i, j = halves.starts[m] + k[inside], halves.starts[wider] + other[inside]
                gap = near[inside, o + 4] - theta[i, j]
                assert np.all(np.abs(gap) < 1e-3 * unit[i] * unit[j])


def test_other_attributes_of_which_only_the_total_is_asked_stay_out():
    w = plain((3, 9), [[Ranges.total(3), Ranges.prefixes(9)]])
    check_against_dense(optimise(w), w)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["per-table", "max"])
def test_other_objectives_are_served(objective, monkeypatch):
    monkeypatch.setattr("dhdmm.strategy.sizes.ORBITS", 4)
    w = asked("prefixes", 16)
    strategy = optimise(w, objective=objective, seconds=5)
    assert strategy.format == 4
    assert strategy.ratio >= 1


def test_queries_that_are_not_all_prefixes_or_ranges_are_left_to_others():
    n = 9
    for factor in (Ranges.each(n), Ranges.windows(n, 3), Ranges.prefixes(n).take(np.arange(n - 1))):
        assert optimise(plain((n,), [[factor]])).format == 1


def test_bytes_are_read_back_and_measure_exactly_what_is_asked():
    w = asked("all", 20)
    strategy = optimise(w)
    read = Strategy.from_bytes(strategy.to_bytes())
    assert read.to_bytes() == strategy.to_bytes()
    assert np.array_equal(read.to_sparse().toarray(), strategy.to_sparse().toarray())
    assert read.attach(w).rmse == strategy.rmse
    assert nothing_more(read.membership, w.terms)
    assert not nothing_more(read.membership, plain((20,), [[Ranges.total(20)]]).terms)
    assert read.rescaled(5000).sensitivity_squared >= 5000**2


@pytest.mark.slow
def test_bytes_grow_about_as_the_values():
    sizes = [len(optimise(asked("prefixes", n)).to_bytes()) / n for n in (64, 256)]
    assert sizes[1] < 2 * sizes[0]


def test_ranges_that_cannot_be_listed_have_a_strategy_and_no_answers(monkeypatch):
    listed = optimise(asked("all", 12))
    ratio = listed.ratio
    monkeypatch.setattr("dhdmm.study.factor.MOST_LISTED", 8)
    w = asked("all", 12)
    assert w.queries == 78
    strategy = optimise(w)
    assert strategy.to_bytes() == listed.to_bytes()
    assert np.isclose(strategy.ratio, ratio, rtol=1e-9)
    with pytest.raises(StudyError, match="78 ranges of 12 values"):
        strategy.variances()


def changed(data: bytes, place: list[int], value: Any) -> bytes:
    document = cbor2.loads(data)
    inner = document
    for i in place[:-1]:
        inner = inner[i]
    inner[place[-1]] = value
    return cbor2.dumps(document, canonical=True)


DATA = optimise(asked("prefixes", 1025), seconds=0).to_bytes()
ARRAYS = cbor2.loads(DATA)[3][0][2]
HOSTILE = {
    "two blocks": ([3], cbor2.loads(DATA)[3] * 2, "the blocks"),
    "no block": ([3], [], "the blocks"),
    "an axis that does not exist": ([3, 0, 0], 1, "an axis"),
    "no reach": ([3, 0, 1], 0, "the reach"),
    "a reach without end": ([3, 0, 1], 99, "the reach"),
    "another reach": ([3, 0, 1], 2, "the entries"),
    "an array is missing": ([3, 0, 2], ARRAYS[1:], "the entries"),
    "an array too short": ([3, 0, 2, 0], pack(np.ones(3, np.int64)), "entries of T"),
    "singular": ([3, 0, 2, 1], pack(np.zeros(512, np.int64)), "singular"),
    "vectors": ([2, 0, 5], 1, "attribute's vectors"),
    "a block of an earlier format": ([3, 0], [[], []], "a block"),
    "an earlier format": ([1], 2, "the residuals"),
}


@pytest.mark.fault(28)
@pytest.mark.parametrize("name", HOSTILE)
def test_bytes_from_a_stranger_are_checked(name):
    place, value, reason = HOSTILE[name]
    with pytest.raises(StrategyError, match=reason):
        Strategy.from_bytes(changed(DATA, place, value))


def test_values_that_are_merged_cannot_be_halved():
    n = 1025
    axis = [n, n, 2, pack(np.arange(n)), pack(np.arange(n) % 2), 0, pack(np.zeros(0, np.int64))]
    with pytest.raises(StrategyError, match="halved"):
        Strategy.from_bytes(changed(DATA, [2, 0], axis))


def test_what_a_plan_takes_is_counted_before_it_is_done():
    with limited(Limit(megabytes=0.5, seconds=60)), pytest.raises(TooCostly):
        Strategy.from_bytes(DATA)


def test_differences_of_too_many_columns_are_refused_by_their_number(monkeypatch):
    strategy = optimise(asked("prefixes", 9))
    monkeypatch.setattr(sensitivity, "MOST_VALUES", 8)
    with pytest.raises(StrategyError, match="two of 9 columns"):
        _ = strategy.replace_sensitivity_squared


def test_more_values_than_can_be_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("dhdmm.strategy.sizes.VALUES_BY_HALVES", 8)
    with pytest.raises(StrategyError, match="ranges of 9 values") as refusal:
        optimise(asked("prefixes", 9))
    assert refusal.value.hint == "bin the attribute"


def test_entries_too_large_to_be_squared_are_refused():
    halves = Halves(5, 1)
    rows = tuple(np.full(halves.shape(m), 2**30) for m in halves.levels)
    with pytest.raises(StrategyError, match="too large"):
        _ = Dyadic(halves, rows).squared_norms


def test_dual_weights_found_from_fewer_values_are_as_good():
    line = Line(1024, True)
    X = line.columns(d := line.solve(Watch(60)))
    assert X.max() / (d @ X) < 1.0002

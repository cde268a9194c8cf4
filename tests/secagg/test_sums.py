"""Sums over all sizes of a set are taken in runs: never below the truth, and hardly above it."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from dhdmm.secagg import conditions, phantoms, sums
from dhdmm.secagg.conditions import SECURITY_BITS, e5b_holds
from dhdmm.secagg.sums import log_sums
from dhdmm.secagg.tails import is_below, log_binomial_tail, log_choose

BITS = SECURITY_BITS + 2
GRAPHS = [
    (n, max(1, n // share), k, t)
    for n in (12, 90, 300, 1100, 4000)
    for share in (20, 5)
    for k in (9, 43, 61, 68)
    for t in (k // 2 + 1, 2 * k // 3, 7 * k // 10, 9 * k // 10)
    if k < n - 1
]


def e5b_bound(n, c, k, t):
    supported = conditions._support_by_acceptors(n, c, k, t)
    return partial(conditions._two_bitmaps, n, c, k, t, supported)


def one_by_one(bound, last):
    """ln of every term."""
    sizes = np.arange(1.0, last + 1)
    return bound(sizes, sizes)


@pytest.mark.parametrize(("n", "c", "k", "t"), GRAPHS)
def test_verdict_is_that_of_the_sum_over_every_size(n, c, k, t) -> None:
    terms = one_by_one(e5b_bound(n, c, k, t), (n - c) // 2)
    holds = bool(is_below(np.logaddexp.reduce(terms), BITS))
    assert e5b_holds(n, c, k, t) == holds


def test_both_verdicts_are_among_them() -> None:
    verdicts = [e5b_holds(*graph) for graph in GRAPHS]
    assert 10 < sum(verdicts) < len(verdicts) - 10


@pytest.mark.parametrize(("n", "c", "k", "t"), [g for g in GRAPHS if g[0] >= 1100])
def test_a_run_is_at_least_its_sum(n, c, k, t) -> None:
    bound, last = e5b_bound(n, c, k, t), (n - c) // 2
    terms = one_by_one(bound, last)
    for low, high in ((1, 2), (3, 9), (50, 53), (100, 130), (last // 2, last // 2 + 9), (2, last)):
        found = float(bound(np.array([float(low)]), np.array([float(high)]))[0])
        assert found >= np.logaddexp.reduce(terms[low - 1 : high]) - 1e-9


def test_runs_taken_from_their_other_end_would_be_too_small() -> None:
    """Which is why each part of a bound is taken from the end where it is largest."""
    bound, terms = e5b_bound(4000, 200, 68, 47), one_by_one(e5b_bound(4000, 200, 68, 47), 1900)
    low, high = np.array([100.0]), np.array([130.0])
    at_its_first = math.log(31) + float(bound(low, low)[0])
    at_its_last = math.log(31) + float(bound(high, high)[0])
    truth = np.logaddexp.reduce(terms[99:130])
    assert min(at_its_first, at_its_last) < truth < float(bound(low, high)[0])


def test_sum_is_never_below_the_truth_and_hardly_above_it() -> None:
    for n, c, k, t in GRAPHS:
        bound, last = e5b_bound(n, c, k, t), (n - c) // 2
        truth = np.logaddexp.reduce(one_by_one(bound, last))
        low, found = log_sums(bound, last, BITS)
        assert list(low) == sorted(set(low))
        if is_below(truth, BITS):
            total = np.logaddexp.reduce(found)
            assert low[0] == 1
            assert total >= truth - 1e-9
            assert math.exp(total) - math.exp(truth) <= 2.0 ** -(BITS + 20)
        else:
            assert not is_below(np.logaddexp.reduce(found), BITS)


def test_runs_are_cut_until_they_are_negligible() -> None:
    """Terms fall slowly: runs of them are far above their sums, and far below the threshold."""

    def bound(low, high):
        return np.log(high - low + 1) - (BITS + low / 4) * math.log(2)

    truth = math.fsum(2.0 ** -(BITS + size / 4) for size in range(1, 401))
    total = math.exp(np.logaddexp.reduce(log_sums(bound, 400, BITS)[1]))
    assert truth * (1 - 1e-9) <= total <= truth + 2.0 ** -(BITS + 20)


@pytest.mark.parametrize("n", [30, 300, 3000, 30_000])
@pytest.mark.parametrize(("share", "k"), [(20, 24), (20, 68), (5, 90), (3, 27)])
def test_unmet_phantoms_are_those_of_the_sum_over_every_size(n, share, k) -> None:
    c, k = n // share, min(k, n - 2)
    m = (n - c) // 2
    f = np.arange(1.0, min(n - c - m, n - k))
    unaware = log_choose(n - 1 - f, k) - log_choose(n - 1, k)
    terms = log_choose(n - c, f) + log_binomial_tail(n - c - f, unaware, m + 1)
    beyond = np.logaddexp.accumulate(terms[::-1])[::-1]
    assert phantoms.unmet_phantoms(n, c, k, BITS) == np.sum(~is_below(beyond, BITS))


@pytest.mark.parametrize("bits", [1, 40])
@pytest.mark.parametrize("log_support", [-0.001, -0.7, -3.0, -30.0, -math.inf])
def test_first_rare_size_is_found(log_support, bits) -> None:
    def chance(sizes):
        return log_choose(5000, sizes) + sizes * log_support

    rare = is_below(chance(np.arange(1.0, 5001)), bits)
    first = int(np.argmax(rare)) if rare.any() else 5000
    assert phantoms._before_first(chance, 5000, bits) == first


@pytest.mark.parametrize("last", [0, 1, 47, 48, 49, 1000])
def test_first_runs_are_all_sizes(last) -> None:
    low, high = sums._first_runs(last)
    covered = [size for a, b in zip(low, high, strict=True) for size in range(int(a), int(b) + 1)]
    assert covered == list(range(1, last + 1))


def test_effort_grows_with_the_logarithm(monkeypatch) -> None:
    """Sizes that are looked at for a hundred times as many participants."""
    looked_at = []

    def counted(bound, last, bits):
        def counting(low, high):
            looked_at.append(len(low))
            return bound(low, high)

        return log_sums(counting, last, bits)

    monkeypatch.setattr(conditions, "log_sums", counted)
    monkeypatch.setattr(phantoms, "log_sums", counted)
    efforts = []
    for n, c, k, t in ((10_000, 500, 74, 51), (1_000_000, 50_000, 86, 59)):
        looked_at.clear()
        assert e5b_holds(n, c, k, t)
        phantoms.unmet_phantoms(n, c, k, BITS)
        efforts.append(sum(looked_at))
    assert efforts[1] < 2.5 * efforts[0] < 2500

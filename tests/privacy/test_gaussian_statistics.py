"""The sampler's output against the distribution it claims: χ², moments, tails, signs, memory.

Keys are fixed, so the outcome never changes. Each check would reject a perfect sampler under a
random key with probability ALPHA; there are under 150 checks, hence a false alarm somewhere with
probability below 1.5e-5. That the checks can fail is shown by biased variants that must fail them.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from math import isqrt, sqrt

import numpy as np
import pytest
from scipy import stats

from dhdmm.privacy import gaussian
from dhdmm.privacy.gaussian import DiscreteGaussian, block_bits
from dhdmm.privacy.keystream import KeyStream

pytestmark = pytest.mark.slow

ALPHA = 1e-7
COUNT = 4_000_000
COUNTS = pytest.mark.parametrize("count", [2_000_000, pytest.param(COUNT, marks=pytest.mark.soak)])
VARIANCES = [
    Fraction(text) for text in ("1/2", "2", "7/3", "10", "1e4", "1000003/17", "1e8", "1e12", "1e18")
]
SUMMED_UP_TO = 10**8  # variances at which probabilities are added up cell by cell


def draw(variance: Fraction, key: str = "", count: int = COUNT) -> np.ndarray:
    seed = hashlib.sha256(f"statistics {variance} {key}".encode()).digest()
    return DiscreteGaussian(variance).sample(count, KeyStream.from_key_for_tests(seed))


def cell_probabilities(variance: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """All x within 12σ and Pr[x]."""
    reach = 12 * isqrt(int(variance) + 1) + 12
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x.astype(float) ** 2) / (2 * float(variance)))
    return x, weights / weights.sum()


def bin_probabilities(variance: Fraction, edges: np.ndarray) -> np.ndarray:
    """Pr[x < edges[0]], Pr[edges[0] ≤ x < edges[1]], …, Pr[x ≥ edges[-1]].

    Beyond SUMMED_UP_TO by the midpoint rule, which is off by at most 1e-8 relative within 6σ.
    """
    if variance > SUMMED_UP_TO:
        below = stats.norm.cdf((edges - 0.5) / sqrt(variance))
    else:
        x, p = cell_probabilities(variance)
        below = np.concatenate([[0.0], np.cumsum(p)])[np.searchsorted(x, edges)]
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def chi_square_p_value(samples: np.ndarray, variance: Fraction) -> float:
    """Bins are half a block wide (one integer if B = 1), so that block seams and slopes show."""
    half_block = max(1, (1 << block_bits(variance)) // 2)
    reach = 6 * isqrt(int(variance) + 1) // half_block
    edges = np.arange(-reach, reach + 1) * half_block
    expected = bin_probabilities(variance, edges) * len(samples)
    observed = np.bincount(np.searchsorted(edges, samples, "right"), minlength=len(edges) + 1)
    full = expected >= 20
    observed = np.append(observed[full], observed[~full].sum())
    expected = np.append(expected[full], expected[~full].sum())
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


def half_block_p_value(samples: np.ndarray, variance: Fraction) -> float:
    """Of the share of magnitudes in the first half of their block: what rejection brings about."""
    half_block = (1 << block_bits(variance)) // 2
    edges = np.arange(12 * isqrt(int(variance)) // half_block) * half_block
    p = bin_probabilities(variance, edges)[1:]  # of x ≥ 0, by half-blocks
    zero = bin_probabilities(variance, np.array([0, 1]))[1]
    first = int((np.abs(samples) // half_block % 2 == 0).sum())
    return float(stats.binomtest(first, len(samples), 2 * p[::2].sum() - zero).pvalue)


def moments(variance: Fraction) -> list[float]:
    """E[(x/σ)^k] for k = 0 … 8; beyond SUMMED_UP_TO those of the continuous Gaussian."""
    if variance > SUMMED_UP_TO:
        return [1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0]
    x, p = cell_probabilities(variance)
    return [float(((x / sqrt(variance)) ** k * p).sum()) for k in range(9)]


def moment_p_values(samples: np.ndarray, variance: Fraction) -> list[float]:
    """Of the first four moments, each by the central limit theorem."""
    m = moments(variance)
    z = samples / sqrt(variance)
    sds = [sqrt((m[2 * k] - m[k] ** 2) / len(z)) for k in range(1, 5)]
    errors = [np.mean(z**k) - m[k] for k in range(1, 5)]
    return [float(2 * stats.norm.sf(abs(e) / sd)) for e, sd in zip(errors, sds, strict=True)]


@pytest.mark.fault(32)
@COUNTS
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_output_has_the_claimed_distribution(variance, count):
    samples = draw(variance, count=count)
    assert chi_square_p_value(samples, variance) > ALPHA
    assert min(moment_p_values(samples, variance)) > ALPHA
    if block_bits(variance):
        assert half_block_p_value(samples, variance) > ALPHA


@pytest.mark.soak
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_chi_square_p_values_are_uniform_over_many_keys(variance):
    """Kolmogorov–Smirnov at ALPHA; small variances have few bins, where χ² is approximate."""
    p_values = [chi_square_p_value(draw(variance, str(key)), variance) for key in range(60)]
    assert stats.kstest(p_values, "uniform").pvalue > ALPHA


@COUNTS
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_signs_are_fair_and_tails_have_their_share(variance, count):
    samples = draw(variance, "tails", count)
    positive, nonzero = int((samples > 0).sum()), int((samples != 0).sum())
    assert stats.binomtest(positive, nonzero).pvalue > ALPHA
    for sigmas in (3, 4, 5):
        bound = isqrt(int(sigmas**2 * variance)) + 1  # the smallest integer beyond
        share = bin_probabilities(variance, np.array([1 - bound, bound]))[[0, 2]].sum()
        beyond = int((np.abs(samples) >= bound).sum())
        assert stats.binomtest(beyond, count, share).pvalue > ALPHA


@COUNTS
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_draws_do_not_remember_earlier_draws(variance, count):
    z = draw(variance, "memory", count) / sqrt(variance * Fraction(moments(variance)[2]))
    for series in (z, z**2 - 1):
        for lag in (1, 2, 7):
            product = series[lag:] * series[:-lag]
            score = product.mean() / (series.var() / sqrt(len(product)))
            assert 2 * stats.norm.sf(abs(score)) > ALPHA


@pytest.mark.fault(32)
@pytest.mark.parametrize("variance", [Fraction(10), Fraction(10**4), Fraction(10**12)], ids=str)
def test_a_variance_half_a_percent_off_is_noticed(variance):
    samples = draw(variance * Fraction(1005, 1000))
    assert min(moment_p_values(samples, variance)) < ALPHA


@pytest.mark.fault(32)
@pytest.mark.parametrize("variance", [Fraction(10), Fraction(10**4)], ids=str)
def test_a_sampler_that_counts_zero_twice_is_noticed(variance, monkeypatch):
    """Minus zero accepted: the zero has twice its share."""
    propose = gaussian.BlockTable.propose

    def doubled(self, count, stream):
        accepted = propose(self, count, stream)
        return np.append(accepted, accepted[accepted == 0])

    monkeypatch.setattr(gaussian.BlockTable, "propose", doubled)
    assert chi_square_p_value(draw(variance), variance) < ALPHA


@pytest.mark.fault(32)
@pytest.mark.parametrize("variance", [Fraction(10**8), Fraction(10**12)], ids=str)
def test_a_sampler_that_never_rejects_is_noticed(variance, monkeypatch):
    """Offsets uniform within a block: each block is flat where the Gaussian falls."""
    monkeypatch.setattr(
        gaussian.BlockTable,
        "_below_exponential",
        lambda self, words, *_: np.ones(len(words), np.bool_),
    )
    assert half_block_p_value(draw(variance), variance) < ALPHA


def test_a_table_off_by_one_block_is_noticed(monkeypatch):
    variance = Fraction(10**4)
    table = gaussian.block_table(variance, gaussian.TABLE_BITS)
    shifted = replace(table, ends=table.ends[1:], guide=table.guide + np.uint16(1))
    monkeypatch.setattr(gaussian, "block_table", lambda *_: shifted)
    assert chi_square_p_value(draw(variance), variance) < ALPHA

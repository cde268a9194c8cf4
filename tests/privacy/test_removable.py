"""Noise in parts: at every level the honest ones keep what was promised, and hardly more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dhdmm.errors import PrivacyError
from dhdmm.privacy.excess import NoisyRelease, epsilon_promised
from dhdmm.privacy.removable import RemovableNoise, variance_wanted
from dhdmm.privacy.zcdp import honest_variance, sum_of_noises_tau

ROUNDS = [
    RemovableNoise(Fraction(variance), n, fewest, fewest - unknown)
    for variance in (9, 100, 617, 10**5)
    for n, fewest, unknown in [(10, 7, 1), (100, 95, 5), (1000, 700, 53), (10**5, 9 * 10**4, 5000)]
]
ROUNDS.append(RemovableNoise(Fraction(20), 1000, 353, 300))  # with V₀ below 9


@pytest.mark.parametrize("noise", ROUNDS)
def test_every_number_of_survivors_keeps_what_was_promised(noise) -> None:
    promised = noise.variance * noise.honest_floor
    allowed = range(noise.minimum_survivors, noise.participants + 1)
    for survivors in {*allowed[:50], *allowed[-50:], *allowed[:: max(1, len(allowed) // 200)]}:
        level, honest = noise.level(survivors), survivors - noise.unknown
        assert 0 <= level < noise.levels
        assert noise.kept(level) * honest >= promised
        removed = sum((noise.step * 2**part for part in noise.removed(level)), Fraction(0))
        assert noise.kept(level) + removed == noise.variance
        if level:
            assert noise.kept(level - 1) * honest < promised
    assert noise.kept(noise.level(noise.minimum_survivors)) == noise.variance
    if noise.parts:
        assert (
            noise.kept(noise.level(noise.participants)) * (noise.participants - noise.unknown)
            == promised
        )
        assert noise.smallest >= 9


def test_too_few_survivors_have_no_level() -> None:
    with pytest.raises(PrivacyError, match="6 survivors"):
        ROUNDS[0].level(6)


def test_little_noise_is_divided_into_fewer_parts() -> None:
    parts = [RemovableNoise(Fraction(v), 1000, 950, 900).parts for v in (9, 170, 171, 600, 10**6)]
    assert parts == [0, 0, 1, 2, 2]
    smallest = RemovableNoise(Fraction(9), 1000, 950, 900)
    assert (smallest.base, smallest.level(1000), smallest.removed(0)) == (9, 0, ())


@pytest.mark.parametrize(("n", "fewest", "floor"), [(1000, 950, 900), (1000, 700, 650), (10, 9, 8)])
def test_with_the_variance_that_is_asked_for_no_error_is_a_hundredth_too_large(
    n, fewest, floor
) -> None:
    noise = RemovableNoise(variance_wanted(n, fewest, floor) / floor, n, fewest, floor)
    assert noise.smallest == 9
    for survivors in range(fewest, n + 1):
        least = noise.variance * floor / (survivors - noise.unknown)
        assert math.sqrt(noise.kept(noise.level(survivors)) / least) < 1.0101


def test_where_nobody_may_leave_nothing_is_divided() -> None:
    assert variance_wanted(10, 10, 9) == 0
    assert RemovableNoise(Fraction(100), 10, 10, 9).parts == 0


def exact(variance: Fraction, reach: int) -> np.ndarray:
    points = np.arange(-reach, reach + 1, dtype=np.longdouble)
    weights = np.exp(-(points**2) / (2 * np.longdouble(float(variance))))
    return weights / weights.sum()


@pytest.mark.parametrize("variances", [(1, 1, 2), (1, 3, 1.5), (1.2, 1.1, 1.3, 2.4)])
def test_tau_bounds_sums_of_unequal_noises(variances) -> None:
    """Against exact convolutions, at variances so small that τ is seen."""
    reach, total = 200, exact(Fraction(variances[0]), 200)
    for variance in variances[1:]:
        total = np.convolve(total, exact(Fraction(variance), 200))
    middle, inner = len(total) // 2, 12
    one = exact(Fraction(sum(map(Fraction, variances))), reach)
    ratios = np.log(
        total[middle - inner : middle + inner + 1] / one[reach - inner : reach + inner + 1]
    )
    worst = float(np.abs(ratios).max())
    tau = sum_of_noises_tau(min(variances), len(variances))
    assert 2 * worst <= tau
    assert worst > sum_of_noises_tau(max(variances), len(variances))  # which were no bound


@pytest.mark.parametrize("noise", [ROUNDS[0], ROUNDS[9], ROUNDS[14]])
def test_no_level_promises_less_than_the_plan_says(noise) -> None:
    rows, sensitivity = 300, 4 * 10**6
    rho = Fraction(sensitivity) / (2 * noise.variance * noise.honest_floor)
    assert honest_variance(sensitivity, rho, noise.honest_floor) == noise.variance
    stated = NoisyRelease(
        sensitivity, noise.variance, noise.honest_floor, rows, noise.smallest, noise.honest_parts
    )
    epsilon = epsilon_promised([stated], 1e-6)
    for level in range(noise.levels):
        kept = noise.kept(level)
        honest = math.ceil(noise.variance * noise.honest_floor / kept)
        parts = honest * (1 + level.bit_count())
        assert parts <= noise.honest_parts
        left = NoisyRelease(sensitivity, kept, honest, rows, noise.smallest, parts)
        assert left.cost <= stated.cost
        assert epsilon_promised([left], 1e-6) <= epsilon
    assert stated.cost >= NoisyRelease(sensitivity, noise.variance, noise.honest_floor, rows).cost


def test_a_part_that_is_too_small_is_refused() -> None:
    with pytest.raises(PrivacyError, match="below 9"):
        epsilon_promised([NoisyRelease(100, Fraction(100), 10, 5, Fraction(8), 20)], 1e-6)

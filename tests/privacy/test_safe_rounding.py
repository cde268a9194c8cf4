"""Conversions give their answers on the safe side of what high precision says."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import pytest

from dhdmm.errors import PrivacyError
from dhdmm.privacy.zcdp import RELATIVE_ERROR, Conversion, honest_variance, release_rho

CASES = [
    (10 ** random.Random(seed).uniform(-2, 1), 10 ** random.Random(~seed).uniform(-12, -2))
    for seed in range(60)
]


def log_delta(epsilon: float, rho: Fraction | float) -> mpmath.mpf:
    """The Gaussian curve with 60 digits."""
    with mpmath.workdps(60):
        exact = Fraction(rho)
        mu = mpmath.sqrt(2 * mpmath.mpf(exact.numerator) / exact.denominator)
        upper, lower = mpmath.mpf(epsilon) / mu - mu / 2, mpmath.mpf(epsilon) / mu + mu / 2
        tails = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (upper, lower)]
        return mpmath.log(tails[0] - mpmath.exp(epsilon) * tails[1])


def test_epsilon_is_rounded_up_by_more_than_the_curve_may_be_wrong() -> None:
    """The δ at the ε that is given lies below the target by most of the error allowed for."""
    for rho, delta in CASES:
        epsilon = Conversion.GAUSSIAN.epsilon(rho, delta)
        short = math.log(delta) - log_delta(epsilon, rho)
        assert 0.9 * RELATIVE_ERROR < short < 10 * RELATIVE_ERROR


def test_rho_is_rounded_down_by_more_than_the_curve_may_be_wrong() -> None:
    """In each of sixty cases, of which rounding to nine digits alone fails in some."""
    for epsilon, delta in CASES:
        rho = Conversion.GAUSSIAN.rho(epsilon, delta)
        assert math.log(delta) - log_delta(epsilon, rho) > 0.9 * RELATIVE_ERROR
        assert rho > 0


def test_the_published_conversion_is_the_published_one() -> None:
    """ε = ρ + 2√(ρ ln 1/δ), Bun and Steinke 2016."""
    for rho, delta in CASES:
        epsilon = rho + 2 * math.sqrt(rho * -math.log(delta))
        assert Conversion.PAPER.log_delta(epsilon, rho) == pytest.approx(math.log(delta), rel=1e-9)


def test_a_release_costs_what_its_noise_was_made_for() -> None:
    """Δ²/(2hσ²): the Gaussian mechanism with h shares of σ² and a shift of Δ has this ρ."""
    variance = honest_variance(10**6, Fraction(1, 50), 7)
    assert variance == Fraction(10**6 * 50, 14)
    assert release_rho(10**6, variance, 7, 1) == Fraction(1, 50)


@pytest.mark.parametrize("delta", [1.0, 1.5, math.inf])
def test_no_promise_is_made_for_a_delta_of_one_and_more(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta must lie"):
        Conversion.GAUSSIAN.rho(1.0, delta)

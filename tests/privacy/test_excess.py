"""The promised (ε, δ) against the exact hockey-stick divergence of what is really released."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from dhdmm.errors import PrivacyError
from dhdmm.privacy.excess import NoisyRelease, certified_excess, epsilon_promised, rho_for
from dhdmm.privacy.zcdp import Conversion, honest_variance

SLIP = math.log(2.0**-64)


def sum_of_discrete_gaussians(variance, shares):
    """Exact probabilities of the honest noise on −reach…reach, by convolution."""
    reach = math.ceil(14 * math.sqrt(variance))
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    total = one = one / one.sum()
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    return total


def exact_delta(epsilon, noise, shifts):
    """Hockey-stick divergence of the shifted from the unshifted product of `noise`."""
    loss_weight = None
    for shift in shifts:
        base = np.pad(noise, shift)
        moved = np.roll(base, shift)
        loss_weight = (
            (moved, base)
            if loss_weight is None
            else tuple(
                np.outer(a, b).ravel() for a, b in zip(loss_weight, (moved, base), strict=True)
            )
        )
    moved, base = loss_weight
    return np.maximum(moved - math.exp(epsilon) * base, 0).sum()


def exact_epsilon(delta, noise, shifts):
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if exact_delta(middle, noise, shifts) <= delta else (middle, high)
    return high


def test_gaussian_curve_alone_is_not_a_promise_for_discrete_noise():
    noise = sum_of_discrete_gaussians(10, 2)
    exact = exact_epsilon(1e-5, noise, (2,))
    curve = Conversion.GAUSSIAN.epsilon(Fraction(1, 10), 1e-5)
    assert exact == pytest.approx(1.7639, abs=5e-5)
    assert curve == pytest.approx(1.7601, abs=5e-5)
    assert curve < exact <= epsilon_promised([NoisyRelease(4, Fraction(10), 2, rows=1)], 1e-5)


one_row = itertools.product([(1,), (2,), (5,), (9,)], [9, 10, 25], [1, 2, 7], [1e-3, 1e-5, 1e-9])
two_rows = itertools.product([(1, 1), (1, 4), (3, 2)], [9, 14], [1, 3], [1e-4, 1e-8])


@pytest.mark.slow
@pytest.mark.parametrize(("shifts", "variance", "floor", "delta"), [*one_row, *two_rows])
def test_promise_dominates_the_exact_divergence(shifts, variance, floor, delta):
    release = NoisyRelease(sum(s * s for s in shifts), Fraction(variance), floor, rows=len(shifts))
    promised = epsilon_promised([release], delta)
    exact = exact_epsilon(delta, sum_of_discrete_gaussians(variance, floor), shifts)
    assert exact <= promised
    assert promised <= exact + 4  # and it is not vacuous where η is largest


def test_excess_is_needed_in_many_of_these_cases():
    exceeded = sum(
        exact_epsilon(1e-5, sum_of_discrete_gaussians(variance, 2), (shift,))
        > Conversion.GAUSSIAN.epsilon(Fraction(shift**2, 4 * variance), 1e-5)
        for variance in (9, 10, 16)
        for shift in range(1, 7)
    )
    assert exceeded >= 6


def log_ratio(sigma, reach):
    """L(z) = ln P(z)/R(z) and both distributions, for one coordinate."""
    z = np.arange(-reach, reach + 1.0)
    discrete = -(z**2) / (2 * sigma**2)
    discrete -= np.log(np.exp(discrete).sum())
    a, b = (np.abs(z) - 0.5) / sigma, (np.abs(z) + 0.5) / sigma
    rounded = log_ndtr(-a) + np.log(-np.expm1(log_ndtr(-b) - log_ndtr(-a)))
    return z / sigma, discrete - rounded, np.exp(discrete), np.exp(rounded)


@pytest.mark.parametrize("sigma", [1.0, 3.0, 4.5, 10.0, 30.0])
def test_log_ratio_lies_between_its_proved_bounds(sigma):
    x, ratio, _, _ = log_ratio(sigma, math.ceil(12 * sigma))
    leading = (1 - x**2) / (24 * sigma**2)
    theta = 2.001 * math.exp(-2 * math.pi**2 * sigma**2)
    rounding = 1e-12
    assert (ratio >= leading - 1 / (640 * sigma**4) - theta - rounding).all()
    slack = np.minimum(x**2 / (24 * sigma**2), x**4 / (960 * sigma**4))
    assert (ratio <= leading + slack + rounding).all()


@pytest.mark.parametrize("sigma", [math.sqrt(20), 10.0])
@pytest.mark.parametrize("slip", [1e-2, 1e-4, 1e-6])
def test_noise_leaves_the_certified_range_no_oftener_than_stated(sigma, slip):
    _, ratio, discrete, rounded = log_ratio(sigma, math.ceil(10 * sigma))
    eta = certified_excess(sigma**2, 1, 1, math.log(slip))
    assert discrete[ratio > eta].sum() <= slip
    assert rounded[ratio < -eta].sum() <= slip
    two = np.add.outer(ratio, ratio)
    eta = certified_excess(sigma**2, 1, 2, math.log(slip))
    assert np.outer(discrete, discrete)[two > eta].sum() <= slip
    assert np.outer(rounded, rounded)[two < -eta].sum() <= slip
    assert rounded[ratio < -eta / 8].sum() > slip / 10  # an η eight times smaller would not do


def test_census_sized_excess_is_below_a_ten_thousandth():
    eta = certified_excess(Fraction(10**8, 900), 900, 3112, SLIP)
    assert eta == pytest.approx(3.35e-7, rel=0.01)
    release = NoisyRelease(2 * 10**8 // 28, Fraction(10**8, 900), 900, 3112)
    promised = epsilon_promised([release], 1e-6)
    assert promised == pytest.approx(Conversion.GAUSSIAN.epsilon(release.rho, 1e-6), rel=1e-4)


def test_excess_shrinks_with_the_square_of_the_integer_scale():
    coarse, fine = (certified_excess(100 * scale**2, 9, 500, SLIP) for scale in (1, 10))
    assert coarse / fine == pytest.approx(100, rel=0.01)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.05, 20),
    st.floats(-46, -7).map(math.exp),
    st.integers(1, 5000),
    st.integers(1, 2000),
)
def test_budget_for_a_promise_keeps_it_and_wastes_little(epsilon, delta, rows, floor):
    sensitivity_squared = 10**7 * floor
    rho = rho_for(epsilon, delta, sensitivity_squared, floor, rows)
    variance = honest_variance(sensitivity_squared, rho, floor)
    promised = epsilon_promised([NoisyRelease(sensitivity_squared, variance, floor, rows)], delta)
    assert promised <= epsilon * (1 + 1e-9)
    assert promised >= epsilon * (1 - 1e-6)
    assert rho <= Conversion.GAUSSIAN.rho(epsilon, delta)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(1, 10**6), st.integers(10, 10**5), st.integers(1, 100), st.integers(1, 5000))
def test_promise_is_monotone(sensitivity_squared, variance, floor, rows):
    def promised(*changes):
        return epsilon_promised([NoisyRelease(*changes)], 1e-6)

    base = promised(sensitivity_squared, Fraction(variance), floor, rows)
    tolerance = 1 + 1e-6  # of the minimiser
    assert promised(sensitivity_squared * 2, Fraction(variance), floor, rows) * tolerance >= base
    assert promised(sensitivity_squared, Fraction(variance), floor, rows * 2) * tolerance >= base
    assert promised(sensitivity_squared, Fraction(variance * 2), floor, rows) <= base * tolerance


def test_releases_compose_like_one_release_of_their_budgets():
    one = NoisyRelease(10**6, Fraction(10**5), 900, 1000)
    both = epsilon_promised([one, one], 1e-6)
    joined = epsilon_promised([NoisyRelease(2 * 10**6, Fraction(10**5), 900, 2000)], 1e-6)
    assert joined <= both <= joined * (1 + 1e-4)


def test_two_adaptive_rounds_stay_within_the_composed_promise():
    noise = sum_of_discrete_gaussians(10, 2)
    releases = [NoisyRelease(4, Fraction(10), 2, 1), NoisyRelease(9, Fraction(10), 2, 1)]
    assert exact_epsilon(1e-5, noise, (2, 3)) <= epsilon_promised(releases, 1e-5)


@pytest.mark.fault(30)
def test_refuses_noise_that_is_too_coarse_and_says_how_to_refine_it():
    with pytest.raises(PrivacyError, match="below 9") as refusal:
        rho_for(1.0, 1e-6, sensitivity_squared=4, honest_floor=900, rows=10)
    factor = float(refusal.value.hint.split("least ")[1].split(" ")[0])
    rho_for(1.0, 1e-6, math.ceil(4 * factor**2 * 1.01), 900, 10)
    with pytest.raises(PrivacyError, match="below 9"):
        epsilon_promised([NoisyRelease(4, Fraction(8), 2, 1)], 1e-5)

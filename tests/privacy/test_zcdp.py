"""Conversions between ρ and (ε, δ), against high precision, dp-accounting and each other."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import PrivacyError
from dhdmm.privacy.zcdp import (
    MINIMUM_VARIANCE,
    RELATIVE_ERROR,
    Conversion,
    gaussian_log_delta,
    honest_variance,
    release_rho,
    sum_of_noises_tau,
)

GAUSSIAN, CKS, PAPER = Conversion
epsilons = st.floats(1e-3, 50)
deltas = st.floats(-69, -3).map(math.exp)  # 1e-30 to 5 %
budgets = st.floats(-14, 3).map(math.exp)


def high_precision_log_delta(epsilon, rho):
    with mpmath.workdps(80):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.sqrt(2 * mpmath.mpf(rho))
        upper, lower = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        survival = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (upper, lower)]
        return mpmath.log(survival[0] - mpmath.exp(epsilon) * survival[1])


def test_gaussian_curve_is_as_precise_as_stated():
    rng = random.Random(20)
    compared = 0
    while compared < 400:
        epsilon, rho = 10 ** rng.uniform(-6, 1.7), 10 ** rng.uniform(-10, 2)
        if epsilon**2 / (4 * rho) < 2400:
            exact = high_precision_log_delta(epsilon, rho)
            assert abs(gaussian_log_delta(epsilon, rho) - exact) < RELATIVE_ERROR
            compared += 1


def test_published_figures():
    for conversion, epsilon, rho in (
        (GAUSSIAN, 1.760, 0.0359),
        (CKS, 1.914, 0.0306),
        (PAPER, 2.246, 0.0208),
    ):
        assert conversion.epsilon(0.1, 1e-5) == pytest.approx(epsilon, abs=5e-4)
        assert float(conversion.rho(1, 1e-5)) == pytest.approx(rho, abs=5e-5)


def paper_kappa(variance, shares):
    """The paper's 5 Σ_{j=1}^{h−1} e^{−4π²σ_c² j/(j+1)}."""
    j = np.arange(1.0, shares)
    return 5 * np.exp(-4 * np.pi**2 * variance * j / (j + 1)).sum()


def test_paper_kappa_is_reproduced():
    rho, n, scale = 0.1, 5000, 100
    assert paper_kappa(scale**2 / (2 * n * rho), n) == pytest.approx(9.39e-86, rel=1e-3)


@settings(deadline=None)
@given(st.sampled_from(Conversion), epsilons, deltas)
def test_conversions_invert_each_other_and_round_to_the_safe_side(conversion, epsilon, delta):
    rho = conversion.rho(epsilon, delta)
    back = conversion.epsilon(rho, delta)
    assert back <= epsilon * (1 + 1e-12)
    assert back == pytest.approx(epsilon, rel=1e-6)
    assert conversion.log_delta(epsilon, rho) <= math.log(delta)
    digits = str(rho.numerator * 10**40 // rho.denominator).strip("0")
    assert len(digits) <= 10


@settings(deadline=None)
@given(budgets, deltas)
def test_curve_needs_no_more_than_cks_and_cks_no_more_than_the_paper(rho, delta):
    curve, cks, paper = (conversion.epsilon(rho, delta) for conversion in Conversion)
    assert curve <= cks * (1 + 1e-8) + 1e-12
    assert cks <= paper * (1 + 1e-8)


@settings(deadline=None)
@given(st.sampled_from(Conversion), budgets, deltas)
def test_more_budget_or_less_delta_means_more_epsilon(conversion, rho, delta):
    epsilon = conversion.epsilon(rho, delta)
    assert conversion.epsilon(rho * 1.01, delta) >= epsilon
    assert conversion.epsilon(rho, delta / 2) >= epsilon


fractions = st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**9))


@given(st.integers(1, 10**12), fractions, st.integers(1, 10**6))
def test_honest_variance_gives_back_its_budget_exactly(sensitivity_squared, rho, floor):
    variance = honest_variance(sensitivity_squared, rho, floor)
    assert Fraction(sensitivity_squared) / (2 * floor * variance) == rho


def test_release_costs_its_budget_plus_a_vanishing_term():
    rho, floor = Fraction(1, 10), 10**6
    variance = honest_variance(1_800_000, rho, floor)
    assert variance == MINIMUM_VARIANCE
    paid = release_rho(1_800_000, variance, floor, rows=10**6)
    assert rho < paid < rho + Fraction(1, 2**100)


def discrete_gaussian(variance, reach=400):
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-(z**2) / (2 * variance))
    return weights / weights.sum()


@pytest.mark.parametrize("variance", [0.5, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("shares", [2, 3, 5, 9])
def test_tau_dominates_the_exact_ratio_of_a_sum_to_one_discrete_gaussian(variance, shares):
    one = discrete_gaussian(variance)
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)[400:-400]
    whole = discrete_gaussian(variance * shares)
    likely = whole > 1e-40
    worst = np.abs(np.log(total[likely] / whole[likely])).max()
    assert worst <= sum_of_noises_tau(variance, shares)
    if variance < 1:  # far above rounding: the bound is not idle
        assert worst > sum_of_noises_tau(variance, shares) / 1000


@pytest.mark.parametrize("variance", [1, 2, 3])
def test_papers_kappa_is_too_small_where_the_excess_can_be_computed(variance):
    with mpmath.workdps(50):
        one = {x: mpmath.exp(mpmath.mpf(-x * x) / (2 * variance)) for x in range(-40, 41)}
        total = {s: mpmath.fsum(one[x] * one.get(s - x, 0) for x in one) for s in range(-30, 31)}
        mass = mpmath.fsum(one.values()) ** 2
        divergence = mpmath.fsum(  # zCDP at order 1: at most ρ; neighbours of distance 1
            total[s] / mass * mpmath.log(total[s] / total[s - 1]) for s in range(-29, 31)
        )
        excess = float(divergence - mpmath.mpf(1) / (4 * variance))  # Δ²/(2·2σ²)
    assert excess == pytest.approx(3.2 * paper_kappa(variance, 2), rel=1e-5)
    assert excess <= sum_of_noises_tau(float(variance), 2)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_refuses_budgets_that_are_none(bad):
    with pytest.raises(PrivacyError, match="rho must be positive"):
        GAUSSIAN.epsilon(bad, 1e-5)
    with pytest.raises(PrivacyError, match="epsilon must be positive"):
        GAUSSIAN.rho(bad, 1e-5)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-5, math.nan])
def test_refuses_deltas_that_are_none(bad):
    for conversion in Conversion:
        with pytest.raises(PrivacyError, match="delta must lie"):
            conversion.epsilon(0.1, bad)
        with pytest.raises(PrivacyError, match="delta must lie"):
            conversion.rho(1.0, bad)


@pytest.mark.parametrize("values", [(0, Fraction(1), 1), (1, Fraction(0), 1), (1, Fraction(1), 0)])
def test_refuses_noise_without_sensitivity_budget_or_floor(values):
    with pytest.raises(PrivacyError, match="must all be positive"):
        honest_variance(*values)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.1, 1.0, 5.0])
def test_agrees_with_dp_accounting(rho):
    reason = "dp-accounting, the reference implementation, is in the bench group"
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism", reason=reason)
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant", reason=reason)
    sigma = 1 / math.sqrt(2 * rho)
    for epsilon in (0.01, 0.1, 1.0, 5.0):
        theirs = pld.GaussianPrivacyLoss(sigma).get_delta_for_epsilon(epsilon)
        if theirs > 1e-12:  # theirs subtracts two numbers near theirs
            ours = math.exp(GAUSSIAN.log_delta(epsilon, rho))
            assert ours == pytest.approx(theirs, rel=1e-4)
    orders = 1 + np.geomspace(1e-2, 1e5, 5_000)
    for delta in (1e-5, 1e-9):
        theirs, _ = rdp.compute_epsilon(orders, orders * rho, delta)
        assert CKS.epsilon(rho, delta) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("variance", [1.0, 9.0, 20.0, 400.0])
@pytest.mark.parametrize("shares", [1, 2, 3, 32, 33, 34, 1000, 10**6])
def test_tau_of_many_noises_is_never_below_its_sum(variance, shares) -> None:
    """Only the first terms are computed; the last of them stands for the others."""
    terms = [math.exp(-2 * math.pi**2 * variance * j / (j + 1)) for j in range(1, shares)]
    truth, found = 10 * math.fsum(terms), sum_of_noises_tau(variance, shares)
    assert found >= truth
    if variance >= MINIMUM_VARIANCE or shares <= 33:
        assert found <= truth * (1 + 2e-9)

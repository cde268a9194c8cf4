"""Each term of the promised (ε, δ), against mpmath and against noise that makes full use of it.

Where η is computed, the certified value must not lie below the least value of the formulas of
docs/proofs-accounting.md, here evaluated with 30 digits: that is tight enough for terms as small as
ln ϑ(σ). Where η is used, a noise that is as bad as its premise allows must keep the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr

from dhdmm.privacy.excess import (
    LARGEST_SLIP,
    NoisyRelease,
    certified_excess,
    epsilon_promised,
    promised_surplus,
    rho_for,
)
from dhdmm.privacy.zcdp import Conversion, release_rho

LOG_SLIP = -64 * math.log(2)


# η: the formulas of section 4


def tau(variance: float, shares: int) -> mpmath.mpf:
    rate = 2 * mpmath.pi**2 * mpmath.mpf(variance)
    return 10 * mpmath.fsum(mpmath.exp(-rate * j / (j + 1)) for j in range(1, shares))


def theta_function(s2: mpmath.mpf) -> mpmath.mpf:
    """ϑ(σ) by its dual series."""
    return 1 + 2 * mpmath.fsum(mpmath.exp(-2 * mpmath.pi**2 * s2 * j * j) for j in (1, 2, 3))


def below(s2: mpmath.mpf, k: int, surprise: mpmath.mpf, theta: mpmath.mpf) -> mpmath.mpf:
    """η₋ at θ; surprise = ln 1/δ'."""
    c = 1 / (640 * s2**2) + mpmath.log(theta_function(s2))
    exponent = -theta - mpmath.log(1 - 2 * theta) / 2 + 24 * s2 * theta * c
    return (k * exponent + surprise) / (24 * s2 * theta - 1)


def above(s2: mpmath.mpf, k: int, surprise: mpmath.mpf, theta: mpmath.mpf) -> mpmath.mpf:
    """η₊ at θ, with X as large as β ≤ ½ allows and no larger than 20."""
    reach_squared = min(mpmath.mpf(400), 20 * s2)
    narrower = 1 + 2 * theta * (1 - reach_squared / (40 * s2))
    moment = theta_function(s2 / narrower) / mpmath.sqrt(narrower)
    moment += 2 * mpmath.exp(-reach_squared / 2)
    return (k * (theta + mpmath.log(moment)) + surprise) / (24 * s2 * theta)


def least(bound, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    """The minimum over a geometric grid that is refined around its best point."""
    for _ in range(12):
        ratio = (high / low) ** (mpmath.mpf(1) / 24)
        grid = [low * ratio**i for i in range(25)]
        values = [bound(theta) for theta in grid]
        best = values.index(min(values))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 24)]
    return min(values)


def stated_excess(variance: float, shares: int, k: int) -> mpmath.mpf:
    with mpmath.workdps(30):
        s2, sums = mpmath.mpf(variance) * shares, k * tau(variance, shares)
        surprise = 64 * mpmath.log(2)
        edge = 1 - mpmath.mpf(10) ** -12
        lower = least(
            lambda theta: below(s2, k, surprise, theta), 1 / (24 * s2) * (2 - edge), edge / 2
        )
        upper = least(
            lambda theta: above(s2, k, surprise + sums, theta),
            mpmath.exp(-20),
            (s2 - 1) / 2,
        )
        return max(lower, min(upper, k / (24 * s2))) + sums


CASES = [
    (1.02, 1, 100),  # ln ϑ(σ) and 1/640σ⁴ of η₋
    (1.0, 2, 1000),  # τ in η₊ and beside it
    (1.1, 1, 10**6),  # ϑ(σ″) of η₊
    (1.0, 3, 40),
    (2.0, 1, 10**6),  # η₊ at its edge σ″ = 1
    (9.0, 1, 1000),
    (9.0, 1, 10),
    (25.0, 4, 300),
    (100.0, 100, 10**6),
]


@pytest.mark.slow
@pytest.mark.parametrize(("variance", "shares", "rows"), CASES)
def test_certified_excess_is_the_least_value_of_the_proved_bounds(variance, shares, rows) -> None:
    """Never below it, whatever the minimiser does; and the minimiser wastes little."""
    stated = stated_excess(variance, shares, rows)
    certified = certified_excess(variance, shares, rows, LOG_SLIP)
    assert stated <= certified <= stated * (1 + 1e-4)


def log_ratio(sigma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ln P/R of one coordinate, P, and R, on all integers that matter."""
    z = np.abs(np.arange(-math.ceil(13 * sigma), math.ceil(13 * sigma) + 1.0))
    discrete = -(z**2) / (2 * sigma**2)
    discrete -= np.log(np.exp(discrete).sum())
    a, b = (z - 0.5) / sigma, (z + 0.5) / sigma
    rounded = log_ndtr(-a) + np.log(-np.expm1(log_ndtr(-b) - log_ndtr(-a)))
    return discrete - rounded, np.exp(discrete), np.exp(rounded)


@pytest.mark.parametrize("sigma", [1.01, 1.5, 3.0, 6.0])
@pytest.mark.parametrize("rows", [1, 30, 1000])
def test_certified_excess_is_at_least_what_exact_moments_give(sigma, rows) -> None:
    """Chernoff's bound with the moments of the distributions themselves, instead of bounds on them.

    No proof along these lines gives less.
    """
    ratio, discrete, rounded = log_ratio(sigma)
    surprise, certified = -LOG_SLIP, certified_excess(sigma**2, 1, rows, LOG_SLIP)
    orders = np.geomspace(1e-3, 40 * sigma**2, 400)
    for weights, sign in ((discrete, 1), (rounded, -1)):
        moments = [np.sum(weights * np.exp(sign * order * ratio)) for order in orders]
        exact = np.min((rows * np.log(moments) + surprise) / orders)
        assert min(exact, rows * np.max(sign * ratio)) <= certified


@pytest.mark.parametrize("rows", [7, 300])
def test_a_sum_of_noises_costs_tau_in_every_row(rows) -> None:
    """Σ ln S/R differs from ΣL by up to τ a row."""
    sums = certified_excess(1.0, 2, rows, LOG_SLIP)
    single = certified_excess(2.0, 1, rows, LOG_SLIP)
    assert sums >= single + rows * float(tau(1.0, 2))
    paid = release_rho(1, Fraction(1), 2, rows) - Fraction(1, 4)
    assert float(paid) == pytest.approx(rows * float(tau(1.0, 2)), rel=1e-6)
    assert paid >= rows * Fraction(float(tau(1.0, 2)))


# What is promised with η: section 1


def curve(epsilon: float, rho: float) -> mpmath.mpf:
    """The Gaussian mechanism's δ(ε)."""
    mu = mpmath.sqrt(2 * mpmath.mpf(rho))
    upper, lower = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tails = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in (upper, lower)]
    return tails[0] - mpmath.exp(epsilon) * tails[1]


@pytest.mark.parametrize("eta", [0.0, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize("epsilon", [0.7, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-18])
def test_promised_delta_is_that_of_the_proof(epsilon, delta, eta) -> None:
    """e^η δ(ε − 2η) + (1 + e^{ε−η})δ', to nine digits; δ' is a millionth of a small δ."""
    rho = float(Conversion.GAUSSIAN.rho(epsilon - 2 * eta, delta))
    asked: list[float] = []

    def excess(log_slip: float) -> float:
        asked.append(log_slip)
        return eta

    surplus = promised_surplus(epsilon, delta, rho, excess)
    with mpmath.workdps(60):
        slip = mpmath.exp(asked[0])
        stated = mpmath.exp(eta) * curve(mpmath.mpf(epsilon) - 2 * eta, rho)
        stated += (1 + mpmath.exp(epsilon - eta)) * slip
        assert surplus == pytest.approx(float(mpmath.log(stated / delta)), abs=2e-9)
        assert slip <= LARGEST_SLIP * (1 + 1e-12)


def alternating_noise(sigma: float, eta: float, start: int) -> np.ndarray:
    """A rounded Gaussian whose tail is e^η times as likely at even and e^−η at odd integers."""
    weights = log_ratio(sigma)[2]
    z = np.arange(len(weights)) - len(weights) // 2
    tail = z >= start
    noise = np.where(tail, weights * np.exp(np.where(z % 2 == 0, eta, -eta)), weights)
    noise[~tail] *= (1 - noise[tail].sum()) / noise[~tail].sum()
    assert np.abs(np.log(noise / weights)).max() <= eta * (1 + 1e-12)
    return noise


def test_noise_that_makes_full_use_of_the_excess_keeps_the_promise() -> None:
    """|ln S/R| ≤ η is all that the proof asks for. A shift by an odd number loses 2η, at every
    other integer: half of e^η δ(ε − 2η) is reached, which is more than δ(ε − 2η) itself."""
    sigma, eta, epsilon, shift = 8.0, 1.5, 4.0, 3
    noise = alternating_noise(sigma, eta, start=15)
    moved, still = noise[:-shift], noise[shift:]  # the same output with and without the shift
    exact = np.maximum(moved - math.exp(epsilon) * still, 0).sum()
    rho = shift**2 / (2 * sigma**2)
    promised = math.exp(promised_surplus(epsilon, 1.0 - 1e-9, rho, lambda _: eta))
    assert exact <= promised <= 2.2 * exact
    with mpmath.workdps(30):
        assert exact > 2 * curve(epsilon - 2 * eta, rho)  # so that e^η cannot be left out
        assert exact > math.exp(eta) * curve(epsilon - eta, rho)  # nor one of the two η


def test_nothing_is_promised_where_the_excess_takes_all_of_epsilon() -> None:
    for eta in (0.5, 0.6, 0.99):
        assert promised_surplus(1.0, 1e-5, 0.01, lambda _, eta=eta: eta) == -math.log(1e-5)


# Several rounds: section 5


@dataclass
class Recorded:
    """A release that notes which δ' it was asked for."""

    rho: Fraction = Fraction(1, 100)
    asked: list[float] = field(default_factory=list)

    def excess(self, log_slip: float) -> float:
        self.asked.append(log_slip)
        return 1e-4


def test_several_rounds_share_one_slip() -> None:
    """By the union bound, whatever ε is tried: Σδ'_i ≤ 2⁻⁶⁴."""
    releases = [Recorded() for _ in range(50)]
    epsilon_promised(releases, 1e-6)
    for slips in zip(*(release.asked for release in releases), strict=True):
        assert sum(map(math.exp, slips)) <= LARGEST_SLIP * (1 + 1e-9)


def test_several_rounds_add_their_budgets_and_their_excesses() -> None:
    one = NoisyRelease(10**4, Fraction(900), 30, 200)
    rounds = [one] * 4
    promised = epsilon_promised(rounds, 1e-6)
    log_slip = LOG_SLIP - math.log(4)
    eta = 4 * one.excess(log_slip)
    plain = Conversion.GAUSSIAN.epsilon(4 * one.rho, 1e-6)
    assert promised >= plain + 2 * eta
    assert promised <= plain + 3 * eta + 1e-6


def test_the_budget_for_a_promise_leaves_room_for_its_excess() -> None:
    rho = rho_for(1.0, 1e-6, 300, 20, 500)
    curve_rho = Conversion.GAUSSIAN.rho(1.0, 1e-6)
    assert rho < curve_rho * Fraction(999, 1000)

"""ρ-zCDP: what noise it asks for, how it composes, and the (ε, δ) that it implies.

ρ       the zero-concentrated budget; studies compose by adding it
μ       √(2ρ), the distance of two Gaussians that ρ allows
Δ'      the integer sensitivity; only its square, an integer, is ever needed
σ_c²    variance of one participant's noise; h honest shares of it remain in every sum
τ       bound on |ln| of the ratio of a sum of h discrete Gaussians to one of variance hσ_c²

Budgets and variances are exact rationals. A budget that is derived from (ε, δ) is rounded down.
Every conversion and its source is in docs/accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction

import numpy as np

from dhdmm.errors import PrivacyError
from dhdmm.privacy.numeric import erfcx, sign_change

MINIMUM_VARIANCE = 9  # σ_c ≥ 3, so that kτ < 2^−100 for every k, h ≤ 10^6
SIGNIFICANT_DIGITS = 9  # of a budget derived from (ε, δ)
RELATIVE_ERROR = 1e-9  # more than any δ is wrong by, for ε ≤ 50, ρ ≥ 1e−10, δ ≥ e^−2400
NOISES_ADDED_UP = 32
"""Terms of τ: for σ_c ≥ 3 and a million shares, all others together are 10⁻³⁰ of it."""


class Conversion(StrEnum):
    """Three ways to read ρ as (ε, δ); each bounds the one before it from above."""

    GAUSSIAN = "gaussian"  # exact for continuous Gaussian noise
    CKS = "cks"  # for every ρ-zCDP mechanism (Canonne, Kamath, Steinke 2020, Corollary 13)
    PAPER = "paper"  # for every ρ-zCDP mechanism (Bun, Steinke 2016, Proposition 1.3)

    def log_delta(self, epsilon: float, rho: Fraction | float) -> float:
        """ln δ(ε)."""
        return _LOG_DELTA[self](epsilon, _budget(rho))

    def epsilon(self, rho: Fraction | float, delta: float) -> float:
        """The smallest ε ≥ 0 for this δ, rounded up."""
        log_target = _log_target(delta)
        return smallest_epsilon(lambda epsilon: self.log_delta(epsilon, rho) - log_target)

    def rho(self, epsilon: float, delta: float) -> Fraction:
        """The largest budget that still gives (ε, δ), rounded down."""
        log_target = _log_target(delta)
        return largest_rho(
            lambda rho: self.log_delta(epsilon, rho) - log_target, paper_rho(epsilon, delta)
        )


def gaussian_log_delta(epsilon: float, rho: float) -> float:
    """ln of Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), the Gaussian mechanism's privacy profile.

    With a, b = ε/μ ∓ μ/2 it is φ(a)·(M(a) − M(b)), M(x) = Φ(−x)/φ(x), because φ(a) = e^ε φ(b).
    """
    mu = math.sqrt(2 * rho)
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:  # M(a) could overflow, while nothing cancels
        difference = math.erfc(a / math.sqrt(2)) - math.exp(-a * a / 2) * erfcx(b / math.sqrt(2))
        return math.log(difference / 2)
    return -a * a / 2 - math.log(2) + math.log(_mills_difference(a, b))


def _mills_difference(a: float, b: float) -> float:
    """erfcx(a/√2) − erfcx(b/√2); its integrand where the difference would lose its digits."""
    if b - a > 1e-3 * (1 + a):
        return erfcx(a / math.sqrt(2)) - erfcx(b / math.sqrt(2))
    nodes, weights = np.polynomial.legendre.leggauss(5)
    slope = [_one_minus_x_mills(float(x)) for x in (a + b) / 2 + (b - a) / 2 * nodes]
    return float((b - a) / 2 * weights @ slope) * math.sqrt(2 / math.pi)


def _one_minus_x_mills(x: float) -> float:
    """1 − x·M(x) = −M'(x), by its asymptotic series where x·M(x) is close to 1."""
    if x <= 100:
        return 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    u = 1 / x**2
    return u * (1 - 3 * u * (1 - 5 * u * (1 - 7 * u * (1 - 9 * u * (1 - 11 * u)))))


def cks_log_delta(epsilon: float, rho: float) -> float:
    """min over α > 1 of (α−1)(αρ − ε + ln(1 − 1/α)) − ln α; every α gives a valid bound."""

    def slope(log_order: float) -> float:  # of the exponent, increasing in α = 1 + e^log_order
        over = math.exp(log_order)
        return (1 + 2 * over) * rho - epsilon - math.log1p(1 / over)

    low, high = -700.0, 0.0
    while slope(high) <= 0:
        high += 1
    over = math.exp(sign_change(slope, low, high))
    exponent = over * ((1 + over) * rho - epsilon - math.log1p(1 / over)) - math.log1p(over)
    return min(0.0, exponent)


def paper_log_delta(epsilon: float, rho: float) -> float:
    """−(ε − ρ)²/4ρ, from ε = ρ + 2√(ρ ln 1/δ); no promise for ε ≤ ρ."""
    return -((epsilon - rho) ** 2) / (4 * rho) if epsilon > rho else 0.0


def paper_rho(epsilon: float, delta: float) -> float:
    """The inverse of ε = ρ + 2√(ρ ln 1/δ)."""
    log_inverse = -_log_target(delta)
    if not 0 < epsilon < math.inf:
        raise PrivacyError(f"epsilon must be positive and finite, not {epsilon}")
    return (epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))) ** 2


_LOG_DELTA: dict[Conversion, Callable[[float, float], float]] = {
    Conversion.GAUSSIAN: gaussian_log_delta,
    Conversion.CKS: cks_log_delta,
    Conversion.PAPER: paper_log_delta,
}


# Noise.


def honest_variance(sensitivity_squared: int, rho: Fraction, honest_floor: int) -> Fraction:
    """σ_c² = Δ'²/(2ρh): the noise of each participant when h honest shares are certain.

    >>> honest_variance(4, Fraction(1, 10), 2)
    Fraction(10, 1)
    """
    if sensitivity_squared < 1 or rho <= 0 or honest_floor < 1:
        raise PrivacyError(
            f"sensitivity² {sensitivity_squared}, rho {rho} and honest floor {honest_floor} "
            "must all be positive"
        )
    return Fraction(sensitivity_squared) / (2 * rho * honest_floor)


def release_rho(
    sensitivity_squared: int,
    variance: Fraction,
    honest_floor: int,
    rows: int,
    tau: float | None = None,
) -> Fraction:
    """ρ' = Δ'²/(2hσ_c²) + τk: what a release costs, with the sum of discrete noises accounted.

    τ is that of h equal noises, if it is not given.
    """
    exact = Fraction(sensitivity_squared) / (2 * honest_floor * variance)
    tau = sum_of_noises_tau(variance, honest_floor) if tau is None else tau
    return exact + Fraction(tau) * rows


def sum_of_noises_tau(variance: Fraction | float, shares: int) -> float:
    """τ = 10 Σ_{j=1}^{h−1} e^{−2π²σ_c² j/(j+1)}, per coordinate (docs/accounting.md).

    Terms decrease, so the last one that is computed stands for all that follow.
    """
    last = min(shares - 1, NOISES_ADDED_UP)
    exponent = 2 * math.pi**2 * float(variance)
    terms = [math.exp(-exponent * j / (j + 1)) for j in range(1, last + 1)]
    rest = (shares - 1 - last) * terms[-1] if terms else 0.0
    return 10 * (math.fsum(terms) + rest) * (1 + RELATIVE_ERROR)


# Solving, with the answer on the safe side.


def smallest_epsilon(surplus: Callable[[float], float]) -> float:
    """Where ln δ(ε) − ln δ, decreasing in ε, has become negative beyond RELATIVE_ERROR."""

    def short(epsilon: float) -> float:
        return surplus(epsilon) + RELATIVE_ERROR

    if short(0.0) <= 0:
        return 0.0
    high = 1.0
    while short(high) > 0:
        high *= 2
    return sign_change(short, 0.0, high) * (1 + 1e-12)


def largest_rho(surplus: Callable[[float], float], start: float) -> Fraction:
    """The largest ρ, to SIGNIFICANT_DIGITS, for which ln δ − ln δ(target) ≤ 0, increasing in ρ.

    `surplus` must hold at the returned value itself, so solver and rounding errors only cost
    accuracy; `start` is any positive guess.
    """
    low = high = start
    while surplus(low) > -RELATIVE_ERROR:
        low /= 2
    while surplus(high) < RELATIVE_ERROR:
        high *= 2
    root = sign_change(lambda log_rho: surplus(math.exp(log_rho)), math.log(low), math.log(high))
    scale = Fraction(10) ** (SIGNIFICANT_DIGITS - math.ceil(root / math.log(10)))
    rounded = math.floor(Fraction(math.exp(root)) * scale)
    while surplus(float(rounded / scale)) > -RELATIVE_ERROR:
        rounded -= 1
    return rounded / scale


def _budget(rho: Fraction | float) -> float:
    if not 0 < rho < math.inf:
        raise PrivacyError(f"rho must be positive and finite, not {rho}")
    return float(rho)


def _log_target(delta: float) -> float:
    if not 0 < delta < 1:
        raise PrivacyError(f"delta must lie strictly between 0 and 1, not {delta}")
    return math.log(delta)

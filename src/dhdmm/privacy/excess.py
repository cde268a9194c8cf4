"""The promised (ε, δ): the Gaussian curve plus a certified excess for noise that is discrete.

σ²      hσ_c², the variance of the h honest noise shares together
P, R, S one coordinate's discrete Gaussian, rounded continuous Gaussian (both of variance σ²), and
        the sum of h discrete Gaussians of variance σ_c², which is what is released
L(z)    ln P(z)/R(z); x = z/σ
η, δ'   Σ over k coordinates of ln S/R exceeds η under S, or falls below −η under R, with
        probability at most δ' each

Rounded Gaussian noise on an integer query is post-processing of the Gaussian mechanism. So a
release is (ε + 2η, e^η δ(ε) + (1 + e^{ε+η})δ')-DP with δ(ε) the Gaussian curve. The bounds are
proved in docs/proofs-accounting.md; they hold for every value of the parameters over which they
are minimised, so a minimiser that stops early costs accuracy and never the promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dhdmm.errors import PrivacyError
from dhdmm.privacy.numeric import minimum
from dhdmm.privacy.zcdp import (
    MINIMUM_VARIANCE,
    RELATIVE_ERROR,
    Conversion,
    gaussian_log_delta,
    honest_variance,
    largest_rho,
    paper_rho,
    release_rho,
    smallest_epsilon,
    sum_of_noises_tau,
)

LARGEST_SLIP = 2.0**-64  # δ': how often the noise may be one for which η does not hold
SLIP_SHARE = 2.0**-20  # and at most this part of the promised δ is spent on it


@dataclass(frozen=True, slots=True)
class NoisyRelease:
    """One release's noise, as far as its privacy depends on it."""

    sensitivity_squared: int
    variance: Fraction
    honest_floor: int
    rows: int
    smallest: Fraction | None = None
    """The variance of the smallest of the discrete Gaussians that make up the noise, and how many
    there are at the most; by default each honest share is one."""
    parts: int | None = None

    @property
    def rho(self) -> Fraction:
        """ρ = Δ'²/(2hσ_c²)."""
        return Fraction(self.sensitivity_squared) / (2 * self.honest_floor * self.variance)

    @property
    def tau(self) -> float:
        """τ, where v ≥ bj/(j + 1) if j parts of at least b are joined by another."""
        return sum_of_noises_tau(self.smallest or self.variance, self.parts or self.honest_floor)

    @property
    def cost(self) -> Fraction:
        """ρ', with the sum of discrete noises accounted: the zCDP that it has by itself."""
        return release_rho(
            self.sensitivity_squared, self.variance, self.honest_floor, self.rows, self.tau
        )

    def excess(self, log_slip: float) -> float:
        """η for ln δ' = log_slip."""
        _require_variance(self.smallest or self.variance)
        return certified_excess(self.variance, self.honest_floor, self.rows, log_slip, self.tau)


def epsilon_promised(releases: Sequence[NoisyRelease], delta: float) -> float:
    """The ε that these releases together keep at δ, rounded up: ρ and η add, δ' is shared."""
    rho = float(sum(release.rho for release in releases))
    share = math.log(len(releases))

    def excess(log_slip: float) -> float:
        return sum(release.excess(log_slip - share) for release in releases)

    return smallest_epsilon(lambda epsilon: promised_surplus(epsilon, delta, rho, excess))


def rho_for(
    epsilon: float, delta: float, sensitivity_squared: int, honest_floor: int, rows: int
) -> Fraction:
    """The largest budget, rounded down, whose release keeps the promise (ε, δ).

    The noise then follows as `honest_variance(sensitivity_squared, rho, honest_floor)`.
    """

    def surplus(rho: float) -> float:
        variance = sensitivity_squared / (2 * rho * honest_floor)
        return promised_surplus(
            epsilon,
            delta,
            rho,
            lambda log_slip: certified_excess(variance, honest_floor, rows, log_slip),
        )

    curve = Conversion.GAUSSIAN.rho(epsilon, delta)  # the promise needs more noise, if anything
    _require_variance(honest_variance(sensitivity_squared, curve, honest_floor))
    return largest_rho(surplus, paper_rho(epsilon, delta))


def _require_variance(variance: Fraction) -> None:
    if variance < MINIMUM_VARIANCE:
        factor = math.sqrt(MINIMUM_VARIANCE / variance)
        raise PrivacyError(
            f"a participant's noise variance {float(variance):.3g} is below {MINIMUM_VARIANCE}",
            hint=f"measure with an integer scale at least {factor:.3g} times as large",
        )


def promised_surplus(
    epsilon: float, delta: float, rho: float, excess: Callable[[float], float]
) -> float:
    """ln of the δ that is promised at ε, minus ln δ: non-positive when the promise is kept.

    With δ' no more than SLIP_SHARE·δe^{−ε}, so that (1 + e^ε)δ' hardly shows.
    """
    log_slip = min(math.log(LARGEST_SLIP), math.log(SLIP_SHARE) + math.log(delta) - epsilon)
    eta = excess(log_slip)
    if epsilon <= 2 * eta:
        return -math.log(delta)  # nothing is promised: δ = 1
    curve = eta + gaussian_log_delta(epsilon - 2 * eta, rho) - math.log(delta)
    slip = log_slip - math.log(delta) + _log_add(0.0, epsilon - eta)
    return _log_add(curve, slip)


def certified_excess(
    variance: Fraction | float,
    honest_floor: int,
    rows: int,
    log_slip: float,
    tau: float | None = None,
) -> float:
    """η = max(η₊, η₋) + kτ, the larger of both directions; τ is of h equal noises if not given."""
    s2 = float(variance) * honest_floor
    tau = sum_of_noises_tau(variance, honest_floor) if tau is None else tau
    return _certified_excess(s2, rows, log_slip, rows * tau)


@lru_cache(maxsize=64)
def _certified_excess(s2: float, rows: int, log_slip: float, tau: float) -> float:
    """δ' is the same for nearly all ε that a search comes by."""
    above = _excess_above(s2, rows, tau - log_slip)
    below = _excess_below(s2, rows, -log_slip)
    return (max(above, below) + tau) * (1 + RELATIVE_ERROR)


def _excess_above(s2: float, k: int, log_inverse_slip: float) -> float:
    """η₊: Chernoff for ΣL under S, from L ≤ (1 − x² + min(x², x⁴/40σ²))/24σ².

    With |x| ≤ X or not, E_P e^{24σ²θL} ≤ e^θ(ϑ(σ'')/√(1 + 2θ(1−β)) + Pr[|x| > X]), β = X²/40σ²,
    σ''² = σ²/(1 + 2θ(1−β)). And L ≤ 1/24σ² always.
    """
    scale = 24 * s2
    reach = min(20.0, math.sqrt(20 * s2))  # X, with β ≤ ½
    beta = reach**2 / (40 * s2)
    outside = 2 * math.exp(-(reach**2) / 2)  # N_Z(0, σ²) is sub-Gaussian (CKS 2020)

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        narrower = 1 + 2 * theta * (1 - beta)
        moment = _theta_constant(s2 / narrower) / math.sqrt(narrower) + outside
        return (k * (theta + math.log(moment)) + log_inverse_slip) / (scale * theta)

    largest = math.log(max((s2 - 1) / 2, 1e-9))  # σ'' ≥ 1 up to here
    return min(k / scale, minimum(bound, -20.0, largest))


def _excess_below(s2: float, k: int, log_inverse_slip: float) -> float:
    """η₋: Chernoff for ΣL under R, from L ≥ (1 − x²)/24σ² − 1/640σ⁴ − ln ϑ(σ).

    E_R e^{−λL} = E_P e^{−(1+λ)L} ≤ e^{−θ + (1+λ)c}/√(1 − 2θ), θ = (1+λ)/24σ², c the two last terms.
    """
    scale = 24 * s2
    c = 1 / (640 * s2**2) + math.log(_theta_constant(s2))

    def bound(logit: float) -> float:
        theta = 0.5 / (1 + math.exp(-logit))
        exponent = -theta - 0.5 * math.log1p(-2 * theta) + scale * theta * c
        return (k * exponent + log_inverse_slip) / (scale * theta - 1)

    return minimum(bound, -math.log(scale / 2 - 1) + 1e-6, 30.0)


def _theta_constant(s2: float) -> float:
    """ϑ(σ) = 1 + 2 Σ_{j≥1} e^{−2π²σ²j²}, from above, for σ ≥ 1."""
    return 1 + 2.001 * math.exp(-2 * math.pi**2 * s2)


def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))

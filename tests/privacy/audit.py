"""A black-box audit: how well does a colluding coordinator tell two neighbouring datasets apart?

Worst case throughout: as many dropouts as a round accepts, and every corrupt participant hands its
contribution to the coordinator, which takes it out of the decoded sum. What remains is the *view*.
Projected onto the direction in which the two worlds differ, it is tested in two ways:

- μ, the distance of the worlds in standard deviations: ρ-zCDP allows √(2ρ). Sharp to per cents.
- Clopper–Pearson: a threshold is chosen on one half of the views, its error rates on the other half
  bound ε from below, whatever the distribution. Blunt, but it assumes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import beta

from dhdmm.participant.measure import measure
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.study.histogram import Histogram

ALARM = 4.0
"""Standard errors beyond the claim that count as a violation: a false alarm in 31,000 audits."""
FALSE_ALARM = math.exp(log_ndtr(-ALARM))

Integers = NDArray[np.int64]
Contribute = Callable[[Histogram, int, KeyStream], NDArray]
"""(histogram, runs, randomness) → residues (runs, k): a participant's input in many rounds."""


def measured(plan: Plan) -> Contribute:
    """The real thing, once a round."""

    def contribute(histogram: Histogram, runs: int, stream: KeyStream) -> NDArray:
        return np.stack([measure(plan, histogram, stream) for _ in range(runs)])

    return contribute


def in_bulk(plan: Plan) -> Contribute:
    """The same arithmetic with the noise of all rounds drawn at once."""
    noise, k = DiscreteGaussian(plan.participant_variance), plan.strategy.rows

    def contribute(histogram: Histogram, runs: int, stream: KeyStream) -> NDArray:
        drawn = noise.sample(runs * k, stream).reshape(runs, k)
        return plan.modulus.residues(plan.strategy.measure(histogram) + drawn)

    return contribute


def views(
    plan: Plan,
    contribute: Contribute,
    victim: Histogram,
    other: Histogram,
    runs: int,
    stream: KeyStream,
    colluder: Contribute | None = None,
) -> Integers:
    """What is left of the decoded sum when the colluders have taken out their share, (runs, k).

    A colluder may contribute as it likes; it does as the others unless said otherwise.
    """
    graph, modulus = plan.parameters, plan.modulus
    total = contribute(victim, runs, stream)
    for _ in range(graph.minimum_survivors - graph.corrupt - 1):
        modulus.add(total, contribute(other, runs, stream))
    known = np.zeros(total.shape, np.int64)
    for _ in range(graph.corrupt):
        own = (colluder or contribute)(other, runs, stream)
        modulus.add(total, own)
        known += modulus.signed(own)
    return decode(plan, modulus.reduce(total)) - known


@dataclass(frozen=True)
class Verdict:
    """What an audit found, beside what is claimed."""

    mu: float
    standard_error: float
    epsilon_at_least: float
    rho_claimed: float
    epsilon_claimed: float

    @property
    def rho(self) -> float:
        """The projected-mean estimate μ²/2."""
        return self.mu**2 / 2

    @property
    def violations(self) -> set[str]:
        excess = self.mu - ALARM * self.standard_error - math.sqrt(2 * self.rho_claimed)
        found = {"rho"} if excess > 0 else set()
        return found | ({"epsilon"} if self.epsilon_at_least > self.epsilon_claimed else set())


def audit(
    with_unit: Integers, without: Integers, rho: float, epsilon: float, delta: float
) -> Verdict:
    """Compare two worlds' views, (runs, k) each."""
    # the adversary knows this direction; read off the means it is the same but for noise,
    # which adds about 2k/runs to μ²: far less than the alarm allows for
    direction = (with_unit.mean(axis=0) - without.mean(axis=0)).round()
    one, zero = with_unit @ direction, without @ direction
    mu, error = _distance(one, zero)
    return Verdict(mu, error, _epsilon_lower_bound(one, zero, delta), rho, epsilon)


def _distance(one: NDArray, zero: NDArray) -> tuple[float, float]:
    """(μ, its standard error); infinite where there is no noise at all."""
    spread = math.sqrt((one.var() + zero.var()) / 2)
    if spread == 0:
        return (math.inf if one.mean() != zero.mean() else 0.0), 0.0
    mu = (one.mean() - zero.mean()) / spread
    return mu, math.sqrt((2 + mu**2 / 4) / len(one))


def _epsilon_lower_bound(one: NDArray, zero: NDArray, delta: float) -> float:
    half = len(one) // 2
    candidates = np.quantile(zero[:half], 1 - np.geomspace(1e-3, 0.5, 40))
    threshold = max(candidates, key=lambda t: _bound(one[:half], zero[:half], t, delta))
    return _bound(one[half:], zero[half:], threshold, delta)


def _bound(one: NDArray, zero: NDArray, threshold: float, delta: float) -> float:
    """ln (Pr[above | one] − δ)/Pr[above | zero] with both rates on the safe side."""
    hits, alarms, runs = int((one > threshold).sum()), int((zero > threshold).sum()), len(one)
    low = beta.ppf(FALSE_ALARM / 2, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(1 - FALSE_ALARM / 2, alarms + 1, runs - alarms) if alarms < runs else 1.0
    return math.log(max(low - delta, 1e-12) / high)

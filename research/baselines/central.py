"""A trusted curator with the same strategy and the whole budget; and two ways to do without.

ρ      of the study's (ε, δ), by the same conversion that plans use, without their discreteness
σ²     Δ′²/(2ρ), the curator's noise a measurement
n      participants; when each adds the curator's noise by itself, the sum has nσ²

The noise is the mechanism's own exact sampler. Its key stream comes from a seed, so it hides
nothing: these are simulations over records that are not secret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.zcdp import Conversion, honest_variance
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study


@dataclass(frozen=True, eq=False)
class GaussianMechanism:
    """A′x plus `shares` independent discrete Gaussians, then least squares.

    One share is the curator's; n shares of the same size are everybody for himself.
    """

    strategy: Strategy
    variance: Fraction
    shares: int = 1

    @property
    def expected_rmse(self) -> float:
        mean = float(self.strategy.variances().mean())
        return math.sqrt(self.shares * float(self.variance) * mean)

    def answers(self, histogram: Histogram, noise: KeyStream) -> Floats:
        rows = self.strategy.rows
        drawn = DiscreteGaussian(self.variance).sample(self.shares * rows, noise)
        total = self.strategy.measure(histogram) + drawn.reshape(self.shares, rows).sum(axis=0)
        return self.strategy.reconstruct(total)


def central(study: Study, strategy: Strategy) -> GaussianMechanism:
    """The curator at the study's full budget."""
    return GaussianMechanism(strategy, _curator_variance(study, strategy))


def local_gaussian(study: Study, strategy: Strategy, participants: int) -> GaussianMechanism:
    """Everybody adds the curator's noise to its own measurement: √n times the curator's error."""
    return GaussianMechanism(strategy, _curator_variance(study, strategy), participants)


def zero_answer_rmse(strategy: Strategy, histogram: Histogram) -> float:
    """The error of answering 0 everywhere: whoever is worse is useless."""
    return float(np.sqrt(np.mean(exact_answers(strategy, histogram) ** 2)))


def exact_answers(strategy: Strategy, histogram: Histogram) -> Floats:
    """W x: the strategy reconstructs its own noiseless measurement exactly."""
    return strategy.reconstruct(strategy.measure(histogram))


def study_rho(study: Study) -> Fraction:
    """ρ as stated, or the largest whose Gaussian keeps (ε, δ)."""
    privacy = study.privacy
    if privacy.rho is not None:
        return Fraction(repr(privacy.rho))
    assert privacy.epsilon is not None
    assert privacy.delta is not None
    return Conversion.GAUSSIAN.rho(privacy.epsilon, privacy.delta)


def _curator_variance(study: Study, strategy: Strategy) -> Fraction:
    return honest_variance(unit_sensitivity_squared(study, strategy), study_rho(study), 1)

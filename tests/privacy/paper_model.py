"""The published algorithm as it stands, so that attacks on it can be shown.

A (k, N) real strategy; x a client's histogram; γ the scaling factor; n clients, of whom a fraction
θ may be corrupt; ρ the budget; p a prime. Encoding: ⌊γAx⌋ + N_Z(γ²Δ₂²/(2(1−θ)nρ)) mod p; the prose
beside the algorithm has θγ²Δ₂²/(2nρ) instead. Clients that drop out are not in the sum, and the
algorithm does not account for them. Every function does this for many rounds at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dhdmm.privacy.gaussian import SMALLEST_VARIANCE, DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream

PRIME = 2**31 - 1
"""So that the residues of many clients add up without overflow."""


def l2_sensitivity(A: NDArray) -> float:
    """Δ₂, the largest L2 norm of a column."""
    return float(np.sqrt((A**2).sum(axis=0).max()))


@dataclass(frozen=True)
class PaperProtocol:
    """The global parameters of the paper's table of notation."""

    clients: int
    rho: float
    theta: float = 0.0
    gamma: float = 1000.0
    prose: bool = False

    def variance(self, A: NDArray) -> float:
        """Of one client's noise in one coordinate, from the strategy that it was sent."""
        scaled = (self.gamma * l2_sensitivity(A)) ** 2
        if self.prose:
            return self.theta * scaled / (2 * self.clients * self.rho)
        return scaled / (2 * (1 - self.theta) * self.clients * self.rho)

    def encode(self, A: NDArray, x: NDArray, rounds: int, stream: KeyStream) -> NDArray:
        """A client's field elements, (rounds, k)."""
        exact = np.floor(self.gamma * (A @ x)).astype(np.int64)
        noise = discrete_gaussian(self.variance(A), (rounds, len(A)), stream)
        return (exact + noise) % PRIME

    def decode(self, total: NDArray) -> NDArray:
        """Signed integers, descaled."""
        residues = total % PRIME
        return np.where(residues > (PRIME - 1) // 2, residues - PRIME, residues) / self.gamma


def discrete_gaussian(variance: float, shape: tuple[int, ...], stream: KeyStream) -> NDArray:
    """N_Z(0, variance), also for variances so small that almost every draw is zero."""
    count = int(np.prod(shape))
    if variance >= SMALLEST_VARIANCE:
        return DiscreteGaussian(Fraction(variance)).sample(count, stream).reshape(shape)
    support = np.arange(-8, 9)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.nan_to_num(-(support**2) / (2 * variance), nan=0.0)
    weights = np.exp(exponent)
    ends = np.cumsum(weights) / weights.sum()
    _, words = stream.read(count)
    return support[np.searchsorted(ends, words / 2.0**64, side="right")].reshape(shape)

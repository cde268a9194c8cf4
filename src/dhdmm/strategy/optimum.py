"""The convex optimum by duality, with a certificate.

For any probability vector d over the cells, ‖W D^½‖_*² bounds the total squared error of *every*
strategy of L2 sensitivity 1 from below, and its maximum over d is the optimum (D = diag d). With
F = ‖W D^½‖_* and X(d) = D^-½ (D^½ V D^½)^½ D^-½, the strategy A with AᵀA = X has total squared
error F · max_u X_uu, so every d yields a bound F² and a strategy; their ratio is the certificate.
The fixed point d_u ← d_u (X_uu/F)^1.6 climbs fast, L-BFGS on log d polishes.

On a symmetric workload d is constant on orbits of cells, and everything splits into blocks.

R: (rank, dimension) with V = RᵀR on a block; q: mass of d per orbit of cells, sums to 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from dhdmm.strategy.matrix import Floats, Integers

EXPONENT = 1.6
TOLERANCE = 1e-4
"""Stop when achieved / bound (squared errors) is within this of 1."""
FIXED_POINT_STEPS = 60
POLISH_STEPS = 120
SMALLEST_MASS = 1e-13
ROUNDING = 16 * np.finfo(np.float64).eps
"""Relative error allowed per dimension for computed eigenvalues."""


@dataclass(frozen=True, eq=False)
class DualBlock:
    R: Floats
    cells: Integers
    """(dimension,): which orbit of cells each coordinate belongs to."""
    multiplicity: int


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best d found. `bound` and `achieved` are total squared errors at sensitivity 1."""

    q: Floats
    bound: float
    achieved: float


@dataclass(frozen=True, eq=False)
class Dual:
    blocks: Sequence[DualBlock]
    orbit_sizes: Floats
    """(orbits of cells,): merged cells in each."""

    def uniform(self) -> Floats:
        """Equal weight for every cell that some query touches, next to none for the others."""
        touched = np.zeros(len(self.orbit_sizes), bool)
        for block in self.blocks:
            touched[block.cells[np.any(block.R, axis=0)]] = True
        return floored(np.where(touched, self.orbit_sizes, 0.0))

    def evaluate(
        self, q: Floats, blocks: Sequence[DualBlock] | None = None
    ) -> tuple[float, Floats]:
        """F, and X_uu averaged over each orbit of cells, of all blocks or of the given ones."""
        d = q / self.orbit_sizes
        F, mass = 0.0, np.zeros_like(q)
        for block in self.blocks if blocks is None else blocks:
            M = block.R * np.sqrt(d[block.cells])
            eigenvalues, U = np.linalg.eigh(M @ M.T)
            roots = np.sqrt(np.maximum(eigenvalues, 0))
            inverse = np.where(roots > 0, 1 / np.sqrt(np.where(roots > 0, roots, 1)), 0)
            Z = (U * inverse).T @ M  # ZᵀZ = (D^½ V D^½)^½
            F += block.multiplicity * roots.sum()
            np.add.at(mass, block.cells, block.multiplicity * np.einsum("ij,ij->j", Z, Z))
        return F, mass / q

    def certified_bound(self, q: Floats) -> float:
        """F² with an allowance for rounding subtracted and the sum compensated."""
        d = q / self.orbit_sizes
        parts: list[float] = []
        for block in self.blocks:
            M = block.R * np.sqrt(d[block.cells])
            eigenvalues = np.linalg.eigvalsh(M @ M.T)
            allowance = ROUNDING * len(M) * eigenvalues[-1]
            roots = np.sqrt(np.maximum(eigenvalues - allowance, 0))
            parts += [block.multiplicity * root for root in roots]
        return (math.fsum(parts) * (1 - ROUNDING)) ** 2

    def matrix(self, block: DualBlock, q: Floats) -> Floats:
        """X(d) on one block."""
        root = np.sqrt((q / self.orbit_sizes)[block.cells])
        M = block.R * root
        eigenvalues, U = np.linalg.eigh(M @ M.T)
        half = (U / np.maximum(eigenvalues, 1e-300) ** 0.25).T @ M / root
        return np.asarray(half.T @ half)

    def solve(self, seconds: float = math.inf) -> Optimum:
        """Climb until the certificate is within TOLERANCE or the time is over."""
        search = _Search(self, time.monotonic() + seconds)
        q = self.uniform()
        for _ in range(FIXED_POINT_STEPS):
            F, X = search.visit(q)
            if search.finished:
                break
            q = floored(q * (X / F) ** EXPONENT)
        if not search.finished:
            search.polish()
        return Optimum(search.best, self.certified_bound(search.tightest), search.achieved)


def floored(mass: Floats) -> Floats:
    """Normalised to sum 1, with no entry so small that X(d) loses its digits."""
    q = np.maximum(mass / mass.sum(), SMALLEST_MASS)
    return np.asarray(q / q.sum())


class _Search:
    """Remembers the best strategy and the tightest bound on the way."""

    def __init__(self, dual: Dual, deadline: float) -> None:
        self.dual, self.deadline = dual, deadline
        self.achieved, self.bound = math.inf, 0.0
        self.best = self.tightest = dual.uniform()

    def visit(self, q: Floats) -> tuple[float, Floats]:
        F, X = self.dual.evaluate(q)
        if F * X.max() < self.achieved:
            self.achieved, self.best = F * float(X.max()), q
        if self.bound < F * F:
            self.bound, self.tightest = F * F, q
        return F, X

    @property
    def finished(self) -> bool:
        return self.achieved <= (1 + TOLERANCE) * self.bound or time.monotonic() > self.deadline

    def polish(self) -> None:
        """L-BFGS on log q: ∂ log F / ∂ log q = (q X/F − q) / 2 after normalising."""

        def objective(logs: Floats) -> tuple[float, Floats]:
            q = floored(np.exp(logs - logs.max()))
            F, X = self.visit(q)
            if self.finished:
                raise StopIteration
            return -math.log(F), -q * (X / F - 1) / 2

        try:
            minimize(
                objective,
                np.log(self.tightest),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": POLISH_STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-10},
            )
        except StopIteration:
            return

"""The convex optimum by duality, with a certificate.

For any probability vector d over the cells, ‖W D^½‖_*² bounds the total squared error of *every*
strategy of L2 sensitivity 1 from below, and its maximum over d is the optimum (D = diag d). With
F = ‖W D^½‖_* and X(d) = D^-½ (D^½ V D^½)^½ D^-½, the strategy A with AᵀA = X has total squared
error F · max_u X_uu, so every d yields a bound F² and a strategy; their ratio is the certificate.
The fixed point d_u ← d_u (X_uu/F)² climbs, and Anderson's extrapolation of log d makes it fast.

On a symmetric workload d is constant on orbits of cells, and everything splits into blocks.

R: (rank, dimension) with V = RᵀR on a block; q: mass of d per orbit of cells, sums to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.strategy.watch import Watch

EXPONENT = 2.0
TOLERANCE = 1e-4
"""Stop when achieved / bound is within this of 1."""
STEPS = 150
MEMORY = 5
"""Earlier steps that an extrapolation uses."""
LONGEST_STEP = 3.0
"""Of log d: limits the damage of a bad extrapolation."""
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
class _Stack:
    """Blocks of one shape, for one call of the linear algebra."""

    R: Floats
    """(blocks, rank, dimension)"""
    cells: Integers
    multiplicity: Floats


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best d found; `bound` and `achieved` are values of the objective."""

    q: Floats
    bound: float
    achieved: float


@dataclass(frozen=True, eq=False)
class Dual:
    blocks: Sequence[DualBlock]
    orbit_sizes: Floats
    """(orbits of cells,): merged cells in each."""
    objective: Objective = TOTAL_SQUARED_ERROR

    def uniform(self) -> Floats:
        """Equal weight for every cell that some query touches, next to none for the others."""
        touched = np.zeros(len(self.orbit_sizes), bool)
        for block in self.blocks:
            touched[block.cells[np.any(block.R, axis=0)]] = True
        return floored(np.where(touched, self.orbit_sizes, 0.0))

    @cached_property
    def _stacks(self) -> list[_Stack]:
        ordered = sorted(self.blocks, key=lambda block: block.R.shape)
        parts = [(b.R, b.cells, float(b.multiplicity)) for b in ordered]
        same = groupby(parts, key=lambda part: part[0].shape)
        return [_Stack(*map(np.array, zip(*stack, strict=True))) for _, stack in same]

    def evaluate(self, q: Floats) -> tuple[float, Floats]:
        """F, and X_uu averaged over each orbit of cells."""
        d = q / self.orbit_sizes
        F, mass = 0.0, np.zeros_like(q)
        for stack in self._stacks:
            M = stack.R * np.sqrt(d[stack.cells])[:, None, :]
            eigenvalues, U = np.linalg.eigh(M @ M.transpose(0, 2, 1))
            roots = np.sqrt(np.maximum(eigenvalues, 0))
            inverse = np.where(roots > 0, 1 / np.sqrt(np.where(roots > 0, roots, 1)), 0)
            Z = (U * inverse[:, None, :]).transpose(0, 2, 1) @ M  # ZᵀZ = (D^½ V D^½)^½
            F += float(stack.multiplicity @ roots.sum(axis=1))
            diagonal = np.einsum("bij,bij,b->bj", Z, Z, stack.multiplicity)
            mass += np.bincount(stack.cells.ravel(), diagonal.ravel(), len(q))
        return F, mass / q

    def certified_bound(self, q: Floats) -> float:
        """From F with an allowance for rounding subtracted and the sum compensated."""
        d = q / self.orbit_sizes
        parts: list[float] = []
        for block in self.blocks:
            M = block.R * np.sqrt(d[block.cells])
            parts += [block.multiplicity * root for root in lowered_roots(M @ M.T)]
        return self.objective.bound(math.fsum(parts) * (1 - ROUNDING))

    def inverse_half(self, block: DualBlock, q: Floats) -> Floats:
        """Z with ZᵀZ = (R D Rᵀ)^-½, so that X(d) = (Z R)ᵀ(Z R) on one block."""
        M = block.R * np.sqrt((q / self.orbit_sizes)[block.cells])
        eigenvalues, U = np.linalg.eigh(M @ M.T)
        least = eigenvalues.max() * np.finfo(np.float64).eps  # less is rounding
        return np.asarray((U / np.maximum(eigenvalues, least) ** 0.25).T)

    def solve(
        self, watch: Watch, start: Floats | None = None, tolerance: float = TOLERANCE
    ) -> Optimum:
        """Climb until the certificate is within the tolerance or the time is over."""
        climb = Climb(self.uniform() if start is None else start)
        best = tightest = climb.q
        achieved, highest = math.inf, 0.0
        for _ in range(STEPS):
            F, X = self.evaluate(climb.q)
            value = self.objective.value([F], float(X.max()))
            if value < achieved:
                achieved, best = value, climb.q
            if highest < F:
                highest, tightest = F, climb.q
            least = self.objective.bound(highest)
            watch.report(self.objective.figure(achieved / least))
            if achieved <= (1 + tolerance) * least or watch.is_over:
                break
            climb.step(self.objective.gradient(X, F))
        return Optimum(best, self.certified_bound(tightest), achieved)


def lowered_roots(M: Floats) -> Floats:
    """Roots of the eigenvalues of a symmetric M, these lowered by their rounding error."""
    eigenvalues = np.linalg.eigvalsh(M)
    allowance = ROUNDING * len(M) * eigenvalues.max(initial=0.0)
    return np.asarray(np.sqrt(np.maximum(eigenvalues - allowance, 0)))


def root(M: Floats) -> Floats:
    """M^½ of a positive semidefinite matrix."""
    eigenvalues, U = np.linalg.eigh((M + M.T) / 2)
    return np.asarray((U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T)


def weighted_root(V: Floats, D: Floats) -> Floats:
    """X = L^-T (Lᵀ V L)^½ L⁻¹ with D = L Lᵀ: least tr(V X⁻¹) + tr(D X)."""
    least = np.trace(D) / len(D) * 1e-12  # no value's weight is nothing
    L = np.linalg.cholesky((D + D.T) / 2 + least * np.eye(len(D)))
    half = np.linalg.solve(L.T, root(L.T @ V @ L))
    return np.asarray(np.linalg.solve(L.T, half.T))


def floored(mass: Floats) -> Floats:
    """Normalised to sum 1, with no entry so small that X(d) loses its digits."""
    q = np.maximum(mass / mass.sum(), SMALLEST_MASS)
    return np.asarray(q / q.sum())


@dataclass
class Climb:
    """q ← q x^2, extrapolated by Anderson's method, towards x = 1 wherever there is mass.

    The next log q is the combination of the last steps' ends for which the same combination of
    their residuals log x^2, weighted by √q, is smallest. The caller evaluates every
    proposal, so correctness does not depend on convergence.
    """

    q: Floats
    cuts: tuple[int, ...] = ()
    """Where q is several vectors one after the other, each of sum 1, these begin here."""
    _places: list[Floats] = field(default_factory=list)
    _residuals: list[Floats] = field(default_factory=list)

    def step(self, x: Floats) -> None:
        place, residual = np.log(self.q), EXPONENT * np.log(np.maximum(x, SMALLEST_MASS))
        move = residual
        if self._places:
            changes = np.stack([residual - earlier for earlier in self._residuals], axis=1)
            moves = np.stack([place - earlier for earlier in self._places], axis=1)
            weights = np.sqrt(self.q)
            combination = np.linalg.lstsq(
                changes * weights[:, None], residual * weights, rcond=1e-4
            )[0]
            move = residual - (moves + changes) @ combination
        self._places = [*self._places, place][-MEMORY:]
        self._residuals = [*self._residuals, residual][-MEMORY:]
        parts = np.split(place + np.clip(move, -LONGEST_STEP, LONGEST_STEP), self.cuts)
        self.q = np.concatenate([floored(np.exp(logs - logs.max())) for logs in parts])

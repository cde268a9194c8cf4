"""The convex optimum by duality, with a certificate.

For any probability vector d over the cells, ‖W D^½‖_*² bounds the total squared error of *every*
strategy of L2 sensitivity 1 from below, and its maximum over d is the optimum (D = diag d). With
F = ‖W D^½‖_* and X(d) = D^-½ (D^½ V D^½)^½ D^-½, the strategy A with AᵀA = X has total squared
error F · max_u X_uu, so every d yields a bound F² and a strategy; their ratio is the certificate.
climb.py finds the best d.

On a symmetric workload d is constant on orbits of cells, and everything splits into blocks.

R: (rank, dimension) with V = RᵀR on a block; q: mass of d per orbit of cells, sums to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.climb import Climb, Judged, Momentum, ascend, floored
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.strategy.watch import Watch

TOLERANCE = 1e-4
"""Stop when achieved / bound is within this of 1."""
TOLERANCE_OF_MANY = 2e-3
"""The same for weights on all cells: rounding costs as much."""
STEPS = 150
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
    """The best weights found; `bound` and `achieved` are values of the objective."""

    q: Floats
    """The weights, or what the dual knows of them."""
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

    def evaluate(self, q: Floats) -> tuple[float, Floats]:
        """F, and X_uu averaged over each orbit of cells."""
        X = np.zeros_like(q)
        for i, block in enumerate(self.blocks):
            half = inverse_half(self.weighed(i, q)) @ block.R
            norms = block.multiplicity * np.einsum("ij,ij->j", half, half)
            np.add.at(X, block.cells, norms / self.orbit_sizes[block.cells])
        return float(q @ X), X

    def certified_bound(self, q: Floats) -> float:
        """From F with an allowance for rounding subtracted and the sum compensated."""
        parts: list[float] = []
        for i, block in enumerate(self.blocks):
            parts += [block.multiplicity * root for root in lowered_roots(self.weighed(i, q))]
        return self.objective.bound(math.fsum(parts) * (1 - ROUNDING))

    def weighed(self, i: int, q: Floats) -> Floats:
        """R D Rᵀ on one block."""
        block = self.blocks[i]
        M = block.R * np.sqrt((q / self.orbit_sizes)[block.cells])
        return np.asarray(M @ M.T)

    def longest(self, q: Floats) -> float:
        """max X_uu."""
        return float(self.evaluate(q)[1].max())

    def solve(
        self, watch: Watch, start: Floats | None = None, tolerance: float = TOLERANCE
    ) -> Optimum:
        """Climb until the certificate is within the tolerance or the time is over."""
        climb = Climb(self.uniform() if start is None else start)
        peak = ascend(climb, self._judge, watch, tolerance, STEPS, self.objective.figure)
        return Optimum(peak.q, self.certified_bound(peak.tightest), peak.achieved)

    def _judge(self, q: Floats) -> Judged[None]:
        (F, X), value = self.evaluate(q), self.objective
        return Judged(value.gradient(X, F), value.value([F], float(X.max())), value.bound(F), None)


@dataclass(frozen=True, eq=False)
class BoxDual:
    """The dual of many conditions that are boxes, with weights on all cells at once.

    Hundreds of conditions on many attributes tell nearly all cells apart, and the optimum has
    weight on hundreds of thousands of them. F needs of the weights only the Gram Σ_u d_u k_u k_uᵀ
    of the boxes' columns k_u, and the climb needs X_uu = k_uᵀ S k_u: both are running sums over a
    table of the cells (boxes.py), so a step costs the cells and the cube of the rank, and not their
    product. An optimum's `q` is that Gram.
    """

    boxes: Boxes
    C: Floats
    """(r, boxes) with V = (CK)ᵀ(CK), the rows of K being boxes."""
    objective: Objective

    def solve(self, watch: Watch) -> Optimum:
        volume = math.prod(self.boxes.shape)
        climb = Momentum(np.full(volume, 1 / volume, np.float32))
        peak = ascend(climb, self._judge, watch, TOLERANCE_OF_MANY, STEPS, self.objective.figure)
        bound, gram = self.certified_bound(climb.q), peak.found
        return Optimum(gram, bound, peak.achieved)

    def _judge(self, d: NDArray[np.float32]) -> Judged[Floats]:
        gram = self.boxes.gram(d)
        half = inverse_half(self.weighed(0, gram)) @ self.C
        X = self.boxes.norms((half.T @ half).astype(np.float32)).ravel()
        F, largest = float(np.sum(half @ gram * half)), float(X.max())
        X *= np.float32(1 / F)
        return Judged(X, self.objective.value([F], largest), self.objective.bound(F), gram)

    def weighed(self, i: int, gram: Floats) -> Floats:
        """C M Cᵀ, of the only block."""
        assert i == 0
        return np.asarray(self.C @ gram @ self.C.T)

    def longest(self, gram: Floats) -> float:
        """max X_uu."""
        half = inverse_half(self.weighed(0, gram)) @ self.C
        return float(self.boxes.norms((half.T @ half).astype(np.float32)).max())

    def certified_bound(self, d: NDArray[np.floating[Any]]) -> float:
        """F² in eight bytes a number, with allowances for the Gram and for its eigenvalues."""
        gram = self.boxes.gram(d.astype(np.float64) / d.sum(dtype=np.float64))
        allowed = len(gram) * self.boxes.gram_error * np.eye(len(gram))
        roots = lowered_roots(self.weighed(0, gram - allowed))
        return self.objective.bound(math.fsum(roots) * (1 - ROUNDING))


def lowered_roots(M: Floats) -> Floats:
    """Roots of the eigenvalues of a symmetric M, these lowered by their rounding error."""
    eigenvalues = np.linalg.eigvalsh(M)
    allowance = ROUNDING * len(M) * eigenvalues.max(initial=0.0)
    return np.asarray(np.sqrt(np.maximum(eigenvalues - allowance, 0)))


def inverse_half(M: Floats) -> Floats:
    """Z with ZᵀZ = M^-½, so that X(d) = (Z R)ᵀ(Z R) for M = R D Rᵀ."""
    eigenvalues, U = np.linalg.eigh(M)
    limits = np.finfo(np.float64)
    least = max(eigenvalues.max() * limits.eps, limits.tiny)  # less is rounding; M may be nothing
    return np.asarray((U / np.maximum(eigenvalues, least) ** 0.25).T)


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

"""The dual of many conditions that are boxes, with weights on all cells at once.

Hundreds of conditions on many attributes tell nearly all cells apart, and the optimum has weight on
hundreds of thousands of them. F(d) needs of the weights d only the Gram M = Σ_u d_u k_u k_uᵀ of the
boxes' columns k_u, and the climb needs X_uu = k_uᵀ S k_u: both are running sums over a table of the
cells (boxes.py), so a step costs the cells and the cube of the rank, and not their product.

d climbs as in optimum.py, d_u ← d_u (X_uu/F)^p. There is no room to remember steps. Instead p goes
through the silver step sizes 2·(1 + ρ^(ν−1)), ρ = 1 + √2, ν the power of two in the step's number:
rare long steps between short ones (Altschuler and Parrilo, 2023).

C: (r, r) with V = (CB)ᵀ(CB), the rows of B being boxes; S: (r, r) with X = Bᵀ S B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.objective import Objective
from dhdmm.strategy.optimum import ROUNDING, Optimum, lowered_roots
from dhdmm.strategy.watch import Watch

SILVER = 1 + math.sqrt(2)
STEPS = 128
LEAST = np.float32(1e-30)
"""No cell's weight is so small that it cannot grow again."""
CLOSE = 2e-3
"""Stop when achieved / bound is within this of 1: rounding costs as much."""


@dataclass(eq=False)
class BoxDual:
    """After `solve`: the Gram of the best weights, and the longest column of their strategy."""

    boxes: Boxes
    C: Floats
    objective: Objective
    gram: Floats | None = None
    largest: float = math.inf

    def solve(self, watch: Watch) -> Optimum:
        volume = math.prod(self.boxes.shape)
        d = np.full(volume, 1 / volume, np.float32)
        achieved = math.inf
        for step in range(1, STEPS + 1):
            gram = self.boxes.gram(d)
            half = self.inverse_half(gram) @ self.C
            X = self.boxes.norms((half.T @ half).astype(np.float32)).ravel()
            F, largest = float(np.sum(half @ gram * half)), float(X.max())
            value = self.objective.value([F], largest)
            if value < achieved:
                achieved, self.gram, self.largest = value, gram, largest
            least = self.objective.bound(F)
            watch.report(self.objective.figure(achieved / least))
            if achieved <= (1 + CLOSE) * least or watch.is_over:
                break
            np.multiply(X, 1 / F, out=X)
            np.maximum(X, 0, out=X)
            X **= np.float32(2 + 2 * SILVER ** (math.log2(step & -step) - 1))
            d *= X
            d *= np.float32(1 / d.sum(dtype=np.float64))
            np.maximum(d, LEAST, out=d)
        del X
        return Optimum(np.zeros(0), self.certified_bound(d), achieved)

    def inverse_half(self, gram: Floats) -> Floats:
        """Z with ZᵀZ = (C M Cᵀ)^-½."""
        eigenvalues, U = np.linalg.eigh(self.C @ gram @ self.C.T)
        least = eigenvalues.max() * np.finfo(np.float64).eps  # less is rounding
        return np.asarray((U / np.maximum(eigenvalues, least) ** 0.25).T)

    def certified_bound(self, d: NDArray[np.floating[Any]]) -> float:
        """F² in eight bytes a number, with allowances for the Gram and for its eigenvalues."""
        gram = self.boxes.gram(d.astype(np.float64) / d.sum(dtype=np.float64))
        allowed = len(gram) * self.boxes.gram_error * np.eye(len(gram))
        roots = lowered_roots(self.C @ (gram - allowed) @ self.C.T)
        return self.objective.bound(math.fsum(roots) * (1 - ROUNDING))

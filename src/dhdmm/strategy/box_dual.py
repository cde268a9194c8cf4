"""The dual of many conditions that are boxes, with weights on all cells at once.

Hundreds of conditions on many attributes tell nearly all cells apart, and the optimum has weight on
hundreds of thousands of them. F(d) needs of the weights d only the Gram M = Σ_u d_u k_u k_uᵀ of the
boxes' columns k_u, and the climb needs X_uu = k_uᵀ S k_u: both are running sums over a table of the
cells (boxes.py), so a step costs the cells and the cube of the rank, and not their product.

C: (r, boxes) with V = (CK)ᵀ(CK), the rows of K being boxes; S: with X = Kᵀ S K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.climb import Judged, Momentum, ascend
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.objective import Objective
from dhdmm.strategy.optimum import ROUNDING, Optimum, inverse_half, lowered_roots
from dhdmm.strategy.watch import Watch

STEPS = 128
CLOSE = 2e-3
"""Stop when achieved / bound is within this of 1: rounding costs as much."""


@dataclass(frozen=True, eq=False)
class BoxDual:
    """Weights are known by their Gram: an optimum's `q` is M."""

    boxes: Boxes
    C: Floats
    objective: Objective

    def solve(self, watch: Watch) -> Optimum:
        volume = math.prod(self.boxes.shape)
        climb = Momentum(np.full(volume, 1 / volume, np.float32))
        peak = ascend(climb, self._judge, watch, CLOSE, STEPS, self.objective.figure)
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

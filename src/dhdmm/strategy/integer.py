"""From the real optimum to integers: A' = round(γT)·B (⊗ E), one noise scale for all rows.

B is an integer basis of the block's row space, so rounding T changes the error a little and the row
space not at all: answers stay unbiased. A block's contrast E is an integer matrix too, near a
multiple of an orthonormal basis; which contrast to take, and how a single number t = T rounds, is
decided by a block's share of the cost.

Near the optimum the objective is, to first order, a sum over blocks: with max_u X_uu = 1 block b
costs Σ_u d_u X^b_uu and its trace's share of the real strategy's value.

γ: scale; T: (r, r) upper triangular; C: (r, r) with V_b = (CB)ᵀ(CB); P: (r, r) = B D Bᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import Block, Residual, Side
from dhdmm.strategy.contrast import Contrast, Nest, contrasts, level
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective


@dataclass(frozen=True, eq=False)
class RealBlock:
    """One block of the real optimum in the coordinates of its integer basis, max_u X_uu = 1."""

    residuals: tuple[tuple[int, int, Nest], ...]
    """(attribute, part, what it is)"""
    axes: tuple[int, ...]
    basis: Basis
    T: Floats
    C: Floats
    P: Floats
    others: tuple[tuple[int, ...], ...] = ()
    """The residuals' attributes in every further copy."""


@dataclass(frozen=True, eq=False)
class Rounded:
    block: Block
    trace: float
    """tr(V_b X_b⁺) of one copy of the integer block"""


def contrast_scale(contrast: Contrast) -> float:
    """e such that E/e is nearest to orthonormal: balances its largest column and its inverse."""
    columns = max(contrast.norms) * contrast.nest.values / contrast.rows
    inverse = contrast.rows / contrast.inverse_trace
    return math.sqrt(math.sqrt(columns * inverse))


def rounded_triangle(T: Floats) -> Integers:
    integer = np.rint(T).astype(np.int64)
    # A zero on the diagonal would lose a query: the smallest step keeps T invertible.
    diagonal = np.einsum("ii->i", integer)
    diagonal[diagonal == 0] = 1
    return integer


class Rounder:
    """Rounds one block at any scale; `value` is the real strategy's."""

    def __init__(
        self, real: RealBlock, value: float, objective: Objective = TOTAL_SQUARED_ERROR
    ) -> None:
        self.real, self.value, self.objective = real, value, objective

    def round(self, scale: float) -> Rounded:
        """The cheapest choice of contrasts found by changing one residual at a time."""
        if len(self.real.T) == 1:
            chosen = self._best_for_one_number(scale)
            _, T = self._attempt(scale, chosen)
        else:
            options = self._options(self.objective.contrasts)
            chosen = [candidates[0] for candidates in options]
            cost, T = self._attempt(scale, chosen)
            for i, candidates in enumerate(options):
                for candidate in candidates[1:]:
                    other = [*chosen[:i], candidate, *chosen[i + 1 :]]
                    other_cost, other_T = self._attempt(scale, other)
                    if other_cost < cost:
                        chosen, cost, T = other, other_cost, other_T
        residuals = tuple(
            Residual(a, part, contrast)
            for (a, part, _), contrast in zip(self.real.residuals, chosen, strict=True)
        )
        block = Block(residuals, (Side(self.real.axes, self.real.basis, T),), self.real.others)
        return Rounded(block, self.trace(T, chosen))

    def _options(
        self, candidates_of: Callable[[Nest], Sequence[Contrast]]
    ) -> list[Sequence[Contrast]]:
        """For every residual."""
        found = [candidates_of(nest) for _, _, nest in self.real.residuals]
        # Copies over many attributes: which of 2^60 cells is longest must be plain to see.
        return list(map(level, found)) if self.real.others else found

    def _best_for_one_number(self, scale: float) -> list[Contrast]:
        """All combinations of contrasts at once, for T a single number t."""
        unit, norms, inverses = np.array(scale), np.ones(()), np.ones(())
        options = self._options(contrasts)
        for candidates in options:
            unit = np.divide.outer(unit, [contrast_scale(c) for c in candidates])
            norms = np.multiply.outer(norms, [float(max(c.norms)) for c in candidates])
            inverses = np.multiply.outer(inverses, [self.objective.noise(c) for c in candidates])
        t = np.maximum(np.rint(float(self.real.T[0, 0]) * unit), 1)
        mass = float(self.real.P[0, 0])
        share = self.objective.share(float(np.square(self.real.C).sum()), self.value)
        cost = self.objective.cost(
            t**2 * norms * mass / scale**2, inverses * share * scale**2 / t**2
        )
        best = np.unravel_index(int(np.argmin(cost)), cost.shape)
        return [candidates[int(i)] for candidates, i in zip(options, best, strict=True)]

    def _attempt(self, scale: float, chosen: Sequence[Contrast]) -> tuple[float, Integers]:
        unit = scale / math.prod(contrast_scale(contrast) for contrast in chosen)
        T = rounded_triangle(self.real.T * unit)
        return self._cost(scale, T, chosen), T

    def _cost(self, scale: float, T: Integers, chosen: Sequence[Contrast]) -> float:
        """To first order, with X = A'ᵀA'/scale²."""
        norms = math.prod(max(contrast.norms) for contrast in chosen)
        mass = float(np.einsum("ij,ij->", T @ self.real.P, T)) * norms
        share = self.objective.share(self.trace(T, chosen) * scale**2, self.value)
        return float(self.objective.cost(np.array(mass / scale**2), np.array(share)))

    def trace(self, T: Integers, chosen: Sequence[Contrast]) -> float:
        """‖C T⁻¹‖²_F · ∏ tr(E Eᵀ)⁻¹, or what else the objective counts of contrasts."""
        Y, _ = lapack.dtrtrs(T.astype(np.float64), self.real.C.T, trans=1)  # diagonals are not zero
        return float(np.einsum("ij,ij->", Y, Y)) * math.prod(map(self.objective.noise, chosen))

"""One large set of attributes, measured by a Kronecker product of one matrix per attribute.

On a set S the workload is V_S = Σ_t c_t ⊗_{a∈S} G_ta (vectors that sum to zero over each attribute
of S). The strategy is X_S ∝ ⊗ Y_a with Y_a the optimum for Σ_t c_t ∏_{b≠a} (mean eigenvalue of
G_tb) · G_ta, which is the best possible when S has one term. Its error is Σ_t c_t ∏_a tr(G_ta Y_a⁺)
and its mean squared column ∏_a tr(D_a Y_a) for dual weights d = ⊗ d_a.

Q: (size, rank) orthonormal basis of an attribute's zero-sum vectors; G, D = diag d, Y in its
coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import WHOLE, Block, Residual, Side
from dhdmm.strategy.components import Attributes, Component, ComponentFinder
from dhdmm.strategy.contrast import well_balanced
from dhdmm.strategy.integer import Rounded, contrast_scale
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.vectors import VectorBook

Weights = Sequence[Floats]
"""d per attribute, each summing to 1: the dual weight of a cell is their product."""


def weighted_root(V: Floats, D: Floats) -> Floats:
    """X = D^-½ (D^½ V D^½)^½ D^-½: least tr(V X⁻¹) + tr(D X)."""
    eigenvalues, U = np.linalg.eigh((D + D.T) / 2)
    eigenvalues = np.maximum(eigenvalues, eigenvalues[-1] * 1e-12)
    half = (U * np.sqrt(eigenvalues)) @ U.T
    inverse = (U / np.sqrt(eigenvalues)) @ U.T
    return np.asarray(inverse @ root(half @ V @ half) @ inverse)


def root(M: Floats) -> Floats:
    """M^½ of a positive semidefinite matrix."""
    eigenvalues, U = np.linalg.eigh((M + M.T) / 2)
    return np.asarray((U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T)


@dataclass(frozen=True, eq=False)
class Summand:
    """One product of V_S: c · ⊗ G_a."""

    coefficient: float
    grams: dict[int, Floats]


def summands(
    finder: ComponentFinder, component: Component, S: Attributes
) -> list[tuple[float, dict[int, Integers]]]:
    """(c, Gram per attribute of S) of every pair of products that sees S."""
    axes = finder.reduction.axes
    found: list[tuple[float, dict[int, Integers]]] = []
    for number in sorted({v.term for v in component.visits if S in v.sets()}):
        for coefficient, pairs in finder.reduction.terms[number].pairs():
            grams = {
                a: axis.gram(pair) for a, (axis, pair) in enumerate(zip(axes, pairs, strict=True))
            }
            for a, gram in grams.items():
                if a not in S:
                    coefficient *= float(gram.sum()) / len(gram)
            if coefficient:
                found.append((coefficient, {a: grams[a] for a in S}))
    return found


class KroneckerSet:
    def __init__(
        self,
        finder: ComponentFinder,
        books: Sequence[VectorBook],
        component: Component,
        S: Attributes,
        spans: dict[int, Integers],
    ) -> None:
        self.S, self.spans = S, spans
        self.residuals = component.residuals
        self.sizes = {a: len(axis.orbit) for a, axis in enumerate(finder.reduction.axes)}
        self.others = math.prod(size for a, size in self.sizes.items() if a not in S)
        self.B = {a: books[a].vectors[ids].astype(np.float64) for a, ids in spans.items()}
        self.Q = {a: np.linalg.qr(B.T)[0] for a, B in self.B.items()}
        self.terms = [self._summand(c, grams) for c, grams in summands(finder, component, S)]
        self.D: dict[int, Floats] = {}
        self.Y: dict[int, Floats] = {}

    def _summand(self, coefficient: float, grams: dict[int, Integers]) -> Summand:
        for a in self.residuals:
            coefficient *= float(grams[a][0, 0] - grams[a][0, 1])
        return Summand(coefficient, {a: Q.T @ grams[a] @ Q for a, Q in self.Q.items()})

    def weighted(self, d: Weights) -> KroneckerSet:
        """The same set for other dual weights."""
        other = copy(self)
        other.D = {a: Q.T @ (d[a][:, None] * Q) for a, Q in self.Q.items()}
        other.Y = {a: self._factor(a, other.D[a]) for a in self.spans}
        return other

    def _factor(self, a: int, D: Floats) -> Floats:
        """Y_a: the optimum for attribute a with the other attributes averaged out."""
        mixed = sum(
            t.coefficient
            * math.prod(float(np.trace(G)) / len(G) for b, G in t.grams.items() if b != a)
            * t.grams[a]
            for t in self.terms
        )
        return weighted_root(np.asarray(mixed), D)

    def error(self, inverses: dict[int, Floats]) -> float:
        """Σ_t c_t ∏ tr(G_ta Y_a⁺), for one copy of the residuals."""
        return math.fsum(
            t.coefficient * math.prod(float(np.sum(G * inverses[a])) for a, G in t.grams.items())
            for t in self.terms
        )

    @property
    def _error(self) -> float:
        copies = math.prod(self.sizes[a] - 1 for a in self.residuals)
        return copies * self.error({a: np.asarray(linalg.inv(Y)) for a, Y in self.Y.items()})

    @property
    def _mean(self) -> float:
        sides = [float(np.sum(self.D[a] * Y)) for a, Y in self.Y.items()]
        return math.prod([*sides, *(1 - 1 / self.sizes[a] for a in self.residuals)]) / self.others

    @property
    def contribution(self) -> float:
        return math.sqrt(self._error * self._mean)

    def marginals(self, d: Weights) -> dict[int, Floats]:
        """Mean squared column given each attribute's value, when this block is scaled best."""
        share = {a: np.einsum("ui,ij,uj->u", Q, self.Y[a], Q) for a, Q in self.Q.items()}
        return {a: self.contribution * share[a] / float(d[a] @ share[a]) for a in self.spans}

    def round(self, scale: float, total: float) -> Rounded:
        """Every side gets an equal share of the scale."""
        chosen = [well_balanced(self.sizes[a])[-1] for a in self.residuals]
        triangles = {a: self._triangle(a) for a in self.spans}
        largest = {a: float(np.abs(T).max()) for a, T in triangles.items()}
        # Constant attributes enter an orthonormal row as 1/√size; the integer row holds 1.
        amplitude = math.sqrt(math.sqrt(self._error / self._mean) / total / self.others)
        amplitude *= scale * math.prod(largest.values())
        amplitude /= math.prod(contrast_scale(contrast) for contrast in chosen)
        unit = amplitude ** (1 / len(triangles))
        sides: list[Side] = []
        inverses: dict[int, Floats] = {}
        for a, T in triangles.items():
            integer = np.rint(T * (unit / largest[a])).astype(np.int64)
            diagonal = np.einsum("ii->i", integer)
            diagonal[diagonal == 0] = 1
            ids = self.spans[a][:, None]
            plain = Basis(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)
            sides.append(Side((a,), plain, integer))
            inverse = np.linalg.inv(integer @ (self.B[a] @ self.Q[a]))
            inverses[a] = inverse @ inverse.T
        residuals = zip(self.residuals, chosen, strict=True)
        block = Block(tuple(Residual(a, WHOLE, c) for a, c in residuals), tuple(sides))
        error = self.error(inverses) / self.others * math.prod(c.inverse_trace for c in chosen)
        return Rounded(block, error)

    def _triangle(self, a: int) -> Floats:
        """T with Y_a = (T B Q)ᵀ (T B Q)."""
        inverse = np.linalg.inv(self.B[a] @ self.Q[a])
        return np.asarray(linalg.cholesky(inverse.T @ self.Y[a] @ inverse))

"""One large set of attributes, measured by a Kronecker product of one matrix per attribute.

On a set S the workload is V_S = Σ_t c_t ⊗_{a∈S} G_ta (vectors that sum to zero over each attribute
of S). The strategy is X_S ∝ ⊗ Y_a with Y_a the optimum for Σ_t c_t ∏_{b≠a} (mean eigenvalue of
G_tb) · G_ta, which is the best possible when S has one term. Its trace is Σ_t c_t ∏_a tr(G_ta Y_a⁺)
and its mean squared column ∏_a tr(D_a Y_a) for dual weights d = ⊗ d_a.

Q: (size, rank) orthonormal basis of an attribute's zero-sum vectors; G, D = diag d, Y in its
coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import WHOLE, Block, Residual, Side
from dhdmm.strategy.components import Attributes, Component, ComponentFinder
from dhdmm.strategy.contrast import well_balanced
from dhdmm.strategy.integer import Rounded, contrast_scale, rounded_triangle
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.optimum import weighted_root
from dhdmm.strategy.vectors import VectorBook

Weights = Sequence[Floats]
"""d per attribute, each summing to 1: the dual weight of a cell is their product."""


class KroneckerSet:
    def __init__(
        self,
        finder: ComponentFinder,
        books: Sequence[VectorBook],
        component: Component,
        S: Attributes,
        spans: dict[int, Integers],
    ) -> None:
        self.spans, self.objective = spans, finder.reduction.objective
        self.residuals = component.residuals
        self.sizes = {a: len(axis.orbit) for a, axis in enumerate(finder.reduction.axes)}
        self.others = math.prod(size for a, size in self.sizes.items() if a not in S)
        self.B = {a: books[a].vectors[ids].astype(np.float64) for a, ids in spans.items()}
        self.Q = {a: np.linalg.qr(B.T)[0] for a, B in self.B.items()}
        self.terms = list(self._summands(finder, component, S))
        self.D: dict[int, Floats] = {}
        self.Y: dict[int, Floats] = {}

    def _summands(
        self, finder: ComponentFinder, component: Component, S: Attributes
    ) -> Iterator[tuple[float, dict[int, Floats]]]:
        """(c, Gram per attribute in Q's coordinates) of every pair of products that sees S."""
        for number in sorted({v.term for v in component.visits if S in v.sets()}):
            for coefficient, pairs in finder.reduction.terms[number].pairs():
                axes = zip(finder.reduction.axes, pairs, strict=True)
                grams = [axis.gram(pair) for axis, pair in axes]
                for a, gram in enumerate(grams):
                    if a not in S:
                        coefficient *= float(gram.sum()) / len(gram)
                for a in self.residuals:
                    coefficient *= float(grams[a][0, 0] - grams[a][0, 1])
                if coefficient:
                    yield coefficient, {a: Q.T @ grams[a] @ Q for a, Q in self.Q.items()}

    def weighted(self, d: Weights) -> KroneckerSet:
        """The same set for other dual weights."""
        other = copy(self)
        other.D = {a: Q.T @ (d[a][:, None] * Q) for a, Q in self.Q.items()}
        other.Y = {a: self._factor(a, other.D[a]) for a in self.spans}
        return other

    def _factor(self, a: int, D: Floats) -> Floats:
        """Y_a: the optimum for attribute a with the other attributes averaged out."""
        mixed = sum(
            c
            * math.prod(float(np.trace(G)) / len(G) for b, G in grams.items() if b != a)
            * grams[a]
            for c, grams in self.terms
        )
        return weighted_root(np.asarray(mixed), D)

    def trace(self, inverses: dict[int, Floats]) -> float:
        """Σ_t c_t ∏ tr(G_ta Y_a⁺), for one copy of the residuals."""
        return math.fsum(
            c * math.prod(float(np.sum(G * inverses[a])) for a, G in grams.items())
            for c, grams in self.terms
        )

    @property
    def _trace(self) -> float:
        copies = math.prod(self.sizes[a] - 1 for a in self.residuals)
        return copies * self.trace({a: np.asarray(linalg.inv(Y)) for a, Y in self.Y.items()})

    @property
    def _mean(self) -> float:
        sides = [float(np.sum(self.D[a] * Y)) for a, Y in self.Y.items()]
        return math.prod([*sides, *(1 - 1 / self.sizes[a] for a in self.residuals)]) / self.others

    @property
    def contribution(self) -> float:
        return self.objective.contribution(self._trace, self._mean)

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
        best = self.objective.scale(self._trace, self._mean)
        amplitude = math.sqrt(best / total / self.others)
        amplitude *= scale * math.prod(largest.values())
        amplitude /= math.prod(contrast_scale(contrast) for contrast in chosen)
        unit = amplitude ** (1 / len(triangles))
        sides: list[Side] = []
        inverses: dict[int, Floats] = {}
        for a, T in triangles.items():
            integer = rounded_triangle(T * (unit / largest[a]))
            sides.append(Side((a,), Basis.plain(self.spans[a][:, None]), integer))
            inverse = np.linalg.inv(integer @ (self.B[a] @ self.Q[a]))
            inverses[a] = inverse @ inverse.T
        residuals = zip(self.residuals, chosen, strict=True)
        block = Block(tuple(Residual(a, WHOLE, c) for a, c in residuals), tuple(sides))
        trace = self.trace(inverses) / self.others * math.prod(c.inverse_trace for c in chosen)
        return Rounded(block, trace)

    def _triangle(self, a: int) -> Floats:
        """T with Y_a = (T B Q)ᵀ (T B Q)."""
        inverse = np.linalg.inv(self.B[a] @ self.Q[a])
        return np.asarray(linalg.cholesky(inverse.T @ self.Y[a] @ inverse))

"""One large set of attributes, measured by a Kronecker product of one matrix per attribute.

On a set S the workload is V_S = Σ_t c_t ⊗_{a∈S} G_ta (vectors that sum to zero over each attribute
of S). With Y_a = (Σ_t c_t ∏_{b≠a} mean eigenvalue of G_tb · G_ta)^½ the strategy is X_S ∝ ⊗ Y_a,
which is V_S^½ when S has one term. Its error is Σ_t c_t ∏_a tr(G_ta Y_a⁺), its mean squared column
∏_a tr(Y_a) / N.

Q: (size, rank) orthonormal basis of an attribute's zero-sum vectors; G, Y in its coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis, VectorBook
from dhdmm.strategy.blocks import WHOLE, Block, Residual, Side
from dhdmm.strategy.components import Attributes, Component, ComponentFinder
from dhdmm.strategy.contrast import Contrast, contrasts
from dhdmm.strategy.integer import Rounded, contrast_scale
from dhdmm.strategy.matrix import Floats, Integers

WELL_BALANCED = 1.002
"""Imbalance that a contrast may have when a smaller one would be worse."""


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
                a: axis.grams[pair] for a, (axis, pair) in enumerate(zip(axes, pairs, strict=True))
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
        self.N = math.prod(self.sizes.values())
        self.B = {a: books[a].vectors[ids].astype(np.float64) for a, ids in spans.items()}
        self.Q = {a: np.linalg.qr(B.T)[0] for a, B in self.B.items()}
        self.numbers = {a: self.sizes[a] - 1 for a in self.residuals}
        self.terms = [self._summand(c, grams) for c, grams in summands(finder, component, S)]

    def _summand(self, coefficient: float, grams: dict[int, Integers]) -> Summand:
        for a in self.residuals:
            coefficient *= float(grams[a][0, 0] - grams[a][0, 1])
        return Summand(coefficient, {a: Q.T @ grams[a] @ Q for a, Q in self.Q.items()})

    @cached_property
    def Y(self) -> dict[int, Floats]:
        found: dict[int, Floats] = {}
        for a in self.spans:
            mixed = sum(
                t.coefficient
                * math.prod(float(np.trace(G)) / len(G) for b, G in t.grams.items() if b != a)
                * t.grams[a]
                for t in self.terms
            )
            found[a] = root(np.asarray(mixed))
        return found

    def error(self, inverses: dict[int, Floats]) -> float:
        """Σ_t c_t ∏ tr(G_ta Y_a⁺), for one copy of the residuals."""
        return math.fsum(
            t.coefficient * math.prod(float(np.sum(G * inverses[a])) for a, G in t.grams.items())
            for t in self.terms
        )

    @cached_property
    def _error(self) -> float:
        copies = math.prod(self.numbers.values())
        return copies * self.error({a: np.asarray(linalg.inv(Y)) for a, Y in self.Y.items()})

    @cached_property
    def _mean(self) -> float:
        traces = [float(np.trace(Y)) for Y in self.Y.values()]
        return math.prod([*traces, *self.numbers.values()]) / self.N

    @property
    def contribution(self) -> float:
        return math.sqrt(self._error * self._mean)

    def round(self, scale: float, total: float) -> Rounded:
        """Every side gets an equal share of the scale."""
        chosen = [_well_balanced(self.sizes[a]) for a in self.residuals]
        triangles = {a: self._triangle(a) for a in self.spans}
        largest = {a: float(np.abs(T).max()) for a, T in triangles.items()}
        others = math.prod(size for a, size in self.sizes.items() if a not in self.S)
        amplitude = math.sqrt(math.sqrt(self._error / self._mean) / total / others)
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
        error = self.error(inverses) / others * math.prod(c.inverse_trace for c in chosen)
        return Rounded(block, error)

    def _triangle(self, a: int) -> Floats:
        """T with Y_a = (T B Q)ᵀ (T B Q)."""
        inverse = np.linalg.inv(self.B[a] @ self.Q[a])
        return np.asarray(linalg.cholesky(inverse.T @ self.Y[a] @ inverse))


def _well_balanced(n: int) -> Contrast:
    good = [c for c in contrasts(n) if c.imbalance <= WELL_BALANCED]
    return good[0] if good else min(contrasts(n), key=lambda c: c.imbalance)

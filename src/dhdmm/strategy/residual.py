"""A strategy for workloads whose symmetric blocks are too large: one block per component.

With equal dual weight for every cell, D = I/N and X = V^½ is block diagonal over the components of
components.py, however many cells there are. ‖W‖_*²/N is a bound for every strategy (the SVD bound
of Li and Miklau), so the result still carries a certificate; what is lost against the optimum is
that columns are not made equal.

A component that is itself too large is *split*: its sets are measured apart, as if V did not mix
them. Small sets stay together; a large set gets a Kronecker product, see kronecker.py. The bound
then comes from a smaller V that does not mix sets (`unmixed`).

A block with total error e and mean squared column m may be scaled freely; the best scales give the
total error (Σ √(e m))², so √(e m) is what a block contributes.

B: (r, cells) integer basis of a component's rows, never written out; G = B Bᵀ and V_B = B V Bᵀ are
entrywise products of one small table per attribute. L Lᵀ = G; H = L⁻¹ V_B L⁻ᵀ is V in orthonormal
coordinates; N: merged cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis, VectorBook
from dhdmm.strategy.blocks import WHOLE, StrategyAxis
from dhdmm.strategy.component_basis import LARGEST_RANK, ComponentBasis, TooLarge
from dhdmm.strategy.components import Component, ComponentFinder
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.kronecker import KroneckerSet
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.unmixed import UnmixedBound


@dataclass(frozen=True, eq=False)
class Solved:
    """V^½ of one component, or of some of its sets."""

    component: Component
    basis: Basis
    G: Floats
    L: Floats
    H_root: Floats
    sizes: tuple[int, ...]
    """Merged values of the residuals."""
    N: int

    @property
    def contribution(self) -> float:
        """√(e m) = tr V^½ / √N."""
        copies = math.prod(size - 1 for size in self.sizes)
        return copies * float(np.trace(self.H_root)) / math.sqrt(self.N)

    def round(self, scale: float, total: float) -> Rounded:
        return Rounder(self._real(total), total**2).round(scale)

    def _real(self, total: float) -> RealBlock:
        """V^½ scaled to a mean X_uu of 1 over all blocks: TᵀT = L⁻ᵀ H^½ L⁻¹ · √N / total."""
        inverse = linalg.solve_triangular(self.L, np.eye(len(self.L)), lower=True)
        S = inverse.T @ self.H_root @ inverse * (math.sqrt(self.N) / total)
        residuals = zip(self.component.residuals, self.sizes, strict=True)
        return RealBlock(
            tuple((a, WHOLE, size) for a, size in residuals),
            self.component.axes,
            self.basis,
            np.asarray(np.linalg.cholesky((S + S.T) / 2).T, np.float64),
            self.H_root @ inverse,
            self.G / self.N * math.prod(self.sizes),
        )


class ResidualProblem:
    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.finder = ComponentFinder(reduction)
        components = self.finder.components()
        varying = {a for component in components for a in component.axes}
        self.books = [
            VectorBook(
                replace(axis, orbit=np.arange(len(axis.orbit)) if a in varying else axis.orbit * 0)
            )
            for a, axis in enumerate(reduction.axes)
        ]
        self.N = math.prod(len(axis.orbit) for axis in reduction.axes)
        self._bases = ComponentBasis(self.finder, self.books)
        self._solved: list[Solved | KroneckerSet] = []
        whole, split = 0.0, list[Component]()
        for component in components:
            try:
                solved = self._solve(component, self._bases.basis(component))
                self._solved.append(solved)
                whole += solved.contribution
            except TooLarge:
                self._solved += self._split(component)
                split.append(component)
        unmixed = UnmixedBound(self.finder).contribution(split) if split else 0.0
        self.bound = (whole + unmixed) ** 2
        self.total = math.fsum(solved.contribution for solved in self._solved)

    @property
    def axes(self) -> tuple[StrategyAxis, ...]:
        return tuple(
            StrategyAxis(book.axis.merged, book.axis.orbit, book.extra) for book in self.books
        )

    def round(self, scale: float) -> list[Rounded]:
        return [solved.round(scale, self.total) for solved in self._solved]

    def _solve(self, component: Component, basis: Basis) -> Solved:
        G, V_B = self._inner(component, basis), self._workload(component, basis)
        L = linalg.cholesky(G, lower=True)
        half = linalg.solve_triangular(L, V_B, lower=True)
        H = linalg.solve_triangular(L, half.T, lower=True)
        eigenvalues, U = np.linalg.eigh((H + H.T) / 2)
        root = (U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T
        sizes = tuple(self._size(a) for a in component.residuals)
        return Solved(component, basis, G, L, root, sizes, self.N)

    def _split(self, component: Component) -> list[Solved | KroneckerSet]:
        """Small sets together, each large one as a Kronecker product."""
        ranks = {
            S: math.prod(len(span) for span in self._bases.set_spans(component, S).values())
            for S in component.sets
        }
        together: list[frozenset[int]] = []
        room = LARGEST_RANK
        for S in sorted(component.sets, key=lambda S: ranks[S]):
            if ranks[S] <= room:
                together.append(S)
                room -= ranks[S]
        apart = [S for S in component.sets if S not in together]
        found: list[Solved | KroneckerSet] = [
            KroneckerSet(self.finder, self.books, component, S, self._bases.set_spans(component, S))
            for S in apart
        ]
        if together:
            small = replace(component, sets=tuple(together))
            found.append(self._solve(small, self._bases.split_basis(small)))
        return found

    def _size(self, a: int) -> int:
        return len(self.reduction.axes[a].orbit)

    def _inner(self, component: Component, basis: Basis) -> Floats:
        """G = B Bᵀ over merged cells."""
        total = np.ones((len(basis.ids),) * 2)
        for i, a in enumerate(component.axes):
            total *= self._table(a, basis.ids[:, i], np.eye(self._size(a)))
        others = set(range(len(self.books))) - {*component.axes, *component.residuals}
        return self._combined(basis, total * math.prod(self._size(a) for a in others))

    def _workload(self, component: Component, basis: Basis) -> Floats:
        """V_B = B V Bᵀ, per copy of the residuals."""
        total = np.zeros((len(basis.ids),) * 2)
        for number in sorted({visit.term for visit in component.visits}):
            for coefficient, pairs in self.reduction.terms[number].pairs():
                grams = [
                    axis.grams[pair] for axis, pair in zip(self.reduction.axes, pairs, strict=True)
                ]
                for a, gram in enumerate(grams):
                    if a in component.residuals:
                        coefficient *= float(gram[0, 0] - gram[0, 1])
                    elif a not in component.axes:
                        coefficient *= float(gram.sum())
                if coefficient:
                    share = np.full_like(total, coefficient)
                    for i, a in enumerate(component.axes):
                        share *= self._table(a, basis.ids[:, i], grams[a])
                    total += share
        return self._combined(basis, total)

    def _table(self, a: int, ids: Integers, gram: Integers | Floats) -> Floats:
        """v_iᵀ G v_j for the vectors that the ids name."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = self.books[a].vectors[used].astype(np.float64)
        return (vectors @ gram @ vectors.T)[np.ix_(place.ravel(), place.ravel())]

    def _combined(self, basis: Basis, table: Floats) -> Floats:
        C = basis.combine
        return np.asarray(C @ np.asarray(C @ table).T)

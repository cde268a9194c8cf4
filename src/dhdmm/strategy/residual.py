"""A strategy for workloads whose symmetric blocks are too large: one block per component.

With equal dual weight for every cell, V and X = V^½ are block diagonal over the components of
components.py, however many cells there are, and ‖W‖_*²/N bounds every strategy (the SVD bound of Li
and Miklau). Weights d = ⊗ d_a, one vector per attribute, make columns more equal: each component
then gets the best X for d among those that do not mix components. The bound for such d is exact
when only attributes that no term treats as commuting are weighted.

A component that is itself too large is *split*: its sets are measured apart, as if V did not mix
them. Small sets stay together; a large set gets a Kronecker product, see kronecker.py. The bound
then comes from a smaller V that does not mix sets (`unmixed`).

Blocks may be scaled freely against each other; the objective says how, and what each contributes.

B: (r, cells) integer basis of a component's rows, never written out, see inner_products.py;
L Lᵀ = B Bᵀ; H = L⁻¹ B V Bᵀ L⁻ᵀ is V in orthonormal coordinates, D and X likewise; P = B D Bᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.block_basis import TooLarge
from dhdmm.strategy.blocks import WHOLE, MeasuredAxis
from dhdmm.strategy.component_basis import LARGEST_RANK, ComponentBasis
from dhdmm.strategy.components import Component, ComponentFinder
from dhdmm.strategy.inner_products import InnerProducts
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.kronecker import KroneckerSet, Weights
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.optimum import EXPONENT, root, weighted_root
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.unmixed import UnmixedBound, root_trace
from dhdmm.strategy.vectors import VectorBook

SMALLEST_SHARE = 1e-6
"""No value's weight falls below this part of the average."""
STEPS = 5
"""Updates of the dual weights."""


class ComponentBlock:
    """One component, or some of its sets, measured together."""

    def __init__(self, products: InnerProducts, component: Component, basis: Basis) -> None:
        self.products, self.component, self.basis = products, component, basis
        self.sizes = [products.size(a) for a in component.residuals]
        self.copies = math.prod(size - 1 for size in self.sizes)
        # The mean squared column is the trace over ∏ residual sizes.
        self.scale = products.reduction.objective.scale(math.prod(self.sizes), 1)
        self.L = linalg.cholesky(products.inner(component, basis, products.ones), lower=True)
        self.H = self._whiten(self.L, products.workload(component, basis))
        self.X = np.zeros_like(self.H)
        self.P = np.zeros_like(self.H)
        self.contribution = 0.0

    def _whiten(self, L: Floats, M: Floats) -> Floats:
        """L⁻¹ M L⁻ᵀ."""
        half = linalg.solve_triangular(L, M, lower=True)
        return np.asarray(linalg.solve_triangular(L, half.T, lower=True))

    def weighted(self, d: Weights) -> ComponentBlock:
        """The optimum for dual weights d; residual attributes count as equally weighted."""
        other = copy(self)
        other.P = self.products.inner(self.component, self.basis, d)
        D = self._whiten(self.L, other.P)
        other.X = weighted_root(self.H, D)
        other.contribution = self.copies * float(np.sum(D * other.X)) / self.scale
        return other

    def bound(self, d: Weights) -> float:
        """tr (D^½ V D^½)^½ on this component, rounding errors subtracted."""
        L = linalg.cholesky(self.products.inner(self.component, self.basis, d), lower=True)
        V = self.products.workload(self.component, self.basis, d)
        return self.copies * root_trace(self._whiten(L, V)) / self.scale

    @property
    def _inverse(self) -> Floats:
        return np.asarray(linalg.solve_triangular(self.L, np.eye(len(self.L)), lower=True))

    @property
    def _S(self) -> Floats:
        """X = Bᵀ S B, scaled best."""
        inverse = self._inverse
        return np.asarray(inverse.T @ self.X @ inverse * self.scale)

    def marginals(self, d: Weights) -> dict[int, Floats]:
        """Mean squared column given each axis's value."""
        copies = self.copies / math.prod(self.sizes)
        found = self.products.marginals(self.component, self.basis, self._S, d)
        return {a: copies * values for a, values in found.items()}

    def round(self, scale: float, total: float) -> Rounded:
        S, objective = self._S / total, self.products.reduction.objective
        real = RealBlock(
            tuple((a, WHOLE, n) for a, n in zip(self.component.residuals, self.sizes, strict=True)),
            self.component.axes,
            self.basis,
            np.asarray(np.linalg.cholesky((S + S.T) / 2).T, np.float64),
            root(self.H) @ self._inverse,
            self.P,
        )
        return Rounder(real, objective.bound(total), objective).round(scale)


def rank_by_components(reduction: Reduction) -> int | None:
    """rank(W), of which V has one block per component; None where a component is too large."""
    finder = ComponentFinder(reduction)
    components = finder.components()
    bases = ComponentBasis(finder, _books(reduction, components))
    total = 0
    for component in components:
        copies = math.prod(len(reduction.axes[a].orbit) - 1 for a in component.residuals)
        try:
            total += copies * bases.basis(component).rows
        except TooLarge:
            return None
    return total


def _books(reduction: Reduction, components: Sequence[Component]) -> list[VectorBook]:
    """Vectors over single values where a component varies, over all values together elsewhere."""
    varying = {a for component in components for a in component.axes}
    return [
        VectorBook(
            replace(axis, orbit=np.arange(len(axis.orbit)) if a in varying else axis.orbit * 0)
        )
        for a, axis in enumerate(reduction.axes)
    ]


class ResidualProblem:
    def __init__(self, reduction: Reduction) -> None:
        self.finder, self.objective = ComponentFinder(reduction), reduction.objective
        components = self.finder.components()
        self.books = _books(reduction, components)
        self._bases = ComponentBasis(self.finder, self.books)
        self._products = InnerProducts(reduction, self.books)
        self._whole: list[ComponentBlock] = []
        self._parts: list[ComponentBlock | KroneckerSet] = []
        self._too_large: list[Component] = []
        for component in components:
            try:
                basis = self._bases.basis(component)
                self._whole.append(ComponentBlock(self._products, component, basis))
            except TooLarge:
                self._parts += self._split(component)
                self._too_large.append(component)
        self.uniform: Weights = [
            np.full(len(axis.orbit), 1 / len(axis.orbit)) for axis in reduction.axes
        ]

    def solve(self, d: Weights) -> list[ComponentBlock | KroneckerSet]:
        return [block.weighted(d) for block in [*self._whole, *self._parts]]

    def equalised(self) -> Weights:
        """Dual weights under which the mean column is equally long for every value."""
        d = list(self.uniform)
        for _ in range(STEPS):
            lengths: dict[int, Floats] = {}
            blocks = self.solve(d)
            for block in blocks:
                for a, values in block.marginals(d).items():
                    rest = lengths.get(a, np.zeros(len(d[a])))
                    lengths[a] = rest + values - block.contribution
            total = math.fsum(block.contribution for block in blocks)
            for a, excess in lengths.items():
                gradient = 1 + self.objective.gradient(excess, total)
                mass = d[a] * np.maximum(gradient, 0.1) ** EXPONENT
                d[a] = np.maximum(mass / mass.sum(), SMALLEST_SHARE / len(mass))
                d[a] = d[a] / d[a].sum()
        return d

    def bound(self, d: Weights) -> float:
        """From tr (D^½ V D^½)^½ or less; weights differ only where components stay apart."""
        free = self.finder.always_free()
        allowed = [d[a] if a in free else self.uniform[a] for a in range(len(d))]
        whole = math.fsum(block.bound(allowed) for block in self._whole)
        split = UnmixedBound(self.finder, allowed).contribution(self._too_large)
        return self.objective.bound(whole + split)

    def round(self, blocks: Sequence[ComponentBlock | KroneckerSet], scale: float) -> list[Rounded]:
        """Integer blocks at one scale."""
        total = math.fsum(block.contribution for block in blocks)
        return [block.round(scale, total) for block in blocks]

    @property
    def axes(self) -> tuple[MeasuredAxis, ...]:
        return tuple(
            MeasuredAxis(book.axis.merged, book.axis.orbit, book.extra) for book in self.books
        )

    def _split(self, component: Component) -> list[ComponentBlock | KroneckerSet]:
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
        found: list[ComponentBlock | KroneckerSet] = [
            KroneckerSet(self.finder, self.books, component, S, self._bases.set_spans(component, S))
            for S in apart
        ]
        if together:
            small = replace(component, sets=tuple(together))
            found.append(ComponentBlock(self._products, small, self._bases.split_basis(small)))
        return found

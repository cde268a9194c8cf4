"""A strategy for workloads whose symmetric blocks are too large: one block per component.

With equal dual weight for every cell, D = I/N and X = V^½ is block diagonal over the components of
components.py, however many cells there are. ‖W‖_*²/N is a bound for every strategy (the SVD bound
of Li and Miklau), so the result still carries a certificate; what is lost against the optimum is
that columns are not made equal.

B: (r, cells) integer basis of a component's rows, never written out; G = B Bᵀ and V_B = B V Bᵀ are
entrywise products of one small table per attribute. L Lᵀ = G; H = L⁻¹ V_B L⁻ᵀ is V in orthonormal
coordinates; N: merged cells.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import CHUNK, Basis, VectorBook, concatenate, select
from dhdmm.strategy.blocks import WHOLE, StrategyAxis
from dhdmm.strategy.components import Component, ComponentFinder, Visit
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder
from dhdmm.strategy.matrix import PRIME, Floats, Integers, RowSpace, multiply_modulo
from dhdmm.strategy.symmetry import Reduction

LARGEST_RANK = 2500
"""Rows of one component's basis."""


class TooLarge(StrategyError):
    """A component that this family cannot hold."""


@dataclass(frozen=True, eq=False)
class _Solved:
    component: Component
    basis: Basis
    G: Floats
    L: Floats
    H_root: Floats
    copies: int

    @property
    def trace(self) -> float:
        """tr V^½ on the component."""
        return self.copies * float(np.trace(self.H_root))


class ResidualProblem:
    """Raises TooLarge when a component has more than LARGEST_RANK rows."""

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
        self._solved = [self._solve(component) for component in components]
        self.root_trace = math.fsum(solved.trace for solved in self._solved)

    @property
    def axes(self) -> tuple[StrategyAxis, ...]:
        return tuple(
            StrategyAxis(book.axis.merged, book.axis.orbit, book.extra) for book in self.books
        )

    @property
    def bound(self) -> float:
        """‖W‖_*² / N: no strategy of sensitivity 1 has a smaller total squared error."""
        return self.root_trace**2 / self.N

    def round(self, scale: float) -> list[Rounded]:
        return [Rounder(self._real(solved), self.bound).round(scale) for solved in self._solved]

    def _solve(self, component: Component) -> _Solved:
        basis = self._basis(component)
        G, V_B = self._inner(component, basis), self._workload(component, basis)
        L = linalg.cholesky(G, lower=True)
        half = linalg.solve_triangular(L, V_B, lower=True)
        H = linalg.solve_triangular(L, half.T, lower=True)
        eigenvalues, U = np.linalg.eigh((H + H.T) / 2)
        root = (U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T
        copies = math.prod(self._size(a) - 1 for a in component.residuals)
        return _Solved(component, basis, G, L, root, copies)

    def _real(self, solved: _Solved) -> RealBlock:
        """V^½ scaled to a mean X_uu of 1: S = TᵀT = L⁻ᵀ H^½ L⁻¹ · N / tr V^½."""
        inverse = linalg.solve_triangular(solved.L, np.eye(len(solved.L)), lower=True)
        S = inverse.T @ solved.H_root @ inverse * (self.N / self.root_trace)
        return RealBlock(
            tuple((a, WHOLE, self._size(a)) for a in solved.component.residuals),
            solved.component.axes,
            solved.basis,
            np.asarray(np.linalg.cholesky((S + S.T) / 2).T, np.float64),
            solved.H_root @ inverse,
            solved.G / self.N * math.prod(self._size(a) for a in solved.component.residuals),
        )

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

    def _basis(self, component: Component) -> Basis:
        """Sparse-first independent rows among the visits' own."""
        candidates = concatenate(
            [part for visit in component.visits for part in self._candidates(component, visit)],
            len(component.axes),
        )
        if candidates.is_plain:
            ids = np.unique(candidates.ids, axis=0)
            candidates = Basis(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)
        weight = np.ones(len(candidates.ids), np.int64)
        for i, a in enumerate(component.axes):
            weight *= np.count_nonzero(self.books[a].vectors, axis=1)[candidates.ids[:, i]]
        order = np.argsort(abs(candidates.combine) @ weight, kind="stable")
        space = RowSpace(min(len(order), LARGEST_RANK + 1))
        sketches = [self._sketch(a, space.columns) for a in component.axes]
        kept: list[Basis] = []
        for start in range(0, len(order), CHUNK):
            chunk = select(candidates, order[start : start + CHUNK])
            kept.append(select(chunk, space.extend(_sketched(chunk, sketches, space.columns))))
            if space.rank > LARGEST_RANK:
                raise TooLarge(f"a component has more than {LARGEST_RANK:,} rows")
        return concatenate(kept, len(component.axes))

    def _candidates(self, component: Component, visit: Visit) -> list[Basis]:
        """Rows of one term: spanning vectors of every axis, or coupled rows one by one."""
        term = self.reduction.terms[visit.term]
        kept = {
            a: self.books[a].zero_sum_spanning(self.finder.index(visit, a))
            for a in component.axes
            if a in visit.kept
        }
        if len(term.indices) == 1:
            spans = {a: self.books[a].spanning(term.indices[0][a]) for a in visit.free}
            return [self._grid(component, {**kept, **spans})]
        return [
            _sum_of_products([self._grid(component, {**kept, **ids}) for ids in products], weights)
            for weights, products in self._coupled_rows(visit)
        ]

    def _coupled_rows(self, visit: Visit) -> Iterator[tuple[list[int], list[dict[int, Integers]]]]:
        """Each row of a term of several products: a weight and vectors per product."""
        term, axes = self.reduction.terms[visit.term], self.reduction.axes
        dense = [
            [axis.factors[i].to_sparse().toarray() for axis, i in zip(axes, index, strict=True)]
            for index in term.indices
        ]
        commuting = {a for v in self.finder.visits(visit.term) for a in v.kept}
        rows = [range(1) if a in commuting else range(len(F)) for a, F in enumerate(dense[0])]
        for row in itertools.product(*rows):
            weights: list[int] = []
            products: list[dict[int, Integers]] = []
            for coefficient, factors in zip(term.integer_coefficients, dense, strict=True):
                constants = [a for a in range(len(axes)) if a not in visit.free | commuting]
                weights.append(
                    coefficient * math.prod(int(factors[a][row[a], 0]) for a in constants)
                )
                products.append(
                    {a: np.array([self.books[a].number(factors[a][row[a]])]) for a in visit.free}
                )
            yield weights, products

    def _grid(self, component: Component, spans: dict[int, Integers]) -> Basis:
        size = math.prod(len(span) for span in spans.values())
        if size > 4 * LARGEST_RANK:
            raise TooLarge(f"a term has {size:,} rows in one component")
        none = np.zeros(1, np.int64)
        options = [spans.get(a, none) for a in component.axes]
        ids = np.array(list(itertools.product(*options)), np.int64).reshape(
            size, len(component.axes)
        )
        return Basis(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)

    def _coupled_rows(
        self, component: Component, visit: Visit
    ) -> Sequence[tuple[Integers, dict[int, Integers]]]:
        raise TooLarge("terms of several products need the exact path")

    def _sketch(self, a: int, columns: int) -> Integers:
        """(vectors, columns): every vector against random vectors modulo p."""
        size = len(self.books[a].axis.sizes)
        stream = hashlib.shake_256(b"dhdmm row sketch" + a.to_bytes(4, "big"))
        random = np.frombuffer(stream.digest(8 * size * columns), "<u8") % np.uint64(PRIME)
        return multiply_modulo(
            self.books[a].vectors % PRIME, random.astype(np.int64).reshape(size, columns)
        )


def _sum_of_products(parts: Sequence[Basis], weights: Sequence[int]) -> Basis:
    """Rows Σ_p weight_p · (row of part p); all parts have the same number of rows."""
    ids = np.stack([part.ids for part in parts], axis=1)
    rows, products, axes = ids.shape
    return Basis(
        np.arange(rows + 1) * products,
        np.tile(np.array(weights, np.int64), rows),
        ids.reshape(rows * products, axes),
    )


def _sketched(basis: Basis, sketches: Sequence[Integers], columns: int) -> Integers:
    """Rows of B seen through random Kronecker vectors, which keep their rank (but for chance)."""
    K = np.ones((len(basis.ids), columns), np.int64)
    for i, sketch in enumerate(sketches):
        K = K * sketch[basis.ids[:, i]] % PRIME
    return np.asarray(
        np.add.reduceat(K * (basis.coefficients % PRIME)[:, None] % PRIME, basis.starts[:-1])
    )

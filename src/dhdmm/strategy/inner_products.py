"""Inner products of Kronecker rows: entrywise products of one small table per attribute.

B: rows that are sums of Kronecker products of numbered vectors v, one per axis of a component, and
constant in every other attribute but the residuals, which are left out. D = ⊗ diag d_a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.components import Component
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.vectors import VectorBook


class InnerProducts:
    def __init__(self, reduction: Reduction, books: Sequence[VectorBook]) -> None:
        self.reduction, self.books = reduction, books
        self.ones = [np.ones(len(axis.orbit)) for axis in reduction.axes]

    def size(self, a: int) -> int:
        return len(self.reduction.axes[a].orbit)

    def inner(self, component: Component, basis: Basis, d: Sequence[Floats]) -> Floats:
        """B D Bᵀ."""
        total = np.ones((len(basis.ids),) * 2)
        for i, a in enumerate(component.axes):
            total *= self._table(a, basis.ids[:, i], np.diag(d[a]))
        return _combined(basis, total * self._outside(component, d))

    def _outside(self, component: Component, d: Sequence[Floats]) -> float:
        """1ᵀ D 1 over the attributes that the component ignores."""
        inside = {*component.axes, *component.residuals}
        return math.prod(float(d[a].sum()) for a in range(len(d)) if a not in inside)

    def workload(
        self, component: Component, basis: Basis, d: Sequence[Floats] | None = None
    ) -> Floats:
        """B D V D Bᵀ, once per copy of the residuals; D = I if no weights are given."""
        weights = self.ones if d is None else d
        total = np.zeros((len(basis.ids),) * 2)
        for number in sorted({visit.term for visit in component.visits}):
            for coefficient, pairs in self.reduction.terms[number].pairs():
                grams = [
                    axis.gram(pair) * np.outer(weight, weight)
                    for axis, pair, weight in zip(self.reduction.axes, pairs, weights, strict=True)
                ]
                total += self._term(component, basis, coefficient, pairs, grams)
        return _combined(basis, total)

    def _term(
        self,
        component: Component,
        basis: Basis,
        coefficient: float,
        pairs: Sequence[tuple[int, int]],
        grams: Sequence[Floats],
    ) -> Floats | float:
        for a, gram in enumerate(grams):
            if a in component.residuals:
                coefficient *= float(
                    self.reduction.axes[a].gram(pairs[a])[[0, 0], [0, 1]] @ [1, -1]
                )
            elif a not in component.axes:
                coefficient *= float(gram.sum())
        if not coefficient:
            return 0.0
        share = np.full((len(basis.ids),) * 2, coefficient)
        for i, a in enumerate(component.axes):
            share *= self._table(a, basis.ids[:, i], grams[a])
        return share

    def _table(self, a: int, ids: Integers, gram: Floats) -> Floats:
        """v_iᵀ G v_j for the vectors that the ids name."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = self.books[a].vectors[used].astype(np.float64)
        index = place.ravel()
        return np.asarray((vectors @ gram @ vectors.T)[np.ix_(index, index)])

    def marginals(
        self, component: Component, basis: Basis, S: Floats, d: Sequence[Floats]
    ) -> dict[int, Floats]:
        """For every axis a: Σ d (Bᵀ S B)_uu over the cells with u_a = value, d without d_a."""
        C = basis.written_out
        full = C.T @ S @ C * self._outside(component, d)
        tables = {
            a: self._table(a, basis.ids[:, i], np.diag(d[a])) for i, a in enumerate(component.axes)
        }
        found: dict[int, Floats] = {}
        for i, a in enumerate(component.axes):
            rest = full.copy()
            for b, table in tables.items():
                if b != a:
                    rest *= table
            used, place = np.unique(basis.ids[:, i], return_inverse=True)
            gathered = np.zeros((len(used), len(used)))
            np.add.at(gathered, np.ix_(place.ravel(), place.ravel()), rest)
            vectors = self.books[a].vectors[used].astype(np.float64)
            found[a] = np.einsum("iu,ij,ju->u", vectors, gathered, vectors, optimize=True)
        return found


def _combined(basis: Basis, table: Floats) -> Floats:
    C = basis.combine
    return np.asarray(C @ np.asarray(C @ table).T)

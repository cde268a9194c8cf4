"""Rows of a basis over some axes of a block: inner products without cells.

Inner products of Kronecker rows are products of one small table per axis, so nothing of the size of
the cells is written out, only of the rank. With L Lᵀ = B Bᵀ the coordinates L⁻¹B are orthonormal.

B: (r, orbits of cells) integer basis, its rows sums of Kronecker products of numbered vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import linalg

from dhdmm.effort import allocate
from dhdmm.strategy.basis import Basis
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.vectors import VectorBook
from dhdmm.study.factor import group_sums

Pair = tuple[int, int]


class Rows:
    def __init__(
        self,
        reduction: Reduction,
        books: Sequence[VectorBook],
        axes: tuple[int, ...],
        basis: Basis,
    ) -> None:
        allocate(6 * len(basis.ids) ** 2)
        varying = [i for i in range(len(axes)) if np.any(basis.ids[:, i])]
        self.outside = [a for i, a in enumerate(axes) if i not in varying]
        """Axes along which all rows are constant."""
        self.axes = tuple(axes[i] for i in varying)
        self.basis = replace(basis, ids=basis.ids[:, varying])
        self.reduction = reduction
        self._used, self._place, self._vectors = [], [], []
        for i, a in enumerate(self.axes):
            used, place = np.unique(self.basis.ids[:, i], return_inverse=True)
            self._used.append(used)
            self._place.append(place.ravel())
            self._vectors.append(books[a].vectors[used].astype(np.float64))
        self.sizes = {a: reduction.axes[a].sizes.astype(np.float64) for a in axes}

    @cached_property
    def L(self) -> Floats:
        """Lower triangular."""
        volume = math.prod(float(self.sizes[a].sum()) for a in self.outside)
        inner = self.inner([np.diag(self.sizes[a]) for a in self.axes])
        return np.asarray(linalg.cholesky(inner * volume, lower=True))

    def inner(self, grams: Sequence[Floats]) -> Floats:
        """B (⊗ G) Bᵀ."""
        total = np.ones((len(self.basis.ids),) * 2)
        for i, gram in enumerate(grams):
            total *= self._table(i, gram)
        if self.basis.is_plain:
            return total
        return np.asarray(self.basis.combine @ np.asarray(self.basis.combine @ total).T)

    def _table(self, i: int, gram: Floats) -> Floats:
        """v_iᵀ G v_j for the vectors of one axis that the basis names."""
        vectors, place = self._vectors[i], self._place[i]
        if np.array_equal(self._used[i], np.arange(1, len(gram) + 1)):  # one vector per orbit
            table = gram
        else:
            seen = np.flatnonzero(vectors.any(axis=0))
            table = vectors[:, seen] @ gram[np.ix_(seen, seen)] @ vectors[:, seen].T
        return np.asarray(table[np.ix_(place, place)])

    def workload(
        self, axes: tuple[int, ...], summands: Iterable[tuple[tuple[Pair, ...], float]]
    ) -> Floats:
        """Σ c V in orthonormal coordinates, V named by a Gram per axis."""
        total = np.zeros((self.basis.rows,) * 2)
        single: dict[tuple[Pair, ...], float] = {}
        for key, c in summands:
            if self._is_single(axes, key):
                single[key] = c
                continue
            summed = {a: self.reduction.axes[a].summed[p] for a, p in zip(axes, key, strict=True)}
            c *= math.prod(float(summed[a].sum()) for a in self.outside)
            total += c * self.inner([summed[a].astype(np.float64) for a in self.axes])
        if single:
            left, right = (self._against(axes, list(single), which) for which in (0, 1))
            total += (left * np.array(list(single.values()))) @ right.T
        return self.whiten(total)

    def _is_single(self, axes: tuple[int, ...], key: tuple[Pair, ...]) -> bool:
        """Whether the summand is of one query, and so of rank 1."""
        factors = [self.reduction.axes[a].factors for a in axes]
        return all(f[i].shape[0] == 1 for f, pair in zip(factors, key, strict=True) for i in pair)

    def _against(
        self, axes: tuple[int, ...], keys: Sequence[tuple[Pair, ...]], which: int
    ) -> Floats:
        """B f for the one query f of every key, (r, keys)."""
        found = np.ones((len(self.basis.ids), len(keys)))
        for n, a in enumerate(axes):
            axis = self.reduction.axes[a]
            used, number = np.unique([key[n][which] for key in keys], return_inverse=True)
            sums = [group_sums(axis.factors[i], axis.orbit, len(axis.sizes))[0] for i in used]
            if a in self.outside:
                found *= np.array([float(s.sum()) for s in sums])[number.ravel()]
            else:
                i = self.axes.index(a)
                table = self._vectors[i] @ np.array(sums, np.float64).T
                found *= table[self._place[i]][:, number.ravel()]
        return found if self.basis.is_plain else np.asarray(self.basis.combine @ found)

    def whiten(self, M: Floats) -> Floats:
        """L⁻¹ M L⁻ᵀ."""
        half = linalg.solve_triangular(self.L, (M + M.T) / 2, lower=True)
        return np.asarray(linalg.solve_triangular(self.L, half.T, lower=True))

    @cached_property
    def inverse(self) -> Floats:
        """L⁻¹."""
        return np.asarray(linalg.solve_triangular(self.L, np.eye(len(self.L)), lower=True))

    def at(self, orbits: Integers) -> Floats:
        """B at cells given by the orbit on every attribute: (r, cells)."""
        K = np.ones((len(self.basis.ids), len(orbits)))
        for i, a in enumerate(self.axes):
            K *= self._vectors[i][:, orbits[:, a]][self._place[i]]
        return K if self.basis.is_plain else np.asarray(self.basis.combine @ K)

    def marginals(self, S: Floats, d: Sequence[Floats]) -> dict[int, Floats]:
        """For every axis: Σ d (Bᵀ S B)_uu over the cells with u_a given, d without d_a."""
        C = self.basis.written_out
        full = S if self.basis.is_plain else C.T @ S @ C
        tables = {a: self._table(i, np.diag(d[a])) for i, a in enumerate(self.axes)}
        found: dict[int, Floats] = {}
        for i, a in enumerate(self.axes):
            rest = math.prod((tables[b] for b in self.axes if b != a), start=full)
            vectors, place = self._vectors[i], self._place[i]
            gathered = np.zeros((len(vectors), len(vectors)))
            np.add.at(gathered, np.ix_(place, place), rest)
            found[a] = np.einsum("iu,iu->u", vectors, gathered @ vectors)
        return found

"""A bound on the error of every strategy, for dual weights that are a product: d = ⊗ d_a.

F(d) = tr (D^½ V D^½)^½ needs the roots of sums of Kronecker products. With a Gram written as
D_a^½ G D_a^½, total counts are the projection on s = √d_a. Long axes are cut: K is spanned by s and
what couples with it, and a Gram [[A, E], [Eᵀ, C]] in K and its complement is replaced by a smaller
one that does not mix them. With A_E = U (Uᵀ A⁻¹ U)⁻¹ Uᵀ ⪯ A, U spanning the range of E,

    [[A, E], [Eᵀ, C]]  ⪰  [[A − θ A_E, 0], [0, C − Eᵀ A⁻¹ E / θ]]  ⪰  0     for θ₀ ≤ θ ≤ 1,

since [[θ A_E, E], [Eᵀ, Eᵀ A⁻¹ E / θ]] ⪰ 0. If Q ⪯ G for each Gram of a product then ⊗Q ⪯ ⊗G, and
the trace of the root can only shrink. Terms of several products are left out, which lowers it too,
and so are terms where a block would be too large to be written out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhdmm.effort import OBJECT, work
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.optimum import lowered_roots
from dhdmm.strategy.symmetry import ReducedAxis, Reduction

WHOLE = 2**62
KEPT, MORE_KEPT = (WHOLE, 1, 3, 12), 23
"""Dimensions of K: tried one after the other."""
SHARE = 0.25
"""Where θ lies between its least value and 1."""
SAFETY = 1e-9
REST = -2


@dataclass(frozen=True, eq=False)
class WeighedAxis:
    """One attribute's Grams with d inside, in parts that none of them mixes."""

    axis: ReducedAxis
    mass: Floats
    """Of d on every orbit."""
    kept: int

    @cached_property
    def _K(self) -> Floats | None:
        """Orthonormal columns, K first; None if the axis is not cut."""
        if len(self.mass) <= 2 * self.kept:
            return None
        mixed = np.asarray(sum(self._gram(i) / np.trace(self._gram(i)) for i in self._factors))
        found = [np.sqrt(self.mass)]
        for _ in range(self.kept - 1):
            step = mixed @ found[-1]
            for earlier in (*found, *found):
                step = step - (earlier @ step) * earlier
            found.append(step / np.linalg.norm(step))
        kept = np.array(found).T
        rest = np.linalg.svd(kept, full_matrices=True)[0][:, self.kept :]
        return np.concatenate([kept, rest], axis=1)

    @property
    def _factors(self) -> list[int]:
        return [i for i, j in self.axis.trivial if i == j and np.any(self.axis.trivial[i, i])]

    @memoised
    def _gram(self, i: int) -> Floats:
        root = np.sqrt(self.mass / self.axis.sizes)
        return np.asarray(self.axis.trivial[i, i] * np.outer(root, root))

    def parts(self, i: int) -> list[int]:
        """Where the factor is not 0: K or everything (−1), the rest, standard parts of orbits."""
        standard = np.flatnonzero(self.axis.standard[i, i])
        rest = [REST] if np.trace(self._split(i)[1]) > SAFETY * np.trace(self._gram(i)) else []
        return [-1, *rest, *(int(part) for part in standard)]

    def number(self, i: int, part: int) -> float:
        """The Gram on a standard part, or where there is a single orbit."""
        if part < 0:
            return float(self._gram(i)[0, 0])
        orbit = self.axis.tree.orbit_of(part)
        d = float(self.mass[orbit] / self.axis.sizes[orbit])
        return float(self.axis.standard[i, i][part]) * d

    @memoised
    def root(self, i: int, part: int) -> Floats:
        """L with LᵀL = the Gram on K or on the rest, without rows of zeros."""
        eigenvalues, U = np.linalg.eigh(self._split(i)[part == REST])
        kept = eigenvalues > max(float(eigenvalues[-1]), 0) * 1e-13
        return np.asarray((U[:, kept] * np.sqrt(eigenvalues[kept])).T)

    @memoised
    def root_trace(self, i: int, part: int) -> float:
        return math.fsum(lowered_roots(self._split(i)[part == REST]))

    @memoised
    def _split(self, i: int) -> tuple[Floats, Floats]:
        if self._K is None:
            return self._gram(i), np.zeros((1, 1))
        G, k = self._K.T @ self._gram(i) @ self._K, self.kept
        return unmixed(G[:k, :k], G[:k, k:], G[k:, k:])


def unmixed(A: Floats, E: Floats, C: Floats, share: float = SHARE) -> tuple[Floats, Floats]:
    """A − θ A_E and C − Eᵀ A⁻¹ E / θ."""
    U, s, _ = np.linalg.svd(E, full_matrices=False)
    U = U[:, s > 1e-12 * np.abs(A).max()]
    if not U.size:
        return A, C
    inverse = np.linalg.pinv(A, rcond=1e-13, hermitian=True)
    taken = U @ np.linalg.inv(U.T @ inverse @ U) @ U.T
    S = E.T @ inverse @ E
    eigenvalues, Q = np.linalg.eigh(C)
    kept = eigenvalues > eigenvalues[-1] * 1e-13
    half = Q[:, kept] / np.sqrt(eigenvalues[kept])
    least = min(float(np.linalg.eigvalsh(half.T @ S @ half)[-1]) * (1 + SAFETY), 1.0)
    theta = least + share * (1 - least)
    return A - theta * taken, C - S / theta


class ProductBound:
    """tr (D^½ V D^½)^½, or less, for d given by its mass on every attribute's orbits."""

    def __init__(self, reduction: Reduction, d: Sequence[Floats]) -> None:
        self.reduction, self.d = reduction, d

    @property
    def value(self) -> float:
        """The largest found: without a cut, by the best K, and by a larger one.

        The last is for tables of many long attributes, whose total counts couple with much.
        """
        values = [self.root_trace(kept) for kept in KEPT]
        if values[-1] == max(values):
            values.append(self.root_trace(MORE_KEPT, sizes.BOUND_ROWS_ONCE))
        return max(*values, self.root_of_trace) * (1 - SAFETY)

    @property
    def root_of_trace(self) -> float:
        """(tr D^½ V D^½)^½, which is no larger than the trace of the root: terms of any kind."""
        diagonals = [_diagonals(*x) for x in zip(self.reduction.axes, self.d, strict=True)]
        shares = (
            c * math.prod(own[pair] for own, pair in zip(diagonals, pairs, strict=True))
            for term in self.reduction.terms
            for c, pairs in term.pairs()
        )
        return math.sqrt(math.fsum(shares))

    def root_trace(self, kept: int, largest: int = sizes.BOUND_ROWS) -> float:
        axes = [WeighedAxis(*x, kept) for x in zip(self.reduction.axes, self.d, strict=True)]
        blocks: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
        for index, coefficient in self._products():
            for parts in itertools.product(*(x.parts(i) for x, i in zip(axes, index, strict=True))):
                found = blocks.setdefault(parts, {})
                found[index] = found.get(index, 0.0) + coefficient
        return math.fsum(_block(axes, parts, terms, largest) for parts, terms in blocks.items())

    def _products(self) -> Iterator[tuple[tuple[int, ...], float]]:
        for term in self.reduction.terms:
            if len(term.indices) == 1:
                yield term.indices[0], term.weight**2 * float(term.coefficients[0]) ** 2


def _diagonals(axis: ReducedAxis, mass: Floats) -> dict[tuple[int, int], float]:
    """Σ_u d_u G_uu of every Gram."""
    d = (mass / axis.sizes)[axis.orbit]
    return {key: float(d @ diagonal) for key, diagonal in axis.diagonals.items()}


def _block(
    axes: Sequence[WeighedAxis],
    parts: tuple[int, ...],
    terms: dict[tuple[int, ...], float],
    largest: int,
) -> float:
    """Its share: axes on which all terms agree are factors, the others are written out."""
    work(OBJECT * len(terms))
    matrices = [a for a, part in enumerate(parts) if part < 0 and len(axes[a].mass) > 1]
    numbers = [a for a in range(len(axes)) if a not in matrices]
    agree = [a for a in matrices if len({index[a] for index in terms}) == 1]
    first = next(iter(terms))
    apart = math.prod(axes[a].root_trace(first[a], parts[a]) for a in agree)
    apart *= math.prod(
        x.axis.tree.existing(p).rows for x, p in zip(axes, parts, strict=True) if p >= 0
    )
    together = [a for a in matrices if a not in agree]
    summands: dict[tuple[int, ...], float] = {}
    for index, c in terms.items():
        number = c * math.prod(axes[a].number(index[a], parts[a]) for a in numbers)
        key = tuple(index[a] for a in together)
        summands[key] = summands.get(key, 0.0) + number
    roots = {
        key: [axes[a].root(i, parts[a]) for a, i in zip(together, key, strict=True)]
        for key in summands
    }
    return apart * _root_trace(summands, roots, largest)


def _root_trace(
    summands: dict[tuple[int, ...], float],
    roots: dict[tuple[int, ...], list[Floats]],
    largest: int,
) -> float:
    """tr (Σ c ⊗ LᵀL)^½ from the Gram of the rows of all √c ⊗ L."""
    rows = {key: math.prod(len(L) for L in roots[key]) for key in summands}
    weight = {
        key: c * math.prod(float(np.sum(L * L)) for L in roots[key]) for key, c in summands.items()
    }
    kept: list[tuple[int, ...]] = []
    for key in sorted(summands, key=lambda key: -weight[key]):
        if sum(rows[k] for k in kept) + rows[key] <= largest:
            kept.append(key)
    if not kept:
        return max(_product_trace(summands[key], roots[key]) for key in summands)
    gram = np.block([[_inner(summands, roots, left, right) for right in kept] for left in kept])
    together = math.fsum(lowered_roots((gram + gram.T) / 2)) if gram.size else 0.0
    return max(together, *(_product_trace(summands[key], roots[key]) for key in summands))


def _product_trace(c: float, roots: Sequence[Floats]) -> float:
    return math.sqrt(c) * math.prod(math.fsum(lowered_roots(L @ L.T)) for L in roots)


def _inner(
    summands: dict[tuple[int, ...], float],
    roots: dict[tuple[int, ...], list[Floats]],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> Floats:
    work(OBJECT)
    found = np.full((1, 1), math.sqrt(summands[left] * summands[right]))
    for L, R in zip(roots[left], roots[right], strict=True):
        found = np.kron(found, L @ R.T)
    return found

"""The pseudo-inverse of one side, and quadratic forms of queries in it.

(T·B)⁺ = Aᵀ G⁻¹ with A = T·B and G = A Aᵀ on merged cells, held as coefficients of the basis's
Kronecker products. A quadratic form f (T·B)⁺ (T·B)⁺ᵀ gᵀ of two products of one term is then a
contraction of one attribute at a time, for all rows of the products at once.

f, g: rows of two products of a term, restricted to an attribute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from dhdmm.effort import borrow, work
from dhdmm.strategy.blocks import WHOLE, Block, Group, MeasuredAxis, Side
from dhdmm.strategy.contrast import NestedSums
from dhdmm.strategy.dyadic import Dyadic
from dhdmm.strategy.dyadic_inverse import DyadicInverse
from dhdmm.strategy.estimate import is_constant, on_merged, outer
from dhdmm.strategy.matrix import FLOAT, Floats, Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.tree import MOST_ENTRIES
from dhdmm.study.factor import Factor, Ranges, Rows, gram, group_sums, is_total
from dhdmm.study.workload import Product

FEW_ORBITS = 16
"""Parts of an attribute that are looked at one by one."""


@dataclass(frozen=True, eq=False)
class SideInverse:
    """(T·B)⁺ of one side, as coefficients of the basis's Kronecker products."""

    axes: tuple[MeasuredAxis, ...]
    side: Side

    @cached_property
    def groups(self) -> list[Group]:
        return list(self.side.groups(self.axes))

    @cached_property
    def cells(self) -> int:
        """Combinations of orbits that `tables` are over."""
        held = ([self.side.axes[i] for i in at] for at, _ in self.side.patterns(self.axes))
        return sum(math.prod(len(self.axes[a].sizes) for a in group) for group in held)

    @cached_property
    def _mixing(self) -> Floats:
        """T C: A's rows as combinations of Kronecker products, (r, products)."""
        return np.asarray(self.side.triangle.astype(np.float64) @ self.side.basis.written_out)

    @cached_property
    def _gram_root(self) -> Floats:
        """Lower triangular L with L Lᵀ = A Aᵀ."""
        products = len(self.side.basis.ids)
        borrow(4 * products**2)
        work(FLOAT * products**2 * (products + len(self.side.triangle)))
        inner = np.ones((products, products))
        for i, a in enumerate(self.side.axes):
            used, place = np.unique(self.side.basis.ids[:, i], return_inverse=True)
            vectors = self.axes[a].vectors[used].astype(np.float64)
            table = (vectors * self.axes[a].sizes) @ vectors.T
            inner *= table[np.ix_(place.ravel(), place.ravel())]
        return np.asarray(linalg.cholesky(self._mixing @ inner @ self._mixing.T, lower=True))

    @cached_property
    def inverse(self) -> Floats:
        """A⁺ = Aᵀ G⁻¹ as (products, r)."""
        half = linalg.solve_triangular(self._gram_root, self._mixing, lower=True)
        return np.asarray(linalg.solve_triangular(self._gram_root, half, lower=True, trans="T").T)

    @cached_property
    def tables(self) -> list[tuple[tuple[int, ...], Floats]]:
        """(T·B)⁺ per group, as a tensor (orbits of its axes…, r)."""
        return [
            (
                group.axes,
                (group.K.T @ self.inverse[group.products]).reshape(
                    *(len(self.axes[a].sizes) for a in group.axes), -1
                ),
            )
            for group in self.groups
        ]


AnyInverse = SideInverse | DyadicInverse


def inverse_of(axes: tuple[MeasuredAxis, ...], side: Side) -> AnyInverse:
    if isinstance(side.T, Dyadic):
        return DyadicInverse(side.axes[0], side.T)
    return SideInverse(axes, side)


class FactorPair:
    """Two products of one term, with what their factors yield on parts and orbits remembered."""

    def __init__(self, axes: tuple[MeasuredAxis, ...], left: Product, right: Product) -> None:
        self.axes = axes
        self.left = [on_merged(axis, f) for axis, f in zip(axes, left.factors, strict=True)]
        self.right = [on_merged(axis, f) for axis, f in zip(axes, right.factors, strict=True)]
        both = enumerate(zip(self.left, self.right, strict=True))
        self.asked = {a: pair for a, pair in both if not all(map(is_total, pair))}
        """Attributes with more than the total: of the others every share is 1."""
        self.long = [a for a, (f, _) in self.asked.items() if f.shape[0] > 1]
        """Attributes of which the products have several rows: an axis of the results each."""
        self.varying = frozenset(
            a for a, pair in self.asked.items() if not any(map(is_constant, pair))
        )

    def part(self, a: int, part: int) -> NestedSums:
        """What contrasts need to know of both factors."""
        axis, nest = self.axes[a], self.axes[a].nest(part)
        assert nest is not None
        if axis.tree.levels > 1 or (part != WHOLE and self._is_sparse(a)):
            level, orbit = divmod(part, len(axis.sizes))
            return NestedSums(nest.n, *(_column(sums, orbit) for sums in self._by_orbit(a, level)))
        return self._of_values(a, part, nest.n)

    @memoised
    def _of_values(self, a: int, part: int, n: int) -> NestedSums:
        """The same for one part where nothing is nested."""
        axis = self.axes[a]
        members = axis.part(part)
        f, g = (
            side[a] if len(members) == len(axis.orbit) else side[a].columns(members)
            for side in (self.left, self.right)
        )
        T, U, L, M = _totals(f), _totals(g), _lasts(f), _lasts(g)
        against_last = (T - n * L) * (U - n * M)
        return NestedSums(n, row_inner(f, g) - L * M, (T - L) * (U - M), against_last)

    def _is_sparse(self, a: int) -> bool:
        """Whether the parts of all orbits are better looked at together."""
        entries = self.left[a].nonzeros + self.right[a].nonzeros
        return len(self.axes[a].sizes) > FEW_ORBITS and entries <= 2 * MOST_ENTRIES * len(
            self.axes[a].orbit
        )

    @memoised
    def _by_orbit(self, a: int, level: int) -> list[sparse.csc_array]:
        """The sums of all orbits' parts of one level: (rows, orbits) each."""
        tree = self.axes[a].tree
        child = tree.order[tree.node_starts(level + 1)]  # a value below each
        home = tree.orbit[tree.order[tree.node_starts(level)]]
        n = tree.widths[level] // tree.widths[level + 1]
        number, last = tree.children(level)
        is_last = number[child] == last[child]
        node, below = tree.nodes(level)[child], _grouping(tree.nodes(level + 1))
        usual, last = _grouping(node, ~is_last), _grouping(node, is_last)
        both = []
        for factor in (self.left[a], self.right[a]):
            f = factor.to_sparse().astype(np.float64) @ below
            against = f @ usual - (f @ last) @ sparse.diags_array(n[home] - 1.0)
            both.append((f @ sparse.diags_array(np.where(is_last, 0.0, 1.0)), f @ usual, against))
        homes = tree.orbit[child], home, home
        return [
            sparse.csc_array(f.multiply(g) @ _grouping(orbit))
            for f, g, orbit in zip(*both, homes, strict=True)
        ]

    def meets(self, block: Block) -> bool:
        """Whether both products vary inside every residual's part."""
        return all(self.part(r.attribute, r.part).any for r in block.residuals)

    @memoised
    def total(self, a: int, is_left: bool) -> Floats:
        factor = (self.left if is_left else self.right)[a]
        return factor.dot(np.ones(factor.shape[1]))

    @memoised
    def orbit_rows(self, a: int, is_left: bool) -> Factor | Floats:
        """F summed over orbits: itself when every orbit is one value, else (rows, orbits)."""
        factor, axis = (self.left if is_left else self.right)[a], self.axes[a]
        if len(axis.sizes) == len(axis.orbit):
            return factor
        if self._is_sparse(a):
            return Rows(factor.to_sparse() @ _grouping(axis.orbit).astype(np.int64))
        return group_sums(factor, axis.orbit, len(axis.sizes)).astype(np.float64)

    def covariance(self, block: Block, sides: Sequence[AnyInverse]) -> Floats:
        """Row by row f (A'ᵀA')⁺ gᵀ on this block, shaped by the factors' rows."""
        result = outer((), np.ones(()), self._vectors(block), self.long)
        for side in sides:
            result = result * self._side(side)
        return result

    def total_covariance(self, block: Block, sides: Sequence[AnyInverse]) -> float:
        """The sum of `covariance` over all rows, without writing them out."""
        vectors = math.prod(float(vector.sum()) for vector in self._vectors(block).values())
        return vectors * math.prod(self._side_total(side) for side in sides)

    def _vectors(self, block: Block) -> dict[int, Floats]:
        """Of every attribute outside the sides: its share for each of its rows."""
        residuals = {r.attribute: r for r in block.residuals}
        found: dict[int, Floats] = {}
        for a in self.asked:
            if a in residuals:
                r = residuals[a]
                found[a] = r.contrast.pseudo_inverse_inner(self.part(a, r.part))
            elif a not in block.axes:
                found[a] = self._totals(a) / len(self.axes[a].orbit) ** 2
        return found

    @memoised
    def _totals(self, a: int) -> Floats:
        return self.total(a, True) * self.total(a, False)

    def _side_total(self, side: AnyInverse) -> float:
        """Σ_ij S_ij ∏_a v_iᵀ G_a v_j over Kronecker rows i, j, with S = (T·B)⁺ (T·B)⁺ᵀ."""
        if isinstance(side, DyadicInverse):
            return side.total(self.left[side.axis], self.right[side.axis])
        N = side.inverse
        if math.prod(self.left[a].shape[0] for a in side.side.axes) <= len(N):
            return float(np.sum(self._rows(side, True) * self._rows(side, False)))
        borrow(3 * len(N) ** 2)
        total = N @ N.T
        for i, a in enumerate(side.side.axes):
            used, place = np.unique(side.side.basis.ids[:, i], return_inverse=True)
            table = self._inner(a, self.axes[a].vectors[used].astype(np.float64))
            total *= table[np.ix_(place.ravel(), place.ravel())]
        return float(total.sum())

    def _inner(self, a: int, vectors: Floats) -> Floats:
        """v FᵀG wᵀ for vectors v, w over orbits."""
        if len(vectors) == vectors.shape[1] and np.array_equal(vectors, np.eye(len(vectors))):
            return self._gram(a)
        return np.asarray(vectors @ self._gram(a) @ vectors.T)

    @memoised
    def _gram(self, a: int) -> Floats:
        """FᵀG over orbits."""
        left, right = self.orbit_rows(a, True), self.orbit_rows(a, False)
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            return np.asarray(_dense(left).T @ _dense(right))
        return np.asarray(gram(left, right), np.float64)

    def _side(self, side: AnyInverse) -> Floats:
        """The side's share, with axes of length 1 for attributes outside it."""
        if isinstance(side, DyadicInverse):
            shares = side.covariance(self.left[side.axis], self.right[side.axis])
            return shares.reshape([-1 if a == side.axis else 1 for a in self.long])
        axes = side.side.axes
        rows = {a: self.left[a].shape[0] for a in axes}
        few = math.prod(rows.values()) * len(side.inverse) <= side.cells**2
        if few or any(isinstance(self.orbit_rows(a, True), Rows) for a in axes):
            both = self._rows(side, True) * self._rows(side, False)
            return np.asarray(both.sum(axis=1).reshape([rows.get(a, 1) for a in self.long]))
        total = np.zeros([1] * len(self.long))
        vectors = {a: self._totals(a) for a in axes}
        for left, right in itertools.product(side.tables, repeat=2):
            held, tensor = self._contract(left, right)
            total = total + outer(held, tensor, vectors, self.long)
        return total

    def _rows(self, side: SideInverse, is_left: bool) -> Floats:
        """f (T·B)⁺ for all rows f of the side's axes, (rows, r), without a table of cells."""
        found = np.ones((1, len(side.inverse)))
        for i, a in enumerate(side.side.axes):
            vectors = self.axes[a].vectors[side.side.basis.ids[:, i]].astype(np.float64)
            own = _dot(self.orbit_rows(a, is_left), vectors.T)
            borrow(3 * found.size * len(own))
            found = (found[:, None, :] * own[None, :, :]).reshape(-1, found.shape[1])
        work(FLOAT * found.size * side.inverse.shape[1])
        return np.asarray(found @ side.inverse)

    def _contract(
        self,
        left: tuple[tuple[int, ...], Floats],
        right: tuple[tuple[int, ...], Floats],
    ) -> tuple[tuple[int, ...], Floats]:
        """Contracts N_left N_rightᵀ with the rows of both sides, axis by axis."""
        (left_axes, N), (right_axes, M) = left, right
        entries = N.size * M.size / N.shape[-1] ** 2
        borrow(2 * entries)
        work(entries * (N.shape[-1] * FLOAT + 4))
        tensor = np.tensordot(N, M, axes=(-1, -1))
        open_left, open_right, done = list(left_axes), list(right_axes), list[int]()
        for a in sorted({*left_axes, *right_axes}, key=self._growth):
            if a in open_left and a in open_right:
                i, j = open_left.index(a), len(open_left) + open_right.index(a)
                tensor = np.moveaxis(tensor, (i, j), (0, 1))
                tensor = paired(self.orbit_rows(a, True), tensor, self.orbit_rows(a, False))
                open_left.remove(a)
                open_right.remove(a)
            else:
                is_left = a in open_left
                i = open_left.index(a) if is_left else len(open_left) + open_right.index(a)
                tensor = _dot(self.orbit_rows(a, is_left), np.moveaxis(tensor, i, 0))
                other = self.total(a, not is_left)
                tensor = tensor * other.reshape(-1, *[1] * (tensor.ndim - 1))
                (open_left if is_left else open_right).remove(a)
            tensor = np.moveaxis(tensor, 0, -1)
            done.append(a)
        return tuple(sorted(done)), tensor.transpose(np.argsort(done)) if done else tensor

    def _growth(self, a: int) -> float:
        return self.left[a].shape[0] / len(self.axes[a].sizes) ** 2


def _dot(rows: Factor | Floats, tensor: Floats) -> Floats:
    if isinstance(rows, np.ndarray):
        return np.tensordot(rows, tensor, axes=(1, 0))
    if isinstance(rows, Ranges) and len(rows.low) == 1:  # no running sums for a single one
        return np.asarray(tensor[rows.low[0] : rows.high[0]].sum(axis=0, keepdims=True))
    return rows.dot(tensor)


def paired(left: Factor | Floats, middle: Floats, right: Factor | Floats) -> Floats:
    """left[i]ᵀ middle right[i] for every row i; middle is (p, p, rest…) → (rows, rest…)."""
    if isinstance(left, Ranges) and isinstance(right, Ranges):
        area = np.zeros((left.size + 1, left.size + 1, *middle.shape[2:]))
        area[1:, 1:] = np.cumsum(np.cumsum(middle, axis=0), axis=1)
        upper = area[left.high, right.high] - area[left.low, right.high]
        return np.asarray(upper - area[left.high, right.low] + area[left.low, right.low])
    L, R = (np.asarray(_dense(side)) for side in (left, right))
    both, inverse = np.unique(np.concatenate([L, R], axis=1), axis=0, return_inverse=True)
    half = np.tensordot(both[:, : L.shape[1]], middle, axes=(1, 0))
    paired = np.einsum("iv,iv...->i...", both[:, L.shape[1] :], half)
    return np.asarray(paired[inverse.ravel()])


def _dense(rows: Factor | Floats) -> Floats:
    if isinstance(rows, np.ndarray):
        return rows
    return np.asarray(rows.to_sparse().toarray(), np.float64)


def _totals(factor: Factor) -> Floats:
    return factor.dot(np.ones(factor.shape[1]))


def _lasts(factor: Factor) -> Floats:
    last = np.zeros(factor.shape[1])
    last[-1] = 1
    return factor.dot(last)


def _grouping(number: Integers, held: NDArray[np.bool_] | None = None) -> sparse.csr_array:
    """(values, groups): adds up what has the same number; only what is held, if that is given."""
    entries = np.ones(len(number)) if held is None else held.astype(np.float64)
    shape = len(number), int(number.max()) + 1
    return sparse.csr_array((entries, (np.arange(len(number)), number)), shape=shape)


def _column(matrix: sparse.csc_array, column: int) -> Floats:
    found = np.zeros(matrix.shape[0])
    part = slice(matrix.indptr[column], matrix.indptr[column + 1])
    found[matrix.indices[part]] = matrix.data[part]
    return found


def row_inner(f: Factor, g: Factor) -> Floats:
    """Σ_u f_u g_u, row by row."""
    if isinstance(f, Ranges) and isinstance(g, Ranges):
        overlap = np.minimum(f.high, g.high) - np.maximum(f.low, g.low)
        return np.asarray(np.maximum(overlap, 0), np.float64)
    return np.asarray(f.to_sparse().multiply(g.to_sparse()).sum(axis=1), np.float64).ravel()

"""Integer bases of the vectors that sum to zero: what a residual measures.

E_n(p, q) = [ pI − qJ | −r·1 ] is (n−1, n) with r = p − q(n−1), so every row sums to zero. Then
E Eᵀ = p²I + cJ has the eigenvalues p² (n−2 times) and n r². All are equal, and E is a multiple of
an orthonormal basis, when p = q(n ± √n): a larger q approximates √n better with larger entries.

Values may be the leaves of a tree whose nodes of one level have equally many children. What sums to
zero over the n children of each of `outer` nodes, and is constant on the `inner` leaves below each
child, is measured by I ⊗ E_n ⊗ 1ᵀ. Values are numbered in the order of the tree.

n: children, the values where nothing is nested; p, q, r: the integers above; I, J: identity and
all-ones of order n−1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from dhdmm.strategy.matrix import Floats, Integers

SMALL_Q, LARGEST_Q = 6, 40
BALANCED, FEW = 1.02, 6


class Nest(NamedTuple):
    """One level of a tree: `outer` nodes with n children each, `inner` values below each child."""

    n: int
    outer: int = 1
    inner: int = 1

    @property
    def values(self) -> int:
        return self.outer * self.n * self.inner

    @property
    def rows(self) -> int:
        """Dimensions of the vectors that sum to zero over the children of each node."""
        return self.outer * (self.n - 1)


@dataclass(frozen=True, eq=False)
class NestedSums:
    """Of two rows f, g, added up below each child of each node, and over all nodes.

    T: the sum of a node's children, L: its last child.
    """

    n: int
    equal: Floats
    """Σ f g over the children but the last ones."""
    rest: Floats
    """Σ (T − L)_f (T − L)_g over the nodes."""
    against_last: Floats
    """Σ (T − nL)_f (T − nL)_g over the nodes."""

    @property
    def any(self) -> bool:
        """Whether both rows of some pair vary over the children of a node."""
        return bool(np.any((self.n - 1) * self.equal != self.rest) or np.any(self.against_last))


@dataclass(frozen=True)
class Contrast:
    """I ⊗ E_n(p, q) ⊗ 1ᵀ."""

    n: int
    p: int
    q: int
    outer: int = 1
    inner: int = 1

    @property
    def nest(self) -> Nest:
        return Nest(self.n, self.outer, self.inner)

    @property
    def rows(self) -> int:
        return self.nest.rows

    @property
    def r(self) -> int:
        return self.p - self.q * (self.n - 1)

    def columns(self, positions: Integers) -> Integers:
        """The matrix at these positions, 0 where a position is −1: (rows, positions).

        >>> Contrast(3, 5, 1).columns(np.array([0, 1, 2, -1])).tolist()
        [[4, -1, -3, 0], [-1, 4, -3, 0]]
        """
        node, child = self.digits(positions)
        found = np.zeros((self.outer, self.n - 1, len(positions)), np.int64)
        inside = np.flatnonzero(positions >= 0)
        last = child == self.n - 1
        found[node[inside], :, inside] = np.where(last[inside], -self.r, -self.q)[:, None]
        usual = np.flatnonzero((positions >= 0) & ~last)
        found[node[usual], child[usual], usual] += self.p
        return found.reshape(self.rows, len(positions))

    def digits(self, positions: Integers) -> tuple[Integers, Integers]:
        """The node that a position is below, and which of its children."""
        node, child = np.divmod(positions // self.inner, self.n)
        return node, child

    @property
    def largest(self) -> int:
        """max |entry|; only two rows or more have an entry −q."""
        others = self.q if self.n > 2 else 0
        return max(abs(self.p - self.q), others, abs(self.r))

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest entry, 0 included: they are the same in every row."""
        entries = self.p - self.q, -self.q if self.n > 2 else 0, -self.r, 0
        return min(entries), max(entries)

    def apply(self, Z: Integers, axis: int) -> Integers:
        """The matrix times Z along one axis, in O(size of Z)."""
        before, after = Z.shape[:axis], Z.shape[axis + 1 :]
        Z = Z.reshape(-1, self.n, self.inner, math.prod(after)).sum(axis=2)
        shared = self.q * Z[:, :-1].sum(axis=1, keepdims=True) + self.r * Z[:, -1:]
        return np.asarray(self.p * Z[:, :-1] - shared).reshape(*before, self.rows, *after)

    @cached_property
    def norms(self) -> tuple[int, int]:
        """Squared column norms: of every column but the last, and of the last."""
        usual = (self.p - self.q) ** 2 + (self.n - 2) * self.q**2
        return usual, (self.n - 1) * self.r**2

    @property
    def is_level(self) -> bool:
        """Whether no column is longer than the usual ones, so that the longest is known."""
        usual, last = self.norms
        return last <= usual

    @property
    def inner_products(self) -> tuple[int, int]:
        """Of the columns of two children of one node: neither is the last, or one is."""
        usual = -2 * self.q * (self.p - self.q) + (self.n - 3) * self.q**2
        return usual, -self.r * (self.p - self.q * (self.n - 1))

    @property
    def inverse_trace(self) -> float:
        """tr (E Eᵀ)⁻¹: the noise that a unit-variance measurement leaves."""
        one = (self.n - 2) / self.p**2 + 1 / (self.n * self.r**2)
        return one * self.outer / self.inner

    @property
    def largest_inverse(self) -> float:
        """values · max_u (EᵀE)⁺_uu: at least `inverse_trace`, equal for an orthonormal basis."""
        n, usual, last = self.n, 1 / self.p**2, 1 / (self.n * self.r**2)
        one = max(usual * (n - 2) / (n - 1) + last / (n * (n - 1)), last * (n - 1) / n)
        return n * one * self.outer / self.inner

    @property
    def imbalance(self) -> float:
        """(largest squared column norm) · tr (E Eᵀ)⁻¹ over that of an orthonormal basis: ≥ 1."""
        return max(self.norms) * self.inverse_trace * self.nest.values / self.rows**2

    def pseudo_inverse_inner(self, sums: NestedSums) -> Floats:
        """fᵀ (EᵀE)⁺ g, row by row, from sums over the children alone.

        EᵀE has the eigenvalue p² on vectors that sum to zero over all children but the last, and
        n r² on (1, …, 1, 1 − n).
        """
        n = self.n
        zero_sum = sums.equal - sums.rest / (n - 1)
        one = zero_sum / self.p**2 + sums.against_last / (n**2 * (n - 1) * self.r**2)
        return np.asarray(one / self.inner**2)

    def apply_pseudo_inverse(self, Y: Floats, axis: int) -> Floats:
        """E⁺ Y = Eᵀ (E Eᵀ)⁻¹ Y along one axis, in O(size of Y)."""
        before, after = Y.shape[:axis], Y.shape[axis + 1 :]
        Y = Y.reshape(-1, self.n - 1, math.prod(after))
        shared = (1 / (self.n * self.r**2) - 1 / self.p**2) / (self.n - 1)
        Z = Y / self.p**2 + shared * Y.sum(axis=1, keepdims=True)
        sums = Z.sum(axis=1, keepdims=True)
        X = np.concatenate([self.p * Z - self.q * sums, -self.r * sums], axis=1) / self.inner
        return np.repeat(X[:, :, None], self.inner, axis=2).reshape(*before, -1, *after)


@lru_cache(maxsize=4096)
def contrasts(nest: Nest) -> tuple[Contrast, ...]:
    """Candidates of growing entries: all small ones, so that some multiple of one fits any scale,
    and of the larger ones those that are better balanced than every one before."""
    n, outer, inner = nest
    assert n >= 2
    if n == 2:
        return (Contrast(2, 2, 1, outer, inner),)
    found: list[Contrast] = []
    for q in range(1, LARGEST_Q + 1):
        for sign in (-1, 1):
            candidate = Contrast(n, round(q * (n + sign * math.sqrt(n))), q, outer, inner)
            if math.gcd(candidate.p, q) != 1 or candidate.r == 0:
                continue
            if q <= SMALL_Q or candidate.imbalance < min(c.imbalance for c in found):
                found.append(candidate)
    return tuple(sorted(found, key=lambda contrast: contrast.p))


def level(candidates: Sequence[Contrast]) -> Sequence[Contrast]:
    """Those of which the last column is not the longest; all if there is none."""
    return tuple(c for c in candidates if c.is_level) or candidates


@lru_cache(maxsize=4096)
def well_balanced(nest: Nest) -> tuple[Contrast, ...]:
    """The few smallest candidates within BALANCED of a multiple of an orthonormal basis."""
    good = [contrast for contrast in contrasts(nest) if contrast.imbalance <= BALANCED]
    return tuple(good[:FEW]) or (min(contrasts(nest), key=lambda contrast: contrast.imbalance),)

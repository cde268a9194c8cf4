"""Integer bases of the vectors that sum to zero: what a residual measures.

E_n(p, q) = [ pI − qJ | −r·1 ] is (n−1, n) with r = p − q(n−1), so every row sums to zero. Then
E Eᵀ = p²I + cJ has the eigenvalues p² (n−2 times) and n r². All are equal, and E is a multiple of
an orthonormal basis, when p = q(n ± √n): a larger q approximates √n better with larger entries.

n: values; p, q, r: the integers above; I, J: identity and all-ones of order n−1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dhdmm.strategy.matrix import Floats, Integers

SMALL_Q, LARGEST_Q = 6, 40
BALANCED, FEW = 1.02, 6


@dataclass(frozen=True, eq=False)
class RowSums:
    """Of every row f of a matrix: Σ f and the last entry."""

    total: Floats
    last: Floats


@dataclass(frozen=True)
class Contrast:
    """E_n(p, q)."""

    n: int
    p: int
    q: int

    @property
    def r(self) -> int:
        return self.p - self.q * (self.n - 1)

    def columns(self, positions: Integers) -> Integers:
        """E at these positions, 0 where a position is −1: (n−1, positions).

        >>> Contrast(3, 5, 1).columns(np.array([0, 1, 2, -1])).tolist()
        [[4, -1, -3, 0], [-1, 4, -3, 0]]
        """
        found = np.full((self.n - 1, len(positions)), -self.q)
        usual = np.flatnonzero((positions >= 0) & (positions < self.n - 1))
        found[positions[usual], usual] += self.p
        found[:, positions == self.n - 1] = -self.r
        found[:, positions < 0] = 0
        return found

    @property
    def largest(self) -> int:
        """max |entry|; only two rows or more have an entry −q."""
        others = self.q if self.n > 2 else 0
        return max(abs(self.p - self.q), others, abs(self.r))

    def apply(self, Z: Integers, axis: int) -> Integers:
        """E Z along one axis, in O(size of Z)."""
        before, after = Z.shape[:axis], Z.shape[axis + 1 :]
        Z = Z.reshape(math.prod(before), self.n, -1)
        shared = self.q * Z[:, :-1].sum(axis=1, keepdims=True) + self.r * Z[:, -1:]
        return np.asarray(self.p * Z[:, :-1] - shared).reshape(*before, self.n - 1, *after)

    @property
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
    def inner(self) -> tuple[int, int]:
        """Inner products of two different columns: neither is the last, or one is."""
        usual = -2 * self.q * (self.p - self.q) + (self.n - 3) * self.q**2
        return usual, -self.r * (self.p - self.q * (self.n - 1))

    @property
    def inverse_trace(self) -> float:
        """tr (E Eᵀ)⁻¹: the noise that a unit-variance measurement of E leaves."""
        return (self.n - 2) / self.p**2 + 1 / (self.n * self.r**2)

    @property
    def largest_inverse(self) -> float:
        """n · max_u (EᵀE)⁺_uu: no less than `inverse_trace`, and equal for an orthonormal basis."""
        n, usual, last = self.n, 1 / self.p**2, 1 / (self.n * self.r**2)
        return n * max(usual * (n - 2) / (n - 1) + last / (n * (n - 1)), last * (n - 1) / n)

    @property
    def imbalance(self) -> float:
        """(largest squared column norm) · tr (E Eᵀ)⁻¹ over that of an orthonormal basis: ≥ 1."""
        return max(self.norms) * self.inverse_trace * self.n / (self.n - 1) ** 2

    def pseudo_inverse_inner(self, f: RowSums, g: RowSums, product: Floats) -> Floats:
        """fᵀ (EᵀE)⁺ g, row by row, from sums alone; `product` is Σ f g over all n values.

        With y = E f, z = E g this is yᵀ (E Eᵀ)⁻² z, and (E Eᵀ)⁻² = I/p⁴ + shared·J.
        """
        n, p = self.n, self.p
        f_rest, g_rest = f.total - f.last, g.total - g.last
        f_mean, g_mean = (self.q * s.total + (self.r - self.q) * s.last for s in (f, g))
        y_sum, z_sum = p * f_rest - (n - 1) * f_mean, p * g_rest - (n - 1) * g_mean
        rest = product - f.last * g.last
        yz = p * p * rest - p * (f_mean * g_rest + g_mean * f_rest) + (n - 1) * f_mean * g_mean
        shared = (1 / (n * self.r**2) ** 2 - 1 / p**4) / (n - 1)
        return np.asarray(yz / p**4 + shared * y_sum * z_sum)

    def apply_pseudo_inverse(self, Y: Floats, axis: int) -> Floats:
        """E⁺ Y = Eᵀ (E Eᵀ)⁻¹ Y along one axis, in O(size of Y)."""
        before, after = Y.shape[:axis], Y.shape[axis + 1 :]
        Y = Y.reshape(math.prod(before), self.n - 1, -1)
        shared = (1 / (self.n * self.r**2) - 1 / self.p**2) / (self.n - 1)
        Z = Y / self.p**2 + shared * Y.sum(axis=1, keepdims=True)
        sums = Z.sum(axis=1, keepdims=True)
        X = np.concatenate([self.p * Z - self.q * sums, -self.r * sums], axis=1)
        return np.asarray(X).reshape(*before, self.n, *after)


@lru_cache(maxsize=4096)
def contrasts(n: int) -> tuple[Contrast, ...]:
    """Candidates of growing entries: all small ones, so that some multiple of one fits any scale,
    and of the larger ones those that are better balanced than every one before."""
    assert n >= 2
    if n == 2:
        return (Contrast(2, 2, 1),)
    found: list[Contrast] = []
    for q in range(1, LARGEST_Q + 1):
        for sign in (-1, 1):
            candidate = Contrast(n, round(q * (n + sign * math.sqrt(n))), q)
            if math.gcd(candidate.p, q) != 1 or candidate.r == 0:
                continue
            if q <= SMALL_Q or candidate.imbalance < min(c.imbalance for c in found):
                found.append(candidate)
    return tuple(sorted(found, key=lambda contrast: contrast.p))


def level(candidates: Sequence[Contrast]) -> Sequence[Contrast]:
    """Those of which the last column is not the longest; all if there is none."""
    return tuple(c for c in candidates if c.is_level) or candidates


@lru_cache(maxsize=4096)
def well_balanced(n: int) -> tuple[Contrast, ...]:
    """The few smallest candidates within BALANCED of a multiple of an orthonormal basis."""
    good = [contrast for contrast in contrasts(n) if contrast.imbalance <= BALANCED]
    return tuple(good[:FEW]) or (min(contrasts(n), key=lambda contrast: contrast.imbalance),)

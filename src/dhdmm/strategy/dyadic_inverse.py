"""Answers from a measurement of A' = T·H, and their variances, by sparse vectors alone.

The sum over the values before the middle of an interval is half of what it is at both its ends
together, and half of the interval's row of H. So with the rows t of T⁻¹ the vectors y_v = p_v A'⁻¹,
p_v the sum over all values before v, follow from each other, wide intervals first:

    y_0 = 0,   y_n = t_total,   y_middle = (y_low + y_high + t_interval) / 2.

T couples a row with wider ones near it only, so that y has a few entries for every level. The
variance of a range is |y_high − y_low|².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from dhdmm.effort import borrow, work
from dhdmm.strategy.dyadic import Dyadic
from dhdmm.strategy.matrix import FLOAT, Floats, Integers
from dhdmm.study.factor import Factor, Ranges

TOGETHER = 2**15
"""Rows of queries that are looked at at once."""
LARGEST_TABLE = 2**25
"""Covariances of pairs of sums that are written out."""


@dataclass(frozen=True, eq=False)
class DyadicInverse:
    """A'⁻¹ of a side over one long attribute, each of whose values is an orbit."""

    axis: int
    matrix: Dyadic

    @cached_property
    def _groups(self) -> list[Integers]:
        """Rows in an order in which each needs earlier ones only, those together that meet none."""
        levels = reversed(self.matrix.halves.levels)
        pairs = (self.matrix.halves.groups(m) for m in levels)
        return [group for even, odd in pairs for group in (odd, even) if len(group)]

    def solve(self, measurement: Floats) -> Floats:
        """A'⁻¹ M, (n,)."""
        T, diagonal = self.matrix.T.astype(np.float64), self.matrix.diagonal
        z = np.zeros(len(self.matrix))
        for group in self._groups:
            z[group] = (measurement[group] - T[group] @ z) / diagonal[group]
        return self.matrix.halves.inverse_transform(z)

    @cached_property
    def _inverse(self) -> sparse.csr_array:
        """T⁻¹, its rows in the order of `_groups`, its columns as those of T."""
        T, n = self.matrix.T.astype(np.float64), len(self.matrix)
        order = np.concatenate(self._groups)
        found, start = sparse.csr_array((0, n)), 0
        for group in self._groups:
            earlier = T[group][:, order[:start]]
            one = sparse.csr_array(
                (np.ones(len(group)), (range(len(group)), group)), (len(group), n)
            )
            work(FLOAT * 200 * earlier.nnz)
            rows = sparse.diags_array(1 / self.matrix.diagonal[group]) @ (one - earlier @ found)
            found = sparse.csr_array(sparse.vstack([found, rows], format="csr"))
            start += len(group)
        back = np.empty(n, np.int64)
        back[order] = np.arange(n)
        return sparse.csr_array(found[back])

    @cached_property
    def _sums(self) -> sparse.csr_array:
        """y_v for v = 0 … n, (n + 1, n)."""
        halves, inverse = self.matrix.halves, self._inverse
        borrow(4 * halves.entries)
        place = np.zeros(halves.n + 1, np.int64)
        place[halves.n] = 1
        found = sparse.vstack([sparse.csr_array((1, halves.n)), inverse[[-1]]], format="csr")
        for m in range(halves.top - 1, 0, -1):
            k = np.arange(halves.counts[m])
            low, high = k << m, np.minimum((k + 1) << m, halves.n)
            rows = inverse[halves.starts[m] + k] + found[place[low]] + found[place[high]]
            place[low + (1 << (m - 1))] = found.shape[0] + k
            found = sparse.vstack([found, rows / 2], format="csr")
        return sparse.csr_array(found[place])

    def _rows(self, factor: Factor) -> sparse.csr_array:
        """F A'⁻¹."""
        if isinstance(factor, Ranges):
            return sparse.csr_array(self._sums[factor.high] - self._sums[factor.low])
        return sparse.csr_array(factor.matrix @ (self._sums[1:] - self._sums[:-1]))

    def covariance(self, left: Factor, right: Factor) -> Floats:
        """f A'⁻¹ A'⁻ᵀ gᵀ for every row f of one factor and g of the other, row by row."""
        n, rows = len(self.matrix), left.shape[0]
        is_cheaper = 4 * n < rows and (n + 1) ** 2 <= LARGEST_TABLE
        if is_cheaper and isinstance(left, Ranges) and isinstance(right, Ranges):
            return self._looked_up(left, right)
        found = []
        for start in range(0, rows, TOGETHER):
            part = np.arange(start, min(start + TOGETHER, rows))
            work(100 * len(part) * self.matrix.halves.top * self.matrix.halves.width)
            one, other = self._rows(left.take(part)), self._rows(right.take(part))
            found.append(np.asarray(one.multiply(other).sum(axis=1)).ravel())
        return np.concatenate(found)

    def _looked_up(self, left: Ranges, right: Ranges) -> Floats:
        """The same from the covariances of all pairs of sums."""
        borrow(2 * (len(self.matrix) + 1) ** 2)
        Y = self._sums.toarray()
        C = Y @ Y.T
        upper = C[left.high, right.high] - C[left.low, right.high]
        return np.asarray(upper - C[left.high, right.low] + C[left.low, right.low])

    def total(self, left: Factor, right: Factor) -> float:
        """The sum of `covariance` over all rows: Σ_vw L_vw y_v y_w, L counting ends of ranges."""
        if not (isinstance(left, Ranges) and isinstance(right, Ranges)):
            return float(self.covariance(left, right).sum())
        n = len(self.matrix)
        if left is right and left.is_every:
            # each pair of n + 1 bounds once: (n + 1) Σ |y_v|² − |Σ y_v|²
            squares = float(self._sums.multiply(self._sums).sum())
            return (n + 1) * squares - float(np.square(self._sums.sum(axis=0)).sum())
        return float(self.covariance(left, right).sum())

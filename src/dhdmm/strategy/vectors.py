"""The integer vectors of one axis, numbered: what the rows of a basis are products of."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dhdmm.effort import allocate, borrow
from dhdmm.strategy.matrix import Integers, independent_rows, primitive
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.symmetry import ReducedAxis
from dhdmm.study.factor import Factor, Ranges, group_sums

CHUNK = 1024
"""Candidate rows looked at together."""


def common_vectors(orbits: int) -> Integers:
    """Vectors that every axis has: all ones (number 0), then one per orbit."""
    found = np.eye(orbits + 1, orbits, -1, np.int64)
    found[0] = 1
    return found


@dataclass(eq=False)
class VectorBook:
    """Numbers the integer vectors of one axis, over its orbits, after the common ones."""

    axis: ReducedAxis
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _rows: list[Integers] = field(default_factory=list)

    def __post_init__(self) -> None:
        allocate(2 * len(self.axis.sizes) ** 2)
        for row in common_vectors(len(self.axis.sizes)):
            self._numbers.setdefault(row.tobytes(), len(self._rows))
            self._rows.append(row)

    def number(self, vector: Integers) -> int:
        key = np.ascontiguousarray(vector, np.int64).tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._rows)
            self._rows.append(np.asarray(vector, np.int64))
        return self._numbers[key]

    @property
    def vectors(self) -> Integers:
        return np.stack(self._rows)

    @property
    def extra(self) -> Integers:
        """The vectors after the common ones."""
        return self.vectors[len(self.axis.sizes) + 1 :]

    def means(self, factor: Factor) -> Integers:
        """Rows of F averaged over orbits, times the orbits' common multiple: (rows, orbits)."""
        borrow(3 * factor.shape[0] * len(self.axis.sizes))
        multiple = math.lcm(*(int(size) for size in self.axis.sizes))
        sums = group_sums(factor, self.axis.orbit, len(self.axis.sizes))
        return np.asarray(sums * (multiple // self.axis.sizes))

    @memoised
    def spanning(self, index: int) -> Integers:
        """Numbers of sparse independent vectors that span factor `index` on the trivial part."""
        size = len(self.axis.sizes)
        units = independent = np.eye(size, dtype=np.int64)
        if not self._holds_every_orbit(index):
            independent = independent_rows(self._sparse_first(index), size)
        if len(independent) == size:
            independent = units
        return np.array([self.number(row) for row in independent], np.int64)

    def _holds_every_orbit(self, index: int) -> bool:
        """Whether of each orbit some row holds one value alone, so that the rank is known."""
        factor, orbit = self.axis.factors[index], self.axis.orbit
        if isinstance(factor, Ranges):
            alone = factor.low[factor.high - factor.low == 1]
        else:
            held = np.diff(factor.matrix.indptr)
            alone = factor.matrix.indices[factor.matrix.indptr[:-1][held == 1]]
        return len(np.unique(orbit[alone])) == len(self.axis.sizes)

    @memoised
    def varies(self, index: int) -> bool:
        """Whether the rows of a factor are more than multiples of 1 on the trivial part."""
        rows = self.means(self.axis.factors[index])
        return bool(np.any(rows != rows[:, :1]))

    @memoised
    def has_total(self, index: int) -> bool:
        """Whether some row of a factor does not sum to zero."""
        return bool(np.any(self.means(self.axis.factors[index]) @ self.axis.sizes))

    def splits(self, index: int) -> bool:
        """Whether the total and zero-sum vectors span the rows of a factor: it sees both or one."""
        apart = int(self.has_total(index)) + len(self.zero_sum_spanning((index,)))
        return len(self.spanning(index)) == apart

    @memoised
    def commutes(self, pair: tuple[int, int]) -> bool:
        """Whether 1 is an eigenvector of a Gram, with equal weight for all merged values."""
        rows = self.axis.summed[pair].sum(axis=1)
        return bool(np.all(rows * self.axis.sizes[0] == rows[0] * self.axis.sizes))

    @memoised
    def zero_sum_spanning(self, indices: tuple[int, ...]) -> Integers:
        """The same for the rows of some factors minus their means over all merged values."""
        sizes = self.axis.sizes
        centred = (
            primitive(sizes.sum() * rows - (rows @ sizes)[:, None])
            for index in indices
            for rows in self._sparse_first(index)
        )
        independent = independent_rows(centred, len(sizes), stop=len(sizes) - 1)
        if len(independent) == len(sizes) - 1:
            independent = np.diag(np.full(len(sizes), sizes[-1]))[:-1]
            independent[:, -1] = -sizes[:-1]
            independent = primitive(independent)
        return np.array([self.number(row) for row in independent], np.int64)

    def _primitive_means(self, factor: Factor) -> Integers:
        """The same, each row over what its own entries have in common."""
        borrow(5 * factor.shape[0] * len(self.axis.sizes))
        sums = group_sums(factor, self.axis.orbit, len(self.axis.sizes))
        common = np.gcd(sums, self.axis.sizes)  # where a sum is 0 this is the size
        multiple = np.lcm.reduce(self.axis.sizes // common, axis=1)
        return primitive(sums // common * (multiple[:, None] // (self.axis.sizes // common)))

    def _different(self, factor: Factor, order: Integers) -> Integers:
        """Where rows in this order have sums over orbits that none before them has."""
        size = len(self.axis.sizes)
        if size == len(self.axis.orbit):
            return np.arange(len(order))
        borrow(3 * factor.shape[0] + 3 * factor.shape[1])
        digest = hashlib.shake_256(b"dhdmm row sums").digest(16 * size)
        random = np.frombuffer(digest, "<i8").reshape(size, 2)
        prints = factor.dot(random[self.axis.orbit])[order]
        return np.sort(np.unique(prints, axis=0, return_index=True)[1])

    def _sparse_first(self, index: int) -> Iterator[Integers]:
        factor = self.axis.factors[index]
        if isinstance(factor, Ranges):
            weight = factor.high - factor.low
        else:
            weight = np.diff(factor.matrix.indptr)
        order = np.argsort(weight, kind="stable")
        order = order[self._different(factor, order)]
        for start in range(0, len(order), CHUNK):
            rows = self._primitive_means(factor.take(order[start : start + CHUNK]))
            yield rows[np.argsort(np.count_nonzero(rows, axis=1), kind="stable")]

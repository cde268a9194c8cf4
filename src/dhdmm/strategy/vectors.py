"""The integer vectors of one axis, numbered: what the rows of a basis are products of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
        """Whether each orbit is a value that some row holds alone, so that the rank is known."""
        factor, size = self.axis.factors[index], len(self.axis.orbit)
        if not isinstance(factor, Ranges) or len(self.axis.sizes) < size:
            return False
        return len(np.unique(factor.low[factor.high - factor.low == 1])) == size

    def zero_sum_spanning(self, indices: Sequence[int]) -> Integers:
        """The same for the rows of some factors minus their means over all merged values."""
        size = len(self.axis.orbit)
        centred = (
            primitive(size * rows - rows @ np.ones((size, size), np.int64))
            for index in indices
            for rows in self._sparse_first(index)
        )
        independent = independent_rows(centred, size, stop=size - 1)
        if len(independent) == size - 1:
            eye = np.eye(size, dtype=np.int64)
            independent = eye[:-1] - eye[-1]
        return np.array([self.number(row) for row in independent], np.int64)

    def _primitive_means(self, factor: Factor) -> Integers:
        """The same, each row over what its own entries have in common."""
        borrow(5 * factor.shape[0] * len(self.axis.sizes))
        sums = group_sums(factor, self.axis.orbit, len(self.axis.sizes))
        common = np.gcd(sums, self.axis.sizes)  # where a sum is 0 this is the size
        multiple = np.lcm.reduce(self.axis.sizes // common, axis=1)
        return primitive(sums // common * (multiple[:, None] // (self.axis.sizes // common)))

    def _sparse_first(self, index: int) -> Iterator[Integers]:
        factor = self.axis.factors[index]
        if isinstance(factor, Ranges):
            weight = factor.high - factor.low
        else:
            weight = np.diff(factor.matrix.indptr)
        order = np.argsort(weight, kind="stable")
        for start in range(0, len(order), CHUNK):
            rows = self._primitive_means(factor.take(order[start : start + CHUNK]))
            yield rows[np.argsort(np.count_nonzero(rows, axis=1), kind="stable")]

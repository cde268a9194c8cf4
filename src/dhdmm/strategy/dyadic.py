"""Square integer matrices A' = T·H for long attributes: H halves the values, T is sparse.

A row of H is the sum over the left half of an interval minus that over its right half, one for each
interval [k·2^m, (k+1)·2^m) whose right half holds a value; the last row is the total. So H has n
rows, is invertible for every n, and takes additions only. T mixes a row with those of wider
intervals *near* it: the ones that hold the interval and `reach` neighbours on both sides. With rows
of even k before odd ones T is triangular, so it is invertible if its diagonal has no zero.

Everything here costs about n · log n · reach; A' itself is dense and never written out.

m: level, 1 … L and L + 1 for the total; k: place of an interval among those of its level;
o: place of a wider interval relative to the one that holds k's; S: TᵀT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import Exact, Floats, Integers

if TYPE_CHECKING:
    from scipy import sparse

LARGEST_REACH = 5
Numbers = NDArray[Any]


def require_few_values(values: int) -> None:
    """For an error before anything is computed."""
    most = sizes.VALUES_BY_HALVES
    if values > most:
        raise StrategyError(
            f"ranges of {values:,} values are asked for, and up to {most:,} can be",
            hint="bin the attribute",
        )


@dataclass(frozen=True)
class Halves:
    """The intervals of n values, and which are near each other."""

    n: int
    reach: int

    @cached_property
    def top(self) -> int:
        """The level of the total."""
        return (self.n - 1).bit_length() + 1

    @property
    def levels(self) -> range:
        return range(1, self.top + 1)

    @cached_property
    def counts(self) -> list[int]:
        """Intervals of every level, by its number."""
        halves = [(self.n + 2**m // 2 - 1) // 2**m for m in range(1, self.top)]
        return [0, *halves, 1]

    @cached_property
    def starts(self) -> list[int]:
        """The first row of every level, by its number."""
        return [0, *np.cumsum([0, *self.counts[1:]]).tolist()]

    @property
    def width(self) -> int:
        return 2 * self.reach + 1

    def shape(self, level: int) -> tuple[int, int, int]:
        """Of the entries of a level's rows: (levels from it on, o, k)."""
        return self.top + 1 - level, self.width, self.counts[level]

    def places(self, level: int, wider: int, o: int) -> tuple[Integers, NDArray[np.bool_]]:
        """For every k its neighbour o on a wider level, and whether there is an entry."""
        k = np.arange(self.counts[level])
        found = (k >> (wider - level)) + o
        inside = (found >= 0) & (found < self.counts[wider])
        if wider == level and o:
            inside &= (k % 2 == 0) & (abs(o) == 1)
        return found, inside

    def slots(self, level: int) -> Iterator[tuple[int, int, Integers, NDArray[np.bool_]]]:
        """(level, o + reach, places, whether there is an entry) of everything near its rows."""
        for wider in range(level, self.top + 1):
            for i in range(self.width):
                yield wider, i, *self.places(level, wider, i - self.reach)

    @cached_property
    def entries(self) -> int:
        """At most so many numbers does T have."""
        return sum(int(np.prod(self.shape(m))) for m in self.levels)

    def groups(self, level: int) -> tuple[Integers, Integers]:
        """Rows of a level that do not meet: those of even k, which come first, and of odd k."""
        rows = self.starts[level] + np.arange(self.counts[level])
        return rows[::2], rows[1::2]

    def transform(self, x: Numbers) -> Numbers:
        """H x."""
        sums = np.zeros(2 ** (self.top - 1), x.dtype)
        sums[: self.n] = x
        found = []
        for m in range(1, self.top):
            left, right = sums[::2], sums[1::2]
            found.append((left - right)[: self.counts[m]])
            sums = left + right
        return np.concatenate([*found, sums])

    def inverse_transform(self, z: Floats) -> Floats:
        """H⁻¹ z."""
        sums = z[-1:]
        for m in range(self.top - 1, 0, -1):
            differences = sums.copy()  # of an interval without a right half
            differences[: self.counts[m]] = z[self.starts[m] : self.starts[m] + self.counts[m]]
            sums = np.stack([sums + differences, sums - differences], axis=1).ravel() / 2
        return sums[: self.n]

    def signs(self, values: Integers, level: int) -> Integers:
        """H at these values: its only row of a level that is not 0 there, and 1 or −1."""
        return 1 - 2 * ((values >> (level - 1)) & 1)


@dataclass(frozen=True, eq=False)
class Dyadic:
    """A' = T·H, by the entries of T."""

    halves: Halves
    rows: tuple[Numbers, ...]
    """Of every level (levels from it on, o, k), zero where there is no entry; integers, or real
    numbers before they are rounded."""

    def __len__(self) -> int:
        return self.halves.n

    def __mul__(self, factor: int) -> Dyadic:
        return Dyadic(self.halves, tuple(entries * factor for entries in self.rows))

    @cached_property
    def diagonal(self) -> Numbers:
        return np.concatenate([entries[0, self.halves.reach] for entries in self.rows])

    @cached_property
    def T(self) -> sparse.csr_array:
        """Rows by level, narrow ones first."""
        from scipy import sparse

        halves = self.halves
        allocate(3 * halves.entries)
        row, column, value = [], [], []
        for m, entries in zip(halves.levels, self.rows, strict=True):
            for wider, i, place, inside in halves.slots(m):
                row.append(halves.starts[m] + np.flatnonzero(inside))
                column.append(halves.starts[wider] + place[inside])
                value.append(entries[wider - m, i, inside])
        n = halves.n
        placed = np.concatenate(value), (np.concatenate(row), np.concatenate(column))
        return sparse.csr_array(placed, shape=(n, n))

    def apply(self, x: Integers) -> Integers:
        """A' x, exact if it fits into 63 bits."""
        return np.asarray(self.T @ self.halves.transform(x))

    def columns(self, values: Integers) -> Integers:
        """A' at these values, (n, values)."""
        borrow(3 * len(values) * len(self))
        work(2 * len(values) * (self.halves.entries + len(self)))
        units = np.zeros((len(self), len(values)), np.int64)
        for i, value in enumerate(values):
            one = np.zeros(self.halves.n, np.int64)
            one[value] = 1
            units[:, i] = self.halves.transform(one)
        return np.asarray(self.T @ units)

    @cached_property
    def largest(self) -> int:
        """At least max |entry| of A': the largest row of |T|, a value being in one per level."""
        totals = [np.abs(entries).max(axis=1).sum(axis=0).max(initial=0) for entries in self.rows]
        return int(max(totals))

    @cached_property
    def squared_norms(self) -> Exact:
        """(n,): of every column of A', Σ S_jk H_ju H_ku; exact for integers."""
        halves, values = self.halves, np.arange(self.halves.n)
        if self.rows[0].dtype == np.int64 and self.largest**2 * 4 * halves.n >= 2**62:
            raise StrategyError("the strategy's entries are too large to be squared")
        borrow(2 * len(values) * halves.top)
        work(4 * len(values) * halves.top**2)
        norms = np.zeros(halves.n, self.rows[0].dtype)
        for m in halves.levels:
            place = values >> m
            inside = place < halves.counts[m]
            place, sign = place[inside], halves.signs(values[inside], m)
            for wider, shared in self._inner(m):
                twice = 1 if wider == m else 2 * sign * halves.signs(values[inside], wider)
                norms[inside] += twice * shared[place]
        return norms

    def _inner(self, level: int) -> Iterator[tuple[int, Numbers]]:
        """S_jk for every j of a level and the k that holds it on each wider level."""
        halves, r = self.halves, self.halves.reach
        found = np.zeros((halves.top + 1 - level, halves.counts[level]), self.rows[0].dtype)
        for m in range(1, level + 1):
            entries, k = self.rows[m - 1], np.arange(halves.counts[m])
            work(2 * OBJECT + 8 * entries.size)
            for i in range(halves.width):
                j, inside = halves.places(m, level, i - r)
                own = np.where(inside, entries[level - m, i], 0)
                for wider in range(level, halves.top + 1):
                    o = (j >> (wider - level)) - (k >> (wider - m)) + r
                    near = inside & (o >= 0) & (o < halves.width)
                    other = entries[wider - m, np.clip(o, 0, halves.width - 1), k]
                    products = np.where(near, own * other, 0)
                    _add_by_place(found[wider - level], i - r, products, level - m)
        yield from enumerate(found, start=level)


def _add_by_place(total: Numbers, o: int, values: Numbers, shift: int) -> None:
    """Adds value k at (k >> shift) + o, where that exists."""
    sums = np.add.reduceat(values, np.arange(0, len(values), 2**shift))
    low, high = max(0, o), min(len(total), o + len(sums))
    if low < high:
        total[low:high] += sums[low - o : high - o]

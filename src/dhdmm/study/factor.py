"""One attribute's part of a term: an integer matrix whose rows are predicates and columns values.

Two forms, because "all ranges of 1,024 values" has half a million rows, never to be written out:

- `Ranges`: row i is 1 on [low_i, high_i): totals, single values, bins, prefixes, windows;
- `Rows`:   a sparse integer matrix: any other set of values, and signed or counted entries.

F is (rows, size); products with it cost O(rows + size) for ranges and O(nonzeros) for rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate, borrow
from dhdmm.errors import StudyError

if TYPE_CHECKING:
    from scipy import sparse

Array = NDArray[Any]
Integers = NDArray[np.int64]

LARGEST_WRITTEN = 20_000_000
"""Entries of a factor that a condition may force to be written out (about 320 MB)."""
MOST_LISTED = 2**14
"""Values all of whose ranges are listed: 134 million."""
DENSE_BLOCK = 2**22
"""Entries of a dense matrix that are looked at together."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Row i is the indicator of values low_i ≤ v < high_i, of none when low_i = high_i.

    >>> Ranges.prefixes(3).to_sparse().toarray().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    low: Integers
    high: Integers
    size: int

    def __post_init__(self) -> None:
        assert self.low.shape == self.high.shape
        assert np.all((self.low >= 0) & (self.low <= self.high) & (self.high <= self.size))

    @classmethod
    @lru_cache(2**10)  # tables of many attributes have a million of them
    def total(cls, size: int) -> Ranges:
        ends = np.array([0, size], np.int64)
        ends.flags.writeable = False
        return cls(ends[:1], ends[1:], size)

    @classmethod
    def each(cls, size: int) -> Ranges:
        """One row per value: the identity matrix."""
        allocate(2 * size)
        values = np.arange(size)
        return cls(values, values + 1, size)

    @classmethod
    def prefixes(cls, size: int) -> Ranges:
        allocate(2 * size)
        return cls(np.zeros(size, np.int64), np.arange(1, size + 1), size)

    @classmethod
    def all(cls, size: int) -> Ranges:
        """Every interval, shortest start first: size·(size+1)/2 rows."""
        if size > MOST_LISTED:
            return UnlistedRanges(size)
        rows = size * (size + 1) // 2
        allocate(2 * rows)
        borrow(2 * rows)
        low = np.repeat(np.arange(size), np.arange(size, 0, -1))
        starts = np.arange(size) * size - np.arange(size) * np.arange(-1, size - 1) // 2
        return cls(low, np.arange(rows) - starts[low] + low + 1, size)

    @classmethod
    def windows(cls, size: int, width: int) -> Ranges:
        allocate(2 * size)
        low = np.arange(size - width + 1)
        return cls(low, low + width, size)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.low), self.size

    @property
    def nonzeros(self) -> int:
        return int((self.high - self.low).sum())

    @property
    def is_every(self) -> bool:
        """Whether these are all ranges, in the order of `all`."""
        if len(self.low) != self.size * (self.size + 1) // 2 or self.size > MOST_LISTED:
            return False
        every = Ranges.all(self.size)
        return np.array_equal(self.low, every.low) and np.array_equal(self.high, every.high)

    @property
    def is_prefixes(self) -> bool:
        """Whether these are all prefixes, in the order of `prefixes`."""
        return not self.low.any() and np.array_equal(self.high, np.arange(1, self.size + 1))

    def dot(self, x: Array) -> Array:
        """F x over the first axis: differences of running sums."""
        running = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0, dtype=x.dtype)])
        return np.asarray(running[self.high] - running[self.low])

    def transpose_dot(self, y: Array) -> Array:
        """Fᵀ y over the first axis: each row's value starts at low and stops at high."""
        steps = np.zeros((self.size + 1, *y.shape[1:]), y.dtype)
        np.add.at(steps, self.low, y)
        np.subtract.at(steps, self.high, y)
        return np.asarray(np.cumsum(steps, axis=0, dtype=y.dtype)[:-1])

    def columns(self, chosen: Integers) -> Ranges:
        """F[:, chosen] for increasing `chosen`."""
        borrow(4 * len(self.low))
        low, high = np.searchsorted(chosen, self.low), np.searchsorted(chosen, self.high)
        return Ranges(low, high, len(chosen))

    def entries(self, row: int) -> tuple[Integers, Integers]:
        """Where row `row` is not zero, and what it is there."""
        values = np.arange(self.low[row], self.high[row])
        return values, np.ones_like(values)

    def take(self, rows: Integers) -> Ranges:
        return Ranges(self.low[rows], self.high[rows], self.size)

    def to_sparse(self) -> sparse.csr_array:
        return _written_out(self.low, self.high, np.arange(self.size), self.size)


class UnlistedRanges(Ranges):
    """All ranges of more values than they can be listed for: a strategy for them can be found.

    >>> UnlistedRanges(100_000).shape
    (5000050000, 100000)
    """

    def __init__(self, size: int) -> None:
        object.__setattr__(self, "size", size)

    def __repr__(self) -> str:
        return f"UnlistedRanges({self.size})"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    @property
    def nonzeros(self) -> int:
        return self.size * (self.size + 1) * (self.size + 2) // 6

    @property
    def is_every(self) -> bool:
        return True

    @property
    def is_prefixes(self) -> bool:
        return False

    @property
    def low(self) -> Integers:
        raise StudyError(
            f"{self.shape[0]:,} ranges of {self.size:,} values are too many to be listed",
            hint="ask for prefixes, any two of which differ by a range, or bin the attribute",
        )

    high = low


@dataclass(frozen=True, eq=False)
class Rows:
    """A sparse integer matrix, canonical: sorted indices, no stored zeros."""

    matrix: sparse.csr_array

    def __post_init__(self) -> None:
        from scipy import sparse  # slow to import, and many studies have ranges only

        matrix = sparse.csr_array(self.matrix, dtype=np.int64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        object.__setattr__(self, "matrix", matrix)

    @property
    def shape(self) -> tuple[int, int]:
        rows, size = self.matrix.shape
        return rows, size

    @property
    def nonzeros(self) -> int:
        return int(self.matrix.nnz)

    def dot(self, x: Array) -> Array:
        return np.asarray((self.matrix @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:]))

    def transpose_dot(self, y: Array) -> Array:
        product = self.matrix.T.astype(y.dtype) @ y.reshape(len(y), -1)
        return np.asarray(product.reshape(-1, *y.shape[1:]))

    def columns(self, chosen: Integers) -> Rows:
        """F[:, chosen] for increasing `chosen`."""
        return Rows(self.matrix[:, chosen])

    def entries(self, row: int) -> tuple[Integers, Integers]:
        """Where row `row` is not zero, and what it is there."""
        part = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
        return self.matrix.indices[part].astype(np.int64), self.matrix.data[part]

    def take(self, rows: Integers) -> Rows:
        return Rows(self.matrix[rows])

    def to_sparse(self) -> sparse.csr_array:
        return self.matrix


Factor = Ranges | Rows


def factor_of_sets(values: Integers, ends: Integers, size: int) -> Factor:
    """Row i is 1 on values[ends_i : ends_(i+1)], which increase: `Ranges` if they can be."""
    ranges = _ranges_of_sets(values, ends, size)
    if ranges is not None:
        return ranges
    from scipy import sparse  # slow to import, and many studies have ranges only

    ones = np.ones(len(values), np.int64)
    return Rows(sparse.csr_array((ones, values, ends), shape=(len(ends) - 1, size)))


def _ranges_of_sets(values: Integers, ends: Integers, size: int) -> Ranges | None:
    lengths = np.diff(ends)
    if not lengths.all():
        return None
    first, last = values[ends[:-1]].astype(np.int64), values[ends[1:] - 1].astype(np.int64)
    return Ranges(first, last + 1, size) if np.array_equal(last - first + 1, lengths) else None


def is_total(factor: Factor) -> bool:
    """Whether it is the one row that holds for every value."""
    if not isinstance(factor, Ranges) or factor.shape[0] != 1:
        return False
    return bool(np.all(factor.high - factor.low == factor.size))


def factor_of(matrix: sparse.csr_array) -> Factor:
    """The matrix as `Ranges` when every row is one run of ones, else as `Rows`."""
    rows = Rows(matrix)
    if np.any(rows.matrix.data != 1):
        return rows
    ranges = _ranges_of_sets(rows.matrix.indices, rows.matrix.indptr, rows.shape[1])
    return rows if ranges is None else ranges


def dense_ranges(matrix: Array) -> Ranges | None:
    """A dense matrix as `Ranges` if every row is a run of ones, read a block of rows at a time."""
    lows, highs = [], []
    rows, size = matrix.shape
    step = max(1, DENSE_BLOCK // size)
    for start in range(0, rows, step):
        block = matrix[start : start + step]
        ones = block == 1
        low, high = ones.argmax(axis=1), size - ones[:, ::-1].argmax(axis=1)
        run = np.count_nonzero(ones, axis=1)
        if np.any(run == 0) or np.any(high - low != run) or run.sum() != np.count_nonzero(block):
            return None
        lows.append(low)
        highs.append(high)
    return Ranges(np.concatenate(lows), np.concatenate(highs), size)


def with_total(factor: Factor) -> Factor:
    """The factor and, below it, the row of ones."""
    size = factor.shape[1]
    if isinstance(factor, Ranges):
        return Ranges(np.append(factor.low, 0), np.append(factor.high, size), size)
    from scipy import sparse

    return Rows(sparse.vstack([factor.matrix, np.ones((1, size), np.int64)], format="csr"))


def restricted(factor: Factor, mask: NDArray[np.bool_]) -> Factor:
    """Every row AND the mask. Rows that become empty stay, as zeros."""
    allocate(2 * factor.shape[0] + factor.shape[1])
    borrow(8 * factor.shape[0])
    if isinstance(factor, Rows):
        return factor_of(factor.matrix.multiply(mask.astype(np.int64)).tocsr())
    chosen = np.flatnonzero(mask)
    start, stop = np.searchsorted(chosen, factor.low), np.searchsorted(chosen, factor.high)
    held = stop - start
    bounds = np.append(chosen, 0)  # a position beyond the last belongs to an empty row
    first = np.where(held > 0, bounds[start], 0)
    after = np.where(held > 0, bounds[stop - 1] + 1, 0)
    if np.array_equal(after - first, held):
        return Ranges(first, after, factor.size)
    entries = int(held.sum())
    if entries > LARGEST_WRITTEN:
        raise StudyError(
            f"the condition cuts {len(start):,} ranges into pieces: {entries:,} entries in all",
            hint=f"up to {LARGEST_WRITTEN:,} are possible; ask for fewer ranges",
        )
    allocate(5 * entries)
    return Rows(_written_out(start, stop, chosen, factor.size))


def weighted(factor: Factor, weights: Integers) -> Rows:
    """Every value of every row counted by its weight."""
    if factor.nonzeros > LARGEST_WRITTEN:
        raise StudyError(
            f"sums over {factor.shape[0]:,} sets have {factor.nonzeros:,} entries",
            hint=f"up to {LARGEST_WRITTEN:,} are possible; ask for fewer sets",
        )
    allocate(5 * factor.nonzeros)
    return Rows(factor.to_sparse().multiply(np.asarray(weights, np.int64)).tocsr())


def group_sums(factor: Factor, group: Integers, groups: int) -> Integers:
    """(rows, groups): every row summed over the values of each group, which `group` numbers."""
    if isinstance(factor, Rows):
        row = np.repeat(np.arange(factor.shape[0]), np.diff(factor.matrix.indptr))
        sums = np.zeros((factor.shape[0], groups), np.int64)
        np.add.at(sums, (row, group[factor.matrix.indices]), factor.matrix.data)
        return sums
    held = factor.high - factor.low
    row = np.repeat(np.arange(len(held)), held)
    value = np.arange(held.sum()) - np.repeat(np.cumsum(held) - held - factor.low, held)
    count = np.bincount(row * groups + group[value], minlength=len(held) * groups)
    return count.reshape(len(held), groups)


def _written_out(start: Integers, stop: Integers, values: Integers, size: int) -> sparse.csr_array:
    """Row i is 1 on values[start_i:stop_i]."""
    from scipy import sparse

    lengths = stop - start
    ends = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(ends[-1]) - np.repeat(ends[:-1] - start, lengths)
    ones = np.ones(ends[-1], np.int64)
    return sparse.csr_array((ones, values[positions], ends), shape=(len(start), size))


def gram(left: Factor, right: Factor) -> Integers:
    """leftᵀ right, (size, size), exact. For ranges a row pair is one rectangle of ones."""
    assert left.shape == right.shape
    if isinstance(left, Ranges) and isinstance(right, Ranges):
        size = left.size
        corners = np.zeros((size + 1, size + 1), np.int64)
        np.add.at(corners, (left.low, right.low), 1)
        np.add.at(corners, (left.high, right.high), 1)
        np.subtract.at(corners, (left.low, right.high), 1)
        np.subtract.at(corners, (left.high, right.low), 1)
        return np.asarray(np.cumsum(np.cumsum(corners, axis=0), axis=1)[:-1, :-1])
    return np.asarray((left.to_sparse().T @ right.to_sparse()).toarray())


def column_fingerprints(factor: Factor) -> NDArray[np.uint64]:
    """(size, 2): equal columns have equal fingerprints, a pair of others with chance 2⁻¹²⁸.

    A random 128-bit number per row, summed over the rows that hold the value. It decides only which
    values the optimiser may treat as one, never what a participant measures.
    """
    rows = factor.shape[0]
    digest = hashlib.shake_256(b"dhdmm column fingerprint").digest(16 * rows)
    return np.asarray(
        factor.transpose_dot(np.frombuffer(digest, "<u8").astype(np.uint64).reshape(rows, 2))
    )

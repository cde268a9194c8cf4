"""Exact linear algebra over the integers: products that cannot overflow, rank without tolerances.

M: a matrix of integers (rows, columns); p: a prime of 26 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, borrow, work

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Exact = NDArray[Any]
"""int64 where it fits, Python integers (dtype object) where it does not."""

PRIME = 2**26 - 5
HALF_BITS = 13
PANEL = 64
FLOAT, WHOLE, BIG = 1 / 16, 1, 40
"""Operations that one product of two entries costs, by the arithmetic that it needs."""


def largest(M: Exact) -> int:
    """max |entry| as a Python integer: np.abs would overflow on the most negative int64."""
    return max(abs(int(M.max())), abs(int(M.min()))) if M.size else 0


def multiply(left: Exact, right: Exact) -> Exact:
    """left @ right, exact: BLAS doubles below 2⁵³, int64 below 2⁶³, Python integers above."""
    bound = largest(left) * largest(right) * max(left.shape[-1], 1)
    products = left.size * right.size / max(len(right), 1)
    borrow(left.size + right.size + products / max(len(right), 1))
    work(products * (FLOAT if bound < 2**53 else WHOLE if bound < 2**63 else BIG))
    if bound < 2**53:
        return np.asarray((left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64))
    if bound < 2**63:
        return np.asarray(left.astype(np.int64) @ right.astype(np.int64))
    return np.asarray(left.astype(object) @ right.astype(object))


def squared_column_norms(M: Exact) -> Exact:
    """Σ_i M_ij² for every column j, exact."""
    if largest(M) ** 2 * max(len(M), 1) < 2**63:
        return np.asarray(np.einsum("ij,ij->j", M, M))
    work(BIG * M.size)
    wide = M.astype(object)
    return np.asarray((wide * wide).sum(axis=0))


def primitive(rows: Integers) -> Integers:
    """Each row divided by the gcd of its entries, first non-zero entry positive."""
    divisor = np.gcd.reduce(rows, axis=1)
    rows = rows // np.maximum(divisor, 1)[:, None]
    first = np.take_along_axis(rows, np.argmax(rows != 0, axis=1)[:, None], axis=1)
    return np.asarray(np.where(first < 0, -rows, rows))


def different_rows(M: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The different rows in the order of their first, and for every row which of them it is.

    >>> different_rows(np.array([[1, 1], [2, 3], [1, 1]]))[1].tolist()
    [0, 1, 0]
    """
    rows = np.ascontiguousarray(M)
    wide = M.shape[1] * M.itemsize
    keys = rows.view(f"V{wide}").ravel().tolist() if wide else [b""] * len(M)
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    found = np.frombuffer(b"".join(number), M.dtype).reshape(len(number), M.shape[1])
    return found, np.array([number[key] for key in keys], np.int64)


def runs(starts: Integers, lengths: Integers) -> Integers:
    """As many numbers from each start on as its length says, one run after the other.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) + np.repeat(starts - before, lengths))


def multiply_modulo(left: Integers, right: Integers) -> Integers:
    """left @ right mod p by doubles: 2¹³ · 2²⁶ · 2¹⁴ columns stay below 2⁵³."""
    assert left.shape[1] < 2**14
    work(2 * FLOAT * left.size * right.shape[1])
    high, low = np.divmod(left, 2**HALF_BITS)
    right_float = right.astype(np.float64)
    high_part = (high.astype(np.float64) @ right_float).astype(np.int64) % PRIME
    low_part = (low.astype(np.float64) @ right_float).astype(np.int64)
    return np.asarray((high_part * 2**HALF_BITS + low_part) % PRIME)


def scaled_to_pivot(row: Integers, prime: int) -> int | None:
    """Where the row begins; it is scaled in place to begin with 1. None if it is zero."""
    nonzero = np.flatnonzero(row)
    if not len(nonzero):
        return None
    pivot = int(nonzero[0])
    row[:] = row * pow(int(row[pivot]), -1, prime) % prime
    return pivot


class RowSpace:
    """Grows a row space modulo p and tells which rows enlarge it.

    Rank modulo p never exceeds the rank over the rationals, and is less only if p divides a minor:
    a chance of about 2⁻²⁶ a row for a matrix that was not made for this prime. The optimiser checks
    the outcome against the workload, so a miss costs a failure, never a wrong answer.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._echelon = np.zeros((0, columns), np.int64)  # reduced: identity on the pivot columns
        self._pivots: list[int] = []

    @property
    def rank(self) -> int:
        return len(self._pivots)

    def extend(self, rows: Integers) -> list[int]:
        """Indices of the rows that are independent of everything before them."""
        chosen: list[int] = []
        for start in range(0, len(rows), PANEL):
            if self.rank == self.columns:
                break
            chosen += [start + i for i in self._extend_panel(rows[start : start + PANEL] % PRIME)]
        return chosen

    def _extend_panel(self, panel: Integers) -> list[int]:
        work(len(panel) * (OBJECT + panel.size))
        panel = self._reduce(panel)
        chosen: list[int] = []
        pivots: list[int] = []
        for i in range(len(panel)):
            pivot = scaled_to_pivot(panel[i], PRIME)
            if pivot is None:
                continue
            others = np.flatnonzero(panel[:, pivot])
            others = others[others != i]
            panel[others] = (panel[others] - panel[others, pivot, None] * panel[i]) % PRIME
            chosen.append(i)
            pivots.append(pivot)
        if chosen:
            fresh = panel[chosen]
            older = self._echelon
            if len(older):
                older = (older - multiply_modulo(older[:, pivots], fresh)) % PRIME
            self._echelon = np.concatenate([older, fresh])
            self._pivots += pivots
        return chosen

    def _reduce(self, rows: Integers) -> Integers:
        if not self.rank:
            return rows.copy()
        return (rows - multiply_modulo(rows[:, self._pivots], self._echelon)) % PRIME


def independent_rows(chunks: Iterable[Integers], columns: int, stop: int | None = None) -> Integers:
    """The rows, in the order given, that are independent of the rows before them.

    >>> independent_rows([np.array([[1, 1], [2, 2], [0, 3]])], 2).tolist()
    [[1, 1], [0, 3]]
    """
    space = RowSpace(columns)
    limit = columns if stop is None else stop
    kept = [np.zeros((0, columns), np.int64)]
    for chunk in chunks:
        kept.append(chunk[space.extend(chunk)])
        if space.rank >= limit:
            break
    return np.concatenate(kept)

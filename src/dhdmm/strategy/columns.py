"""The different columns of a few rows over many cells, found without visiting the cells.

Rows are Kronecker products of one vector per axis, so a column is the entrywise product of one
small column per axis. A few conditions on many attributes have few different columns: cells are
extended one axis at a time, and of those that agree so far one is kept. The last axis is the one
with most values; along it columns change little from one value to the next, so that the
squared norms of a matrix times the columns follow from few additions, and no list of all columns
is made.

K: (products, cells) the Kronecker rows, k a column; S = AᵀA: (products, products), kᵀSk = ‖A k‖².
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhdmm.effort import OBJECT, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import BIG, FLOAT, Exact, Integers, largest

CHUNK = 2**19
"""Entries of S K that are written out at once."""


class TooManyColumns(StrategyError):
    """The rows tell too many cells apart."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The different columns of K on all axes but the last, and the different ones of that."""

    codes: Integers
    """(columns, axes): a cell of each; 0 on the last axis."""
    values: Exact
    """(columns, products)"""
    last: int
    """Which axis is the last."""
    last_codes: Integers
    """Values of the last axis, one for each of its different columns."""
    last_values: Exact
    """(values of the last axis that differ, products)"""
    sample: ClassVar[int] = 32
    """The first searches see one in so many columns."""

    @classmethod
    def of(cls, tables: Sequence[Integers]) -> Columns:
        """From every axis's (products, values)."""
        products = len(tables[0])
        firsts = [_first_of_each(np.ascontiguousarray(table.T)) for table in tables]
        *order, last = sorted(range(len(tables)), key=lambda a: len(firsts[a]))
        bound = np.prod([float(largest(table)) for table in tables])
        kind = np.int8 if bound < 2**7 else np.int64
        if bound >= 2**62:
            raise TooManyColumns("the rows of a strategy hold too large numbers")
        values, codes = np.ones((1, products), kind), np.zeros((1, len(tables)), np.int64)
        for a in order:
            own = tables[a].T[firsts[a]].astype(kind)
            entries = len(values) * own.size
            if entries * own.itemsize > sizes.COLUMN_BYTES:
                raise TooManyColumns("the queries tell too many cells apart")
            borrow(entries * own.itemsize / 4)
            work(OBJECT + 10 * entries)
            values = (values[:, None, :] * own[None, :, :]).reshape(-1, products)
            codes = np.repeat(codes, len(own), axis=0)
            codes[:, a] = np.tile(firsts[a], len(codes) // len(own))
            kept = _first_of_each(values)
            values, codes = values[kept], codes[kept]
        own = tables[last].T[firsts[last]].astype(kind)
        return cls(codes, values, last, firsts[last], own)

    @property
    def most(self) -> int:
        """At least as many as there are different columns."""
        return len(self.codes) * len(self.last_codes)

    def all_codes(self) -> Integers:
        """(columns, axes): a cell of each different column."""
        found = np.repeat(self.codes, len(self.last_codes), axis=0)
        found[:, self.last] = np.tile(self.last_codes, len(self.codes))
        return found[_first_of_each(self._products())]

    def all_columns(self) -> Integers:
        """(columns, products): each different column once."""
        found = self._products()
        return found[_first_of_each(found)]

    def _products(self) -> Integers:
        borrow(2 * self.values.size * len(self.last_codes))
        return (self.values[:, None, :] * self.last_values[None]).reshape(self.most, -1)

    def holding(self, each: int) -> Integers:
        """For every product at most so many cells where it is not 0, from all over them."""
        found: list[Integers] = []
        for own, last in zip(self.values.T, self.last_values.T, strict=True):
            places = [
                np.flatnonzero(x)[:: max(np.count_nonzero(x) // each, 1)] for x in (own, last)
            ]
            cells = self.codes[places[0][:each]]
            cells[:, self.last] = self.last_codes[np.resize(places[1], len(cells))]
            found.append(cells)
        return np.unique(np.concatenate(found), axis=0)

    def largest(self, S: Exact, every: int = 1) -> Iterator[tuple[Exact, Integers]]:
        """For parts of the columns: the largest kᵀSk along the last axis, and a cell that has it.

        Exact where S holds integers. Of the columns before the last axis each `every`-th is seen.
        """
        S = S.astype(self._exact_type(S))
        seen = np.arange(0, len(self.codes), every)
        size = max(CHUNK // len(S), 1)
        changes = np.count_nonzero(np.diff(self.last_values, axis=0)) / len(S)
        each = BIG if S.dtype == object else FLOAT
        for start in range(0, len(seen), size):
            part = seen[start : start + size]
            work(len(part) * len(S) * each * (len(S) + 40 * changes))
            norms, place = _largest(S, self.values[part], self.last_values)
            cells = self.codes[part]
            cells[:, self.last] = self.last_codes[place]
            yield norms, cells

    def _exact_type(self, S: Exact) -> type:
        """Numbers in which all sums of kᵀSk are exact; halves where S holds fractions."""
        if np.issubdtype(S.dtype, np.floating):
            return np.float32
        entry = largest(self.values) * largest(self.last_values)
        bound = 4 * entry**2 * sum(abs(int(x)) for x in S.ravel())
        return np.float64 if bound < 2**53 else np.int64 if bound < 2**63 else object


def _largest(S: Exact, values: Integers, last: Integers) -> tuple[Exact, Integers]:
    """For every row v of values the largest kᵀSk, k = v ∘ l, over rows l of `last`; and which l."""
    k = (values * last[0]).astype(S.dtype)
    G = k @ S
    norms = (k * G).sum(axis=1)
    best, place = norms.copy(), np.zeros(len(values), np.int64)
    moving = np.flatnonzero((last != last[0]).any(axis=0))
    G = np.ascontiguousarray(G[:, moving])  # Sk where k still changes
    for i, (before, after) in enumerate(zip(last[:, moving], last[1:, moving], strict=False), 1):
        changed = np.flatnonzero(before != after)
        step = values[:, moving[changed]] * (after - before)[changed]
        moved = np.flatnonzero(step.any(axis=1))
        own = step[moved].astype(S.dtype)
        rows = G[moved]
        more = own @ S[np.ix_(moving[changed], moving)]
        norms[moved] += (own * (2 * rows[:, changed] + more[:, changed])).sum(axis=1)
        G[moved] = rows + more
        better = moved[norms[moved] > best[moved]]
        best[better], place[better] = norms[better], i
    return best, place


def _first_of_each(rows: Integers) -> Integers:
    """The first of every kind of row, in order; compared byte by byte."""
    rows = np.ascontiguousarray(rows)
    if not rows.shape[1]:
        return np.zeros(1, np.int64)
    flat = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.sort(np.unique(flat, return_index=True)[1])

"""Squared columns of rows that are boxes, for all cells at once.

A condition with a range on every attribute is a box of cells, and two boxes meet in a box. So for
A = T·B with B's products boxes and S = (TC)ᵀ(TC), the squared norm of the column at a cell is the
sum of S_ij over the pairs whose common box holds the cell. Each pair is written at the corners of
its box, with alternating signs, and running sums along every attribute make the table of all cells:
work grows with the pairs and with the cells, not with their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate, borrow, work
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import Exact, Floats, Integers

Numbers = NDArray[np.int32]
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Boxes:
    low: Integers
    """(products, attributes)"""
    high: Integers
    shape: tuple[int, ...]
    first: Numbers
    """(corners,): the pair i ≤ j of boxes that a corner is of."""
    second: Numbers
    sign: NDArray[np.int8]
    place: Integers
    """(corners,): the number of its cell."""
    sample: ClassVar[int] = 1

    @classmethod
    def of(cls, tables: Sequence[Integers]) -> Boxes | None:
        """From every attribute's (products, orbits); None if some are no ranges, or too many."""
        shape = tuple(table.shape[1] for table in tables)
        if math.prod(shape) > sizes.BOX_CELLS:
            return None
        low = np.stack([(table != 0).argmax(axis=1) for table in tables], axis=1)
        held = np.stack([np.count_nonzero(table, axis=1) for table in tables], axis=1)
        for a, table in enumerate(tables):
            inside = np.arange(table.shape[1]) - low[:, a, None]
            if not np.array_equal(table, (inside >= 0) & (inside < held[:, a, None])):
                return None
        corners = list(_corners(low, low + held, shape))
        if sum(len(part[0]) for part in corners) > sizes.BOX_CORNERS:
            return None
        *_, place = found = [np.concatenate(part) for part in zip(*corners, strict=True)]
        order = np.argsort(place)  # neighbours in memory are met one after the other
        return cls(low, low + held, shape, *(part[order] for part in found))

    def norms(self, S: Exact) -> Exact:
        """(orbits of every attribute): kᵀSk at every cell, in the numbers of S."""
        volume = math.prod(self.shape)
        allocate(volume)
        borrow(3 * len(self.place))
        work(10 * len(self.place) + 4 * volume * len(self.shape))
        table = np.zeros(volume, S.dtype)
        both = np.where(self.first == self.second, self.sign, 2 * self.sign)
        np.add.at(table, self.place, S[self.first, self.second] * both)
        cells = table.reshape(self.shape)
        _running_sums(cells)
        return cells

    def gram(self, d: NDArray[np.floating[Any]]) -> Floats:
        """Σ_u d_u k_u k_uᵀ for weights of all cells: what two boxes hold together.

        For weights of sum 1, of eight bytes each, its entries are off by `gram_error` at most.
        """
        cells = d.reshape(self.shape).copy()
        _running_sums(cells[(slice(None, None, -1),) * len(self.shape)])
        boxes = len(self.low)
        pairs = self.first.astype(np.int64) * boxes + self.second
        found = np.bincount(pairs, cells.ravel()[self.place] * self.sign, boxes**2)
        upper = found.reshape(boxes, boxes)
        return np.asarray(upper + np.triu(upper, 1).T)

    @property
    def gram_error(self) -> float:
        """Every corner is a sum along all attributes, and a common box has two per attribute."""
        return float(2 ** len(self.shape) * sum(self.shape) * np.finfo(np.float64).eps)

    def largest(self, S: Exact, every: int = 1) -> Iterator[tuple[Exact, Integers]]:
        """The largest kᵀSk along the two longest attributes, and the cells that have it.

        Neighbours are nearly as large, and would say nothing new. `every` is for those that look
        at columns one by one.
        """
        del every
        *others, second, last = np.argsort(self.shape, kind="stable").tolist()
        norms = self.norms(S).transpose(*others, second, last)
        lines = norms.reshape(*norms.shape[:-2], -1)
        place = lines.argmax(axis=-1)
        cells = np.empty((place.size, len(self.shape)), np.int64)
        cells[:, others] = np.indices(place.shape).reshape(len(others), -1).T
        cells[:, second], cells[:, last] = np.divmod(place.ravel(), self.shape[last])
        yield np.take_along_axis(lines, place[..., None], axis=-1).ravel(), cells

    def holding(self, each: int) -> Integers:
        """For every box so many of its cells, from all over it."""
        steps = np.arange(1, each + 1)[:, None] * GOLDEN ** np.arange(1, len(self.shape) + 1) % 1
        cells = self.low[:, None] + steps * (self.high - self.low)[:, None]
        return np.unique(cells.astype(np.int64).reshape(-1, len(self.shape)), axis=0)


def _running_sums(cells: NDArray[Any]) -> None:
    """Along every attribute, in place; slices one after the other are faster than `cumsum`."""
    for a in range(cells.ndim - 1):
        slices = np.moveaxis(cells, a, 0)
        for i in range(1, len(slices)):
            slices[i] += slices[i - 1]
    np.cumsum(cells, axis=-1, out=cells)


def _corners(
    low: Integers, high: Integers, shape: tuple[int, ...]
) -> Iterator[tuple[Numbers, Numbers, NDArray[np.int8], Integers]]:
    """First and second box, sign, and cell of each corner of each pair's common box.

    What begins beyond the last value of an attribute needs no corner.
    """
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    i, j = (index.astype(np.int32) for index in np.triu_indices(len(low)))
    borrow(8 * len(i) * len(shape))
    below, above = np.maximum(low[i], low[j]), np.minimum(high[i], high[j])
    met = np.flatnonzero((below < above).all(axis=1))
    i, j, below, above = i[met], j[met], below[met], above[met]
    inside = above < np.array(shape)
    for chosen in itertools.product((False, True), repeat=len(shape)):
        ends = np.array(chosen)
        held = np.flatnonzero(inside[:, ends].all(axis=1))
        place = np.where(ends, above[held], below[held]) @ strides
        sign = np.full(len(held), (-1) ** sum(chosen), np.int8)
        yield i[held], j[held], sign, place

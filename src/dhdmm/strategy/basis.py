"""An integer basis of a block's row space, and its rows as Kronecker products.

Rounding a strategy of rank(W) rows would tilt its row space and bias the answers. So the row space
is held exactly: every row of B is an integer combination (nearly always one summand) of Kronecker
products of integer vectors, one per axis, each constant on orbits; see `integer.py` for A' = T B.

B = C K: K (products, dimension) Kronecker rows, C (rows, products) groups and weighs them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.effort import allocate
from dhdmm.strategy.matrix import Integers

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Basis:
    """B, its rows written as sums of Kronecker products of numbered vectors."""

    starts: Integers
    """(rows+1,): row i is the sum of the products starts[i] … starts[i+1]−1."""
    coefficients: Integers
    """(products,)"""
    ids: Integers
    """(products, axes): the vector on every axis of the block."""

    @classmethod
    def plain(cls, ids: Integers) -> Basis:
        """Every row is one product with coefficient 1."""
        return cls(np.arange(len(ids) + 1), np.ones(len(ids), np.int64), ids)

    @cached_property
    def rows(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def key(self) -> tuple[bytes, ...]:
        """Equal exactly for equal bases over the same axes."""
        return self.starts.tobytes(), self.coefficients.tobytes(), self.ids.tobytes()

    @cached_property
    def is_plain(self) -> bool:
        """Whether every row is one product with coefficient 1."""
        return len(self.coefficients) == self.rows and bool(np.all(self.coefficients == 1))

    @cached_property
    def combine(self) -> sparse.csr_array:
        """C, (rows, products)."""
        from scipy import sparse

        products = len(self.coefficients)
        return sparse.csr_array(
            (self.coefficients, np.arange(products), self.starts), shape=(self.rows, products)
        )

    @property
    def written_out(self) -> Integers:
        """C as a dense matrix: every product is of one row."""
        found = np.zeros((self.rows, len(self.coefficients)), np.int64)
        row = np.repeat(np.arange(self.rows), np.diff(self.starts))
        found[row, np.arange(len(row))] = self.coefficients
        return found

    def dense(self, vectors: Sequence[Integers]) -> Integers:
        """B, (rows, dimension), from each axis's vectors (count, orbits)."""
        K = kronecker_rows(self.ids, vectors)
        return K if self.is_plain else np.asarray(self.combine @ K)

    def weights(self, nonzeros: Integers) -> Integers:
        """(rows,): Σ |coefficient| · nonzeros over the products of a row."""
        return nonzeros if self.is_plain else np.asarray(abs(self.combine) @ nonzeros)


def kronecker_rows(ids: Integers, vectors: Sequence[Integers]) -> Integers:
    """K, (products, dimension): row i is ⊗_a vectors[a][ids[i, a]], the last axis fastest."""
    allocate(2 * len(ids) * math.prod(table.shape[1] for table in vectors))
    K = np.ones((len(ids), 1), np.int64)
    for a, table in enumerate(vectors):
        K = (K[:, :, None] * table[ids[:, a]][:, None, :]).reshape(len(ids), -1)
    return K


def single_orbits(ids: Integers, orbits: Sequence[int]) -> Integers | None:
    """Which one each product is of the combinations of orbits, if all are different ones."""
    if not ids.size or ids.min() < 1 or np.any(ids.max(axis=0) > orbits):
        return None
    cells = np.ravel_multi_index(tuple(ids.T - 1), tuple(orbits))
    return cells if len(np.unique(cells)) == len(cells) else None


def select(basis: Basis, rows: Sequence[int] | Integers) -> Basis:
    wanted = np.asarray(rows, np.int64)
    if basis.is_plain:
        return Basis.plain(basis.ids[wanted])
    chosen = basis.combine[wanted]
    used = chosen.indices
    return Basis(chosen.indptr.astype(np.int64), chosen.data, basis.ids[used])


def concatenate(parts: Sequence[Basis], axes: int) -> Basis:
    lengths = [np.diff(part.starts) for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.zeros(0, np.int64)]))])
    none = np.zeros(0, np.int64)
    return Basis(
        starts.astype(np.int64),
        np.concatenate([*(part.coefficients for part in parts), none]),
        np.concatenate([*(part.ids for part in parts), np.zeros((0, axes), np.int64)]),
    )

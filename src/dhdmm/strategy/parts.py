"""The blocks of a workload as the exact path solves them.

In one attribute a block falls into parts that no query brings together, such as the states of a
country: V is block diagonal there, so each part is solved by itself and nothing is lost.

B: the rows of a part; C: (r, r) with V = (CB)ᵀ(CB) there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis, select
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.rows import Rows
from dhdmm.strategy.symmetry import BlockGram, Reduction


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a block, on the cells in the orbits of its residuals."""

    block: BlockGram
    rows: Rows
    C: Floats
    orbits: Integers | None
    """Those of the block's one attribute where the rows are not zero; None if that is all."""

    def cells(self, codes: Integers) -> Integers:
        """Which of these cells the part sees."""
        inside = inside_residuals(self.rows.reduction, self.block, codes)
        if self.orbits is not None:
            inside &= np.isin(codes[:, self.block.axes[0]], self.orbits)
        return np.flatnonzero(inside)


def inside_residuals(reduction: Reduction, block: BlockGram, codes: Integers) -> Integers:
    """Which cells lie in the orbits of the block's residuals, of copies in those of the first."""
    inside = np.ones(len(codes), bool)
    for a, part in block.residuals:
        inside &= codes[:, a] == reduction.axes[a].tree.orbit_of(part)
    return inside


def parts_of(builder: BasisBuilder, block: BlockGram, apart: bool) -> list[Part]:
    """The parts of a block that no query joins, or the block as one."""
    found = list(_separate(builder, block)) if apart else [(builder.basis(block), None)]
    rows = [Rows(builder.reduction, builder.books, block.axes, basis) for basis, _ in found]
    V = [own.workload(block.axes, block.pairs.items()) for own in rows]
    if not np.isclose(math.fsum(np.trace(H) for H in V), block.trace, rtol=1e-9):
        raise StrategyError("an integer basis of the workload was not found")
    held = {*block.axes, *dict(block.residuals)}
    sizes = [len(axis.orbit) for a, axis in enumerate(builder.reduction.axes) if a not in held]
    ones = math.sqrt(math.prod(sizes))  # an integer row holds these along attributes of one orbit
    roots = [linalg.cholesky(H) @ own.inverse / ones for H, own in zip(V, rows, strict=True)]
    parts = zip(rows, roots, found, strict=True)
    return [Part(block, own, np.asarray(C), orbits) for own, C, (_, orbits) in parts]


def _separate(builder: BasisBuilder, block: BlockGram) -> Iterator[tuple[Basis, Integers | None]]:
    """Rows and orbits of every part."""
    basis = builder.basis(block)
    count, part = 1, np.zeros(1, np.int64)
    if len(block.axes) == 1 and basis.is_plain:
        met = csr_array(sum(np.abs(G) for _, (G,) in block.summands) != 0)
        count, part = connected_components(met, directed=False)
    if count == 1:
        yield basis, None
        return
    first = np.argmax(builder.books[block.axes[0]].vectors[basis.ids[:, 0]] != 0, axis=1)
    for i in range(count):
        mine = np.flatnonzero(part[first] == i)
        if len(mine):
            yield select(basis, mine), np.flatnonzero(part == i)

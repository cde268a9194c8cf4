"""max ‖a_u − a_v‖² over all pairs of cells, by comparing columns with each other.

An attribute of one orbit is *short*: blocks know it by contrasts alone, so a pair of its values is
one of a few states. Of the other attributes, cells are written out: of each kind of value two are
enough, since any pair of cells looks like a pair of these. Blocks with the same contrasts on short
attributes are one group s with the matrix A_s over these cells, and in a state c

    ‖a_u − a_v‖² = Σ_s α_s(c) ‖A_s u‖² + α'_s(c) ‖A_s v‖² − 2 β_s(c) ⟨A_s u, A_s v⟩,

α, α' and β being products of the contrasts' norms and inner products. Inner products of all pairs
are products of matrices; all sums are integers below 2⁵³, where doubles are exact.

u, v: cells; s: groups; c: states.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.effort import borrow, work
from dhdmm.strategy.blocks import Block, MeasuredAxis, Residual, SidePieces
from dhdmm.strategy.kinds import Kinds, find_kinds, norm_bound
from dhdmm.strategy.matrix import FLOAT, Floats, Integers
from dhdmm.strategy.measuring import Cells, columns_at

MOST_OPERATIONS = 2e12
"""Of comparing all columns; more is left to another way."""
MOST_STATES = 4096
COMPARED_TOGETHER = 2**21
"""Numbers that are looked at at once."""


def largest_distance(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block], pieces: Sequence[SidePieces]
) -> int | None:
    """max_{u,v} ‖a_u − a_v‖², or None if this way is too long."""
    kinds = find_kinds(axes, blocks)
    short = [a for a, axis in enumerate(axes) if len(axis.sizes) == 1]
    values = [_two_of_each(k) for a, k in enumerate(kinds) if a not in short]
    cells, rows = math.prod(map(len, values)), sum(block.rows for block in blocks)
    states = math.prod(len(kinds[a].first) ** 2 + 1 for a in _used(short, blocks))
    bound = sum(norm_bound(block, mine) for block, mine in zip(blocks, pieces, strict=True))
    too_long = cells**2 * (2 * rows + len(blocks) * states) > MOST_OPERATIONS
    if too_long or states > MOST_STATES or 8 * bound >= 2**53:
        return None
    held = [a for a in range(len(axes)) if a not in short]
    return _Comparison(axes, kinds, dict(zip(held, values, strict=True))).largest(blocks, pieces)


def _used(short: Sequence[int], blocks: Sequence[Block]) -> list[int]:
    known = {r.attribute for block in blocks for r in block.residuals}
    return [a for a in short if a in known]


def _two_of_each(kinds: Kinds) -> Integers:
    """Merged values: every pair of an attribute's values is, by kind, one of two of these."""
    order = np.argsort(kinds.of_values, kind="stable")
    marks = kinds.of_values[order]
    is_third = np.concatenate([[False, False], marks[2:] == marks[:-2]])
    return np.sort(order[~is_third & (marks >= 0)])


@dataclass(frozen=True, eq=False)
class _Group:
    """Blocks with the same contrasts on short attributes."""

    residuals: tuple[Residual, ...]
    A: Floats
    """(rows, cells)"""


class _Comparison:
    def __init__(
        self, axes: Sequence[MeasuredAxis], kinds: Sequence[Kinds], values: dict[int, Integers]
    ) -> None:
        self.axes, self.kinds, self.values = axes, kinds, values

    def largest(self, blocks: Sequence[Block], pieces: Sequence[SidePieces]) -> int:
        groups = self._groups(blocks, pieces)
        norms = np.stack([np.square(group.A).sum(axis=0) for group in groups])
        first, second, inner = self._states(groups)
        P, Q = first @ norms, second @ norms
        cells, best = norms.shape[1], 0
        step = max(1, COMPARED_TOGETHER // (cells * len(groups)))
        work(2 * FLOAT * cells**2 * (sum(len(group.A) for group in groups) + inner.size))
        borrow(3 * COMPARED_TOGETHER)
        for start in range(0, cells, step):
            u = slice(start, start + step)
            G = np.stack([group.A[:, u].T @ group.A[:, start:] for group in groups])
            low, high = G.min(axis=(1, 2)), G.max(axis=(1, 2))
            reach = np.where(inner > 0, -2 * inner * low, -2 * inner * high).sum(axis=1)
            reach += P[:, u].max(axis=1) + Q[:, start:].max(axis=1)
            for c in np.argsort(-reach):
                if reach[c] <= best:
                    break
                apart = np.tensordot(-2 * inner[c], G, axes=1)
                apart += P[c, u][:, None]
                apart += Q[c, None, start:]
                best = max(best, int(apart.max()))
        return best

    def _groups(self, blocks: Sequence[Block], pieces: Sequence[SidePieces]) -> list[_Group]:
        sizes = [len(values) for values in self.values.values()]
        grid = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        chosen = {a: v[i] for (a, v), i in zip(self.values.items(), grid, strict=True)}
        cells = Cells(chosen, np.ones(math.prod(sizes), np.int64))
        parts: dict[tuple[Residual, ...], list[Floats]] = {}
        for block, mine in zip(blocks, pieces, strict=True):
            away = tuple(r for r in block.residuals if r.attribute not in self.values)
            here = replace(block, residuals=tuple(r for r in block.residuals if r not in away))
            borrow(3 * here.rows * len(cells.counts))
            written = columns_at(self.axes, here, mine, cells).astype(np.float64)
            parts.setdefault(away, []).append(written)
        return [_Group(away, np.concatenate(found)) for away, found in parts.items()]

    def _states(self, groups: Sequence[_Group]) -> tuple[Floats, Floats, Floats]:
        """α, α' and β, each (states, groups); a pair and its reverse are both there."""
        used = sorted({r.attribute for group in groups for r in group.residuals})
        pairs = {a: self.kinds[a].pairs() for a in used}
        choices = list(itertools.product(*(range(len(pairs[a].i)) for a in used)))
        place = {a: np.array([choice[n] for choice in choices]) for n, a in enumerate(used)}
        tables = [np.ones((len(choices), len(groups))) for _ in range(3)]
        for s, group in enumerate(groups):
            for r in group.residuals:
                mine, at = pairs[r.attribute], place[r.attribute]
                norms = self.kinds[r.attribute].norms(r, np.int64)
                tables[0][:, s] *= norms[mine.i][at]
                tables[1][:, s] *= norms[mine.j][at]
                tables[2][:, s] *= mine.inner(r, np.int64)[at]
        return tables[0], tables[1], tables[2]

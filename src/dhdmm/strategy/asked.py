"""Whether a strategy measures nothing but what a workload asks for, without the workload's rank.

The row space of a term of one product is ⊗ U_a, U_a the row space of its factor. It contains a
product of vectors if each U_a contains its vector. So a block of the strategy is asked for if every
product of its basis, times the vectors that sum to zero on its residuals' parts, is inside one
term. That v lies in U is seen by a random z that is orthogonal to U: v z = 0, and hardly ever else.

All of it holds modulo the primes of `membership`, whose probe shows that the workload is inside the
strategy's row space, and there both together say that W has as many independent rows modulo p as
the strategy has rows at all: the probe's x̂ is a projection P with P = 1 on all that the strategy
measures, so its trace, the number of rows, is its rank. rank(W) is no less than modulo p. If it
were less than the strategy's rows, each prime would notice but for a chance of (2d + 2)/p. Blocks
with different residuals are orthogonal whatever their rows are, and the vectors that sum to zero on
residuals have a known rank, so that the trace is one of the sides' rows, for each set of residuals
by itself: it is these rows that must be fewer than p.

This is sufficient and not necessary: terms of several products, or products that only several terms
together contain, are left to `optimise.rank`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.strategy.blocks import WHOLE, Block, MeasuredAxis, Side
from dhdmm.strategy.matrix import Integers, different_rows, scaled_to_pivot
from dhdmm.strategy.membership import Membership, Probe
from dhdmm.strategy.probe import Booleans, Histogram, Laid, vector_values
from dhdmm.strategy.residues import added, random_residues, reduced, summed
from dhdmm.study.factor import Factor, Ranges, Rows, column_fingerprints
from dhdmm.study.workload import Term

FEW_ROWS = 2**19
"""Fewer than each prime."""
SMALL_MATRIX = 2**14
"""Entries up to which a matrix is better written out."""


def nothing_more(membership: Membership, terms: Sequence[Term]) -> bool:
    """Whether every row of the strategy surely is a combination of the terms' rows.

    Holds only together with `membership.contains(*terms)`.
    """
    probe = membership.probe
    simple = np.repeat([len(t.products) == 1 for t in terms], [len(t.products) for t in terms])
    if not simple.any() or _most_rows(membership.blocks) >= probe.p.min():
        return False
    numbered = membership.numbered(tuple(terms))
    spanned = _Spanned(probe.x, numbered.factors, membership.seed)
    return _all_asked(probe, spanned, different_rows(numbered.index[simple])[0])


def _most_rows(blocks: Sequence[Block]) -> int:
    """At least the most rows of sides with the same residuals; all rows if those are few."""
    every = sum(block.rows for block in blocks)
    on_whole = any(residual.part == WHOLE for block in blocks for residual in block.residuals)
    if every <= FEW_ROWS or on_whole:  # such a residual is not orthogonal to other ones
        return every
    rows: Counter[tuple[tuple[int, int], ...]] = Counter()
    for block in blocks:
        own = math.prod(side.basis.rows for side in block.sides)
        parts = [residual.part for residual in block.residuals]
        for place in block.places:
            rows[tuple(zip(place, parts, strict=True))] += own
    return max(rows.values())


class _Spanned:
    """Which columns and vectors of the attributes the row spaces of factors contain."""

    def __init__(self, x: Histogram, factors: Sequence[Sequence[Factor]], seed: bytes) -> None:
        self.x, self.factors, self.seed = x, factors, seed
        self._together: dict[tuple[int, tuple[int, ...]], Booleans] = {}
        every = [(a, (i,)) for a, mine in enumerate(factors) for i in range(len(mine))]
        self.laid, z = self._orthogonal(every)
        self.columns = ~_differing(self.laid, z, x.p)
        """Of every factor."""
        self._sums = self.laid.by_attribute(summed(z, self.laid.node_starts[0], x.p))
        self._vectors: dict[int, Booleans] = {}

    def vectors(self, a: int) -> Booleans:
        """(factors, vectors) of an attribute."""
        if a not in self._vectors:
            self._vectors[a] = self._contained(a, self._sums[a])
        return self._vectors[a]

    def _contained(self, a: int, sums: Integers) -> Booleans:
        values = vector_values(self.x.values.axes[a], sums, self.x.p)
        return np.asarray(~np.any(values != 0, axis=0))

    def together(self, several: Sequence[tuple[int, tuple[int, ...]]]) -> list[Booleans]:
        """Which vectors of an attribute the rows of several of its factors span together."""
        new = sorted({*several} - self._together.keys())
        if new:
            laid, z = self._orthogonal(new)
            sums = summed(z, laid.node_starts[0], self.x.p)
            for (a, chosen), start in zip(new, laid.orbits.tolist(), strict=True):
                mine = sums[:, start : start + len(self.x.values.axes[a].sizes)]
                self._together[a, chosen] = self._contained(a, mine)
        return [self._together[one] for one in several]

    def _orthogonal(self, several: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[Laid, Integers]:
        """Random vectors, each orthogonal to all rows of the chosen factors of an attribute."""
        x = self.x
        laid = Laid(x.values, np.array([a for a, _ in several]))
        allocate(len(x.p) * len(laid.order))
        stacked = [_stacked([self.factors[a][i] for i in chosen]) for a, chosen in several]
        axes = [x.values.axes[a] for a, _ in several]
        name = f"null {several[0]} {len(several)}"
        z = np.zeros((len(x.p), len(laid.order)), np.int64)
        ranges = {k: factor for k, factor in enumerate(stacked) if isinstance(factor, Ranges)}
        if ranges:
            own = _orthogonal_to_ranges([*ranges.values()], name, x.p, self.seed)
            places = [laid.starts[k] + axes[k].tree.ranks[axes[k].merged] for k in ranges]
            z = added(own, np.concatenate(places), len(laid.order), x.p)
        for k, (axis, factor) in enumerate(zip(axes, stacked, strict=True)):
            if isinstance(factor, Rows):
                part = slice(laid.starts[k], laid.starts[k] + len(axis.orbit))
                own = _orthogonal_to_rows(factor, axis, x.p, f"{name} {k}", self.seed)
                z[:, part] = own[:, axis.tree.order]
        return laid, z


def _differing(laid: Laid, z: Integers, p: Integers) -> Booleans:
    """On which columns some z is not zero, or does not sum to the same below all children."""
    sums = [summed(z, starts, p) for starts in laid.node_starts]
    total = summed(z, laid.starts, p) != 0
    sizes = np.diff(np.append(laid.starts, z.shape[1]))
    whole = np.logical_or.reduceat(z != np.repeat(z[:, laid.starts], sizes, axis=1), laid.starts, 1)
    parts = []
    for level in range(laid.values.levels):
        first = laid.within(level + 1, level)
        counts = np.diff(np.append(first, len(laid.nodes[level + 1])))
        differs = sums[level + 1] != np.repeat(sums[level + 1][:, first], counts, axis=1)
        parts.append(np.logical_or.reduceat(differs, laid.within(level + 1, 0), axis=1))
    held = np.zeros((len(p), 1), np.bool_)
    return np.asarray(np.concatenate([held, total, whole, *parts], axis=1).any(axis=0))


def _all_asked(probe: Probe, spanned: _Spanned, index: Integers) -> bool:
    """Whether every product of every block is asked for by terms, given by their factors."""
    q, b = probe.meeting(spanned.laid, spanned.columns, index)
    work(10 * len(q) * index.shape[1])
    asking = np.ones(len(q), np.bool_)
    for a in range(index.shape[1]):
        place, step = spanned.laid.columns(a, probe.columns[:, a])
        asking &= spanned.columns[place[b] + step[b] * index[q, a]]
    q, b = q[asking], b[asking]
    counts = np.bincount(b, minlength=len(probe.columns))
    terms = np.split(q[np.lexsort([q, b])], np.cumsum(counts)[:-1])
    kinds = {
        (tuple(sides), mine.tobytes()): mine
        for sides, mine in zip(probe.side.tolist(), terms, strict=True)
    }
    return all(
        _block_asked([probe.sides[one] for one in sides if one >= 0], spanned, index[mine])
        for (sides, _), mine in kinds.items()
    )


def _block_asked(sides: Sequence[Side], spanned: _Spanned, index: Integers) -> bool:
    """Whether every product of the sides' rows is in one of the terms, which ask for the rest."""
    together = np.ones((1, len(index)), np.bool_)
    for side in sides:
        if side.axes:
            different, _ = different_rows(np.logical_and.reduce(_held(side, spanned, index)).T)
            pairs = together[:, None] & different
            together, _ = different_rows(pairs.reshape(-1, len(index)))
    if together.any(axis=1).all():
        return True
    return len(sides) == 1 and _asked_together(sides[0], spanned, index)


def _held(side: Side, spanned: _Spanned, index: Integers) -> list[Booleans]:
    """For each axis (terms, products): whether the term's factor spans the product's vector."""
    work(OBJECT / 4 + len(index) * side.basis.ids.size)
    borrow(len(index) * side.basis.ids.size / 4)
    axes = enumerate(side.axes)
    return [spanned.vectors(a)[index[:, a]][:, side.basis.ids[:, i]] for i, a in axes]


def _asked_together(side: Side, spanned: _Spanned, index: Integers) -> bool:
    """The same if, for one axis, the factors of several terms that agree elsewhere may be added.

    A total and one part of it ask for the other part.
    """
    held = _held(side, spanned, index)
    asked = np.zeros(len(side.basis.ids), np.bool_)
    chosen: list[tuple[int, tuple[int, ...]]] = []
    products: list[Integers] = []
    for i, a in enumerate(side.axes):
        others = [one for k, one in enumerate(held) if k != i]
        agree = np.logical_and.reduce([np.ones_like(held[i]), *others])
        groups, place = different_rows(agree.T)
        for number in np.flatnonzero(groups.any(axis=1)):
            chosen.append((a, tuple(np.unique(index[groups[number], a]).tolist())))
            products.append(np.flatnonzero(place == number))
    for (a, _), mine, vectors in zip(chosen, products, spanned.together(chosen), strict=True):
        asked[mine] |= vectors[side.basis.ids[mine, side.axes.index(a)]]
    return bool(asked.all())


def _stacked(factors: Sequence[Factor]) -> Factor:
    """The rows of all of them."""
    if len(factors) == 1:
        return factors[0]
    ranges = [factor for factor in factors if isinstance(factor, Ranges)]
    if len(ranges) == len(factors):
        low, high = [r.low for r in ranges], [r.high for r in ranges]
        return Ranges(np.concatenate(low), np.concatenate(high), ranges[0].size)
    from scipy import sparse

    return Rows(sparse.vstack([factor.to_sparse() for factor in factors], format="csr"))


def _orthogonal_to_ranges(
    factors: Sequence[Ranges], name: str, p: Integers, seed: bytes
) -> Integers:
    """(primes, values of all): random vectors end to end, each orthogonal to a factor's rows.

    Row i runs from vertex low_i to vertex high_i; z is a difference of numbers that are equal on
    vertices which are connected, so that it sums to zero over every row.
    """
    vertices = np.array([factor.size + 1 for factor in factors])
    ends = np.cumsum(vertices)
    first = (ends - vertices).tolist()
    low = np.concatenate([factor.low + start for factor, start in zip(factors, first, strict=True)])
    high = np.concatenate(
        [factor.high + start for factor, start in zip(factors, first, strict=True)]
    )
    drawn = random_residues(name, int(ends[-1]), p, seed)
    potential = drawn[:, _connected(Ranges(low, high, int(ends[-1]) - 1))]
    inside = np.ones(int(ends[-1]) - 1, np.bool_)
    inside[ends[:-1] - 1] = False  # between two factors
    return np.asarray(np.diff(potential, axis=1)[:, inside])


def _connected(ranges: Ranges) -> Integers:
    """(size + 1,): for each vertex the lowest that rows connect it with.

    >>> _connected(Ranges(np.array([0, 3]), np.array([2, 4]), 4)).tolist()
    [0, 1, 0, 3, 3]
    """
    label = np.arange(ranges.size + 1)
    while True:
        work(20 * (len(label) + len(ranges.low)))
        low, high = label[ranges.low], label[ranges.high]
        if np.array_equal(low, high):
            return label
        least = np.minimum(low, high)
        np.minimum.at(label, low, least)
        np.minimum.at(label, high, least)
        while not np.array_equal(label[label], label):
            label = label[label]


def _orthogonal_to_rows(
    factor: Rows, axis: MeasuredAxis, p: Integers, name: str, seed: bytes
) -> Integers:
    """(primes, merged values): random, orthogonal to the rows.

    By elimination, for the sums over values of equal columns; a sum that is held alone is zero.
    """
    small = math.prod(factor.matrix.shape) <= SMALL_MATRIX
    first, group, known, rest = (_written_out if small else _by_columns)(factor, axis)
    z = random_residues(name, len(group), p, seed).copy()
    sums = added(z, group, len(first), p)
    wanted = sums.copy()
    wanted[:, known] = 0
    wanted[:, ~known] = [
        _solved_for_pivots(rest % prime, free, int(prime))
        for prime, free in zip(p, wanted[:, ~known], strict=True)
    ]
    z[:, first] = reduced(z[:, first] + wanted - sums, p)
    return z


Reduced = tuple[Integers, Integers, Booleans, Integers]
"""Of a factor's columns at merged values: the first of each different one, which one each value
has, which of them some row holds alone, and the different other rows over the other columns."""


def _written_out(factor: Rows, axis: MeasuredAxis) -> Reduced:
    borrow(3 * math.prod(factor.matrix.shape))
    columns, group = different_rows(factor.matrix.toarray().T[axis.representatives])
    first = np.unique(group, return_index=True)[1]
    matrix = columns.T
    single = np.count_nonzero(matrix, axis=1) == 1
    known = np.zeros(len(first), np.bool_)
    known[np.nonzero(matrix[single])[1]] = True
    return first, group, known, different_rows(matrix[~single][:, ~known])[0]


def _by_columns(factor: Rows, axis: MeasuredAxis) -> Reduced:
    borrow(8 * factor.matrix.nnz + 8 * len(axis.orbit))
    matrix = factor.matrix[:, axis.representatives]
    prints = column_fingerprints(Rows(matrix))
    _, first, group = np.unique(prints, axis=0, return_index=True, return_inverse=True)
    matrix = matrix[:, first]
    single = np.diff(matrix.indptr) == 1
    known = np.zeros(len(first), np.bool_)
    known[matrix.indices[matrix.indptr[:-1][single]]] = True
    matrix = matrix[~single][:, ~known]
    borrow(3 * math.prod(matrix.shape))
    return first, group.ravel(), known, different_rows(matrix.toarray())[0]


def _solved_for_pivots(rows: Integers, z: Integers, prime: int) -> Integers:
    """z with other entries on the pivots of the rows, so that rows · z = 0 modulo the prime."""
    work(len(rows) * (OBJECT / 10 + rows.size))
    z, pivots = z.copy(), []
    for i in range(len(rows)):
        pivot = scaled_to_pivot(rows[i], prime)
        if pivot is None:
            continue
        column = rows[:, pivot].copy()
        column[i] = 0
        rows = (rows - column[:, None] * rows[i]) % prime
        pivots.append((i, pivot))
    for _, pivot in pivots:
        z[pivot] = 0
    for i, pivot in pivots:
        z[pivot] = -int((rows[i] * z % prime).sum()) % prime
    return z

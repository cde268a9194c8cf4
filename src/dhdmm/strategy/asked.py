"""Whether a strategy measures nothing but what a workload asks for, without the workload's rank.

The row space of a term of one product is ⊗ U_a, U_a the row space of its factor. It contains a
product of vectors if each U_a contains its vector. So a block of the strategy is asked for if every
product of its basis, times the vectors that sum to zero on its residuals' parts, is inside one
term. That v lies in U is seen by a random z that is orthogonal to U: v z = 0, and hardly ever else.

All of it holds modulo the primes of `membership`, whose probe shows that the workload is inside the
strategy's row space, and there both together say that W has as many independent rows modulo p as
the strategy has rows at all: the probe's x̂ is a projection P with P = 1 on all that the strategy
measures, so its trace, the number of rows, is its rank. rank(W) is no less than modulo p. If it
were less than the strategy's rows, each prime would notice but for a chance of (2d + 2)/p.

This is sufficient and not necessary: terms of several products, or products that only several terms
together contain, are left to `optimise.rank`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.strategy.blocks import Side
from dhdmm.strategy.matrix import Integers, different_rows, scaled_to_pivot
from dhdmm.strategy.membership import (
    AxisProbe,
    Booleans,
    Membership,
    Probe,
)
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.residues import added, random_residues, reduced
from dhdmm.study.factor import Factor, Ranges, Rows, column_fingerprints
from dhdmm.study.workload import Term

LARGEST_COMPARISON = 2**26
"""Terms times blocks that are compared."""
SMALL_MATRIX = 2**14
"""Entries up to which a matrix is better written out."""


def nothing_more(membership: Membership, terms: Sequence[Term]) -> bool:
    """Whether every row of the strategy surely is a combination of the terms' rows.

    Holds only together with `membership.contains(*terms)`.
    """
    probe = membership.probe
    simple = np.repeat([len(t.products) == 1 for t in terms], [len(t.products) for t in terms])
    rows = sum(block.rows for block in membership.blocks)
    if not simple.any() or rows >= probe.p.min():
        return False
    if np.count_nonzero(simple) * len(membership.blocks) > LARGEST_COMPARISON:
        return False
    numbered = membership.numbered(tuple(terms))
    inside = [
        _Inside(x, factors, f"{a}", membership.seed)
        for a, (x, factors) in enumerate(zip(probe.axes, numbered.factors, strict=True))
    ]
    return _all_asked(probe, inside, different_rows(numbered.index[simple])[0])


class _Inside:
    """Which columns and vectors of one attribute the row spaces of its factors contain."""

    def __init__(self, x: AxisProbe, factors: Sequence[Factor], name: str, seed: bytes) -> None:
        self.x, self.factors, self.name, self.seed = x, factors, name, seed
        single = [(i,) for i in range(len(factors))]
        self.vectors, self.columns = self._spanned(single)
        """(factors, vectors) and (factors, columns)"""

    @memoised
    def together(self, chosen: tuple[int, ...]) -> Booleans:
        """Which vectors the rows of the chosen factors span together."""
        vectors, _ = self._spanned([chosen])
        return np.asarray(vectors[0])

    def _spanned(self, several: Sequence[tuple[int, ...]]) -> tuple[Booleans, Booleans]:
        """Which vectors, and which columns, the rows of each choice of factors span."""
        x = self.x
        allocate(len(several) * len(x.p) * len(x.axis.orbit))
        z = np.stack([self._orthogonal(chosen) for chosen in several], axis=1)
        parts = [_differs_below(x, z, level) for level in range(x.axis.tree.levels)]
        vectors = np.any(x.vector_values(x.orbit_sums(z)) != 0, axis=0)
        not_whole = (z != z[..., :1]).any(axis=(0, 2))[:, None]
        held = np.zeros_like(not_whole)
        return ~vectors, ~np.concatenate([held, vectors[:, :1], not_whole, *parts], axis=1)

    def _orthogonal(self, chosen: tuple[int, ...]) -> Integers:
        stacked = _stacked([self.factors[i] for i in chosen])
        return _orthogonal(self.x, stacked, f"null {self.name} {chosen}", self.seed)


def _differs_below(x: AxisProbe, z: Integers, level: int) -> Booleans:
    """(…, orbits): whether the sums of z below a node's children are not all the same."""
    tree = x.axis.tree
    children, nodes = tree.node_starts(level + 1), tree.node_starts(level)
    sums = reduced(np.add.reduceat(z[..., x.order], children, axis=-1), x.p)
    first = np.searchsorted(children, nodes)
    counts = np.diff(np.append(first, len(children)))
    differs = sums != np.repeat(sums[..., first], counts, axis=-1)
    orbits = np.searchsorted(children, x.starts)
    return np.asarray(np.logical_or.reduceat(differs, orbits, axis=-1).any(axis=0))


def _all_asked(probe: Probe, inside: Sequence[_Inside], index: Integers) -> bool:
    """Whether every product of every block is asked for by terms, given by their factors."""
    work(len(index) * len(probe.columns) * len(inside))
    borrow(len(index) * len(probe.columns) / 4)
    asking = np.ones((len(index), len(probe.columns)), np.bool_)
    for a, one in enumerate(inside):
        asking &= one.columns[index[:, a]][:, probe.columns[:, a]]
    kinds, _ = different_rows(np.concatenate([probe.side, asking.T], axis=1))
    slots = probe.side.shape[1]
    for kind in kinds:
        sides = [probe.sides[number] for number in kind[:slots] if number >= 0]
        if not _block_asked(sides, inside, index, kind[slots:] > 0):
            return False
    return True


def _block_asked(
    sides: Sequence[Side], inside: Sequence[_Inside], index: Integers, asking: Booleans
) -> bool:
    """Whether every product of the sides' rows is in one of the terms that ask for the rest."""
    together = asking[None]
    for side in sides:
        different, _ = different_rows(np.logical_and.reduce(_held(side, inside, index)).T)
        pairs = together[:, None] & different
        together, _ = different_rows(pairs.reshape(-1, len(index)))
    if together.any(axis=1).all():
        return True
    return len(sides) == 1 and _asked_together(sides[0], inside, index, asking)


def _held(side: Side, inside: Sequence[_Inside], index: Integers) -> list[Booleans]:
    """For each axis (terms, products): whether the term's factor spans the product's vector."""
    work(OBJECT / 4 + len(index) * side.basis.ids.size)
    borrow(len(index) * side.basis.ids.size / 4)
    ones = np.ones((len(index), len(side.basis.ids)), np.bool_)
    axes = enumerate(side.axes)
    return [ones, *(inside[a].vectors[index[:, a]][:, side.basis.ids[:, i]] for i, a in axes)]


def _asked_together(
    side: Side, inside: Sequence[_Inside], index: Integers, asking: Booleans
) -> bool:
    """The same if, for one axis, the factors of several terms that agree elsewhere may be added.

    A total and one part of it ask for the other part.
    """
    _, *held = _held(side, inside, index)
    asked = np.zeros(len(side.basis.ids), np.bool_)
    for i, a in enumerate(side.axes):
        others = [one for k, one in enumerate(held) if k != i]
        agree = np.logical_and.reduce([np.broadcast_to(asking[:, None], held[i].shape), *others])
        groups, place = different_rows(agree.T)
        for number, group in enumerate(groups):
            chosen = tuple(np.unique(index[group, a]).tolist())
            if chosen:
                mine = np.flatnonzero(place == number)
                asked[mine] |= inside[a].together(chosen)[side.basis.ids[mine, i]]
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


def _orthogonal(x: AxisProbe, factor: Factor, name: str, seed: bytes) -> Integers:
    """(primes, merged values): a random vector that is orthogonal to every row of the factor."""
    if isinstance(factor, Rows):
        return _orthogonal_to_rows(factor, x, name, seed)
    # Row i runs from vertex low_i to vertex high_i; z is a difference of numbers that are equal
    # on vertices which are connected, so that it sums to zero over every row.
    drawn = random_residues(name, factor.size + 1, x.p, seed)
    potential = drawn[:, _connected(factor)]
    z = np.diff(potential, axis=1)
    return added(z, x.axis.merged, len(x.axis.orbit), x.p)


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


def _orthogonal_to_rows(factor: Rows, x: AxisProbe, name: str, seed: bytes) -> Integers:
    """By elimination, for the sums over values of equal columns; a sum held alone is zero."""
    small = math.prod(factor.matrix.shape) <= SMALL_MATRIX
    first, group, known, rest = (_written_out if small else _by_columns)(factor, x)
    z = random_residues(name, len(group), x.p, seed).copy()
    sums = added(z, group, len(first), x.p)
    wanted = sums.copy()
    wanted[:, known] = 0
    wanted[:, ~known] = [
        _solved_for_pivots(rest % prime, free, int(prime))
        for prime, free in zip(x.p, wanted[:, ~known], strict=True)
    ]
    z[:, first] = reduced(z[:, first] + wanted - sums, x.p)
    return z


Reduced = tuple[Integers, Integers, Booleans, Integers]
"""Of a factor's columns at merged values: the first of each different one, which one each value
has, which of them some row holds alone, and the different other rows over the other columns."""


def _written_out(factor: Rows, x: AxisProbe) -> Reduced:
    borrow(3 * math.prod(factor.matrix.shape))
    columns, group = different_rows(factor.matrix.toarray().T[x.axis.representatives])
    first = np.unique(group, return_index=True)[1]
    matrix = columns.T
    single = np.count_nonzero(matrix, axis=1) == 1
    known = np.zeros(len(first), np.bool_)
    known[np.nonzero(matrix[single])[1]] = True
    return first, group, known, different_rows(matrix[~single][:, ~known])[0]


def _by_columns(factor: Rows, x: AxisProbe) -> Reduced:
    borrow(8 * factor.matrix.nnz + 8 * len(x.axis.orbit))
    matrix = factor.matrix[:, x.axis.representatives]
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

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

from collections.abc import Sequence

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.strategy.blocks import Side
from dhdmm.strategy.matrix import Integers
from dhdmm.strategy.membership import (
    AxisProbe,
    Booleans,
    Membership,
    Probe,
)
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.residues import added, random_residues
from dhdmm.study.factor import Factor, Ranges, Rows
from dhdmm.study.workload import Term

LARGEST_COMPARISON = 2**26
"""Terms times blocks that are compared."""


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
    return _all_asked(probe, inside, np.unique(numbered.index[simple], axis=0))


class _Inside:
    """Which columns and vectors of one attribute the row spaces of its factors contain."""

    def __init__(self, x: AxisProbe, factors: Sequence[Factor], name: str, seed: bytes) -> None:
        self.x, self.factors, self.name, self.seed = x, factors, name, seed
        found = [self.of((i,)) for i in range(len(factors))]
        self.vectors = np.stack([vectors for vectors, _ in found])
        """(factors, vectors)"""
        self.columns = np.stack([columns for _, columns in found])
        """(factors, columns)"""

    @memoised
    def of(self, chosen: tuple[int, ...]) -> tuple[Booleans, Booleans]:
        """Which vectors, and which columns, the rows of the chosen factors span together."""
        x = self.x
        allocate(len(x.p) * len(x.axis.orbit))
        stacked = _stacked([self.factors[i] for i in chosen])
        z = _orthogonal(x, stacked, f"null {self.name} {chosen}", self.seed)
        ordered = z[:, x.order]
        differs = ordered != np.repeat(ordered[:, x.starts], x.axis.sizes, axis=1)
        parts = np.logical_or.reduceat(differs, x.starts, axis=1).any(axis=0)
        vectors = np.any(x.vector_values(x.orbit_sums(z)) != 0, axis=0)
        not_whole = [(z != z[:, :1]).any()]
        return ~vectors, ~np.concatenate([[False], vectors[:1], not_whole, parts])


def _all_asked(probe: Probe, inside: Sequence[_Inside], index: Integers) -> bool:
    """Whether every product of every block is asked for by terms, given by their factors."""
    work(len(index) * len(probe.columns) * len(inside))
    borrow(len(index) * len(probe.columns) / 4)
    asking = np.ones((len(index), len(probe.columns)), np.bool_)
    for a, one in enumerate(inside):
        asking &= one.columns[index[:, a]][:, probe.columns[:, a]]
    kinds = np.unique(np.concatenate([probe.side.T, asking], axis=0), axis=1).T
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
    together = asking[:, None]
    for side in sides:
        different = np.unique(np.logical_and.reduce(_held(side, inside, index)), axis=1)
        pairs = together[:, :, None] & different[:, None, :]
        together = np.unique(pairs.reshape(len(index), -1), axis=1)
    if together.any(axis=0).all():
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
        groups, place = np.unique(agree, axis=1, return_inverse=True)
        for number, group in enumerate(groups.T):
            chosen = tuple(np.unique(index[group, a]).tolist())
            if chosen:
                mine = np.flatnonzero(place.ravel() == number)
                asked[mine] |= inside[a].of(chosen)[0][side.basis.ids[mine, i]]
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
    """By elimination. What a row holds alone is zero, and of equal columns one is looked at."""
    borrow(3 * factor.shape[0] * len(x.axis.orbit))
    matrix = factor.matrix[:, x.axis.representatives].toarray()
    held = np.count_nonzero(matrix, axis=1)
    known = np.any(matrix[held == 1], axis=0)
    rest = np.unique(matrix[:, ~known], axis=0)
    z = random_residues(name, matrix.shape[1], x.p, seed).copy()
    z[:, known] = 0
    z[:, ~known] = [
        _solved_for_pivots(rest % prime, free, int(prime))
        for prime, free in zip(x.p, z[:, ~known], strict=True)
    ]
    return z


def _solved_for_pivots(rows: Integers, z: Integers, prime: int) -> Integers:
    """z with other entries on the pivots of the rows, so that rows · z = 0 modulo the prime."""
    work(len(rows) * (OBJECT / 10 + rows.size))
    z, pivots = z.copy(), []
    for i in range(len(rows)):
        nonzero = np.flatnonzero(rows[i])
        if not len(nonzero):
            continue
        pivot = int(nonzero[0])
        rows[i] = rows[i] * pow(int(rows[i, pivot]), -1, prime) % prime
        column = rows[:, pivot].copy()
        column[i] = 0
        rows = (rows - column[:, None] * rows[i]) % prime
        pivots.append((i, pivot))
    for _, pivot in pivots:
        z[pivot] = 0
    for i, pivot in pivots:
        z[pivot] = -int((rows[i] * z % prime).sum()) % prime
    return z

"""Long axes in two parts: few vectors that couple with the constants, and all that is left.

Ranges tell every value of an attribute apart, and a table of two such attributes has as many
dimensions as cells. But V couples the constants, which all terms share, with few directions only:
1, G1, G²1, … for the Grams G of an attribute soon span a space K that V hardly leaves. Measured
apart, K and its orthogonal complement cost a percent; and on the complement the Gram of the total
is 0, so blocks with the complement of some axes are Kronecker products.

Vectors are integers. K has *cardinal* vectors k_j: equal to c at the j-th of some pivots, to 0 at
the others, and Σ_j k_j = c everywhere, so that the constants lie in K. Vectors of the complement
have one entry besides the pivots.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import linalg

from dhdmm.strategy.matrix import Floats, Integers, independent_rows, primitive
from dhdmm.strategy.symmetry import Cut, ReducedAxis
from dhdmm.strategy.vectors import VectorBook

STEP = 32
"""c: how finely K's vectors are rounded."""
FEW_ROWS = 24
"""Of factors with fewer rows than this in all, the rows themselves span K."""


def cut_axis(axis: ReducedAxis, dimensions: int) -> ReducedAxis:
    """The axis with its trivial part cut, K of about so many dimensions."""
    book, n = VectorBook(axis), len(axis.sizes)
    ranks = {i: len(book.spanning(i)) for i in range(len(axis.factors))}
    small = sorted((i for i in ranks if ranks[i] < n), key=lambda i: ranks[i])
    own = [np.ones((1, n), np.int64)]
    inside: set[int] = set()
    for i in small:
        candidate = independent_rows([*own, book.vectors[book.spanning(i)]], n)
        if len(candidate) <= FEW_ROWS:
            own, inside = [candidate], {*inside, i}
    kept = own[0]
    if len(kept) == 1 < dimensions:
        kept, pivots = cardinal(_krylov(axis, dimensions))
    else:
        pivots = find_pivots(kept.astype(np.float64))
    constant = frozenset(i for i in ranks if np.array_equal(book.spanning(i), [0]))
    cut = Cut(kept, complement(kept * axis.sizes, pivots), frozenset(inside), constant)
    return ReducedAxis(axis.merged, axis.orbit, axis.factors, axis.twins, axis.shown, cut)


def _krylov(axis: ReducedAxis, dimensions: int) -> Floats:
    """(dimensions, orbits): rows span 1, G1, G²1, …, G the sum of all Grams, each of trace 1."""
    sizes = np.sqrt(axis.sizes.astype(np.float64))
    own = [G for (i, j), G in axis.trivial.items() if i == j]
    mixed = np.asarray(sum(G / np.trace(G) for G in own if np.trace(G)))
    found = [sizes / np.linalg.norm(sizes)]
    while len(found) < min(dimensions, len(sizes)):
        step = mixed @ found[-1]
        for earlier in (*found, *found):
            step = step - (earlier @ step) * earlier
        length = np.linalg.norm(step)
        if length < 1e-9:
            break
        found.append(step / length)
    return np.asarray(found / sizes)


def find_pivots(rows: Floats) -> Integers:
    """As many columns as rows, well independent."""
    return np.asarray(linalg.qr(rows, pivoting=True, mode="r")[1][: len(rows)])


def cardinal(functions: Floats) -> tuple[Integers, Integers]:
    """Integer vectors that nearly span the functions and exactly hold the constants; pivots."""
    pivots = find_pivots(functions)
    values = STEP * (np.linalg.inv(functions[:, pivots]) @ functions)
    found = np.rint(values).astype(np.int64)
    largest = np.argmax(np.abs(values), axis=0)
    found[largest, np.arange(found.shape[1])] += STEP - found.sum(axis=0)
    return found, pivots


def complement(rows: Integers, pivots: Integers) -> Integers:
    """Integer vectors, one entry besides the pivots each, that are orthogonal to the rows."""
    count, n = rows.shape
    solved = _solve(rows[:, pivots], rows)
    found = np.zeros((n - count, n), np.int64)
    for row, i in zip(found, sorted(set(range(n)) - set(pivots.tolist())), strict=True):
        share = solved[i]
        multiple = math.lcm(*(x.denominator for x in share))
        row[i] = multiple
        row[pivots] = [int(-x * multiple) for x in share]
    return primitive(found)


def _solve(left: Integers, right: Integers) -> list[list[Fraction]]:
    """Column by column left⁻¹ right, exactly, for a small `left`."""
    n = len(left)
    system = [[Fraction(int(x)) for x in (*a, *b)] for a, b in zip(left, right, strict=True)]
    for i in range(n):
        best = max(range(i, n), key=lambda j: abs(system[j][i]))
        system[i], system[best] = system[best], system[i]
        lead = system[i][i]
        system[i] = [x / lead for x in system[i]]
        for j in range(n):
            factor = system[j][i]
            if j != i and factor:
                system[j] = [x - factor * y for x, y in zip(system[j], system[i], strict=True)]
    return [list(column) for column in zip(*(row[n:] for row in system), strict=True)]

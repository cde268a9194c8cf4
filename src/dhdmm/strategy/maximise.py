"""The exact maximum of a sum of small integer tables over a product of many classes.

A strategy's squared column norm is a sum over its blocks, each depending on few attributes. The sum
over all combinations of classes may be far too large to write out, its maximum is not: combinations
are extended one attribute at a time and dropped as soon as the tables' own maxima show that they
cannot win (branch and bound on whole arrays of combinations).

NormTable: ((attributes), array with one axis per attribute), attributes increasing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError

NormTable = tuple[tuple[int, ...], NDArray[Any]]
DIRECT = 2**22
"""Combinations that are simply written out."""
WIDEST = 2**24
"""Numbers that write down the combinations which may be open at once."""
LARGEST_EXCESS, FEW_CLASSES = 0.04, 4
"""How far a maximum that is not found may be overstated."""
STARTS = 8
DIFFUSIONS = 30


class TooManyCells(StrategyError):
    """The search for the maximum was given up."""


class TableSum:
    """A sum of tables, added up in one table over everything if that stays small."""

    def __init__(
        self,
        domain: dict[int, int],
        held: Iterable[tuple[int, ...]],
        dtype: Any,
        direct: int = DIRECT,
    ) -> None:
        """domain: classes per attribute; held: the attribute sets of all tables to come."""
        self.domain, self.dtype = domain, dtype
        everything = tuple(sorted(domain))
        if math.prod(domain.values()) <= direct:
            held = [everything]
        largest_first = sorted(set(held), key=lambda attributes: (-len(attributes), attributes))
        self._sums: dict[tuple[int, ...], NDArray[Any]] = {}
        for attributes in largest_first:
            if self._home(attributes) is None:
                shape = [domain[a] for a in attributes]
                allocate(math.prod(shape))
                self._sums[attributes] = np.zeros(shape, dtype)

    def _home(self, attributes: tuple[int, ...]) -> tuple[int, ...] | None:
        return next((home for home in self._sums if set(attributes) <= set(home)), None)

    def add(self, table: NormTable) -> None:
        held, T = table
        home = self._home(held)
        assert home is not None
        sizes = dict(zip(held, T.shape, strict=True))
        work(OBJECT / 4 + self._sums[home].size)
        self._sums[home] += T.reshape([sizes.get(a, 1) for a in home])

    @property
    def tables(self) -> list[NormTable]:
        return list(self._sums.items())


def maximum(tables: list[NormTable]) -> int:
    """max over all combinations of classes of the sum of the tables.

    Exact, unless so many combinations are nearly as good that the search is given up. Then it is
    a bound, never less, and at most LARGEST_EXCESS above the truth.
    """
    if len(tables) == 1:
        return int(tables[0][1].max())
    with suppress(TooManyCells):
        return _search(tables)
    moved = _diffuse(tables)
    with suppress(TooManyCells):
        return _search(moved)
    above, below = _bound(moved), _climb(_domain(tables), tables)
    if above > (1 + LARGEST_EXCESS) * below:
        raise TooManyCells(
            "the largest column norm of this strategy cannot be found: too many different cells"
        )
    return above


def _bound(tables: list[NormTable]) -> int:
    """At least the maximum: over the classes of one attribute, of the sum of the tables' maxima.

    Attributes of few classes are maximised table by table first.
    """
    domain = _domain(tables)
    large = {a: size for a, size in domain.items() if size > FEW_CLASSES}
    if not large:
        return sum(int(T.max()) for _, T in tables)
    kept = [(tuple(a for a in held if a in large), held, T) for held, T in tables]
    total = TableSum(large, [home for home, _, _ in kept], kept[0][2].dtype, direct=0)
    for home, held, T in kept:
        total.add((home, _best_completion(T, held, list(home))))
    first = max(large, key=lambda a: sum(_spread(T, h.index(a)) for h, T in total.tables if a in h))
    return max(_sum_of_maxima(_given(total.tables, first, u)) for u in range(large[first]))


def _given(tables: list[NormTable], a: int, u: int) -> list[NormTable]:
    """The tables where attribute a has class u."""
    return [
        (tuple(b for b in h if b != a), T.take(u, axis=h.index(a))) if a in h else (h, T)
        for h, T in tables
    ]


def _sum_of_maxima(tables: list[NormTable]) -> int:
    total = TableSum(_domain(tables), [held for held, _ in tables], tables[0][1].dtype, direct=0)
    for table in tables:
        total.add(table)
    return sum(int(T.max()) for _, T in _diffuse(total.tables))


def _domain(tables: list[NormTable]) -> dict[int, int]:
    return {a: size for held, T in tables for a, size in zip(held, T.shape, strict=True)}


def _search(tables: list[NormTable]) -> int:
    domain, tables = _drop_dominated(_domain(tables), tables)
    order = sorted(domain, key=lambda a: -sum(_spread(T, h.index(a)) for h, T in tables if a in h))
    return _branch(order, domain, tables, _climb(domain, tables))


def _diffuse(tables: list[NormTable]) -> list[NormTable]:
    """Moves value between tables, never changing their sum, so that their maxima bound it better.

    For every attribute each table's best value per class becomes (nearly) the average over the
    tables that hold the attribute: max-sum diffusion, here in exact integers.
    """
    work(DIFFUSIONS * sum(len(held) * (3 * T.size + OBJECT) for held, T in tables))
    moved = [(held, T.copy()) for held, T in tables]
    for _ in range(DIFFUSIONS):
        for a in sorted({a for held, _ in moved for a in held}):
            holders = [(T, held.index(a)) for held, T in moved if a in held]
            best = [T.max(axis=tuple(i for i in range(T.ndim) if i != at)) for T, at in holders]
            average = sum(best[1:], start=best[0]) // len(best)
            steps = [average - values for values in best[1:]]
            steps.insert(0, -sum(steps, start=np.zeros_like(average)))
            for (T, at), step in zip(holders, steps, strict=True):
                T += step.reshape([-1 if i == at else 1 for i in range(T.ndim)])
    return moved


def _spread(T: NDArray[Any], axis: int) -> float:
    return float(np.max(T.max(axis=axis) - T.min(axis=axis)))


def _drop_dominated(
    domain: dict[int, int], tables: list[NormTable]
) -> tuple[dict[int, int], list[NormTable]]:
    """Drops class u of an attribute when some class v is at least as good whatever the rest is.

    Sufficient: Σ_T max_rest (T[u, rest] − T[v, rest]) ≤ 0, the tables maximised separately.
    """
    changed = True
    while changed:
        changed = False
        for a, size in domain.items():
            gain = sum(_pairwise_gain(T, held.index(a)) for held, T in tables if a in held)
            beaten = np.asarray(gain) <= 0
            np.fill_diagonal(beaten, False)
            # Of two classes that beat each other the lower stays.
            beaten &= ~(beaten.T & np.triu(np.ones((size, size), bool)))
            keep = np.flatnonzero(~beaten.any(axis=1))
            if len(keep) < size:
                changed = True
                domain = {**domain, a: len(keep)}
                tables = [
                    (held, T.take(keep, axis=held.index(a)) if a in held else T)
                    for held, T in tables
                ]
    return domain, tables


def _pairwise_gain(T: NDArray[Any], axis: int) -> NDArray[Any]:
    """max_rest (T[u] − T[v]) for all classes u, v of the axis."""
    work(OBJECT + T.shape[axis] * (T.size + OBJECT))
    borrow(T.shape[axis] ** 2 + T.size)
    flat = np.moveaxis(T, axis, 0).reshape(T.shape[axis], -1)
    return np.stack([(row - flat).max(axis=1) for row in flat])


def _climb(domain: dict[int, int], tables: list[NormTable]) -> int:
    """A good combination by moving one attribute at a time, from several starts."""
    best: int | None = None
    for start in range(STARTS):
        point = {a: (start * (a + 1)) % size for a, size in domain.items()}
        value, before = None, None
        while value is None or value != before:
            before = value
            work(OBJECT * sum(1 + len(held) for held, _ in tables))
            for a in domain:
                line = sum(
                    T[tuple(slice(None) if b == a else point[b] for b in held)]
                    for held, T in tables
                    if a in held
                )
                point[a] = int(np.argmax(line))
            value = sum(int(T[tuple(point[b] for b in held)]) for held, T in tables)
        best = value if best is None else max(best, value)
    assert best is not None
    return best


def _branch(order: list[int], domain: dict[int, int], tables: list[NormTable], best: int) -> int:
    """Extends combinations attribute by attribute, keeping those that may beat `best`."""
    open_ = np.zeros((1, 0), np.int64)
    bound: Any = best  # without attributes there is one combination, and it is known
    for depth in range(1, len(order) + 1):
        known = order[:depth]
        size = domain[known[-1]]
        work(len(open_) * size * (depth + 4 * len(tables)))
        if len(open_) * size * depth > WIDEST:
            raise TooManyCells("too many combinations stay open")
        open_ = np.concatenate(
            [np.repeat(open_, size, axis=0), np.tile(np.arange(size), len(open_))[:, None]], axis=1
        )
        bound = sum(
            _best_completion(T, held, known)[
                tuple(open_[:, known.index(a)] for a in held if a in known)
            ]
            for held, T in tables
        )
        open_ = open_[np.asarray(bound) > best] if depth < len(order) else open_
        if not len(open_):
            return best
    return max(best, int(np.asarray(bound).max()))


def _best_completion(T: NDArray[Any], held: tuple[int, ...], known: list[int]) -> NDArray[Any]:
    """T maximised over the attributes that are still open."""
    return np.asarray(T.max(axis=tuple(i for i, a in enumerate(held) if a not in known)))

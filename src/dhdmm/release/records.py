"""Made-up records whose tables agree with a fitted mixture, and so with a release.

Records are drawn from the mixture. By chance alone their counts would differ from its counts by the
root of the count, often more than the noise of the release. So records in over-full cells are
exchanged for newly drawn ones in cells with too few, again and again.

codes: (records, attributes), merged values. The *excess* of a record is the sum of
(count − wanted) / s² over the queries that count it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from dhdmm.release.intervals import Floats
from dhdmm.release.model import FittedTerm, Mixture, Queries, Real
from dhdmm.study.factor import Integers

LARGEST_TABLE = 20_000_000
"""Cells over which a term's queries are written out; others are looked up record by record."""
EXCHANGES = 150
FIRST_SHARE = 0.05
"""Of the records, exchanged at a time; a smaller share once the counts come no nearer."""
LEAST_GAIN, SMALLER = 0.98, 0.7
CHOICE = 4
"""Records looked at for each that is exchanged."""


def draw(mixture: Mixture, number: int, rng: np.random.Generator) -> Integers:
    """Records of the mixture; each component has as many as its weight asks for, up to one."""
    ends = np.cumsum(mixture.weights, dtype=np.float64)
    places = (np.arange(number) + rng.random()) * (ends[-1] / number)
    stops = np.searchsorted(places, ends)
    stops[-1] = number
    codes = np.empty((number, len(mixture.shares)), np.int64)
    for a, shares in enumerate(mixture.shares):
        running = np.cumsum(shares, axis=1, dtype=np.float64)
        chances = rng.random(number)
        for k, (start, stop) in enumerate(zip([0, *stops[:-1]], stops, strict=True)):
            found = np.searchsorted(running[k], chances[start:stop] * running[k, -1], "right")
            codes[start:stop, a] = np.minimum(found, shares.shape[1] - 1)
    return codes


def synthesize(
    mixture: Mixture, fitted: Sequence[FittedTerm], number: int, rng: np.random.Generator
) -> tuple[Integers, list[Real]]:
    """Records whose counts are near those of the mixture, scaled to their number; the counts."""
    codes = draw(mixture, number, rng)
    scale = number / float(mixture.weights.sum())
    tables = [RecordTable(one.queries, mixture) for one in fitted]
    wanted = [scale * mixture.count(one.queries) for one in fitted]
    parts = list(zip(tables, wanted, fitted, strict=True))
    exchanged, last = FIRST_SHARE * number, math.inf
    for _ in range(EXCHANGES):
        apart = [table.count(codes) - goal for table, goal, _ in parts]
        slopes = [d * one.precision for d, one in zip(apart, fitted, strict=True)]
        loss = sum(float(np.vdot(d, slope)) for d, slope in zip(apart, slopes, strict=True))
        if loss > LEAST_GAIN * last:
            exchanged *= SMALLER
        if exchanged < 1:
            break
        last = loss
        _exchange(codes, int(exchanged), mixture, tables, slopes, rng)
    return codes[rng.permutation(number)], [table.count(codes) for table in tables]


def _exchange(
    codes: Integers,
    exchanged: int,
    mixture: Mixture,
    tables: Sequence[RecordTable],
    slopes: Sequence[Real],
    rng: np.random.Generator,
) -> None:
    """Of some records the ones with most excess, for those of new ones with least, in place."""
    old = rng.permutation(len(codes))[: CHOICE * exchanged]
    new = draw(mixture, len(old), rng)
    given, taken = (_excess(tables, slopes, some) for some in (codes[old], new))
    worst, best = np.argsort(-given)[:exchanged], np.argsort(taken)[:exchanged]
    better = given[worst] > taken[best]
    codes[old[worst[better]]] = new[best[better]]


def _excess(tables: Sequence[RecordTable], slopes: Sequence[Real], codes: Integers) -> Floats:
    parts = zip(tables, slopes, strict=True)
    return sum((table.excess(slope, codes) for table, slope in parts), np.zeros(len(codes)))


@dataclass(frozen=True, eq=False)
class RecordTable:
    """Counts the queries of a term over records, and looks up what each record adds."""

    queries: Queries
    mixture: Mixture

    def count(self, codes: Integers) -> Real:
        """The answers over these records, shaped by the rows."""
        total = np.zeros(self.queries.shape, np.float32)
        for coefficient, factors in self.queries.products:
            sizes = self._sizes(factors)
            if math.prod(sizes) <= LARGEST_TABLE:
                cells = np.bincount(self._cell(factors, codes), minlength=math.prod(sizes))
                answers = _applied(factors.values(), cells.reshape(sizes).astype(np.float32))
            else:
                answers = _matches(factors, codes).sum(axis=1)
            total += np.float32(coefficient) * answers.reshape(self.queries.shape)
        return total

    def excess(self, slope: Real, codes: Integers) -> Floats:
        """Σ_q slope_q · (what the record adds to query q), for every record."""
        total = np.zeros(len(codes))
        for coefficient, factors in self.queries.products:
            sizes = self._sizes(factors)
            if math.prod(sizes) <= LARGEST_TABLE:
                rows = [size if F is None else len(F) for size, F in self._parts(factors)]
                transposed = [None if F is None else F.T for F in factors.values()]
                found = _applied(transposed, slope.reshape(rows)).ravel()
                total += coefficient * found[self._cell(factors, codes)]
            else:
                total += coefficient * (slope.ravel() @ _matches(factors, codes))
        return total

    def _parts(self, factors: Factors) -> list[tuple[int, Real | None]]:
        return [(self.mixture.shares[a].shape[1], F) for a, F in factors.items()]

    def _sizes(self, factors: Factors) -> tuple[int, ...]:
        return tuple(size for size, _ in self._parts(factors))

    def _cell(self, factors: Factors, codes: Integers) -> Integers:
        """The number of each record's cell among those of the term's attributes."""
        cell = np.zeros(len(codes), np.int64)
        for a, size in zip(factors, self._sizes(factors), strict=True):
            cell = cell * size + codes[:, a]
        return cell


Factors = dict[int, Real | None]


def _applied(factors: Iterable[Real | None], table: Real) -> Real:
    """F₁ ⊗ F₂ ⊗ … on a table, one axis after another."""
    for i, F in enumerate(factors):
        if F is not None:
            table = np.moveaxis(np.tensordot(F, table, axes=(1, i)), 0, i)
    return table


def _matches(factors: Factors, codes: Integers) -> Real:
    """(queries, records): what each record adds to each query, for terms of many attributes."""
    rows = [
        np.eye(int(codes[:, a].max()) + 1, dtype=np.float32)[:, codes[:, a]]
        if F is None
        else F[:, codes[:, a]]
        for a, F in factors.items()
    ]
    return reduce(lambda x, y: (x[:, None, :] * y[None, :, :]).reshape(-1, len(codes)), rows)

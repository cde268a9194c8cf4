"""Workloads beyond the presets: ranges crossed with tables, products, a few conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dhdmm.study.factor import Factor, Ranges, factor_of
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Item, Product, Term, Workload

CPS = (50, 100, 7, 4, 2)
ADULT_14 = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
NUMERIC = (0, 2, 9, 10, 11)
CONDITIONS = (100, 16, 7, 15, 6, 42)
Kind = Callable[[int], Factor]
"""A coefficient, and a factor per attribute."""


def union(
    sizes: Sequence[int], terms: Sequence[Sequence[tuple[int, Sequence[Factor]]]]
) -> Workload:
    """Terms of weight 1, each a sum of products with a coefficient."""
    built = tuple(
        Term(1.0, tuple(Product(Fraction(c), tuple(f)) for c, f in term), (None,) * len(sizes))
        for term in terms
    )
    return Workload(Schema.of_sizes(tuple(sizes)), (Item("workload", built),))


def tables(sizes: Sequence[int], ways: int, numeric: Sequence[int], kind: Kind) -> Workload:
    """All tables of up to so many attributes, the numeric ones by ranges of a kind."""

    def factor(a: int, by: Sequence[int]) -> Factor:
        if a not in by:
            return Ranges.total(sizes[a])
        return kind(sizes[a]) if a in numeric else Ranges.each(sizes[a])

    chosen = [by for k in range(ways + 1) for by in itertools.combinations(range(len(sizes)), k)]
    return union(sizes, [[(1, [factor(a, by) for a in range(len(sizes))])] for by in chosen])


def product(*factors: Factor) -> Workload:
    return union([f.shape[1] for f in factors], [[(1, factors)]])


def both_ways(n: int) -> Workload:
    each, total = Ranges.prefixes(n), Ranges.total(n)
    return union((n, n), [[(1, [each, total])], [(1, [total, each])]])


def conditions(count: int, sizes: Sequence[int]) -> Workload:
    """Counts with a range on three attributes each, the same every time."""
    rng = np.random.default_rng(1)
    terms = []
    for _ in range(count):
        factors: list[Factor] = [Ranges.total(n) for n in sizes]
        for a in rng.choice(len(sizes), 3, replace=False):
            low, high = np.sort(rng.choice(sizes[a] + 1, 2, replace=False))
            factors[a] = Ranges(np.array([low]), np.array([high]), sizes[a])
        terms.append([(1, factors)])
    return union(sizes, terms)


def prefixes_or() -> Workload:
    """Prefixes of 50 values, and one count with OR."""
    old, first = Ranges(np.array([30]), np.array([50]), 50), Ranges(np.array([0]), np.array([1]), 3)
    whole, every = Ranges.total(50), Ranges.total(3)
    either = [(1, [old, every]), (1, [whole, first]), (-1, [old, first])]
    return union((50, 3), [[(1, [Ranges.prefixes(50), every])], either])


def tree(states: int, counties: int, tracts: int, even: bool = True) -> Workload:
    """Tracts with county and state totals, the values in no order; or counties of 1 … 2 · tracts.

    The order and the sizes are the same every time.
    """
    rng = np.random.default_rng(1)
    count = states * counties
    sizes = np.full(count, tracts) if even else rng.integers(1, 2 * tracts, count)
    county = rng.permutation(np.repeat(np.arange(count), sizes))

    def level(label: NDArray[np.int64]) -> Factor:
        ones, places = np.ones(len(label), np.int64), np.arange(len(label))
        return factor_of(sparse.csr_array((ones, (label, places))))

    levels = (Ranges.each(len(county)), level(county), level(county // counties))
    return union((len(county),), [[(1, [factor])] for factor in levels])


def hospital() -> Workload:
    """Ten tables over age, ward, sex, kind of admission and days: values, bands, ranges."""
    sizes = (111, 5, 2, 2, 61)
    cuts = np.array([0, 1, 18, 40, 65, 80, 111])
    bands, emergency = Ranges(cuts[:-1], cuts[1:], 111), Ranges(np.array([1]), np.array([2]), 2)
    tables: list[dict[int, Factor]] = [
        {},
        {1: Ranges.each(5), 2: Ranges.each(2)},
        {0: bands, 1: Ranges.each(5), 3: emergency},
        {4: Ranges.prefixes(61), 3: Ranges.each(2)},
        {0: Ranges.each(111), 2: Ranges.each(2)},
        {0: Ranges.prefixes(111)},
        {4: Ranges.all(61)},
        {0: bands, 1: Ranges.each(5)},
        {2: Ranges.each(2), 3: Ranges.each(2)},
        {0: bands, 4: Ranges.prefixes(61)},
    ]
    return union(
        sizes, [[(1, [t.get(a, Ranges.total(n)) for a, n in enumerate(sizes)])] for t in tables]
    )


WIDE: dict[str, Callable[[], Workload]] = {
    "CPS 3-way, prefix": lambda: tables(CPS, 3, (0, 1), Ranges.prefixes),
    "CPS 2-way, prefix": lambda: tables(CPS, 2, (0, 1), Ranges.prefixes),
    "CPS 2-way, ranges": lambda: tables(CPS, 2, (0, 1), Ranges.all),
    "Adult-14, prefix": lambda: tables(ADULT_14, 2, NUMERIC, Ranges.prefixes),
    "hospital": hospital,
    "rectangles 64": lambda: product(Ranges.all(64), Ranges.all(64)),
    "rectangles 256": lambda: product(Ranges.all(256), Ranges.all(256)),
    "prefixes 64": lambda: product(Ranges.prefixes(64), Ranges.prefixes(64)),
    "prefixes 100": lambda: product(Ranges.prefixes(100), Ranges.prefixes(100)),
    "prefixes 256": lambda: product(Ranges.prefixes(256), Ranges.prefixes(256)),
    "boxes 16": lambda: product(*[Ranges.all(16)] * 3),
    "prefixes 32": lambda: product(*[Ranges.prefixes(32)] * 3),
    "both ways 80": lambda: both_ways(80),
    "prefixes OR": prefixes_or,
    "10 conditions": lambda: conditions(10, CONDITIONS),
    "20 conditions": lambda: conditions(20, CONDITIONS),
    "100 conditions": lambda: conditions(100, CONDITIONS[:4]),
    "200 conditions": lambda: conditions(200, CONDITIONS),
    "1000 conditions": lambda: conditions(1000, CONDITIONS[:3]),
    "yes/no 60, 2-way": lambda: tables((2,) * 60, 2, (), Ranges.each),
    "Likert-5 30, 2-way": lambda: tables((5,) * 30, 2, (), Ranges.each),
    "Likert-5 25, 3-way": lambda: tables((5,) * 25, 3, (), Ranges.each),
    "10 values 20, 3-way": lambda: tables((10,) * 20, 3, (), Ranges.each),
    "10 values 50, 3-way": lambda: tables((10,) * 50, 3, (), Ranges.each),
    "10 values 100, 2-way": lambda: tables((10,) * 100, 2, (), Ranges.each),
    "8,000 tracts": lambda: tree(10, 20, 40),
    "uneven tracts": lambda: tree(10, 20, 40, even=False),
    "16,000 tracts": lambda: tree(20, 40, 20),
    "60,000 tracts": lambda: tree(50, 60, 20),
    "60,000 uneven": lambda: tree(50, 60, 20, even=False),
    "100,000 uneven": lambda: tree(50, 200, 10, even=False),
    "1000 on six": lambda: conditions(1000, CONDITIONS),
    "AllRange 2048": lambda: product(Ranges.all(2048)),
    "Prefix 2048": lambda: product(Ranges.prefixes(2048)),
    "AllRange 4096": lambda: product(Ranges.all(4096)),
    "AllRange 100,000": lambda: product(Ranges.all(100_000)),
    "Prefix 4096": lambda: product(Ranges.prefixes(4096)),
    "Prefix 100,000": lambda: product(Ranges.prefixes(100_000)),
}

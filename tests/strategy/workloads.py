"""Workloads that the strategy tests share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dhdmm.study.factor import Factor, Ranges, Rows
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Item, Product, Term, Workload

SEX, HISPANIC, RACE, RELATIONSHIP, AGE = range(5)
SF1_SIZES = (2, 2, 64, 17, 115)
ADULT_5 = (75, 16, 5, 2, 20)
ADULT_14 = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
AGE_EDGES = [
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 115)
]


def rows(matrix: object) -> Rows:
    return Rows(np.asarray(matrix, np.int64))


def workload(
    sizes: Sequence[int], *terms: tuple[float, Sequence[tuple[Fraction, Sequence[Factor]]]]
) -> Workload:
    """[(weight, [(coefficient, factors), …]), …] as one item."""
    built = tuple(
        Term(
            weight, tuple(Product(Fraction(c), tuple(f)) for c, f in products), (None,) * len(sizes)
        )
        for weight, products in terms
    )
    return Workload(Schema.of_sizes(sizes), (Item("workload", built),))


def plain(sizes: Sequence[int], products: Sequence[Sequence[Factor]]) -> Workload:
    """Unweighted terms of one product each."""
    return workload(sizes, *((1.0, [(Fraction(1), factors)]) for factors in products))


def marginal_factors(sizes: Sequence[int], by: Sequence[int]) -> list[Factor]:
    return [Ranges.each(n) if a in by else Ranges.total(n) for a, n in enumerate(sizes)]


def marginals(sizes: Sequence[int], ways: int) -> Workload:
    """All marginals over `ways` attributes."""
    chosen = itertools.combinations(range(len(sizes)), ways)
    return plain(sizes, [marginal_factors(sizes, by) for by in chosen])


def edges(cuts: Sequence[int], size: int) -> Ranges:
    return Ranges(np.array(cuts[:-1]), np.array(cuts[1:]), size)


def with_total(factor: Factor) -> Rows:
    matrix = factor.to_sparse().toarray()
    return rows(np.vstack([matrix, np.ones((1, matrix.shape[1]))]))


def sf1_products() -> list[list[Factor]]:
    """The Census 2010 Summary File 1 tables about persons: 33 terms, 4,151 queries."""
    races = np.array([mask.bit_count() for mask in range(64)])
    alone = np.array([np.arange(64) == 1 << i for i in range(6)])
    race7 = rows(np.vstack([alone, ~alone.any(axis=0)]))
    race70 = rows(np.vstack([np.eye(64)[1:], [races == c for c in range(1, 7)], [races >= 2]]))
    white = rows([np.arange(64) == 1])
    hispanic, other = rows([[1, 0]]), rows([[0, 1]])
    adult = rows([np.arange(115) >= 18])
    age23, age103 = edges(AGE_EDGES, 115), edges([*range(101), 105, 110, 115], 115)
    each = Ranges.each(2)
    both = with_total(each)
    place = {"sex": SEX, "hispanic": HISPANIC, "race": RACE, "age": AGE}

    def term(**by: Factor) -> list[Factor]:
        factors: list[Factor] = [Ranges.total(n) for n in SF1_SIZES]
        for name, factor in by.items():
            factors[place[name]] = factor
        return factors

    def detailed(age: Factor, race: Factor) -> list[list[Factor]]:
        return [
            term(sex=each, race=race7, age=age),
            term(sex=both, race=race7),
            term(sex=each, hispanic=hispanic, age=age),
            term(sex=both, hispanic=hispanic),
            term(sex=each, hispanic=other, race=race, age=age),
            term(sex=both, hispanic=other, race=race),
        ]

    return [
        *[term(), term(race=race7), term(), term(hispanic=each), term()],
        *[term(hispanic=each, race=race7), term(hispanic=both), term(race=race70), term()],
        *[term(hispanic=each), term(hispanic=other, race=race70), term()],
        *[term(race=race70, age=adult), term(age=adult), term(hispanic=each, age=adult)],
        *[term(hispanic=other, race=race70, age=adult), term(age=adult)],
        *[term(sex=each, age=age23), term(sex=both), *detailed(age23, white)],
        *[term(sex=each, age=age103), term(sex=both), *detailed(age103, race7)],
    ]


def sf1() -> Workload:
    return plain(SF1_SIZES, sf1_products())


def sf1_states(states: int = 51) -> Workload:
    state = with_total(Ranges.each(states))
    return plain((*SF1_SIZES, states), [[*factors, state] for factors in sf1_products()])


def one_attribute(factor: Factor) -> Workload:
    return plain((factor.shape[1],), [[factor]])

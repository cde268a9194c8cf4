"""The Census SF1 study file against its 33 terms, written here a second time as matrices."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg.lapack import dpstrf

from dhdmm.study.spec import Study

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {"sex": 2, "hispanic": 2, "race": 64, "relationship": 17, "age": 115}

MASKS, AGES = np.arange(64), np.arange(115)
RACES = np.array([bin(mask).count("1") for mask in MASKS])
SINGLE = np.array([2**i == MASKS for i in range(6)])
RACE7 = np.vstack([SINGLE, ~SINGLE.any(axis=0)])
RACE70 = np.vstack(
    [[mask == MASKS for mask in range(1, 64)], [n == RACES for n in range(1, 7)], [RACES >= 2]]
)
EDGES23 = [0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85]
EDGES103 = [*range(100), 100, 105, 110]
WHITE, ADULT = [MASKS == 1], [AGES >= 18]
HISPANIC, NOT_HISPANIC = [[1, 0]], [[0, 1]]
BOTH, BOTH_AND_TOTAL = np.eye(2), np.vstack([np.eye(2), [1, 1]])


def bins(edges):
    pairs = zip(edges, [*edges[1:], 115], strict=True)
    return np.array([(low <= AGES) & (high > AGES) for low, high in pairs])


AGE23, AGE103 = bins(EDGES23), bins(EDGES103)


def term(**factors):
    return [np.array(factors.get(name, np.ones((1, n))), int) for name, n in SIZES.items()]


def broken_down(age, race):
    """The tables A–I and A–O: by race, for Hispanics, and for others (by `race`)."""
    return [
        term(sex=BOTH, race=RACE7, age=age),
        term(sex=BOTH_AND_TOTAL, race=RACE7),
        term(sex=BOTH, hispanic=HISPANIC, age=age),
        term(sex=BOTH_AND_TOTAL, hispanic=HISPANIC),
        term(sex=BOTH, hispanic=NOT_HISPANIC, race=race, age=age),
        term(sex=BOTH_AND_TOTAL, hispanic=NOT_HISPANIC, race=race),
    ]


TABLES = {
    "P1": [term()],
    "P3": [term(race=RACE7), term()],
    "P4": [term(hispanic=BOTH), term()],
    "P5": [term(hispanic=BOTH, race=RACE7), term(hispanic=BOTH_AND_TOTAL)],
    "P8": [term(race=RACE70), term()],
    "P9": [term(hispanic=BOTH), term(hispanic=NOT_HISPANIC, race=RACE70), term()],
    "P10": [term(race=RACE70, age=ADULT), term(age=ADULT)],
    "P11": [
        term(hispanic=BOTH, age=ADULT),
        term(hispanic=NOT_HISPANIC, race=RACE70, age=ADULT),
        term(age=ADULT),
    ],
    "P12": [term(sex=BOTH, age=AGE23), term(sex=BOTH_AND_TOTAL)],
    "P12A-I": broken_down(AGE23, WHITE),
    "PCT12": [term(sex=BOTH, age=AGE103), term(sex=BOTH_AND_TOTAL)],
    "PCT12A-O": broken_down(AGE103, RACE7),
}
QUERIES = dict(zip(TABLES, [1, 8, 3, 17, 71, 73, 71, 73, 49, 441, 209, 3135], strict=True))


@pytest.fixture(scope="module")
def sf1():
    return Study.load(EXAMPLES / "census-sf1" / "study.yaml")


@pytest.fixture(scope="module")
def states():
    return Study.load(EXAMPLES / "census-sf1-states" / "study.yaml")


def factors(term):
    (product,) = term.products
    assert product.coefficient == 1
    assert term.weight == 1
    return [factor.to_sparse().toarray() for factor in product.factors]


def test_sf1_equals_its_33_terms_row_by_row(sf1):
    assert dict(zip(sf1.schema.names, sf1.schema.shape, strict=True)) == SIZES
    assert [item.name for item in sf1.workload.items] == list(TABLES)
    assert len(sf1.workload.terms) == 33
    for item in sf1.workload.items:
        for built, written in zip(item.terms, TABLES[item.name], strict=True):
            for ours, theirs in zip(factors(built), written, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_sf1_has_the_published_size(sf1):
    assert {item.name: item.queries for item in sf1.workload.items} == QUERIES
    assert (sf1.workload.queries, sf1.workload.cells) == (4151, 500_480)
    assert sf1.privacy.corrupt_fraction == sf1.aggregation.max_dropout == 0.05


def merged_matrix(workload):
    """W over the classes of values that no factor tells apart (SF1: 2 · 2 · 64 · 1 · 103)."""
    terms = [[f.to_sparse() for f in term.products[0].factors] for term in workload.terms]
    blocks = []
    stacked = [sparse.vstack(column, format="csc") for column in zip(*terms, strict=True)]
    chosen = [np.unique(m.toarray(), axis=1, return_index=True)[1] for m in stacked]
    for parts in terms:
        block = sparse.csr_array(np.ones((1, 1)))
        for part, columns in zip(parts, chosen, strict=True):
            block = sparse.kron(block, part[:, np.sort(columns)], format="csr")
        blocks.append(block)
    matrix = sparse.vstack(blocks, format="csr")
    matrix.sort_indices()
    return matrix


@pytest.mark.slow
def test_sf1_has_rank_3112_and_4039_distinct_queries(sf1):
    matrix = merged_matrix(sf1.workload)
    assert matrix.shape == (4151, 26_368)
    rows = pairwise(matrix.indptr)
    distinct = {matrix.indices[a:b].tobytes(): i for i, (a, b) in enumerate(rows)}
    assert len(distinct) == 4039
    chosen = matrix[sorted(distinct.values())]
    pivoted, _, rank, _ = dpstrf((chosen @ chosen.T).toarray(), tol=1e-6)
    assert rank == 3112
    assert pivoted.diagonal()[:rank].min() > 1e-2  # a wide gap: no matter of tolerance


def test_sf1_by_state_is_sf1_times_states_and_total(sf1, states):
    assert (states.workload.queries, states.workload.cells) == (215_852, 25_524_480)
    each_and_total = np.vstack([np.eye(51, dtype=int), np.ones((1, 51), int)])
    for with_state, without in zip(states.workload.terms, sf1.workload.terms, strict=True):
        *same, state = factors(with_state)
        np.testing.assert_array_equal(state, each_and_total)
        for ours, theirs in zip(same, factors(without), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_one_query_of_many_is_named_without_naming_the_others(states):
    query = states.workload.query(215_851)
    assert query.item == "PCT12A-O"
    assert query.label == "sex: total, hispanic: no, race7: everything else, state: total"
    assert (
        states.workload.query(53).sql == "SELECT COUNT(*) FROM data WHERE race = 1 AND state = 'AK'"
    )

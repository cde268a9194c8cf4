"""The entry for people who think in matrices, the factors behind it, and the SQL of its rows."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dhdmm.errors import StudyError
from dhdmm.study.factor import Ranges, Rows, factor_of, restricted, with_total
from dhdmm.study.workload import Workload
from tests.amounts import examples
from tests.study.one_record_tables import duckdb_matrix

seeded = settings(max_examples=examples(25, 500), deadline=None, derandomize=True)
matrices = st.integers(1, 4).flatmap(
    lambda size: st.lists(
        st.lists(st.sampled_from([0, 0, 1, 1, 1, -1, 2]), min_size=size, max_size=size),
        min_size=1,
        max_size=4,
    )
)


def only_factor(matrix):
    (term,) = Workload.from_kronecker([(1.0, [matrix])]).terms
    (factor,) = term.products[0].factors
    return factor


@seeded
@given(matrices, st.sampled_from([np.array, sparse.csr_array, sparse.coo_matrix, list]))
def test_a_matrix_in_any_form_comes_back(rows, form):
    workload = Workload.from_kronecker([(2.0, [form(rows)])])
    np.testing.assert_array_equal(workload.to_sparse().toarray(), 2.0 * np.array(rows))


@seeded
@given(matrices)
def test_exactly_the_matrices_of_runs_become_ranges(rows):
    runs = all(re.fullmatch("0*1+0*", "".join(map(str, row))) for row in rows)
    assert isinstance(only_factor(np.array(rows)), Ranges) == runs
    assert isinstance(only_factor(sparse.csr_array(np.array(rows))), Ranges) == runs


def test_all_ranges_given_dense_become_ranges():
    written = Ranges.all(256).to_sparse().astype(np.int8).toarray()
    factor = only_factor(written)
    assert isinstance(factor, Ranges)
    np.testing.assert_array_equal(factor.low, Ranges.all(256).low)
    np.testing.assert_array_equal(factor.high, Ranges.all(256).high)


@seeded
@given(matrices, st.data())
def test_rows_are_restricted_and_totalled_like_matrices(rows, data):
    dense = np.array(rows)
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=dense.shape[1], max_size=dense.shape[1]))
    )
    factor = factor_of(sparse.csr_array(dense))
    np.testing.assert_array_equal(restricted(factor, mask).to_sparse().toarray(), dense * mask)
    totalled = with_total(factor).to_sparse().toarray()
    np.testing.assert_array_equal(totalled, np.vstack([dense, np.ones(dense.shape[1])]))
    assert factor.nonzeros == np.count_nonzero(dense)


@pytest.mark.slow
@settings(max_examples=examples(12, 250), deadline=None, derandomize=True)
@given(matrices, matrices, st.sampled_from([1, Fraction(1, 2), Fraction(-3, 4)]))
def test_sql_of_any_matrix_is_what_the_matrix_says(left, right, scale):
    scaled = np.array(left, object) * scale
    workload = Workload.from_kronecker([(1.0, [scaled, right]), (1.0, [right_sized(left), right])])
    np.testing.assert_array_equal(workload.to_sparse().toarray(), duckdb_matrix(workload))


def right_sized(matrix):
    return np.ones((1, len(matrix[0])))


def test_a_query_reads_as_label_and_sql():
    workload = Workload.from_kronecker([(1.0, [[[1, 1, 1]], [[0, 1], [1, -1]]])])
    assert workload.query(0).label == "a0: 0–2, a1: 1"
    assert workload.query(0).sql == "SELECT COUNT(*) FROM data WHERE a1 = 1"
    assert workload.query(1).sql == (
        "SELECT COALESCE(SUM((CASE WHEN a1 = 0 THEN 1 WHEN a1 = 1 THEN -1 ELSE 0 END)), 0)"
        " FROM data"
    )
    with pytest.raises(IndexError, match="query 2 of 2"):
        workload.query(2)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([], "a workload needs at least one term"),
        ([(0.0, [np.eye(2)])], "term 0: a weight must be a positive number, not 0.0"),
        ([(float("inf"), [np.eye(2)])], "term 0: a weight must be a positive number, not inf"),
        ([(1.0, [])], "term 0: a term needs one matrix per attribute"),
        (
            [(1.0, [np.ones(3)])],
            "term 0, factor 0: a factor is a matrix, not an array of shape (3,)",
        ),
        ([(1.0, [[[1, 2], [3]]])], "term 0, factor 0: the rows of a factor differ in length"),
        ([(1.0, [[["a"]]])], "term 0, factor 0: a factor holds numbers, not <U1"),
        (
            [(1.0, [[[2**31]]])],
            "term 0, factor 0: entries over a common denominator exceed 2147483648",
        ),
        (
            [(1.0, [[[0.1234567891]]])],
            "term 0, factor 0: entry 0.1234567891 is not an integer or a simple fraction"
            " (strategies are exact integers: put real numbers into the term's weight)",
        ),
        (
            [(1.0, [[[float("nan")]]])],
            "term 0, factor 0: entry nan is not an integer or a simple fraction"
            " (strategies are exact integers: put real numbers into the term's weight)",
        ),
        (
            [(1.0, [np.eye(2)]), (1.0, [np.eye(3)])],
            "the terms disagree on the attributes' sizes: [(2,), (3,)]",
        ),
    ],
)
def test_matrices_that_cannot_be_measured_are_refused(terms, message):
    with pytest.raises(StudyError) as caught:
        Workload.from_kronecker(terms)
    assert str(caught.value) == message


def test_writing_out_too_large_a_matrix_is_refused_with_its_size():
    workload = Workload.from_kronecker([(1.0, [np.eye(1000), np.eye(1000), np.ones((1, 1000))])])
    with pytest.raises(StudyError) as caught:
        workload.to_sparse()
    assert caught.value.what == (
        "the matrix is 1,000,000 × 1,000,000,000 with 1,000,000,000 non-zero entries,"
        " above the limit of 200,000,000"
    )


def test_a_row_of_zeros_counts_nobody():
    workload = Workload.from_kronecker([(1.0, [[[0, 0], [1, 0]]])])
    assert isinstance(workload.terms[0].products[0].factors[0], Rows)
    assert workload.query(0).sql == "SELECT COUNT(*) FROM data WHERE FALSE"

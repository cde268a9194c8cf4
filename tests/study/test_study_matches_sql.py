"""For random small studies, the matrix of every item is what DuckDB makes of its queries' SQL."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

from dhdmm.errors import StudyError
from dhdmm.study import document
from dhdmm.study.spec import Study
from tests.amounts import examples
from tests.study.one_record_tables import duckdb_matrix
from tests.study.study_files import studies

NEVER_TRUE = (
    "no record can satisfy the condition, so the answers would all be 0",
    "the set holds no value of",
)


def load_or_discard(values):
    """Random conditions may hold for no record, and random sets for no value: both are refused."""
    try:
        return Study.from_text(document.write(values))
    except StudyError as error:
        assume(not error.what.startswith(NEVER_TRUE))
        raise


def unweighted(workload):
    weights = np.concatenate([np.full(term.queries, term.weight) for term in workload.terms])
    return workload.to_sparse().toarray() / weights[:, None]


def check_against_duckdb(values):
    workload = load_or_discard(values).workload
    whole = workload.schema.units * unweighted(
        workload
    )  # a record at an end has all its parts there
    np.testing.assert_allclose(whole, duckdb_matrix(workload), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=examples(25, 1000), deadline=None, derandomize=True)
@given(studies())
def test_matrix_equals_duckdb_on_every_one_record_table(values):
    check_against_duckdb(values)


@pytest.mark.slow
@settings(max_examples=examples(25, 1000), deadline=None, derandomize=True)
@given(studies())
def test_writing_a_study_and_reading_it_back_keeps_its_canonical_bytes(values):
    study = load_or_discard(values)
    again = Study.from_text(study.to_yaml())
    assert again.canonical_bytes() == study.canonical_bytes()
    assert again.to_yaml() == study.to_yaml()

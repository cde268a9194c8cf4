"""Random queries to random small releases: the answers, the errors and the refusals are the dense
computation's.

The library decides about the row space by arithmetic modulo three primes, here rational elimination
decides: a disagreement by chance has probability below 10⁻¹⁵ a query.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dhdmm.errors import NotMeasured, StudyError
from dhdmm.release.release import Release
from tests.amounts import examples
from tests.release.random_questions import (
    SURVIVORS,
    Question,
    dense_space,
    questions,
    random_release,
)

STUDIES = 6


def check_empty(release: Release, sql: str) -> None:
    """Refused by the study's rule, or exactly 0 where a coupled condition hides the emptiness."""
    try:
        table = release.query(sql)
    except StudyError:
        return
    assert np.allclose([table.values, table.standard_errors], 0, atol=1e-6)


def check_question(seed: int, question: Question) -> str:
    """Compares one question with the dense computation; returns what happened."""
    release = random_release(seed)[1]
    A, space = dense_space(seed)
    expected = question.rows(release.plan.study)
    if not any(w.any() for w in expected.values()):
        check_empty(release, question.sql)
        return "empty"
    if not all(w in space for w in expected.values()):
        with pytest.raises(NotMeasured) as refusal:
            release.query(question.sql)
        for nearest in refusal.value.nearest:
            assert len(release.query(nearest)) > 0
        return "refused"
    table = release.query(question.sql).to_arrow().to_pylist()
    answered = {tuple(row[name] for name in question.names): row for row in table}
    assert len(answered) == len(table)
    assert {labels for labels, w in expected.items() if w.any()} <= answered.keys()
    for labels, row in answered.items():
        y = np.linalg.lstsq(A.T.astype(float), expected[labels], rcond=None)[0]
        variance = float(SURVIVORS * release.plan.participant_variance) * float(y @ y)
        assert row["value"] == pytest.approx(float(y @ release.measurement), rel=1e-8, abs=1e-6)
        assert row["standard_error"] == pytest.approx(variance**0.5, rel=1e-7, abs=1e-7)
    return "answered"


def ask_at_random(count: int, studies: int) -> Counter[str]:
    """What happened to so many questions, each compared with the dense computation."""
    found: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        seed = data.draw(st.integers(0, studies - 1))
        found[check_question(seed, data.draw(questions(random_release(seed)[0])))] += 1

    ask()
    return found


@pytest.mark.slow
def test_answers_errors_and_refusals_equal_the_dense_computation() -> None:
    found = ask_at_random(200, STUDIES)
    assert min(found["answered"], found["refused"]) > 50


@pytest.mark.soak
def test_many_more_questions_to_many_more_studies() -> None:
    found = ask_at_random(3000, 200)
    assert min(found["answered"], found["refused"]) > 500


@pytest.mark.slow
@settings(max_examples=examples(15, 400))
@given(st.data())
def test_cube_is_its_grouping_sets_one_after_another(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, STUDIES - 1))
    domain, release = random_release(seed)
    question = data.draw(questions(domain).filter(lambda q: q.names))
    sets = [
        Question(domain, list(names), question.condition)
        for size in range(len(question.names), -1, -1)
        for names in combinations(question.names, size)
    ]
    _, space = dense_space(seed)
    groups = [one.rows(release.plan.study).values() for one in sets]
    assume(all(any(w.any() for w in group) for group in groups))
    rows = [w for group in groups for w in group]
    if not all(w in space for w in rows):
        with pytest.raises(NotMeasured):
            release.query(question.cube_sql)
        return
    parts = [release.query(one.sql) for one in sets]
    whole = release.query(question.cube_sql)
    assert np.allclose(whole.values, np.concatenate([part.values for part in parts]))
    errors = np.concatenate([part.standard_errors for part in parts])
    assert np.allclose(whole.standard_errors, errors)

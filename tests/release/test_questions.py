"""Further questions: agreement with the release, refusals that help, and the row space itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dhdmm
from dhdmm.errors import NotMeasured, StudyError
from dhdmm.release import answerable
from dhdmm.strategy.optimise import optimise
from dhdmm.study.factor import Ranges, Rows
from dhdmm.study.workload import Product, Term, Workload
from tests.release.releases import release_of


@pytest.fixture(scope="module")
def release():
    return release_of()


def refusal(release, sql: str) -> NotMeasured:
    with pytest.raises(NotMeasured) as refused:
        release.query(sql)
    return refused.value


def test_a_query_of_the_workload_has_the_release_s_own_answer(release):
    asked = release.query("SELECT sex, COUNT(*) FROM data WHERE age >= 18 GROUP BY sex")
    assert np.allclose(asked.values, release["adults"].values)
    assert np.allclose(asked.standard_errors, release["adults"].standard_errors)


def test_new_answers_agree_with_old_ones(release):
    parts = release.query("SELECT sex, band, COUNT(*) FROM data GROUP BY sex, band")
    assert parts.values.sum() == pytest.approx(release["everyone"].values[0])


def test_standard_error_grows_with_the_survivors(release):
    sql = "SELECT COUNT(*) FROM data WHERE age BETWEEN 3 AND 17"
    fewer = release.query(sql).standard_errors[0]
    more = dhdmm.Release(release.plan, bytes(16), 60, release.measurement)
    assert more.query(sql).standard_errors[0] == pytest.approx(fewer * (60 / 57) ** 0.5)


def test_level_and_joint_bounds_are_of_this_query(release):
    sql = "SELECT age, COUNT(*) FROM data GROUP BY age"
    table = release.query(sql, level=0.8, joint=True)
    assert table.level == 0.8
    assert table.together == 30
    assert table.to_arrow().column_names[-2:] == ["joint_low", "joint_high"]


def test_cubes_and_coupled_conditions_are_answered(release):
    cube = release.query("SELECT sex, value, COUNT(*) FROM data GROUP BY CUBE (sex, value)")
    assert np.allclose(cube.values, release["cube"].values)
    coupled = release.query(
        "SELECT sex, COUNT(*) FROM data WHERE age >= 18 OR value < 10 GROUP BY sex"
    )
    assert np.allclose(coupled.values, release["coupled"].values[:2])


def test_refusal_says_how_many_answers_are_missing_and_which_first(release):
    refused = refusal(release, "SELECT age, value, COUNT(*) FROM data GROUP BY age, value")
    assert "any of its 90 answers (first: age: 0, value: [0, 10))" in refused.what


def test_refusal_names_the_coarser_grouping_first(release):
    refused = refusal(release, "SELECT age, value, COUNT(*) FROM data GROUP BY age, value")
    assert refused.nearest[0] == "SELECT band, value, COUNT(*) FROM data GROUP BY band, value"


def test_refusal_moves_the_end_of_a_range_to_where_it_was_measured(release):
    refused = refusal(release, "SELECT value, COUNT(*) FROM data WHERE age >= 7 GROUP BY value")
    moved = "SELECT value, COUNT(*) FROM data WHERE age >= 10 AND age < 30 GROUP BY value"
    assert refused.nearest[0] == moved
    assert "SELECT COUNT(*) FROM data WHERE age >= 7 AND age < 30" in refused.nearest


def test_refused_cube_names_its_answerable_grouping_sets(release):
    refused = refusal(release, "SELECT age, value, COUNT(*) FROM data GROUP BY ROLLUP (value, age)")
    assert refused.nearest == (
        "SELECT value, COUNT(*) FROM data GROUP BY value",
        "SELECT COUNT(*) FROM data",
    )


def test_every_suggestion_is_answerable(release):
    for sql in (
        "SELECT sex, age, value, COUNT(*) FROM data WHERE age < 7 GROUP BY sex, age, value",
        "SELECT value, COUNT(*) FROM data WHERE age >= 7 OR sex = 'Male' GROUP BY value",
        "SELECT COUNT(*) FROM data WHERE age BETWEEN 3 AND 14 AND value < 10 AND sex = 'Male'",
    ):
        nearest = refusal(release, sql).nearest
        assert 0 < len(nearest) <= answerable.SUGGESTIONS
        for suggestion in nearest:
            assert len(release.query(suggestion))


def test_refusal_without_a_near_query_names_the_tables_about_the_attribute():
    study = """
study: narrow
schema:
  sex: {type: category, values: [Female, Male]}
  age: {type: integer, range: [0, 9]}
workload:
  - {name: women, by: [sex], where: "sex = 'Female' AND age >= 5"}
"""
    release = release_of(study)
    refused = refusal(release, "SELECT COUNT(*) FROM data WHERE sex = 'Male'")
    assert refused.nearest == ()
    assert refused.hint == "the release has tables of its own: women"


def test_mistakes_in_the_sql_are_told_with_their_place(release):
    with pytest.raises(StudyError, match="unknown attribute 'agee'") as error:
        release.query("SELECT COUNT(*) FROM data WHERE agee > 3")
    assert "line 1, column 33" in str(error.value)


def test_too_many_groups_are_refused_before_they_are_made(release, monkeypatch):
    monkeypatch.setattr("dhdmm.release.questions.LARGEST_ANSWERS", 20)
    with pytest.raises(StudyError, match="30 groups, more than 20"):
        release.query("SELECT age, COUNT(*) FROM data GROUP BY age")


# ---- the row space ------------------------------------------------------------------------------


def one_row(*factors: Ranges | Rows) -> Term:
    return Term(1.0, (Product(Fraction(1), factors),), (None,) * len(factors))


def test_all_cells_but_one_of_a_huge_domain_are_told_from_all_cells():
    """Relative to its length it is 10⁻⁷ away from the total: a tolerance would take it for that."""
    sizes, axes = (100,) * 7, (None,) * 7
    each = [
        [np.eye(n, dtype=int) if a == b else np.ones((1, n), int) for b, n in enumerate(sizes)]
        for a in range(7)
    ]
    strategy = optimise(Workload.from_kronecker([(1.0, factors) for factors in each]))
    total = Product(Fraction(1), tuple(Ranges.total(n) for n in sizes))
    cell = Product(Fraction(-1), tuple(Ranges(np.array([7]), np.array([8]), n) for n in sizes))
    assert strategy.membership.contains(Term(1.0, (total,), axes))
    assert not strategy.membership.contains(Term(1.0, (total, cell), axes))


def test_rows_of_one_term_are_judged_one_by_one():
    """Values 0 and 1 are never told apart: only rows that split them are outside."""
    workload = Workload.from_kronecker([(1.0, [[[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]])])
    membership = optimise(workload).membership
    rows = Rows(np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]))
    assert membership.measured(one_row(rows)).tolist() == [True, False, True, False]

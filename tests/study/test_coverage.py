"""Rows that were left out, counted as part of the workload: exact, bounded, and nearly free."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import StudyError
from dhdmm.participant.tabulate import count_for, tabulate
from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.planning.draft import plan
from dhdmm.release.coverage import coverage_words
from dhdmm.release.release import Release
from dhdmm.runner import run
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.division import divided
from dhdmm.study.histogram import Histogram
from dhdmm.study.models import PersonModel
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study
from tests.amounts import examples

TEXT = """
study: covered
schema:
  age: {{type: integer, range: [0, 4]}}
  sex: {{type: category, values: [F, M]}}
workload:
  - {{name: ages, by: [age], with_totals: [age]}}
  - {{name: young, sql: "SELECT sex, COUNT(*) FROM data WHERE age < 3 GROUP BY sex"}}
{coverage}
privacy: {{unit: {unit}, epsilon: 4, delta: 1e-6, corrupt_fraction: 0.2, relation: {relation}}}
aggregation: {{participants: 5, max_dropout: 0.0, max_records_per_participant: 40}}
"""
ASKED = "  - {name: rows, coverage: true}"


def covered(unit: str = "record", relation: str = "zero-out", coverage: str = ASKED) -> Study:
    return Study.from_text(TEXT.format(unit=unit, relation=relation, coverage=coverage))


@cache
def strategy_of_covered() -> Strategy:
    return optimise(covered().workload)


def table(rows: list[tuple[int | None, str]]) -> pa.Table:
    ages, sexes = [age for age, _ in rows], [sex for _, sex in rows]
    return pa.table({"age": pa.array(ages, pa.int64()), "sex": pa.array(sexes, pa.string())})


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.sampled_from(["F", "M", "x"])),
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=examples(10, 200))
@given(ROWS)
def test_a_row_is_counted_or_left_out_and_every_answer_is_of_the_counted_ones(rows):
    study, strategy = covered(), strategy_of_covered()
    counted = count_for(study, table(rows), on_unknown="drop", accept_loss=1.0)
    known = [(age, sex) for age, sex in rows if age is not None and age <= 4 and sex != "x"]
    answers = np.rint(strategy.reconstruct(strategy.measure(counted.histogram)))
    ages, sexes = Counter(age for age, _ in known), Counter(sex for age, sex in known if age < 3)
    expected = [*(ages[age] for age in range(5)), len(known), sexes["F"], sexes["M"]]
    assert answers.tolist() == [*expected, len(known), len(rows) - len(known)]
    assert counted.histogram.records == len(rows)


@pytest.mark.parametrize("relation", ["zero-out", "replace"])
def test_sensitivity_is_the_largest_change_by_one_row_whether_counted_or_left_out(relation):
    study = covered(relation=relation)
    strategy = optimise(study.workload)
    cells = np.array(list(np.ndindex(*study.workload.schema.shape)))
    columns = np.array([strategy.measure(Histogram.of_records(cell[None])) for cell in cells])
    changes = [(columns**2).sum(axis=1).max()]
    if relation == "replace":
        changes.append(((columns[:, None] - columns[None]) ** 2).sum(axis=2).max())
    assert unit_sensitivity_squared(study, strategy) == max(changes)


@pytest.mark.slow
@settings(max_examples=examples(10, 200))
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["F", "M", "x"])), max_size=24))
def test_one_person_changes_counted_and_left_out_rows_by_at_most_the_bound_together(rows):
    unit = PersonModel(column="id", max_records=2, max_participants=1)
    schema = Schema((covered().schema.attributes[1],))

    def histogram(kept: list[tuple[int, str]]) -> dict[tuple[int, ...], int]:
        given = pa.table(
            {
                "id": pa.array([who for who, _ in kept], pa.int64()),
                "sex": pa.array([sex for _, sex in kept], pa.string()),
            }
        )
        found = tabulate(given, schema, unit=unit, on_unknown="drop", coverage=True).histogram
        return dict(zip(map(tuple, found.codes.tolist()), found.counts.tolist(), strict=True))

    everybody = histogram(rows)
    for who in {who for who, _ in rows}:
        others = histogram([row for row in rows if row[0] != who])
        cells = everybody.keys() | others.keys()
        assert sum(abs(everybody.get(c, 0) - others.get(c, 0)) for c in cells) <= 2


def test_without_the_bound_left_out_rows_of_one_person_have_none():
    """The weakened variant: the rows as the report counts them, which nothing bounds."""
    unit = PersonModel(column="id", max_records=2, max_participants=1)
    given = pa.table({"id": [1] * 9, "sex": ["x"] * 9})
    schema = Schema((covered().schema.attributes[1],))
    counted = tabulate(given, schema, unit=unit, on_unknown="drop", coverage=True)
    assert counted.histogram.records == 2
    assert counted.report.dropped == 9


def test_a_left_out_row_is_whole_where_records_are_divided_by_a_measure():
    text = TEXT.format(unit="record", relation="zero-out", coverage=ASKED)
    text = text.replace("  sex:", "  days: {type: measure, range: [0, 10], step: 1}\n  sex:")
    study = Study.from_text(text.replace("workload:", "workload:\n  - {name: d, sum: {of: days}}"))
    given = table([(1, "F"), (2, "M"), (9, "F"), (3, "x")]).append_column(
        "days", pa.array([3, 12, 4, 5])
    )
    counted = count_for(study, given, on_unknown="drop", accept_loss=1.0).histogram
    strategy = optimise(study.workload)
    answers = strategy.reconstruct(strategy.measure(divided(study.schema, counted)))
    rows = study.workload.rows
    assert answers[rows["d"]] == pytest.approx([13.0]), "12 is clipped to 10"
    assert answers[rows["rows"]] == pytest.approx([2.0, 2.0])


def test_rows_that_name_no_person_are_in_neither_count():
    unit = PersonModel(column="id", max_records=2, max_participants=1)
    given = pa.table({"id": ["", "a", "b"], "sex": ["x", "F", "x"]})
    schema = Schema((covered().schema.attributes[1],))
    counted = tabulate(given, schema, unit=unit, on_unknown="drop", coverage=True)
    assert counted.histogram.codes.tolist() == [[0, 0], [0, 1]]
    assert counted.report.nobody == 1


def test_coverage_adds_one_sum_and_costs_other_answers_next_to_nothing():
    with_it, without = (optimise(covered(coverage=text).workload) for text in (ASKED, ""))
    assert with_it.rows == without.rows + 1
    errors = [
        np.sqrt(one.variances() * one.sensitivity_squared)[: without.variances().size]
        for one in (with_it, without)
    ]
    assert np.linalg.norm(errors[0]) <= 1.02 * np.linalg.norm(errors[1])


@pytest.mark.slow
def test_a_release_says_how_many_rows_were_left_out(tmp_path: Path):
    study = covered()
    rows = [(age % 6, "FM"[age % 2]) for age in range(36)]  # every sixth is outside the domain
    with pytest.warns(UserWarning, match="left out"):
        release = run(plan(study), [table(rows)] * 5, on_unknown="drop", accept_loss=0.2)
    release.save(tmp_path / "release")
    coverage = Release.load(tmp_path / "release").coverage
    assert coverage is not None
    assert abs(coverage.counted - 150) < 8 * coverage.counted_error
    assert abs(coverage.left_out - 30) < 8 * coverage.left_out_error
    assert " counted, " in coverage_words(release)
    assert release["rows"].varying() == {"rows": ["counted", "left out"]}
    table_of_query = release.query("SELECT COUNT(*) FROM data")
    assert table_of_query.values[0] == pytest.approx(coverage.counted)


def test_a_release_of_a_study_that_did_not_ask_says_that_it_does_not_know():
    release = run(plan(covered(coverage="")), [table([(1, "F")])] * 5)
    assert release.coverage is None
    assert coverage_words(release).startswith("not known")
    assert release.provenance()["coverage"] is None


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (f"{ASKED}\n  - {{name: again, coverage: true}}", "the coverage is asked for twice"),
        ("  - {name: rows, coverage: true, where: age > 1}", "'coverage' is of all rows"),
        ("  - {name: rows, coverage: true, by: [age]}", "exactly one of"),
        ("  - {name: rows, by: [rows]}\n  - {name: c, coverage: true}", "unknown attribute"),
    ],
)
def test_mistakes_are_explained(item, message):
    with pytest.raises(StudyError, match=message):
        covered(coverage=item)


def test_left_out_rows_have_sql_of_their_own_and_the_study_keeps_its_columns():
    study = covered()
    assert study.schema.names == ("age", "sex")
    assert study.workload.query(8).sql == "SELECT COUNT(*) FROM data"
    assert study.workload.query(9).sql == "SELECT COUNT(*) FROM left_out"
    assert Study.from_canonical_bytes(study.canonical_bytes()).digest == study.digest

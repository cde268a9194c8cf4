"""A data holder's own columns: names, codes, blanks, case, numbers, dates, missing values, SQL."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dhdmm.errors import DataError, StudyError
from dhdmm.participant import warehouse
from dhdmm.participant.mapping import columns_of
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute
from dhdmm.study.attributes.missing import WithMissing
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study
from tests.participant.histograms import contents

AGE, SEX = IntegerAttribute("age", 0, 99), CategoryAttribute("sex", ("female", "male"))
SCHEMA = Schema((AGE, SEX))
RAW = {
    "AGE_YEARS": ["7", "NA", "8", "-1", "9"],
    "Sex": ["F", " Female", "MALE ", "m", "male"],
}
MAPPING = """
columns:
  age: {column: AGE_YEARS, missing: [NA, -1]}
  sex: {column: Sex, ignore_case: true, recode: {f: female, m: male}}
"""
EXPECTED = {(7, 0): 1, (8, 1): 1, (9, 1): 1}


@pytest.fixture
def mapping(tmp_path):
    (tmp_path / "visits.map.yaml").write_text(MAPPING)
    return tmp_path / "visits.map.yaml"


def sources(tmp_path):
    given = pa.table(RAW)
    lines = [",".join(RAW), *(",".join(row) for row in zip(*RAW.values(), strict=True))]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    yield tmp_path / "visits.csv"
    yield given
    yield given.to_pandas()
    with duckdb.connect(tmp_path / "visits.duckdb") as database:
        database.register("given", given)
        database.execute("CREATE OR REPLACE TABLE visits AS FROM given")
    yield warehouse.table(f"duckdb://{tmp_path / 'visits.duckdb'}", "visits")


def test_every_kind_of_source_is_mapped_alike(tmp_path, mapping):
    for table in sources(tmp_path):
        counted = tabulate(table, SCHEMA, columns=mapping, on_unknown="drop")
        assert contents(counted.histogram) == EXPECTED
        assert counted.report.unknown == {"age": 2, "sex": 0}


def test_missing_marks_become_the_declared_missing_value(tmp_path, mapping):
    schema = Schema((WithMissing("age", AGE, "not recorded"), SEX))
    for table in sources(tmp_path):
        counted = tabulate(table, schema, columns=mapping)
        assert contents(counted.histogram) == EXPECTED | {(100, 0): 1, (100, 1): 1}


def test_an_expression_is_over_the_holders_own_columns(tmp_path, mapping):
    columns = {"age": {"sql": 'length("Sex")'}, "sex": {"sql": "'female'"}}
    for table in sources(tmp_path):
        counted = tabulate(table, SCHEMA, columns=columns)
        assert contents(counted.histogram) == {(1, 0): 2, (7, 0): 1, (5, 0): 1, (4, 0): 1}


def test_numbers_with_other_marks_and_dates_in_other_forms(tmp_path):
    (tmp_path / "t.csv").write_text("pay;day\n1.234,5;03.02.2026\n12,0;x\n")
    study = Study.from_text(
        """
study: pay
schema:
  pay: {type: number, edges: [0, 100, 2000]}
  day: {type: date, range: [2026-02-01, 2026-02-09]}
workload: [{name: days, by: [day]}]
"""
    )
    columns = {"pay": {"thousands": ".", "decimal": ","}, "day": {"date": "%d.%m.%Y"}}
    counted = tabulate(tmp_path / "t.csv", study.schema, columns=columns, on_unknown="drop")
    assert contents(counted.histogram) == {(1, 2): 1}
    assert counted.report.unknown == {"pay": 0, "day": 1}


def test_a_persons_column_can_only_be_renamed():
    from dhdmm.study.models import PersonModel

    unit = PersonModel(column="who", max_records=1, max_participants=1)
    given = pa.table({"ID": ["a", "a"], "age": [1, 1], "sex": ["male", "male"]})
    counted = tabulate(given, SCHEMA, unit=unit, columns={"who": "ID"})
    assert counted.report.records_truncated == 1
    with pytest.raises(DataError, match="'who' identifies persons and is compared as it is"):
        tabulate(given, SCHEMA, unit=unit, columns={"who": {"column": "ID", "ignore_case": True}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: {age: {colum: A}}", r"map.yaml:1: columns.age.colum: unknown key 'colum'"),
        ("columns: {age: {column: A, sql: B}}", "'age' has both a column and sql"),
        ("[age]", "a mapping file is a mapping"),
        ("columns: {ages: A}", "the study has no attribute 'ages'"),
    ],
)
def test_a_mistake_in_a_mapping_names_its_place(tmp_path, text, message):
    (tmp_path / "map.yaml").write_text(text)
    with pytest.raises((StudyError, DataError), match=message):
        tabulate(pa.table({"age": [1], "sex": ["male"]}), SCHEMA, columns=tmp_path / "map.yaml")


def test_wrong_sql_is_explained_without_a_value_of_the_table():
    given = pa.table({"age": ["Mrs-Secret"], "sex": ["male"]})
    with pytest.raises(DataError, match=r"the mapping's SQL: .*nosuch") as caught:
        tabulate(given, SCHEMA, columns={"age": {"sql": "nosuch + 1"}})
    assert "Secret" not in str(caught.value)
    with pytest.raises(DataError) as caught:
        tabulate(given, SCHEMA, columns={"age": {"sql": "age::INTEGER"}})
    assert "Secret" not in str(caught.value)


def test_two_values_that_differ_in_case_alone_cannot_be_folded():
    schema = Schema((CategoryAttribute("sex", ("m", "M")),))
    with pytest.raises(DataError, match="without case, 'M' could mean two values of 'sex'"):
        tabulate(pa.table({"sex": ["m"]}), schema, columns={"sex": {"ignore_case": True}})


def test_a_mapping_cannot_reach_another_file(tmp_path):
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (tmp_path / "t.csv").write_text("age,sex\n1,male\n")
    sql = f"(SELECT max(x) FROM read_csv('{tmp_path / 'secret.csv'}'))"
    with pytest.raises(DataError):
        tabulate(tmp_path / "t.csv", SCHEMA, columns={"age": {"sql": sql}})


def test_the_example_of_the_documentation_is_a_mapping(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")
    (tmp_path / "map.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    columns = columns_of(tmp_path / "map.yaml")
    assert columns["outcome"].column == "OUTCOME"
    assert columns["ward"].sql == "split_part(unit_code, '-', 1)"

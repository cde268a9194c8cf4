"""A value may be missing: a value of its own, the last one, that no comparison holds for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dhdmm.demo.made_up import made_up
from dhdmm.errors import DataError, StudyError
from dhdmm.participant.tabulate import tabulate
from dhdmm.release.intervals import Sums
from dhdmm.release.panels import panels_of
from dhdmm.release.pictures import Lines
from dhdmm.release.tables import Table
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study
from tests.participant.histograms import contents

TEXT = """\
study: visits
schema:
  age: {type: integer, range: [0, 49], missing: true}
  sex: {type: category, values: [F, M], missing: not said}
  hours: {type: number, edges: "0:20:5", missing: true}
groupings:
  band: {of: age, edges: [0, 25, 50]}
  known: {of: sex, sets: [{label: said, values: [F, M]}, {label: silent, values: [not said]}]}
workload:
  - {name: ages, by: [age], with_totals: [age]}
  - {name: upto, ranges: {of: age, kind: prefix}}
  - {name: known, by: [known, band]}
  - {name: not old, total: true, where: NOT age > 30}
  - {name: unknown, total: true, where: age IS NULL AND sex IS NOT NULL}
privacy: {unit: record, rho: 0.5, corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 9}
"""
RECORDS: dict[str, list[Any]] = {
    "age": [1, None, 3, 49],
    "sex": ["F", None, "M", "NA"],
    "hours": [1.5, float("nan"), 20.0, None],
}
CELLS = {(1, 0, 0): 1, (50, 2, 4): 1, (3, 1, 3): 1, (49, 2, 4): 1}
CSV = "age,sex,hours\n1,F,1.5\n,,\n3,M,20\n49, NA ,null\n"


@pytest.mark.parametrize("place", ["arrow", "pandas", "csv", "warehouse", "record"])
def test_missing_values_are_counted_as_such(place: str, tmp_path: Path) -> None:
    study = Study.from_text(TEXT)
    if place == "record":
        rows = pa.table(RECORDS).to_pylist()
        assert {study.schema.encode(row): 1 for row in rows} == CELLS
        return
    (tmp_path / "visits.csv").write_text(CSV)
    table = pa.table(RECORDS)
    given = {
        "arrow": table,
        "pandas": pd.DataFrame(RECORDS),
        "csv": tmp_path / "visits.csv",
        "warehouse": ibis.memtable(table),
    }[place]
    counted = tabulate(given, study.schema)
    assert contents(counted.histogram) == CELLS
    assert sum(counted.report.unknown.values()) == 0


@pytest.mark.parametrize(
    "strange", [{"age": [3.5]}, {"age": [50]}, {"sex": ["D"]}, {"hours": [21.0]}]
)
def test_a_value_outside_the_domain_is_not_missing(strange: dict[str, list[Any]]) -> None:
    table = pa.table({"age": [1], "sex": ["F"], "hours": [2.0]} | strange)
    for given in (table, ibis.memtable(table)):
        with pytest.raises(DataError, match=f"column '{next(iter(strange))}' in 1 row"):
            tabulate(given, Study.from_text(TEXT).schema)


def test_a_listed_value_is_not_missing_though_it_looks_so() -> None:
    text = TEXT.replace("[F, M]", '[F, M, "", none]', 1)
    table = pa.table({"age": [1, 1, 1], "sex": ["", "none", "NA"], "hours": [1.0] * 3})
    counted = tabulate(table, Study.from_text(text).schema).histogram
    assert counted.codes[:, 1].tolist() == [2, 3, 4]


def test_the_missing_value_is_in_no_range_and_no_comparison() -> None:
    study = Study.from_text(TEXT)
    rows = {item.name: item.terms[0].products[0].factors for item in study.workload.items}
    of_missing = {name: rows[name][0].to_sparse().toarray()[:, 50] for name in rows}
    assert of_missing["upto"].sum() == 0
    assert of_missing["known"].sum() == 0
    assert of_missing["not old"].tolist() == [0]
    assert of_missing["unknown"].tolist() == [1]
    assert of_missing["ages"].tolist() == [0] * 50 + [1, 1], "its own row, and the total"
    said = rows["known"][1].to_sparse().toarray().tolist()
    assert said == [[1, 1, 0], [0, 0, 1]]


@pytest.mark.slow
def test_the_missing_value_has_its_label_and_sql() -> None:
    study = Study.from_text(TEXT)
    assert study.workload.query(50)[1:] == (
        "age: missing",
        "SELECT COUNT(*) FROM data WHERE age IS NULL",
    )
    assert describe(study)["attributes"][1]["domain"] == "F, M, not said"
    assert describe(study)["attributes"][0]["type"] == "integer"
    for table in made_up(study, 8):
        tabulate(table, study.schema)


def test_the_missing_value_stands_apart_from_a_line() -> None:
    study = Study.from_text(TEXT)
    table = Table(study.schema, study.workload.items[0], Sums(np.arange(52.0), np.ones(52)))
    (panel,) = panels_of(table)
    assert isinstance(panel.picture, Lines)
    assert panel.picture.values.tolist() == [[list(range(51))]]
    assert panel.picture.direction.apart == 1


def test_true_and_the_label_missing_are_one_study() -> None:
    study = Study.from_text(TEXT)
    assert Study.from_text(TEXT.replace("missing: true", "missing: missing")).digest == study.digest
    assert Study.from_canonical_bytes(study.canonical_bytes()).schema == study.schema
    hours = ", missing: true}\ngroupings"
    never = TEXT.replace(hours, ", missing: false}\ngroupings")
    assert (
        Study.from_text(never).digest == Study.from_text(TEXT.replace(hours, "}\ngroupings")).digest
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing: F}", "'sex' has a value called 'F' (give the missing value another label"),
        ("missing: 3}", "visits:4: schema.sex.missing: expected text, not 3"),
    ],
)
def test_a_wrong_label_is_refused(given: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        Study.from_text(TEXT.replace("missing: not said}", given), "visits")
    assert message in str(refused.value)

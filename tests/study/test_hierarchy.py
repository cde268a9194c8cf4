"""Levels from a file: embedded in the study, checked against the values, any number of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import StudyError
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study

CSV = "zip,county,region\n00501,Suffolk,East\n00544,Suffolk,East\n90210,Los Angeles,West\n"
STUDY = """\
study: visits
schema: {zip: {type: category, from: zips.csv, missing: true}}
groupings: {geo: {of: zip, levels: [county, region], from: zips.csv}}
workload:
  - {name: counties, by: [county], with_totals: [county]}
  - {name: regions, by: [region]}
  - {name: asked, sql: "SELECT region, COUNT(*) FROM data GROUP BY region"}
"""


def write(folder: Path, study: str = STUDY, table: str = CSV) -> Path:
    (folder / "zips.csv").write_text(table, encoding="utf-8")
    (folder / "study.yaml").write_text(study, encoding="utf-8")
    return folder / "study.yaml"


def test_levels_are_groupings_and_their_table_is_part_of_the_study(tmp_path: Path) -> None:
    study = Study.load(write(tmp_path))
    assert list(study.groupings) == ["county", "region"]
    assert study.groupings["county"].labels == ["Suffolk", "Los Angeles"]
    rows = study.groupings["region"].factor.to_sparse().toarray()
    assert rows.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]], "a missing code is in no region"
    assert study.workload.query(0).sql.endswith("WHERE zip IN ('00501', '00544')")
    (tmp_path / "zips.csv").unlink()
    again = Study.from_canonical_bytes(study.canonical_bytes())
    assert again.digest == study.digest
    assert Study.from_text(study.to_yaml()).digest == study.digest, "the file is not needed"
    other = CSV.replace("Suffolk,East", "Suffolk,North", 2)
    assert Study.load(write(tmp_path, table=other)).digest != study.digest
    described = describe(study)["hierarchies"][0]
    assert described["levels"] == ["county", "region"]
    assert described["sha256"] != describe(Study.load(tmp_path / "study.yaml"))["hierarchies"][0]


@pytest.mark.slow
def test_any_number_of_levels_over_a_hundred_thousand_codes(tmp_path: Path) -> None:
    codes = np.arange(100_000)
    lines = [f"{c:06},{c // 10},{c // 100},{c // 5000},x" for c in codes.tolist()]
    table = "zip,block,tract,county,country\n" + "\n".join(lines) + "\n"
    text = STUDY.replace("[county, region]", "[block, tract, county, country]").replace(
        "by: [region]", "by: [block]"
    )
    study = Study.load(
        write(
            tmp_path,
            text.replace("SELECT region", "SELECT tract").replace(
                "GROUP BY region", "GROUP BY tract"
            ),
            table,
        )
    )
    assert [len(g.labels) for g in study.groupings.values()] == [10_000, 1_000, 20, 1]
    assert study.workload.queries == 21 + 10_000 + 1_000


@pytest.mark.parametrize(
    ("study", "table", "message"),
    [
        (STUDY, CSV + "90210,Ventura,West\n", "zips.csv:5: '90210' is listed twice, differently"),
        (STUDY, CSV + "90211,,West\n", "zips.csv:5: a row needs a value in every column"),
        (STUDY.replace("[county,", "[countie,"), CSV, "no column 'countie' (did you mean 'county'"),
        (STUDY.replace("county, region]", "county, zip]"), CSV, "the name 'zip' is already taken"),
        (
            STUDY.replace("from: zips.csv, m", "values: ['00501'], m"),
            CSV,
            "groupings.geo: '00544', '90210' in the mapping are no value of 'zip'",
        ),
        (
            STUDY.replace("from: zips.csv, m", "values: ['00501', '00544', '90210', a, b], m"),
            CSV,
            "the mapping says nothing of 'a', 'b', of 'zip'",
        ),
        (STUDY.replace("zips.csv}}\nw", "other.csv}}\nw"), CSV, "cannot read 'other.csv'"),
        (STUDY.replace("zips.csv}}\nw", "zips.csv, sha256: ab}}\nw"), CSV, "another SHA-256"),
        (STUDY.replace(", from: zips.csv}}\nw", "}}\nw"), CSV, "'levels' need a table"),
    ],
)
def test_mistakes_in_the_table_are_named(
    study: str, table: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError) as refused:
        Study.load(write(tmp_path, study, table))
    assert message in str(refused.value)


def test_a_text_is_read_with_the_tables_that_are_given(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"schema\.zip\.from: 'zips\.csv' is beside the study"):
        Study.from_text(STUDY)
    given = Study.from_text(STUDY, tables={"zips.csv": CSV})
    assert given.digest == Study.load(write(tmp_path, STUDY, CSV)).digest

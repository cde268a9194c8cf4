"""Dates and hours: their units are DuckDB's, and every kind of column is read alike."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
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
from dhdmm.study.attributes import DateAttribute, DatetimeAttribute
from dhdmm.study.attributes.units import PARTS, STARTS
from dhdmm.study.skeleton import skeleton_from_csv
from dhdmm.study.spec import Study

TEXT = """\
study: visits
schema:
  day: {type: date, range: [2023-12-25, 2024-12-31]}
  hour: {type: datetime, range: [2024-01-01, 2024-01-02]}
groupings:
  week: {of: day, by: week}
  weekday: {of: day, by: weekday}
  half: {of: day, edges: [2024-01-01, 2024-07-01, 2025-01-01]}
workload:
  - {name: days, by: [day]}
  - {name: weeks, ranges: {of: week, kind: prefix}}
  - {name: clock, by: [weekday, hour of hour]}
  - {name: halves, by: [half], where: "hour >= TIMESTAMP '2024-01-01 12:00'"}
  - name: asked
    sql: >
      SELECT DATE_TRUNC('month', day) AS m, EXTRACT(hour FROM hour), COUNT(*) FROM data
      WHERE day >= '2024-11-15' GROUP BY m, EXTRACT(hour FROM hour)
privacy: {unit: record, rho: 0.5, corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 9}
"""
STUDY = Study.from_text(TEXT)
LONG = DateAttribute("d", "1950-01-01", "2060-12-31")


def rows(name: str) -> list[str]:
    part = STUDY.workload.rows[name]
    return [STUDY.workload.query(i).label for i in range(part.start, part.stop)]


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"hour"}))
def test_parts_of_dates_are_duckdbs(part: str) -> None:
    days = f"range(DATE '{LONG.first}', DATE '{LONG.last}' + INTERVAL 1 DAY, INTERVAL 1 DAY)"
    asked = f"SELECT EXTRACT({part} FROM unnest({days})) AS x"
    assert np.array_equal(LONG.part(part), duckdb.sql(asked).fetchnumpy()["x"])


@pytest.mark.parametrize("unit", sorted(set(STARTS) - {"hour"}))
def test_units_begin_when_duckdbs_do(unit: str) -> None:
    days = f"range(DATE '{LONG.first}', DATE '{LONG.last}' + INTERVAL 1 DAY, INTERVAL 1 DAY)"
    asked = f"SELECT CAST(date_trunc('{unit}', unnest({days})) AS DATE) AS x"
    starts = STARTS[unit](LONG.examples(np.arange(LONG.size)))
    assert np.array_equal(starts.astype("M8[D]"), duckdb.sql(asked).fetchnumpy()["x"])


def test_units_have_the_labels_of_iso_8601() -> None:
    assert STUDY.groupings["week"].labels[:3] == ["2023-W52", "2024-W01", "2024-W02"]
    assert STUDY.groupings["weekday"].labels[0] == "Monday"
    assert rows("weeks")[1] == "week: 2023-12-25 – 2024-01-07"
    assert rows("halves")[0].startswith("half: 2024-01-01 – 2024-06-30, hour: 2024-01-01T12")
    assert rows("clock")[25] == "weekday: Tuesday, hour of hour: 01:00"
    assert rows("asked")[0] == "month of day: 2024-11, hour of hour: 00:00"
    quarter = LONG.by_unit("quarter").labels
    assert (quarter[0], quarter[-1]) == ("1950-Q1", "2060-Q4")


RECORDS: dict[str, list[Any]] = {
    "day": [date(2023, 12, 25), date(2024, 2, 29), date(2024, 12, 31)],
    "hour": [datetime(2024, 1, 1), datetime(2024, 1, 1, 23, 59, 59), datetime(2024, 1, 2, 23)],
}
CODES = [[0, 0], [66, 23], [372, 47]]


@pytest.mark.parametrize("place", ["arrow", "pandas", "csv", "text", "duckdb", "warehouse"])
def test_every_kind_of_column_is_read_alike(place: str, tmp_path: Path) -> None:
    table = pa.table(RECORDS)
    texts = {name: [str(value) for value in values] for name, values in RECORDS.items()}
    path = tmp_path / "visits.csv"
    path.write_text("day,hour\n" + "\n".join(map(",".join, zip(*texts.values(), strict=True))))
    given = {
        "arrow": table,
        "pandas": pd.DataFrame({name: pd.to_datetime(RECORDS[name]) for name in RECORDS}),
        "csv": path,
        "text": pa.table(texts),
        "duckdb": duckdb.from_arrow(table),
        "warehouse": ibis.memtable(table),
    }[place]
    assert tabulate(given, STUDY.schema).histogram.codes.tolist() == CODES
    assert [list(STUDY.schema.encode(record)) for record in table.to_pylist()] == CODES


@pytest.mark.parametrize("of", ["csv", "arrow", "record"])
def test_texts_have_the_format_that_the_study_states(of: str, tmp_path: Path) -> None:
    text = TEXT.replace("2024-12-31]}", '2024-12-31], format: "%d.%m.%Y"}').replace(
        "2024-01-02]}", '2024-01-02], format: "%d.%m.%y %H:%M"}'
    )
    schema = Study.from_text(text).schema
    record = {"day": "29.02.2024", "hour": "01.01.24 13:59"}
    path = tmp_path / "visits.csv"
    path.write_text(",".join(record) + "\n" + ",".join(record.values()) + "\n")
    given = path if of == "csv" else pa.table({name: [record[name]] for name in record})
    found = schema.encode(record) if of == "record" else tabulate(given, schema).histogram.codes[0]
    assert list(found) == [66, 13]
    with pytest.raises(DataError, match="column 'day' in 1 row"):
        tabulate(pa.table({"day": ["2024-02-29"], "hour": ["01.01.24 13:59"]}), schema)


@pytest.mark.parametrize("day", [date(2023, 12, 24), date(2025, 1, 1)])
def test_a_day_outside_the_range_is_unknown(day: date) -> None:
    table = pa.table({"day": [day], "hour": [datetime(2024, 1, 1)]})
    for given in (table, ibis.memtable(table)):
        with pytest.raises(DataError, match="column 'day' in 1 row"):
            tabulate(given, STUDY.schema)


def test_times_with_a_zone_and_days_for_hours_are_refused() -> None:
    zoned = pa.table({"day": RECORDS["day"][:1], "hour": [datetime(2024, 1, 1, tzinfo=UTC)]})
    for given in (zoned, ibis.memtable(zoned)):
        with pytest.raises(DataError, match="'hour' holds times with a time zone, but"):
            tabulate(given, STUDY.schema)
    days = pa.table({"day": RECORDS["day"], "hour": RECORDS["day"]})
    with pytest.raises(DataError, match="'hour' holds dates, but 'hour' needs dates with times"):
        tabulate(days, STUDY.schema)
    texts = ibis.memtable(pa.table({"day": ["2024-01-01"], "hour": [datetime(2024, 1, 1)]}))
    with pytest.raises(DataError, match="convert it in a view"):
        tabulate(texts, STUDY.schema)


def test_a_line_names_where_months_begin() -> None:
    table = Table(STUDY.schema, STUDY.workload.items[0], Sums(np.arange(373.0), np.ones(373)))
    (panel,) = panels_of(table)
    assert isinstance(panel.picture, Lines)
    direction = panel.picture.direction
    assert [direction.labels[i] for i in direction.ticks(14)[:2]] == ["2024-01-01", "2024-02-01"]
    assert [direction.labels[i] for i in direction.ticks(2)] == ["2024-01-01"]
    assert len(LONG.ticks(np.arange(LONG.size), 8)) <= 8
    hours = DatetimeAttribute("h", "2024-01-01T05", "2024-01-03T05")
    assert list(hours.ticks(np.arange(49), 6)) == [19, 43]


def test_a_draft_finds_dates_and_made_up_tables_hold_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n2024-03-05,2024-01-01\n2024-01-31,x\n")
    drafted = skeleton_from_csv(tmp_path / "t.csv")
    assert "a: {type: date, range: [2024-01-31, 2024-03-05]}" in drafted
    assert "b: {type: category" in drafted
    for table in made_up(STUDY, 8):
        tabulate(table, STUDY.schema)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[2023-12-25,", "[25.12.2023,", "a date is written YYYY-MM-DD (such as 2024-01-31)"),
        ("2024-12-31]}", "2023-01-01]}", "the range [2023-12-25, 2023-01-01] is empty"),
        ("by: week}", "by: hour}", "groupings.week.by: 'day' cannot be grouped by hour"),
        ("2024-12-31]}", '2024-12-31], format: "\' OR 1"}', "is not a format of dates"),
        ("2024-01-02]}", '2024-01-02], format: "%d"}', "hour.format: the format has no hour"),
        ("'2024-01-01 12:00'", "'2024-01-01 12:30'", "'hour' comes in hours, each taken whole"),
        (">= '2024-11-15'", "= '2025-11-15'", "it ranges from 2023-12-25 to 2024-12-31"),
        (">= '2024-11-15'", ">= 5", "'day' holds dates, not 5 (write DATE '2023-12-25')"),
        (">= '2024-11-15'", ">= 'x'", "'day' holds dates, not 'x'"),
        ("day >= '2024-11-15'", "EXTRACT(hour FROM day) = 3", "'hour' is no part of 'day'"),
        ("'month', day", "'decade', day", "'day' cannot be grouped by DATE_TRUNC('DECADE', day)"),
        ("edges: [2024-01-01, 2024-07-01, 2025-01-01]", "edges: [1, 2]", "the edges of 'day' are"),
        ("of: day, edges", "of: day, sets", "groupings.half.sets[0]: expected a mapping"),
        ("edges: [2024-01-01,", "edges: [2020-01-01,", "the edge 2020-01-01T00:00:00 is outside"),
    ],
)
def test_mistakes_name_the_place_and_the_likely_fix(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(StudyError) as refused:
        Study.from_text(TEXT.replace(old, new), "visits")
    assert message in str(refused.value)
    assert str(refused.value).startswith("visits:")


def test_a_study_with_dates_says_that_it_is_of_the_second_format() -> None:
    text = TEXT.split("groupings")[0] + "workload: [{name: days, by: [day]}]"
    study = Study.from_text(text)
    assert study.format == 2
    assert Study.from_canonical_bytes(study.canonical_bytes()).schema == study.schema
    with pytest.raises(StudyError, match=r"study format 1 has no key 'schema\.\*\.type\.date'"):
        Study.from_canonical_bytes(study.canonical_bytes().replace(b'"format":2,', b""))

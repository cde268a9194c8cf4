"""Who is a person, which of a person's records stay, and how much a person can change."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.cli.join import counted_for
from dhdmm.cli.options import Tables
from dhdmm.errors import DataError
from dhdmm.participant import coding
from dhdmm.participant.coding import BLANKS, NOBODY
from dhdmm.participant.tabulate import Tabulation, count_for, tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute
from dhdmm.study.models import PersonModel
from dhdmm.study.schema import Schema
from tests.amounts import examples
from tests.participant.histograms import contents
from tests.participant.identifiers import (
    BLANK,
    COLUMNS,
    SCHEMA,
    UUIDS,
    WORDS,
    columns,
    named,
    table,
)
from tests.planning.studies import study


def bound(max_records: int, column: str = "id") -> PersonModel:
    return PersonModel(column=column, max_records=max_records, max_participants=1)


def one_each(source: Any) -> Tabulation:
    return tabulate(source, SCHEMA, on_unknown="drop", unit=bound(1), threads=1)


def in_duckdb(given: pa.Table) -> ibis.Table:
    connection = duckdb.connect()
    connection.register("given", given)
    connection.execute("CREATE TABLE stored AS FROM given")
    return ibis.duckdb.from_connection(connection).table("stored")


def relation(given: pa.Table) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("given", given)
    return connection.sql("FROM given")


def write_csv(path: Path, given: pa.Table, delimiter: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([given.column_names, *zip(*given.to_pydict().values(), strict=True)])
    return path


def write_parquet(path: Path, given: pa.Table) -> Path:
    pq.write_table(given, path)
    return path


def typed(given: pa.Table, folder: Path) -> dict[str, Any]:
    """The same table in everything that has types."""
    objects = pd.DataFrame(
        {name: given[name].to_pylist() for name in given.column_names}, dtype=object
    )
    return {
        "Parquet": write_parquet(folder / "t.parquet", given),
        "reader": given.to_reader(max_chunksize=3),
        "pandas": given.to_pandas(),
        "pandas objects": objects,
        "pandas on Arrow": given.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(given),
        "DuckDB": relation(given),
        "ibis on DuckDB": in_duckdb(given),
    }


def require_one_record_each(tabulation: Tabulation, persons: list[Any], where: str) -> None:
    """One record of everybody who is named, none of anybody else."""
    kept = Counter(persons[row] for (row,) in contents(tabulation.histogram))
    assert kept == Counter(set(persons) - {None}), where
    assert tabulation.report.dropped == persons.count(None), where
    assert tabulation.report.persons == len(kept), where


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=examples(2, 30), deadline=None, derandomize=True)
@given(data=st.data())
def test_all_tables_agree_on_who_is_a_person(tmp_path_factory, name, data):
    values, folder = data.draw(columns(name)), tmp_path_factory.mktemp("tables")
    arrow = table(COLUMNS[name][0], values)
    expected = one_each(arrow)
    require_one_record_each(expected, [named(value) for value in values], "Arrow")
    for where, source in typed(arrow, folder).items():
        tabulation = one_each(source)
        assert contents(tabulation.histogram) == contents(expected.histogram), where
        assert vars(tabulation.report) == vars(expected.report), where
    written = arrow["id"].to_pylist()
    persons = [named("" if value is None else str(value)) for value in written]
    for suffix, delimiter in ((".csv", ";"), (".tsv", "\t")):
        path = write_csv(folder / f"t{suffix}", arrow, delimiter)
        require_one_record_each(one_each(path), persons, suffix)


def test_blanks_are_all_white_space_and_what_has_no_width():
    assert set(BLANKS) == BLANK
    assert set(NOBODY) == {"", *WORDS.lower().split()}


@pytest.mark.slow
@pytest.mark.parametrize("on_unknown", ["error", "other"])
@pytest.mark.parametrize(
    "values",
    [
        ["a", ""],
        ["a", " "],
        ["a", "\u00a0\t\n"],
        ["a", "NULL"],
        [1.0, float("nan")],
        [1, None],
        [None] * 2,
    ],
    ids=repr,
)
def test_a_record_that_names_nobody_is_refused(on_unknown, values):
    given = table(pa.array(values).type, values)
    missing = [named(value) for value in values].count(None)
    for source in (given, given.to_pandas(), pl.from_arrow(given), in_duckdb(given)):
        with pytest.raises(DataError, match=f"column 'id' in {missing} row"):
            tabulate(source, SCHEMA, on_unknown=on_unknown, unit=bound(1))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", " \n"], ids=repr)
def test_a_frame_of_objects_may_lack_an_identifier_in_many_ways(missing):
    frame = pd.DataFrame(
        {"id": pd.Series(["a", missing, missing, "a "], dtype=object), "row": range(4)}
    )
    require_one_record_each(one_each(frame), ["a", None, None, "a"], "pandas")


@pytest.mark.slow
def test_uuids_and_enumerations_name_persons(tmp_path):
    values = [*UUIDS, None]
    arrow = table(pa.uuid(), [value and value.bytes for value in values])
    frame = pd.DataFrame({"id": pd.Series(values, dtype=object), "row": range(len(values))})
    own = duckdb.connect()  # others may have left a result open on the default connection
    named_in_duckdb = own.sql(
        "SELECT id::ENUM('a', 'b', ' ') AS id, row FROM"
        " (VALUES ('a', 0), ('b', 1), ('b', 2), (' ', 3), (NULL, 4)) AS t(id, row)"
    )
    stored = in_duckdb(named_in_duckdb.to_arrow_table())
    own.sql("FROM arrow").write_parquet(str(tmp_path / "uuids.parquet"))
    for source in (arrow, frame, in_duckdb(arrow), relation(arrow), tmp_path / "uuids.parquet"):
        require_one_record_each(one_each(source), values, type(source).__name__)
    for source in (named_in_duckdb, stored, named_in_duckdb.pl()):
        require_one_record_each(one_each(source), ["a", "b", "b", None, None], "enumeration")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"a", b"a"]),
        pa.array([UUID(int=1).bytes] * 2, pa.binary(16)),
        pa.array([[1], [1]]),
        pa.array([{"a": 1}, {"a": 1}]),
        pa.array([1, 1], pa.duration("s")),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("on_unknown", ["error", "drop"])
def test_identifiers_that_cannot_be_compared_alike_are_refused(values, on_unknown):
    given = pa.table({"id": values, "row": [0, 1]})
    for source in (given, given.to_reader(), given.to_pandas(), in_duckdb(given)):
        with pytest.raises(DataError, match=r"'id' holds another type .*convert it: a person's id"):
            tabulate(source, SCHEMA, on_unknown=on_unknown, unit=bound(1))


# ---- which records stay -------------------------------------------------------------------------

SEX = Schema((CategoryAttribute("sex", ("m", "f")),))
PERSONS, MALE, FEMALE = 3000, 9, 1


def nine_and_one() -> pa.Table:
    records = ["m"] * MALE + ["f"] * FEMALE
    identifiers = np.repeat(np.arange(PERSONS), len(records))
    return pa.table({"id": identifiers, "sex": records * PERSONS})


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [1, 2, 5, 9])
@pytest.mark.parametrize("key", [b"", b"one study", b"another"])
def test_every_record_of_a_person_is_as_likely_to_stay(max_records, key):
    """Nine records in one cell, one in another. |z| < 5: false-alarm rate 6e-7 a case."""
    tabulation = tabulate(nine_and_one(), SEX, unit=bound(max_records), key=key)
    kept, share = contents(tabulation.histogram), max_records / (MALE + FEMALE)
    assert sum(kept.values()) == PERSONS * max_records
    assert abs(kept[1,] - PERSONS * share) < 5 * (PERSONS * share * (1 - share)) ** 0.5


def test_the_key_decides_and_the_same_key_decides_alike():
    given = table(pa.int64(), [0] * 30)
    first, again, other = (
        contents(tabulate(source, SCHEMA, unit=bound(10), key=key).histogram)
        for source, key in ((given, b"a"), (in_duckdb(given), b"a"), (given, b"b"))
    )
    assert first == again != other


def test_a_round_has_the_studys_digest_as_its_key(tmp_path):
    schema = {"value": {"type": "integer", "range": [0, 99]}}
    person = {"column": "id", "max_records": 20, "max_participants": 1}
    planned = study({"unit": {"person": person}}, {"max_records_per_participant": 20}, schema)
    given = pa.table({"id": [1] * 100, "value": range(100)})
    path = write_parquet(tmp_path / "t.parquet", given)
    with_digest, without = (
        contents(tabulate(given, planned.schema, unit=bound(20), key=key).histogram)
        for key in (planned.digest, b"")
    )
    assert contents(count_for(planned, given, accept_loss=0.8).histogram) == with_digest != without
    assert contents(counted_for(planned, path, Tables(accept_loss="80%")).histogram) == with_digest


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", " a", "a\u00a0", "b", "c", "", " ", "\t", "NaN", None]),
        st.integers(0, 6),  # 4 and more are unknown
    ),
    max_size=25,
)
SMALL = Schema((IntegerAttribute("x", 0, 3),))


@pytest.mark.slow
@pytest.mark.parametrize("place", [lambda given: given, pa.Table.to_pandas, in_duckdb])
@settings(max_examples=examples(6, 100), deadline=None, derandomize=True)
@given(rows=ROWS, max_records=st.integers(1, 3))
def test_one_person_changes_the_histogram_by_at_most_the_bound(place, rows, max_records):
    """Whether the person is named or not: a row without an identifier may be anybody's."""

    def count(rows: list[tuple[str | None, int]]) -> Counter[tuple[int, ...]]:
        given = pa.table(
            {
                "id": pa.array([name for name, _ in rows], pa.string()),
                "x": pa.array([x for _, x in rows], pa.int64()),
            }
        )
        tabulation = tabulate(
            place(given), SMALL, on_unknown="drop", unit=bound(max_records), threads=1
        )
        return Counter(contents(tabulation.histogram))

    everybody = count(rows)
    without_a = count([row for row in rows if named(row[0]) != "a"])
    assert not without_a - everybody
    assert (everybody - without_a).total() <= max_records
    for at, (name, _) in enumerate(rows):
        if named(name) is None:
            assert count(rows[:at] + rows[at + 1 :]) == everybody
            break


def test_somebody_else_takes_the_place_of_one_whose_missing_identifier_is_a_person(monkeypatch):
    """The weakened variant: the empty text names somebody, whose one record is anybody's."""
    monkeypatch.setattr(coding, "NOBODY", ("nan",))
    everybody = pa.table({"id": [""] * 4, "x": range(4)})
    (kept,) = contents(tabulate(everybody, SMALL, on_unknown="drop", unit=bound(1)).histogram)
    others = everybody.filter(pc.field("x") != kept[0])
    histogram = tabulate(others, SMALL, on_unknown="drop", unit=bound(1)).histogram
    assert histogram.records == 1
    assert kept not in contents(histogram)


def test_the_report_counts_the_persons_that_rows_name():
    given = pa.table({"id": ["a", "a ", "b", "c", " ", None], "x": [0, 9, 9, 1, 1, 1]})
    for source in (given, in_duckdb(given)):
        report = tabulate(source, SMALL, on_unknown="drop", unit=bound(1)).report
        assert (report.rows, report.persons) == (6, 3)
        assert tabulate(source, SMALL, on_unknown="drop").report.persons is None

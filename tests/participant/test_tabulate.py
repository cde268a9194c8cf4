"""A table becomes the histogram that a plain Python count gives, whatever the table is held in."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import DataError
from dhdmm.participant.tabulate import OnUnknown, tabulate
from dhdmm.study.attributes import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.schema import Schema
from tests.amounts import examples
from tests.participant.histograms import contents

HOSTILE = ("it's", '"; DROP TABLE x; --', "{0}", "a,b", "Größe")
AGE = IntegerAttribute("age", -3, 5)
WORD = CategoryAttribute("word", HOSTILE)
STATE = CategoryAttribute("state", (7, 3, 50))
CONSENT = CategoryAttribute("consent", (True, False))
HOURS = NumberAttribute("hours", (0, 0.1, 0.30000000000000004, 1, 2.5, 40))
SCHEMA = Schema((AGE, WORD, STATE, CONSENT, HOURS))

RECORD = st.fixed_dictionaries(
    {
        "age": st.integers(-4, 6) | st.none(),
        "word": st.sampled_from([*HOSTILE, "It's", "unlisted"]) | st.none(),
        "state": st.sampled_from([7, 3, 50, 8]) | st.none(),
        "consent": st.booleans() | st.none(),
        "hours": st.sampled_from([*map(float, HOURS.edges), 0.3, 1e300, -0.0])
        | st.floats(-1, 41)
        | st.none(),
    }
)
KNOWN = st.fixed_dictionaries(
    {
        "age": st.integers(-3, 5),
        "word": st.sampled_from(HOSTILE),
        "state": st.sampled_from(STATE.values),
        "consent": st.booleans(),
        "hours": st.floats(0, 40),
    }
)
TYPES = {
    "age": pa.int32(),
    "word": pa.string(),
    "state": pa.int64(),
    "consent": pa.bool_(),
    "hours": pa.float64(),
}

Record = dict[str, Any]


def arrow(records: list[Record]) -> pa.Table:
    return pa.Table.from_pylist(records, schema=pa.schema(TYPES.items()))


def code_or_none(attribute: Attribute, value: object) -> int | None:
    try:
        return attribute.code(value)
    except DataError:
        return None


def count_by_hand(records: list[Record]) -> dict[tuple[int, ...], int]:
    """Rows that `schema.encode` accepts, by cell."""
    counter: Counter[tuple[int, ...]] = Counter()
    for record in records:
        codes = [code_or_none(a, record[a.name]) for a in SCHEMA.attributes]
        if None not in codes:
            assert tuple(codes) == SCHEMA.encode(record)
            counter[SCHEMA.encode(record)] += 1
    return dict(counter)


def write_csv(path: Path, records: list[Record], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(TYPES), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(records)
    return path


@pytest.mark.slow
@settings(max_examples=examples(15, 300), deadline=None)
@given(st.lists(RECORD, max_size=30))
def test_drop_counts_exactly_the_records_that_the_schema_can_encode(records):
    tabulation = tabulate(arrow(records), SCHEMA, on_unknown=OnUnknown.DROP, threads=1)
    assert contents(tabulation.histogram) == count_by_hand(records)
    report = tabulation.report
    assert report.rows == len(records)
    assert report.dropped == len(records) - tabulation.histogram.records
    for attribute in SCHEMA.attributes:
        unknown = [code_or_none(attribute, r[attribute.name]) is None for r in records]
        assert report.unknown[attribute.name] == sum(unknown)


@pytest.mark.slow
@settings(max_examples=examples(3, 60), deadline=None)
@given(st.lists(KNOWN, min_size=1, max_size=20))
def test_every_kind_of_source_gives_the_same_histogram(tmp_path_factory, records):
    folder, table = tmp_path_factory.mktemp("tables"), arrow(records)
    pq.write_table(table, folder / "t.parquet")
    duck = duckdb.connect()
    duck.register("t", table)
    encoded = table.set_column(1, "word", table["word"].dictionary_encode())
    sources = {
        "csv": write_csv(folder / "t.csv", records),
        "semicolons": str(write_csv(folder / "s.csv", records, ";")),
        "tsv": write_csv(folder / "t.tsv", records, "\t"),
        "parquet": folder / "t.parquet",
        "arrow": table,
        "dictionary": encoded,
        "reader": table.to_reader(max_chunksize=3),
        "pandas": table.to_pandas(),
        "pandas category": encoded.to_pandas(),
        "polars": pl.from_arrow(table),
        "duckdb": duck.sql("SELECT * FROM t"),
    }
    expected = count_by_hand(records)
    for name, source in sources.items():
        assert contents(tabulate(source, SCHEMA, threads=1).histogram) == expected, name


@pytest.mark.slow
@settings(max_examples=examples(12, 250), deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=200, unique=True).map(sorted),
    st.lists(st.floats(-1.1e6, 1.1e6) | st.sampled_from([np.nan, np.inf, -np.inf]), max_size=50),
)
def test_bins_are_found_as_the_schema_finds_them(edges, values):
    attribute = NumberAttribute("x", tuple(edges))
    table = pa.table({"x": pa.array([*values, *edges], pa.float64())})
    histogram = tabulate(table, Schema((attribute,)), on_unknown="drop", threads=1).histogram
    codes = [code_or_none(attribute, value) for value in [*values, *edges]]
    assert contents(histogram) == Counter((code,) for code in codes if code is not None)


@pytest.mark.slow
def test_a_million_bins_are_searched_not_written_out():
    attribute = NumberAttribute("x", tuple(range(10**6 + 1)))
    values = np.random.default_rng(1).uniform(0, 10**6, 1000)
    histogram = tabulate(pa.table({"x": values}), Schema((attribute,))).histogram
    assert contents(histogram) == Counter((int(value),) for value in values)


@pytest.mark.parametrize(
    "held",
    [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(20, 3), pa.decimal128(3, 1)],
    ids=str,
)
def test_integers_may_be_held_in_any_numeric_type(held):
    values = [0, 3, 5, 6, 99, None]
    table = pa.table({"age": pa.array(values, held)})
    histogram = tabulate(table, Schema((AGE,)), on_unknown="drop").histogram
    assert contents(histogram) == {(3,): 1, (6,): 1, (8,): 1}


def test_fractions_are_not_integers():
    table = pa.table({"age": [0.5, 1.0, float("nan"), 2.999999999999999]})
    tabulation = tabulate(table, Schema((AGE,)), on_unknown="drop")
    assert contents(tabulation.histogram) == {(4,): 1}
    assert tabulation.report.dropped == 3


def test_integers_beyond_64_bits_are_outside_the_domain():
    table = pa.table({"age": pa.array([2**64 - 3, 5], pa.uint64())})
    assert contents(tabulate(table, Schema((AGE,)), on_unknown="drop").histogram) == {(8,): 1}


def test_csv_fields_are_read_as_the_type_of_the_attribute(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeffage, state ,word,consent\n 1,07,it's,TRUE\n1.0,7.0, it's ,t\n1e0,7,it's,1\n"
    )
    schema = Schema((AGE, STATE, WORD, CONSENT))
    assert contents(tabulate(path, schema).histogram) == {(4, 0, 0, 0): 3}


def test_csv_text_that_looks_like_a_number_stays_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('code\n01\n1\n""\n')
    schema = Schema((CategoryAttribute("code", ("1", "01", "")),))
    assert contents(tabulate(path, schema).histogram) == {(0,): 1, (1,): 1, (2,): 1}


def test_a_frame_of_texts_is_counted_as_the_same_csv_file(tmp_path):
    frame = pd.DataFrame(
        {
            "age": ["7", " 8", "7.0", "x", None, ""],
            "word": ["a", " a ", "b", "a", "a", None],
            "consent": ["yes", "F", "true", "0", "maybe", ""],
        }
    )
    schema = Schema(
        (
            IntegerAttribute("age", 0, 9),
            CategoryAttribute("word", ("a", "b")),
            CategoryAttribute("consent", (False, True)),
        )
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    here = tabulate(frame, schema, on_unknown="drop")
    there = tabulate(tmp_path / "t.csv", schema, on_unknown="drop")
    stored = tabulate(ibis.memtable(pa.table(frame)), schema, on_unknown="drop")
    assert contents(here.histogram) == contents(there.histogram) == contents(stored.histogram)
    assert contents(here.histogram) == {(7, 0, 1): 1, (8, 0, 0): 1, (7, 1, 1): 1}
    assert here.report == there.report == stored.report


def test_histogram_is_sorted_by_cell_and_hides_its_contents():
    same = {"state": 7, "consent": True, "hours": 1.0}
    records = [{"age": age, "word": HOSTILE[age % 5], **same} for age in range(6)]
    histogram = tabulate(arrow(records[::-1] * 2), SCHEMA).histogram
    cells = [SCHEMA.cell(codes) for codes in histogram.codes.tolist()]
    assert cells == sorted(cells)
    assert histogram.codes.dtype == histogram.counts.dtype == np.int64
    assert histogram.records == 12
    assert repr(tabulate(arrow(records), SCHEMA)) == (
        "Tabulation(histogram=Histogram(), report=Report())"
    )


@pytest.mark.parametrize(
    "table",
    [arrow([]), pd.DataFrame({name: [] for name in TYPES}), pl.DataFrame({n: [] for n in TYPES})],
    ids=["arrow", "pandas", "polars"],
)
def test_a_participant_may_have_no_records(table):
    histogram = tabulate(table, SCHEMA).histogram
    assert (histogram.codes.shape, histogram.counts.shape, histogram.records) == ((0, 5), (0,), 0)


ASKS_FOR_THE_PROGRESS_BAR = """
from dhdmm.participant.sources import open_source
with open_source("table.csv").connection(threads=None) as connection:
    print(connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()[0])
"""


@pytest.mark.slow
def test_a_slow_table_prints_nothing(tmp_path: Path) -> None:
    """A progress bar of the database would be in the midst of what `--json` prints.

    DuckDB turns it on where the main module has no file, so not in this process.
    """
    (tmp_path / "table.csv").write_text("a\n1\n")
    command = [sys.executable, "-c", ASKS_FOR_THE_PROGRESS_BAR]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

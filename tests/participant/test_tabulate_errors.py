"""Every mistake with a table is one clear line that repeats no value of the table."""

from __future__ import annotations

import os
import signal

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dhdmm.errors import DataError
from dhdmm.participant.sources import open_source
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute
from dhdmm.study.schema import Schema

SCHEMA = Schema((IntegerAttribute("age", 0, 99), CategoryAttribute("sex", ("F", "M"))))
SECRET = "Mrs-Secret"


def refusal(table: object, schema: Schema = SCHEMA, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        tabulate(table, schema, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.csv", None, "there is no such file"),
        ("t.csv", b"", "the file is empty: not even a header"),
        ("t.csv", b"\n\n", "the file is empty: not even a header"),
        ("t.csv", b"age,sex\n1,\xff\xfe\n", "the file is not UTF-8 text"),
        ("t.csv", b"\xe4ge,sex\n1,F\n", "the file is not UTF-8 text"),
        ("t.csv", "age,sex\n1,F\n".encode("utf-16"), "the file is not UTF-8 text"),
        (
            "t.csv",
            b"age,sex\n1,F\n1,Mrs-Secret,F\n",
            "t.csv:3: the line is not CSV like the header",
        ),
        ("t.csv", b"age,sex\n1,F\nMrs-Secret\n", "t.csv:3: the line is not CSV like the header"),
        ("t.csv", b'age,sex\n1,"Mrs-Secret\n', "t.csv:2: the line is not CSV like the header"),
        ("t.csv", b"age,sex\nMrs-Secret,F\n", "column 'age' in 1 row"),
        ("t.parquet", b"", "the Parquet file cannot be read"),
        ("t.parquet", b"PAR1 Mrs-Secret", "the Parquet file cannot be read"),
        ("t.xlsx", b"PK", "cannot tell the format from '.xlsx' (use .csv, .tsv, .parquet, .pq)"),
        ("table", b"age,sex\n", "cannot tell the format from ''"),
        ("t[1].csv", b"age,sex\n", "the path contains one of"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path, name, content, expected):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    message = refusal(path)
    assert expected in message
    assert name in message


def test_a_parquet_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": range(99), "sex": ["F"] * 99}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) // 3) + whole[4 + len(whole) // 3 :])
    assert "cannot be read" in refusal(path)


def test_a_directory_is_refused(tmp_path):
    assert "this is not a file" in refusal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age,sex\n1,F\n")
    path.chmod(0)
    assert "cannot read the file" in refusal(path)


def test_something_else_than_a_table_is_refused():
    assert "a dict is not a table" in refusal({"age": [SECRET]})


@pytest.mark.parametrize("text", ["age,sex\n", "age,sex", "sex,age\r\n"])
def test_a_header_alone_is_a_table_without_records(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert tabulate(path, SCHEMA).histogram.records == 0


def test_a_missing_column_is_named_with_its_near_miss_and_the_columns_there_are():
    message = refusal(pa.table({"agee": [1], "sex": ["F"]}))
    expected = "there is no column 'age' (did you mean 'agee'? the columns are 'agee', 'sex')"
    assert message == expected


def test_all_missing_columns_are_named():
    message = refusal(pa.table({"agee": [1]}))
    expected = "there are no columns 'age', 'sex' (did you mean 'agee' for 'age'? the columns are"
    assert message == f"{expected} 'agee')"
    many = Schema(tuple(IntegerAttribute(f"x{i:02}", 0, 1) for i in range(23)))
    with pytest.raises(DataError) as refused:
        tabulate(pa.table({"z": [1]}), many)
    assert "'x18', 'x19' and 3 more (the columns are 'z')" in str(refused.value)


def test_columns_are_matched_by_mapping_then_exactly_then_without_case():
    table = pa.table({"Age": [1], "age": [2], "SEX": ["M"]})
    assert tabulate(table, SCHEMA).histogram.codes.tolist() == [[2, 1]]
    mapped = tabulate(table, SCHEMA, columns={"age": "Age", "sex": "sex"})
    assert mapped.histogram.codes.tolist() == [[1, 1]]


def test_an_ambiguous_column_is_refused():
    assert "2 columns are called 'age'" in refusal(pa.table({"Age": [1], "AGE": [2], "sex": ["F"]}))
    twice = pa.table([[1], [2], ["F"]], names=["age", "age", "sex"])
    assert "2 columns are called 'age'" in refusal(twice)


def test_a_mapping_for_an_unknown_attribute_is_refused():
    message = refusal(pa.table({"age": [1], "sex": ["F"]}), columns={"ages": "age"})
    assert message.startswith("the study has no attribute 'ages'")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([True]), "true and false"),
        (pa.array([[1]]), "another type"),
        (pd.Series([1, SECRET], dtype=object), "values of several types"),
    ],
    ids=["boolean", "list", "mixed"],
)
@pytest.mark.parametrize("policy", ["error", "drop", "other"])
def test_a_column_of_the_wrong_type_is_refused_rather_than_dropped_whole(column, kind, policy):
    sexes = ["F"] * len(column)
    frame = pd.DataFrame({"age": column, "sex": sexes}) if kind[0] == "v" else None
    table = frame if frame is not None else pa.table({"age": column, "sex": sexes})
    message = refusal(table, on_unknown=policy)
    assert f"column 'age' holds {kind}, but 'age' needs integers" in message


def test_columns_that_no_attribute_needs_may_hold_anything(tmp_path):
    frame = pd.DataFrame({"age": [1], "sex": ["F"], "odd": [object()], "age2": [{}]})
    assert tabulate(frame, SCHEMA).histogram.records == 1
    unsupported = pa.table({"age": [1], "sex": ["F"], "half": pa.array([1.0], pa.float16())})
    assert tabulate(unsupported, SCHEMA).histogram.records == 1
    assert tabulate(unsupported.to_reader(), SCHEMA).histogram.records == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ['a"b', "x'; DROP TABLE source; --", "c0", "k0", "source", "select"]
)
def test_hostile_column_names_are_only_names(tmp_path, name):
    schema = Schema((IntegerAttribute(name, 0, 9), CategoryAttribute("c1", ("'", '"', "$1"))))
    table = pa.table({"c1": ["'", '"', "$1"], name: [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    for source in (table, tmp_path / "t.parquet", tmp_path / "t.csv", table.to_pandas()):
        assert tabulate(source, schema).histogram.codes.tolist() == [[1, 0], [2, 1], [3, 2]]


def test_a_failing_relation_is_refused_without_its_message():
    duck = duckdb.connect()
    relation = duck.sql(
        f"SELECT CAST(x AS INTEGER) AS age, 'F' AS sex FROM (VALUES ('{SECRET}')) t(x)"
    )
    assert "cannot be read" in refusal(relation)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_the_count_as_a_keyboard_interrupt(threads):
    """The stream lasts long enough to be interrupted; the signal is sent from within it."""
    batch = pa.record_batch({"age": [1] * 100_000, "sex": ["F"] * 100_000})

    def batches():
        for i in range(10_000):
            if i == 3:
                os.kill(os.getpid(), signal.SIGINT)
            yield batch

    reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
    with pytest.raises(KeyboardInterrupt):
        tabulate(reader, SCHEMA, threads=threads)


def test_the_connection_sees_one_file_and_cannot_be_unlocked(tmp_path):
    mine, theirs = tmp_path / "mine.csv", tmp_path / "theirs.csv"
    for path in (mine, theirs):
        path.write_text("age,sex\n1,F\n")
    for statement in (
        f"FROM read_csv('{theirs}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        source = open_source(mine)
        with pytest.raises(DataError), source.connection(1) as connection:
            connection.execute(statement).fetchall()
    with open_source(mine).connection(1) as connection:
        assert connection.execute(f"SELECT age FROM read_csv('{mine}')").fetchall() == [(1,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "theirs.csv"]

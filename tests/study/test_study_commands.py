"""`dhdmm init` and `dhdmm describe`, and the draft of a study from a table."""

import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from dhdmm.cli.main import app
from dhdmm.errors import DhdmmError, StudyError
from dhdmm.study.skeleton import skeleton_from_csv
from dhdmm.study.spec import Study

run = CliRunner(env={"COLUMNS": "80"}).invoke
TABLE = """\
age,sex,name,height,smoker,zip,empty,gap,wide
17,F,"Ann, A",1.51,true,01234,,1,10
91,M,Bob,1.98,false,99999,,,2000000
44,F,yes,1.7,True,00501,,3,500
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(TABLE)
    return path


def test_init_writes_an_example_that_describe_reads(tmp_path):
    path = str(tmp_path / "study.yaml")
    assert run(app, ["init", path]).exit_code == 0
    result = run(app, ["describe", path])
    assert result.exit_code == 0
    assert "4,001 queries in 5 tables over 240,000 cells." in result.output
    assert (
        "records by age_band (6) × sex (2 and total) where hours >= 35: 18, weight 2"
        in result.output
    )
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_describe_gives_one_json_document(tmp_path):
    path = str(tmp_path / "study.yaml")
    assert json.loads(run(app, ["init", path, "--json"]).output) == {"written": path}
    described = json.loads(run(app, ["describe", path, "--json"]).output)
    assert described["queries"] == 4001
    assert described["digest"] == Study.load(path).digest.hex()
    assert [table["name"] for table in described["tables"]][1] == "full_time"


def test_init_does_not_overwrite_unless_told(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("mine")
    result = run(app, ["init", str(path)])
    assert isinstance(result.exception, DhdmmError)
    assert result.exception.what == "the file exists"
    assert path.read_text() == "mine"
    assert run(app, ["init", str(path), "--force"]).exit_code == 0


def test_init_prints_the_json_schema(tmp_path):
    result = run(app, ["init", "--schema"])
    assert json.loads(result.output)["title"] == "StudyModel"


def test_draft_reads_the_columns_and_warns(table):
    text = skeleton_from_csv(table)
    study = Study.from_text(text)
    assert "WARNING: the ranges and lists of values below were" in text
    assert study.name == "people"
    domains = {a.name: (a.present.kind, a.label(0), a.size) for a in study.schema.attributes}
    assert domains == {
        "age": ("integer", "17", 75),
        "sex": ("category", "F", 2),
        "name": ("category", "Ann, A", 3),
        "height": ("number", "[1.5, 1.55)", 10),
        "smoker": ("category", "false", 2),
        "zip": ("category", "00501", 3),
        "gap": ("integer", "1", 4),
        "wide": ("number", "[0, 100000)", 20),
    }
    assert "# empty: no values" in text
    gap = study.schema.attributes[study.schema.names.index("gap")]
    assert gap.label(gap.missing_code) == "missing"


def test_draft_command_writes_a_study(table, tmp_path):
    path = tmp_path / "draft.yaml"
    result = run(app, ["init", str(path), "--from", str(table)])
    assert result.exit_code == 0
    assert "publicly known" in result.output
    assert run(app, ["describe", str(path)]).exit_code == 0


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "people.csv:1: the first line must name every column"),
        (b"a,,c\n1,2,3\n", "people.csv:1: the first line must name every column"),
        (b"a,A\n1,2\n", "people.csv:1: two columns are called 'a'"),
        (b"a\n", "people.csv: no column has usable values"),
        (b"a\n\xff\n", "people.csv: the file is not UTF-8 text"),
        (
            b"a\n" + b"x" * 200_000,
            "people.csv:2: not a CSV table: field larger than field limit (131072)",
        ),
    ],
)
def test_tables_that_cannot_be_drafted_are_refused(tmp_path, raw, message):
    path = tmp_path / "people.csv"
    path.write_bytes(raw)
    with pytest.raises(StudyError) as caught:
        skeleton_from_csv(path)
    assert str(caught.value) == message


@pytest.mark.slow
def test_a_draft_folds_case_declares_missing_values_and_lists_as_many_as_told(tmp_path):
    texts = ["Female", "FEMALE", "male", "NA", None]
    rows = {"sex": texts * 20, "code": [f"c{i}" for i in range(100)], "age": [1, 2, 3, 4, 5] * 20}
    table = pa.table(rows)
    pq.write_table(table, tmp_path / "t.parquet")
    with duckdb.connect(tmp_path / "t.duckdb") as database:
        database.register("given", table)
        database.execute("CREATE TABLE t AS FROM given")
    csv.write_csv(table, tmp_path / "t.csv")
    address = f"duckdb://{tmp_path / 't.duckdb'}?table=t"
    for source in (str(tmp_path / "t.parquet"), address, str(tmp_path / "t.csv")):
        path = tmp_path / "study.yaml"
        options = ["--from", source, "--force", "--max-values", "60"]
        assert run(app, ["init", str(path), *options]).exit_code == 0
        text = path.read_text("utf-8")
        assert "sex: {type: category, values: [female, male], missing: true}  # some were" in text
        assert "age: {type: integer, range: [1, 5]}" in text
        assert "# code: more than 60 different texts" in text
        Study.load(path)
        assert run(app, ["init", str(path), *options[:-1], "200"]).exit_code == 0
        assert "code: {type: category, values: [c0, c1," in path.read_text("utf-8")

"""A table in a real PostgreSQL server gives the histogram it gives here, and stays there."""

from __future__ import annotations

import re
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import ibis
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dhdmm.errors import DataError
from dhdmm.participant import warehouse
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.models import PersonModel
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study
from tests.docs.pages import PROJECT, blocks
from tests.participant import identifiers
from tests.participant.postgres import READER, Server
from tests.participant.test_tabulate import RECORD, TYPES, contents
from tests.participant.test_tabulate import SCHEMA as MIXED
from tests.participant.warehouse_records import SCHEMA, records, write_parquet

pytestmark = pytest.mark.slow

ROWS = 200_000
AGE = IntegerAttribute("age", 0, 9)
MARKED = """
study: marked
schema:
  age: {type: integer, range: [17, 91]}
  sex: {type: category, values: [Female, Male]}
groupings: {band: {of: age, edges: [17, 30, 60, 92]}}
workload:
  - {name: bands, persons: {by: [band, sex]}}
  - {name: sexes, persons: {by: [sex]}, where: "age > 40 OR sex = 'Male'"}
  - {name: all, persons: {}}
privacy: {unit: {person: {column: person, max_records: 2, max_participants: 1}}, rho: 1.0,
  corrupt_fraction: 0.05}
"""
ATTACK = "x'); DROP TABLE victims; --"


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    return postgres.with_database(
        "CREATE TABLE mixed (age integer, word text, state bigint, consent boolean,"
        " hours double precision, id bigint)",
        "CREATE TABLE victims AS SELECT 1 AS age, 'x' AS word",
    )


@pytest.fixture(scope="module")
def mixed(server: Server) -> ibis.Table:
    return warehouse.table(server.url(), "mixed")


def fill(server: Server, rows: list[dict[str, Any]]) -> None:
    with server.owner() as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE mixed")
        with cursor.copy("COPY mixed FROM STDIN") as copy:
            for row in rows:
                copy.write_row([row[name] for name in (*TYPES, "id")])


def in_server(server: Server, column: str, values: str) -> ibis.Table:
    """A table of one column, whose type is part of its definition."""
    server.execute("DROP TABLE IF EXISTS one", f"CREATE TABLE one ({column})")
    server.execute(f"INSERT INTO one VALUES {values}")
    return warehouse.table(server.url(), "one")


IDENTIFIED = st.lists(
    st.tuples(RECORD, st.sampled_from([1, 20, 300, None])).map(lambda r: {**r[0], "id": r[1]}),
    max_size=40,
)


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])  # no shrinking
@given(IDENTIFIED, st.sampled_from([None, 1, 3]))
def test_random_tables_are_counted_as_they_are_here(server, mixed, rows, bound):
    fill(server, rows)
    here = pa.Table.from_pylist(rows, schema=pa.schema([*TYPES.items(), ("id", pa.int64())]))
    unit = bound and PersonModel(column="id", max_records=bound, max_participants=1)
    expected = tabulate(here, MIXED, on_unknown="drop", unit=unit, threads=1)
    there = tabulate(mixed, MIXED, on_unknown="drop", unit=unit)
    assert contents(there.histogram) == contents(expected.histogram)
    assert vars(there.report) == vars(expected.report)


# ---- the counting is done in the server ---------------------------------------------------------


def compare_with_parquet(server: Server, folder: Path, rows: int) -> None:
    name = f"records_{rows}"
    server.execute(f"CREATE TABLE {name} AS {records(rows)}")
    table = warehouse.table(server.url(), name)
    server.forget_statements()
    there = tabulate(table, SCHEMA).histogram
    statements = server.statements_of_the_reader()
    server.execute(f"DROP TABLE {name}")
    here = tabulate(write_parquet(folder / "records.parquet", rows), SCHEMA).histogram
    assert here.records == rows
    assert contents(there) == contents(here)
    assert len([sql for sql, _, _ in statements if name in sql]) == 1
    assert [
        sql.count("GROUP BY") for sql, calls, _ in statements if calls == 1 and name in sql
    ] == [1]
    assert sum(sent for _, _, sent in statements) == len(here.counts)


def test_one_statement_counts_in_the_server_and_equals_parquet(server, tmp_path):
    compare_with_parquet(server, tmp_path, ROWS)


@pytest.mark.soak
def test_ten_million_rows_are_counted_in_the_server_and_equal_parquet(server, tmp_path):
    compare_with_parquet(server, tmp_path, 10_000_000)


def test_the_server_tells_when_rows_leave_it(server):
    """The weakened variant: the table is fetched and counted here, and the server says so."""
    server.execute(f"CREATE TABLE fetched AS {records(1000)}")
    table = warehouse.table(server.url(), "fetched")
    server.forget_statements()
    tabulate(table.to_pyarrow(), SCHEMA)
    assert sum(sent for _, _, sent in server.statements_of_the_reader()) == 1000


def test_persons_are_truncated_in_the_server_as_here(server, tmp_path):
    rows = 20_000
    server.execute(f"CREATE TABLE persons AS {records(rows)}")
    table = warehouse.table(server.url(), "persons")
    unit = PersonModel(column="person", max_records=1, max_participants=1)
    server.forget_statements()
    there = tabulate(table, SCHEMA, unit=unit)
    sent = sum(sent for _, _, sent in server.statements_of_the_reader())
    path = write_parquet(tmp_path / "persons.parquet", rows)
    here = tabulate(path, SCHEMA, unit=unit)
    assert contents(there.histogram) == contents(here.histogram)
    assert vars(there.report) == vars(here.report)
    assert here.report.persons_truncated > 0
    assert sent == len(tabulate(path, SCHEMA).histogram.counts)


def test_first_records_of_persons_are_marked_in_the_server_as_here(server, tmp_path):
    rows = 3_000
    server.execute(f"CREATE TABLE marked AS {records(rows)}")
    asked = Study.from_text(MARKED)
    options = {"unit": asked.privacy.person, "marks": asked.cells.marks}
    there = tabulate(warehouse.table(server.url(), "marked"), asked.schema, **options)
    path = write_parquet(tmp_path / "marked.parquet", rows)
    here = tabulate(path, asked.schema, **options)
    assert contents(there.histogram) == contents(here.histogram)
    assert {codes[-3:] for codes in contents(here.histogram)} >= {(1, 1, 1), (1, 0, 0)}


def test_tables_of_one_connection_may_be_counted_in_threads(server):
    server.execute(f"CREATE TABLE shared AS {records(5000)}")
    table = warehouse.table(server.url(), "shared")
    parts = [table.filter(table.age % 4 == part) for part in range(4)] * 3
    with ThreadPoolExecutor(4) as pool:
        counted = list(pool.map(lambda part: tabulate(part, SCHEMA).histogram.records, parts))
    assert sum(counted) == 3 * 5000


# ---- PostgreSQL's own types ---------------------------------------------------------------------


@pytest.mark.parametrize("held", ["smallint", "bigint", "real", "double precision", "numeric"])
def test_integers_may_be_held_in_any_numeric_type(server, held):
    table = in_server(server, f"age {held}", "(0), (3), (9), (10), (99), (NULL)")
    assert contents(tabulate(table, Schema((AGE,)), on_unknown="drop").histogram) == {
        (0,): 1,
        (3,): 1,
        (9,): 1,
    }


@pytest.mark.parametrize("attribute", [AGE, CategoryAttribute("age", (1, 7))], ids=lambda a: a.kind)
@pytest.mark.parametrize("held", ["double precision", "numeric"])
def test_fractions_and_numbers_without_an_integer_are_unknown(server, held, attribute):
    values = "(0.5), (1), (1e30), (-1e30), ('NaN'), ('Infinity')"
    tabulation = tabulate(
        in_server(server, f"age {held}", values), Schema((attribute,)), on_unknown="drop"
    )
    assert tabulation.histogram.records == 1
    assert tabulation.report.dropped == 5


def test_padded_text_is_compared_without_its_padding(server):
    table = in_server(server, "word char(8)", "('ab'), ('abc')")
    schema = Schema((CategoryAttribute("word", ("ab", "abc")),))
    assert contents(tabulate(table, schema).histogram) == {(0,): 1, (1,): 1}


IDENTIFIERS = {
    "text": ["text", "varchar(20)"],
    "integers": ["smallint", "bigint"],
    "floats": ["double precision", "real", "numeric"],
    "decimals": ["numeric", "numeric(20, 2)"],
    "dates": ["date"],
    "moments": ["timestamp"],
    "moments in UTC": ["timestamptz"],
    "truth": ["boolean"],
    "nothing": ["text", "bigint", "date"],
}


@pytest.mark.parametrize(
    ("name", "held"), [(name, held) for name, types in IDENTIFIERS.items() for held in types]
)
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
@given(data=st.data())
def test_persons_are_those_of_any_table(server, name, held, data):
    values = data.draw(identifiers.columns(name))
    in_server(server, f"id {held}, row integer", "(NULL, 0)")
    with server.owner() as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE one")
        with cursor.copy("COPY one FROM STDIN") as copy:
            for row, value in enumerate(values):
                copy.write_row((value, row))
    unit = PersonModel(column="id", max_records=1, max_participants=1)
    options = {"on_unknown": "drop", "unit": unit}
    there = tabulate(warehouse.table(server.url(), "one"), identifiers.SCHEMA, **options)
    expected = tabulate(
        identifiers.table(identifiers.COLUMNS[name][0], values), identifiers.SCHEMA, **options
    )
    assert contents(there.histogram) == contents(expected.histogram)
    assert vars(there.report) == vars(expected.report)


@pytest.mark.parametrize(
    ("held", "values", "persons"),
    [
        ("uuid", f"('{UUID(int=1)}'), ('{UUID(int=1)}'), ('{UUID(int=2)}')", 2),
        ("size", "('small'), ('large'), ('large'), (NULL), ('n/a')", 2),
        ("char(8)", "('a'), (' a'), ('  '), ('b')", 2),
        ("numeric", "(1.5), (1.50), (0), (-0.0), ('NaN'), ('Infinity')", 2),
        ("double precision", "(0), ('-0'), ('NaN'), ('-Infinity'), (1e300)", 2),
        ("date", "('infinity'), ('-infinity'), ('2026-01-01')", 1),
        ("inet", "('::1'), ('::1'), ('::2')", 2),
    ],
    ids=lambda value: value if isinstance(value, str) and "'" not in value else "",
)
def test_persons_may_be_of_postgresqls_own_types(server, held, values, persons):
    server.execute(
        "DROP TABLE IF EXISTS one",
        "DROP TYPE IF EXISTS size",
        "CREATE TYPE size AS ENUM ('small', 'large', 'n/a')",
    )
    table = in_server(server, f"id {held}, age integer DEFAULT 1", "(NULL)")
    server.execute(f"INSERT INTO one VALUES {values}")
    unit = PersonModel(column="id", max_records=1, max_participants=1)
    tabulation = tabulate(table, Schema((AGE,)), on_unknown="drop", unit=unit)
    assert tabulation.histogram.records == tabulation.report.persons == persons


@pytest.mark.parametrize("held", ["bytea", "json", "jsonb", "integer[]", "interval"])
def test_identifiers_that_cannot_be_compared_alike_are_refused(server, held):
    table = in_server(server, f"id {held}, age integer", "(NULL, 1)")
    unit = PersonModel(column="id", max_records=1, max_participants=1)
    with pytest.raises(DataError, match=r"'one': column 'id' holds another type .*convert it"):
        tabulate(table, Schema((AGE,)), on_unknown="drop", unit=unit)


def test_a_type_that_cannot_hold_the_attribute_is_refused(server):
    table = in_server(server, "age date", "('2026-01-01')")
    with pytest.raises(DataError, match=r"column 'age' holds dates, but 'age' needs in"):
        tabulate(table, Schema((AGE,)), on_unknown="drop")


def test_hundreds_of_categories_and_bins(server):
    size = 600
    words = CategoryAttribute("word", tuple(f"county {i}" for i in range(size)))
    bins = NumberAttribute("at", tuple(i / 7 for i in range(size + 1)))
    table = in_server(
        server,
        "word text, at double precision",
        ", ".join(f"('county {i}', {i / 7!r})" for i in range(0, size + 3, 3)),
    )
    histogram = tabulate(table, Schema((words, bins)), on_unknown="drop").histogram
    assert contents(histogram) == {(i, i): 1 for i in range(0, size, 3)}


# ---- a study's texts and a warehouse's secrets --------------------------------------------------


def test_texts_of_a_study_stay_texts(server):
    texts = (ATTACK, "it's", '"', "100%", "%s", ":x", "$1", "{0}", "a\nb", "--", "")
    table = in_server(server, "word text", "('it''s'), (''), ('%s'), ('--')")
    schema = Schema((CategoryAttribute("word", texts),))
    histogram = tabulate(table, schema).histogram
    assert [texts[code] for (code,) in contents(histogram)] == ["it's", "%s", "--", ""]
    server.execute("TABLE victims")


def test_the_attack_works_where_texts_are_pasted(server):
    """The weakened variant of the test before."""
    server.execute("CREATE TABLE pasted AS TABLE victims")
    attack = ATTACK.replace("victims", "pasted")
    server.execute(f"SELECT count(*) FROM victims WHERE word IN ('{attack}')")
    with pytest.raises(Exception, match="does not exist"):
        server.execute("TABLE pasted")


@pytest.mark.parametrize("careful", [True, False])
def test_a_backslash_could_leave_its_quotes_and_is_refused(server, monkeypatch, careful):
    """An old setting of PostgreSQL lets a backslash escape the quotation mark after it."""
    server.execute(f"ALTER ROLE {READER} SET standard_conforming_strings = off")
    table = in_server(server, "word text", "('a')")
    server.execute(f"ALTER ROLE {READER} RESET standard_conforming_strings")
    schema = Schema((CategoryAttribute("word", ("a", "\\", " OR true --")),))
    if careful:
        with pytest.raises(DataError, match="a value of 'word' contains a backslash"):
            tabulate(table, schema)
    else:
        monkeypatch.setattr(CategoryAttribute, "_require_expressible", lambda self: None)
        with pytest.raises(DataError, match="SyntaxError"):
            tabulate(table, schema)


def refusal(url: str, name: str = "mixed") -> str:
    with pytest.raises(DataError) as caught:
        tabulate(warehouse.table(url, name), Schema((AGE,)))
    return "".join(traceback.format_exception(caught.value))


def test_no_error_or_representation_repeats_the_password(server, mixed):
    wrong = server.url(password="tops3cret")
    assert "the warehouse answered OperationalError" in refusal(wrong)
    assert "tops3cret" not in refusal(wrong)
    for shown in (refusal(server.url(), "absent"), repr(mixed), repr(server)):
        assert server.password not in shown
    assert "warehouse table 'absent': the table cannot be opened" in refusal(server.url(), "absent")


def test_errors_of_the_server_are_not_passed_on_since_they_quote_values(server):
    table = in_server(server, "age text", "('4711x')")
    expression = table.mutate(age=table.age.cast("int64"))
    with pytest.raises(DataError) as caught:
        tabulate(expression, Schema((AGE,)))
    assert "the warehouse answered InvalidTextRepresentation" in str(caught.value)
    assert "4711x" not in "".join(traceback.format_exception(caught.value))


def test_a_table_that_the_reader_may_not_read_is_refused(server):
    table = in_server(server, "age integer", "(1)")
    server.execute(f"REVOKE SELECT ON one FROM {READER}")
    with pytest.raises(DataError, match=r"'one': .*counted .*answered InsufficientPrivilege"):
        tabulate(table, Schema((AGE,)))


def test_the_example_of_the_documentation_works_as_written(server, monkeypatch):
    page = PROJECT / "docs" / "how-to" / "warehouse.md"
    (grants,) = re.findall(r"^```sql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = [block.text for block in blocks(page) if "postgresql://" in block.text]
    server.execute(
        "CREATE TABLE discharges AS SELECT 40 AS age, 'surgery' AS ward, 'male' AS sex,"
        " 'planned' AS admission, 3 AS days",
        grants,
    )
    monkeypatch.setenv("PGPASSWORD", "…")
    names: dict[str, Any] = {"study": Study.load(PROJECT / "examples/hospitals/study.yaml")}
    here = example.replace("db.example/hospital", f"127.0.0.1:{server.port}/{server.database}")
    assert here != example
    exec(here, names)  # noqa: S102 - our page
    assert names["tabulation"].histogram.records == 1

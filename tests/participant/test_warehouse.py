"""A table of a warehouse, here DuckDB through ibis, is counted as a table on this machine is."""

from __future__ import annotations

import subprocess
import sys
import traceback
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ibis.backends.sql import compilers

from dhdmm.errors import DataError, Refused
from dhdmm.participant import warehouse
from dhdmm.participant.coding import PersonBound
from dhdmm.participant.mapping import Column
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.attributes.base import LONGEST_LIST
from dhdmm.study.attributes.columns import ColumnKind
from dhdmm.study.models import PersonModel
from dhdmm.study.schema import Schema
from tests.participant import postgres
from tests.participant.test_tabulate import RECORD, arrow, contents
from tests.participant.test_tabulate import SCHEMA as MIXED

SCHEMA = Schema((IntegerAttribute("age", 0, 9), CategoryAttribute("race", ("White", "Other"))))
TABLE = pa.table(
    {"id": [1, 1, None, 2], "AGE": [1, 1, 1, 10], "race": ["White", "x", "White", None]}
)


def stored(table: pa.Table) -> ibis.Table:
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE stored AS FROM given")
    return ibis.duckdb.from_connection(connection).table("stored")


def outcome(table: Any, schema: Schema, **options: Any) -> tuple[Any, ...]:
    """The histogram and the report, or the refusal without its place."""
    try:
        tabulation = tabulate(table, schema, **options)
    except (DataError, Refused) as error:
        return type(error), error.what, error.hint
    return contents(tabulation.histogram), vars(tabulation.report)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.lists(RECORD, max_size=30), st.sampled_from(["error", "drop", "other"]))
def test_random_tables_are_counted_as_they_are_here(records, on_unknown):
    table = arrow(records)
    options = {"on_unknown": on_unknown, "other": {"word": "a,b", "age": 0}}
    assert outcome(stored(table), MIXED, **options) == outcome(table, MIXED, **options)


@pytest.mark.slow
@pytest.mark.parametrize("on_unknown", ["error", "drop", "other"])
@pytest.mark.parametrize(
    "unit", [None, PersonModel(column="ID", max_records=1, max_participants=1)]
)
@pytest.mark.parametrize("max_records", [None, 0])
def test_policies_are_those_of_any_table(on_unknown, unit, max_records):
    known = TABLE.slice(0, 1)
    options = {"on_unknown": on_unknown, "unit": unit, "max_records": max_records}
    for table in (TABLE, TABLE.slice(0, 2), known, known.slice(1)):
        assert outcome(stored(table), SCHEMA, **options) == outcome(table, SCHEMA, **options)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"years": [1], "race": ["White"]}),
        pa.table({"age": [1]}),
        pa.table({"age": ["1"], "race": ["White"]}),
        pa.table({"age": [True], "race": ["White"]}),
        pa.table({"age": [1], "race": [1]}),
    ],
    ids=lambda table: ",".join(f"{field.name} {field.type}" for field in table.schema),
)
@pytest.mark.parametrize("columns", [None, {"age": "years"}])
def test_columns_are_found_and_refused_as_in_any_table(table, columns):
    options = {"columns": columns, "on_unknown": "drop"}
    assert outcome(stored(table), SCHEMA, **options) == outcome(table, SCHEMA, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "held",
    [
        pa.int8(),
        pa.uint16(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(20, 3),
        pa.decimal128(3, 1),
    ],
    ids=str,
)
def test_integers_may_be_held_in_any_numeric_type(held):
    table = pa.table({"age": pa.array([-0, 3, 9, 10, 99, None], held)})
    schema = Schema((IntegerAttribute("age", -3, 9),))
    expected = outcome(table, schema, on_unknown="drop")
    assert outcome(stored(table), schema, on_unknown="drop") == expected
    assert sum(expected[0].values()) == 3


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True).map(sorted),
    st.lists(st.floats(-1.1e6, 1.1e6) | st.sampled_from([float("nan"), float("inf")]), max_size=20),
)
def test_bins_are_those_of_any_table_and_the_last_one_is_closed(edges, values):
    table = pa.table({"x": pa.array([*values, *edges], pa.float64())})
    schema = Schema((NumberAttribute("x", tuple(edges)),))
    expected = outcome(table, schema, on_unknown="drop")
    assert outcome(stored(table), schema, on_unknown="drop") == expected


def test_an_expression_is_counted_like_a_table():
    table = stored(TABLE)
    chosen = table.filter(table.race == "White").select("race", age=table.AGE + 1)
    assert contents(tabulate(chosen, SCHEMA).histogram) == {(2, 0): 2}


def test_a_column_of_nothing_but_missing_values_is_unknown():
    table = stored(TABLE).mutate(race=ibis.null())
    assert tabulate(table, SCHEMA, on_unknown="drop").report.dropped == 4


@pytest.mark.parametrize(
    "attribute",
    [
        CategoryAttribute("age", tuple(range(LONGEST_LIST + 1))),
        NumberAttribute("age", tuple(range(LONGEST_LIST + 2))),
    ],
    ids=lambda attribute: attribute.kind,
)
def test_lists_too_long_for_a_statement_are_refused(attribute):
    with pytest.raises(DataError, match=r"'age' has 4,097 values, too many .*export .* as Parquet"):
        tabulate(stored(TABLE), Schema((attribute,)))


# ---- other warehouses, by ibis's word -----------------------------------------------------------


@pytest.mark.parametrize(
    "limit",
    [
        None,
        PersonBound(0, ColumnKind.TEXT, 2, False, ""),
        PersonBound(1, ColumnKind.REAL, 2, True, "00"),
    ],
    ids=["records", "persons by text", "persons by number"],
)
@pytest.mark.parametrize("dialect", ["BigQuery", "Snowflake", "Trino", "Databricks"])
def test_ibis_writes_the_statement_for_other_warehouses(dialect, limit, monkeypatch):
    asked = []
    monkeypatch.setattr(ibis.Table, "to_pyarrow", lambda table: asked.append(table) or TABLE)
    unbound = ibis.table({"id": "string", "age": "float64", "race": "string"}, name="stays")
    source = warehouse.WarehouseSource.of(unbound)
    with pytest.raises(KeyError):  # since the answer is none
        source.count(SCHEMA.attributes, [Column(), Column()], [1, 2], limit)["total"]
    compiler = getattr(compilers, f"{dialect}Compiler")()
    (statement,) = [compiler.to_sqlglot(table).sql(compiler.dialect) for table in asked]
    assert statement.count("GROUP BY") == 1
    assert statement.count("stays") == 1


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip), ("1", pytest.fail)])
def test_without_postgresql_its_tests_are_skipped_but_never_where_all_must_run(
    monkeypatch, ci, outcome
):
    monkeypatch.setattr(postgres, "_program", lambda name: None)
    monkeypatch.setenv("DHDMM_CI", ci)
    with pytest.raises(outcome.Exception, match="PostgreSQL is not installed"):
        postgres.require_postgres()


# ---- addresses and errors -----------------------------------------------------------------------


def test_a_table_is_opened_by_its_address(tmp_path):
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE SCHEMA ward; CREATE TABLE ward.patients AS FROM given")
    table = warehouse.table(f"duckdb://{path}", "patients", database="ward")
    assert outcome(table, SCHEMA, on_unknown="drop") == outcome(TABLE, SCHEMA, on_unknown="drop")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://user:tops3cret@host/db", "this is not the address of a warehouse"),
        ("table://user:tops3cret@host/db", "this is not the address of a warehouse"),
        ("postgresql://user@host:tops3cret/db", "this is not the address of a warehouse"),
        ("tops3cret", "this is not the address of a warehouse"),
        ("postgresql://user:tops3cret@127.0.0.1:1/db", "the warehouse cannot be opened"),
        ("postgresql://user:tops3cret@127.0.0.1/db?tops3cret=1", "the warehouse cannot be opened"),
        ("trino://user:tops3cret@127.0.0.1:1/db", "the driver for trino is not installed"),
    ],
)
def test_an_address_that_fails_is_not_repeated(url, message):
    with pytest.raises(DataError) as caught:
        warehouse.table(url, "patients")
    assert caught.value.what == message
    assert "tops3cret" not in "".join(traceback.format_exception(caught.value))


def run_alone(program: str) -> tuple[str, int]:
    """What a new process prints, which has loaded nothing that these tests have."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


@pytest.mark.slow
def test_the_first_connection_of_a_process_may_fail_and_repeats_nothing():
    program = (
        "from dhdmm.errors import DataError\n"
        "from dhdmm.participant import warehouse\n"
        "try: warehouse.table('postgresql://user:tops3cret@127.0.0.1:1/db', 'patients')\n"
        "except DataError as error: print(error)"
    )
    message = "the warehouse cannot be opened (the warehouse answered OperationalError)\n"
    assert run_alone(program) == (message, 0)


def test_a_table_of_no_warehouse_is_refused():
    with pytest.raises(DataError, match="the table cannot be counted"):
        tabulate(ibis.table({"age": "int64", "race": "string"}, name="nowhere"), SCHEMA)


def test_a_source_does_not_show_its_table():
    assert "int64" not in repr(warehouse.WarehouseSource.of(stored(TABLE)))


@pytest.mark.slow
def test_tables_on_this_machine_need_no_ibis():
    program = (
        "import sys; sys.modules['ibis'] = None\n"
        "import pyarrow as pa\n"
        "from dhdmm.participant.tabulate import tabulate\n"
        "from dhdmm.study.schema import Schema\n"
        "print(tabulate(pa.table({'a0': [1]}), Schema.of_sizes([2])).histogram.records)"
    )
    assert run_alone(program) == ("1\n", 0)

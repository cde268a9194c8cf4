"""`dhdmm run --data ADDRESS`: a participant's table that stays in its warehouse."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pytest

from dhdmm.errors import DataError, ExitCode
from dhdmm.participant.address import TableAddress, is_address
from tests.cli.commands import Shell
from tests.participant.postgres import Server
from tests.round.small import small_text

pytestmark = pytest.mark.slow

ROWS = "SELECT i % 10 AS age, CASE i % 2 WHEN 0 THEN 'F' ELSE 'M' END AS sex"
IN_DUCKDB = f"CREATE TABLE people AS {ROWS} FROM range(300) AS numbers(i)"
IN_POSTGRESQL = f"CREATE TABLE people AS {ROWS} FROM generate_series(0, 299) AS i"
DEALT = ["--participants", "12", "--json"]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "study.yaml").write_text(small_text())
    with duckdb.connect(str(tmp_path / "people.duckdb")) as database:
        database.execute(IN_DUCKDB)
        database.execute("CREATE TABLE few AS FROM people LIMIT 5")
        database.execute("CREATE SCHEMA ward; CREATE TABLE ward.patients AS FROM people")
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def server(postgres: Server) -> Server:
    return postgres.with_database(
        IN_POSTGRESQL,
        "CREATE TABLE few AS SELECT * FROM people LIMIT 5",
        "CREATE TABLE hidden (age int)",
        "REVOKE SELECT ON hidden FROM reader",
    )


def error_of_run(shell: Shell, address: str) -> str:
    said = shell("run", "study.yaml", "--data", address, "--participants", "12")
    assert (said.code, said.out) == (ExitCode.INPUT, "")
    assert shell.files() == {"study.yaml", "people.duckdb"}
    return said.err


@pytest.mark.parametrize("place", ["table=people", "schema=ward&table=patients"])
def test_a_duckdb_file_is_dealt_out(shell: Shell, place: str) -> None:
    said = shell("run", "study.yaml", "--data", f"duckdb://people.duckdb?{place}", *DEALT)
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["participants"] == 12


def test_a_postgresql_table_is_dealt_out_and_counted_in_the_server(
    shell: Shell, server: Server
) -> None:
    server.forget_statements()
    address = f"{server.url()}?table=people&connect_timeout=20"
    said = shell("run", "study.yaml", "--data", address, "--truth", *DEALT)
    assert (said.code, said.err) == (0, "")
    assert server.password not in said.out
    statements = server.statements_of_the_reader()
    assert [calls for sql, calls, _ in statements if "GROUP BY" in sql and "people" in sql] == [1]
    assert sum(rows for _, _, rows in statements) < 300, "the server sent fewer rows than it has"


def test_every_table_is_a_participant_wherever_it_is(shell: Shell, server: Server) -> None:
    one = shell.folder / "one.csv"
    one.write_text("age,sex\n1,F\n")
    tables = [f"{server.url()}?table=few", "duckdb://people.duckdb?table=few"]
    data = [text for table in [*tables, *["one.csv"] * 10] for text in ("--data", table)]
    said = shell("run", "study.yaml", *data, "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["participants"] == 12


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("duckdb://people.duckdb", "the address names no table"),
        ("duckdb://people.duckdb?table=", "the address names no table"),
        ("duckdb://people.duckdb?table=nobody", "'nobody': the table cannot be opened"),
        ("duckdb://absent.duckdb?table=people", "absent.duckdb: there is no such DuckDB file"),
        ("postgresql://reader:s3cret@127.0.0.1:1/db?table=t", "the warehouse cannot be opened"),
        ("postgresql://reader:s3cret@127.0.0.1/db", "the address names no table"),
        ("postgresql:/reader:s3cret@127.0.0.1/db", "the address names no table"),
        ("postgresql://reader:s3cret@[::1/db?table=t", "not the address of a warehouse"),
        ("postgresql://reader@127.0.0.1/db?s3cret", "not the address of a warehouse"),
        ("nosuch://reader:s3cret@host/db?table=t", "not the address of a warehouse"),
    ],
)
def test_an_address_that_fails_says_why_and_is_not_repeated(
    shell: Shell, address: str, message: str
) -> None:
    error = error_of_run(shell, address)
    assert message in error
    assert "s3cret" not in error
    assert "Traceback" not in error


def test_what_the_server_refuses_is_said_without_the_password(shell: Shell, server: Server) -> None:
    for address, message in (
        (f"{server.url()}?table=nobody", "'nobody': the table cannot be opened"),
        (f"{server.url()}?table=hidden", "'hidden'"),
        (f"{server.url(password='wr0ng')}?table=people", "the warehouse cannot be opened"),
    ):
        error = error_of_run(shell, address)
        assert message in error
        assert server.password not in error
        assert "wr0ng" not in error


def test_without_the_extra_its_name_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dhdmm.participant.warehouse", raising=False)
    monkeypatch.delattr("dhdmm.participant.warehouse", raising=False)
    monkeypatch.setitem(sys.modules, "ibis", None)
    assert "pip install 'dhdmm[warehouse]'" in error_of_run(
        shell, "duckdb://people.duckdb?table=people"
    )


def test_an_address_shows_its_table_alone_and_keeps_the_drivers_options() -> None:
    address = TableAddress.parse("postgresql://me:s3cret@h:5/db?sslmode=require&table=t&schema=s")
    assert address.url == "postgresql://me:s3cret@h:5/db?sslmode=require"
    assert (address.table, address.schema) == ("t", "s")
    assert "s3cret" not in f"{address}{address!r}"
    with pytest.raises(DataError):
        TableAddress.parse("postgresql://h/db?table")


@pytest.mark.parametrize(
    ("text", "meant"),
    [("duckdb://a", True), ("postgresql:/x", True), ("C:/a.csv", False), ("data/a.csv", False)],
)
def test_an_address_is_told_from_a_path(text: str, meant: bool) -> None:
    assert is_address(text) is meant

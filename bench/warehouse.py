"""Rows a second: ten million rows in a PostgreSQL server counted there; and what leaves it.

The server is started for this and removed afterwards. Its own statistics say which statements the
participant executed and how many rows it was sent. The same rows as Parquet give the same counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TypeVar

import numpy as np

from dhdmm.participant import warehouse
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.histogram import Histogram
from dhdmm.study.models import PersonModel
from tests.participant.postgres import Server, running_server
from tests.participant.warehouse_records import SCHEMA, records, write_parquet

ROWS = 10_000_000
PERSON = PersonModel(column="person", max_records=2, max_participants=1)
Result = TypeVar("Result")


def timed(name: str, work: Callable[[], Result]) -> Result:
    start = perf_counter()
    result = work()
    seconds = perf_counter() - start
    print(f"{name:>34}{seconds:>10.1f}{ROWS / seconds / 1e6:>14.2f}", flush=True)
    return result


def show_traffic(server: Server, histogram: Histogram) -> None:
    statements = server.statements_of_the_reader()
    counting = [sql for sql, _, _ in statements if '"records"' in sql]
    print(f"\n{len(counting)} statement reads the table:")
    for sql in counting:
        print(f"  {sql[:120]} … {sql[-60:]}")
    sent = sum(rows for _, _, rows in statements)
    print(f"{sent:,} rows left the server; {len(histogram.counts):,} cells are occupied\n")


def main() -> None:
    print(f"{ROWS:,} rows, {len(SCHEMA.attributes)} attributes, {SCHEMA.cells:,} cells")
    print(f"{'':>34}{'seconds':>10}{'million row/s':>14}")
    with TemporaryDirectory() as folder, running_server() as running:
        server = running.with_database()
        timed("inserted into PostgreSQL", lambda: fill(server))
        parquet = timed(
            "written as Parquet", lambda: write_parquet(Path(folder) / "t.parquet", ROWS)
        )
        table = warehouse.table(server.url(), "records")
        server.forget_statements()
        there = timed("counted in PostgreSQL", lambda: tabulate(table, SCHEMA).histogram)
        show_traffic(server, there)
        here = timed("counted from Parquet", lambda: tabulate(parquet, SCHEMA).histogram)
        same = np.array_equal(here.codes, there.codes) and np.array_equal(here.counts, there.counts)
        print(f"{'equal' if same else 'NOT EQUAL':>34}")
        report = timed(
            "counted in PostgreSQL by person", lambda: tabulate(table, SCHEMA, unit=PERSON).report
        )
        print(f"{report.records_truncated:>34,} records beyond two of a person left out")


def fill(server: Server) -> None:
    server.execute(f"CREATE TABLE records AS {records(ROWS)}", "ANALYZE records")


if __name__ == "__main__":
    main()

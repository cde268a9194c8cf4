"""Rows a second: one participant's table of ten million rows and five attributes to a histogram."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dhdmm.participant.tabulate import tabulate
from dhdmm.study.models import PersonModel
from tests.participant.warehouse_records import RACES, SCHEMA

ROWS = 10_000_000


def adult_like(rows: int) -> pa.Table:
    """Independent uniform columns: nearly every cell is occupied, which is the slow case."""
    random = np.random.default_rng(1)

    def words(values: tuple[str, ...]) -> pa.Array:
        return pa.array(values).take(pa.array(random.integers(0, len(values), rows)))

    return pa.table(
        {
            "age": random.integers(17, 92, rows),
            "education": random.integers(1, 17, rows),
            "race": words(RACES),
            "sex": words(("Female", "Male")),
            "hours": np.round(random.uniform(0, 100, rows), 1),
            "person": random.integers(0, rows // 2, rows),
        }
    )


def report(name: str, table: Any, unit: PersonModel | None = None) -> None:
    wall, cpu = perf_counter(), process_time()
    histogram = tabulate(table, SCHEMA, unit=unit).histogram
    wall, cpu = perf_counter() - wall, process_time() - cpu
    print(
        f"{name:>20}{wall:>10.1f}{cpu:>14.1f}{ROWS / wall / 1e6:>14.1f}{len(histogram.counts):>12,}"
    )


def main() -> None:
    table = adult_like(ROWS)
    with TemporaryDirectory() as folder:
        parquet, text = Path(folder) / "table.parquet", Path(folder) / "table.csv"
        pyarrow.parquet.write_table(table, parquet)
        pyarrow.csv.write_csv(table, text)
        print(f"{ROWS:,} rows, {len(SCHEMA.attributes)} attributes, {SCHEMA.cells:,} cells")
        print(f"{'':>20}{'seconds':>10}{'cpu seconds':>14}{'million row/s':>14}{'occupied':>12}")
        report("Parquet", parquet)
        report("CSV", text)
        report("Arrow", table)
        report("Arrow, streamed", table.to_reader(max_chunksize=100_000))
        unit = PersonModel(column="person", max_records=2, max_participants=1)
        report("Parquet, by person", parquet, unit)


if __name__ == "__main__":
    main()

"""Records that PostgreSQL and DuckDB make alike: a SELECT that both understand, and its schema."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.schema import Schema

RACES = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")
SCHEMA = Schema(
    (
        IntegerAttribute("age", 17, 91),
        IntegerAttribute("education", 1, 16),
        CategoryAttribute("race", RACES),
        CategoryAttribute("sex", ("Female", "Male")),
        NumberAttribute("hours", tuple(range(0, 101, 5))),
    )
)
PRIME = 2**31 - 1


def records(rows: int) -> str:
    """SQL. Columns are multiples of the row's number modulo a prime: scattered, and integers."""

    def scattered(multiplier: int, size: int) -> str:
        return f"(CAST(i AS BIGINT) * {multiplier} % {PRIME} % {size})"

    races = ", ".join(f"'{race}'" for race in RACES)
    return (
        f"SELECT CAST(17 + {scattered(48271, 75)} AS INTEGER) AS age,"
        f" CAST(1 + {scattered(69621, 16)} AS SMALLINT) AS education,"
        f" (ARRAY[{races}])[CAST(1 + {scattered(16807, 5)} AS INTEGER)] AS race,"
        f" CASE {scattered(39373, 2)} WHEN 0 THEN 'Female' ELSE 'Male' END AS sex,"
        f" CAST({scattered(40692, 1001)} AS DOUBLE PRECISION) / 10 AS hours,"
        f" {scattered(52774, rows // 2 + 1)} AS person"
        f" FROM generate_series(1, {rows}) AS g(i)"
    )


def write_parquet(path: Path, rows: int) -> Path:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({records(rows)}) TO '{path}' (FORMAT parquet)")
    return path

"""Rows of a table for a page: a window of them, in the order somebody asked for, in words."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dhdmm.release.frames import STATISTICS, all_whole, plain_rows
from dhdmm.release.tables import JOINT
from dhdmm.release.wording import decimals, number

ROWS_A_PAGE = 100
BESIDE = ("standard_error", "z")
"""Numbers about answers, which are not whole where these are."""


@dataclass(frozen=True)
class Listing:
    """A window of a table: headers, rows of texts, and where it stands among the others."""

    words: list[str]
    numbers: list[str]
    rows: list[tuple[list[str], list[str]]]
    page: int
    pages: int
    total: int
    sort: str


def listing(
    table: pa.Table, page: int, sort: str = "", numbers: Sequence[str] = (*STATISTICS, *JOINT)
) -> Listing:
    """Numbers are rounded by their row's error, beside which they stand, and whole ones not at all.

    `-value` sorts down.
    """
    shown = [name for name in numbers if name in table.column_names]
    words = [
        name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)
    ]
    order = _order(table, sort, shown)
    pages = max(-(-len(table) // ROWS_A_PAGE), 1)
    page = min(max(page, 1), pages)
    chosen = order[(page - 1) * ROWS_A_PAGE : page * ROWS_A_PAGE]
    answers = [name for name in shown if name not in BESIDE]
    floats = (table[name] for name in answers if pa.types.is_floating(table[name].type))
    whole = all_whole(column.to_numpy() for column in floats)
    rows = [
        ([row[name] for name in words], [_figure(name, row, whole) for name in shown])
        for row in table.take(pa.array(chosen)).to_pylist()
    ]
    sorted_by = sort if sort.lstrip("-") in shown else ""
    return Listing(words, shown, rows, page, pages, len(table), sorted_by)


def _order(
    table: pa.Table, sort: str, allowed: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    column = sort.removeprefix("-")
    if column not in allowed:
        return np.arange(len(table))
    values = table[column].to_numpy()
    if values.dtype.kind == "M":
        values = values.astype(np.int64)
    return np.argsort(-values if sort.startswith("-") else values, kind="stable")


def _figure(column: str, row: dict[str, Any], whole: bool) -> str:
    if isinstance(row[column], date):
        return f"{row[column]:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    rounded = column in BESIDE or not whole
    places = 1 if column == "z" else decimals(row["standard_error"]) if rounded else 0
    text = number(row[column], places)
    return f"± {text}" if column == "standard_error" else text


# ---- downloads -----------------------------------------------------------------------------------

MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "json": "application/json"}


def encoded(table: pa.Table, kind: str) -> bytes:
    """The whole table as a file of this kind, in full precision."""
    if kind == "json":
        return json.dumps(plain_rows(table), ensure_ascii=False, indent=1).encode()
    written = io.BytesIO()
    {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table}[kind](table, written)
    return written.getvalue()

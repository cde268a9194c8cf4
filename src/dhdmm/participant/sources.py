"""A participant's table on its own machine, as columns c0, c1, … of a private DuckDB connection.

The columns are renamed by position, so no name of the table ever becomes SQL.
"""

from __future__ import annotations

import csv
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from dhdmm.errors import DataError
from dhdmm.participant.connection import not_utf8, private_connection
from dhdmm.study.attributes.columns import ColumnKind
from dhdmm.study.names import literal

CSV_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
PARQUET_SUFFIXES = (".parquet", ".pq")
PATTERN_CHARACTERS = "*?[{"
"""DuckDB would read a name with these as a pattern for several files."""
SMALL_FILE = 2**20
"""Up to so many bytes a second thread costs more than it does."""


@dataclass(frozen=True)
class Source(ABC):
    """A table that has been found, with its header read, but none of its records."""

    names: tuple[str, ...]
    where: str | None = None

    @abstractmethod
    def kind(self, position: int) -> ColumnKind: ...


@dataclass(frozen=True)
class LocalSource(Source):
    """A table that a DuckDB connection of ours can read."""

    path: Path | None = None

    def connection(self, threads: int | None) -> AbstractContextManager[DuckDBPyConnection]:
        """An empty database to attach this table to."""
        if threads is None and self.path is not None and self.path.stat().st_size <= SMALL_FILE:
            threads = 1
        return private_connection(self.path, self.where, threads)

    @abstractmethod
    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        """SQL for a relation that has (at least) the chosen columns, called c0, c1, …"""


@dataclass(frozen=True)
class CsvSource(LocalSource):
    """Every field is text; quoting as in RFC 4180; no guessing from a sample of the records."""

    delimiter: str = field(kw_only=True)

    def kind(self, position: int) -> ColumnKind:
        return ColumnKind.FIELD

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        return (
            f"read_csv({literal(str(self.path))}, auto_detect = false, header = true,"
            f" delim = {literal(self.delimiter)}, quote = '\"', escape = '\"',"
            f" columns = {{{columns}}})"
        )


def open_source(table: Any, wanted: Collection[str] = ()) -> LocalSource:
    """Find the table and read its header; the columns wanted tell a CSV file's delimiter.

    A path (CSV, TSV, Parquet), a pandas frame, or anything that offers Arrow's stream interface:
    pyarrow tables and readers, polars frames, DuckDB relations.
    """
    if isinstance(table, str | os.PathLike):
        return _open_path(Path(table), wanted)
    from dhdmm.participant import arrow  # slow to import, and a CSV file does without

    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return arrow.PandasSource(tuple(str(name) for name in table.columns), frame=table)
    if hasattr(table, "__arrow_c_stream__"):
        return arrow.ArrowSource.of(table)
    raise DataError(
        f"a {type(table).__name__} is not a table",
        hint="give a path, a pandas, polars, Arrow or ibis table, or a DuckDB relation",
    )


def _open_path(given: Path, wanted: Collection[str]) -> LocalSource:
    path, where = Path(os.path.abspath(given)), str(given)  # noqa: PTH100 - keeps symbolic links
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError("there is no such file", where=where)
    if not path.is_file():
        raise DataError("this is not a file", where=where, hint="give one CSV or Parquet file")
    if suffix not in CSV_DELIMITERS and suffix not in PARQUET_SUFFIXES:
        known = ", ".join([*CSV_DELIMITERS, *PARQUET_SUFFIXES])
        raise DataError(f"cannot tell the format from '{suffix}'", where=where, hint=f"use {known}")
    if any(character in str(path) for character in PATTERN_CHARACTERS):
        hint = "rename it, or open it yourself and pass the table"
        raise DataError(f"the path contains one of {PATTERN_CHARACTERS}", where=where, hint=hint)
    if suffix in CSV_DELIMITERS:
        return _open_csv(path, where, wanted)
    from dhdmm.participant.arrow import ParquetSource

    return ParquetSource.at(path, where)


def _open_csv(path: Path, where: str, wanted: Collection[str]) -> CsvSource:
    """The delimiter that finds most of the columns wanted; failing that, most columns."""
    headers = {
        delimiter: _csv_header(path, where, delimiter)
        for delimiter in CSV_DELIMITERS[path.suffix.lower()]
    }
    sought = {name.casefold() for name in wanted}

    def found(delimiter: str) -> tuple[int, int]:
        names = headers[delimiter]
        return len(sought & {name.casefold() for name in names}), len(names)

    delimiter = max(headers, key=found)
    names = headers[delimiter]
    if not any(names):
        raise DataError(
            "the file is empty: not even a header",
            where=where,
            hint="the first line names the columns",
        )
    return CsvSource(names, where, path, delimiter=delimiter)


def _csv_header(path: Path, where: str, delimiter: str) -> tuple[str, ...]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file, delimiter=delimiter), [])
            return tuple(name.strip() for name in header)
    except UnicodeDecodeError:
        raise not_utf8(where) from None
    except csv.Error:
        raise DataError("the header is not CSV", where=f"{where}:1") from None
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", where=where) from None

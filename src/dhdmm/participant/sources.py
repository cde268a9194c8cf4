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
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from dhdmm.errors import DataError
from dhdmm.participant.connection import not_utf8, private_connection, unreadable
from dhdmm.study.names import literal

CSV_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
PARQUET_SUFFIXES = (".parquet", ".pq")
PATTERN_CHARACTERS = "*?[{"
"""DuckDB would read a name with these as a pattern for several files."""

Relation = Any
"""What DuckDB can register under a name: an Arrow table or a stream of record batches."""


class Kind(Enum):
    """What a column holds, in the words of an error message."""

    FIELD = "CSV text"  # not typed: the study says how it is read
    TEXT = "text"
    INTEGER = "integers"
    REAL = "numbers"
    BOOLEAN = "true and false"
    NULL = "nothing but missing values"
    MIXED = "values of several types"
    SCALAR = "dates, times, UUIDs or enumerations"
    OTHER = "another type"


@dataclass(frozen=True)
class Source(ABC):
    """A table that has been found, with its header read, but none of its records."""

    names: tuple[str, ...]
    where: str | None = None

    @abstractmethod
    def kind(self, position: int) -> Kind: ...


@dataclass(frozen=True)
class LocalSource(Source):
    """A table that a DuckDB connection of ours can read."""

    path: Path | None = None

    def connection(self, threads: int | None) -> AbstractContextManager[DuckDBPyConnection]:
        """An empty database to attach this table to."""
        return private_connection(self.path, self.where, threads)

    @abstractmethod
    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        """SQL for a relation that has (at least) the chosen columns, called c0, c1, …"""


@dataclass(frozen=True)
class CsvSource(LocalSource):
    """Every field is text; quoting as in RFC 4180; no guessing from a sample of the records."""

    delimiter: str = field(kw_only=True)

    def kind(self, position: int) -> Kind:
        return Kind.FIELD

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        return (
            f"read_csv({literal(str(self.path))}, auto_detect = false, header = true,"
            f" delim = {literal(self.delimiter)}, quote = '\"', escape = '\"',"
            f" columns = {{{columns}}})"
        )


@dataclass(frozen=True)
class ParquetSource(LocalSource):
    schema: pa.Schema = field(kw_only=True, repr=False)

    def kind(self, position: int) -> Kind:
        return _kind(self.schema.field(position).type)

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = ", ".join(f"c{i}" for i in range(len(self.names)))
        file = f"read_parquet({literal(str(self.path))}, hive_partitioning = false)"
        return f"{file} AS source({columns})"


@dataclass(frozen=True)
class ArrowSource(LocalSource):
    """A table in memory, or a stream that can be read once."""

    data: pa.Table | pa.RecordBatchReader = field(kw_only=True, repr=False)

    def kind(self, position: int) -> Kind:
        return _kind(self.data.schema.field(position).type)

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        connection.register("source", self._project(sorted(set(chosen))))
        return "source"

    def _project(self, chosen: list[int]) -> Relation:
        names = [f"c{i}" for i in chosen]
        if isinstance(self.data, pa.Table):
            return self.data.select(chosen).rename_columns(names)
        schema = pa.schema([self.data.schema.field(i).with_name(f"c{i}") for i in chosen])
        batches = (
            pa.RecordBatch.from_arrays([batch.column(i) for i in chosen], schema=schema)
            for batch in self.data
        )
        return pa.RecordBatchReader.from_batches(schema, batches)


@dataclass(frozen=True)
class PandasSource(LocalSource):
    """Only the columns asked for are converted, so an unused one may hold anything."""

    frame: Any = field(kw_only=True, repr=False)

    def kind(self, position: int) -> Kind:
        """A frame may hold missing values of any type as NaN, a floating-point number."""
        column = self._column(position)
        if column is None:
            return Kind.MIXED
        return Kind.NULL if column.null_count == len(column) else _kind(column.type)

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = {f"c{i}": self._column(i) for i in chosen}
        connection.register("source", pa.table(columns))
        return "source"

    def _column(self, position: int) -> pa.Array | None:
        try:
            return pa.array(self.frame.iloc[:, position], from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError):
            return None


def open_source(table: Any, wanted: Collection[str] = ()) -> LocalSource:
    """Find the table and read its header; the columns wanted tell a CSV file's delimiter.

    A path (CSV, TSV, Parquet), a pandas frame, or anything that offers Arrow's stream interface:
    pyarrow tables and readers, polars frames, DuckDB relations.
    """
    if isinstance(table, str | os.PathLike):
        return _open_path(Path(table), wanted)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        return PandasSource(tuple(str(name) for name in table.columns), frame=table)
    if isinstance(table, pa.Table | pa.RecordBatchReader):
        return _arrow_source(table)
    if hasattr(table, "__arrow_c_stream__"):
        with unreadable("the table", None):
            return _arrow_source(pa.RecordBatchReader.from_stream(table))
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
    return _open_parquet(path, where)


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


def _open_parquet(path: Path, where: str) -> ParquetSource:
    with unreadable("the Parquet file", where):
        schema = pq.read_schema(path)
    return ParquetSource(tuple(schema.names), where, path, schema=schema)


def _arrow_source(data: pa.Table | pa.RecordBatchReader) -> ArrowSource:
    return ArrowSource(tuple(data.schema.names), data=data)


def _kind(held: pa.DataType) -> Kind:
    types = pa.types
    if types.is_dictionary(held):
        return _kind(held.value_type)
    for kind, tests in (
        (Kind.TEXT, (types.is_string, types.is_large_string, types.is_string_view)),
        (Kind.INTEGER, (types.is_integer,)),
        (Kind.REAL, (types.is_float32, types.is_float64, _is_decimal)),
        (Kind.BOOLEAN, (types.is_boolean,)),
        (Kind.NULL, (types.is_null,)),
        (Kind.SCALAR, (types.is_date, types.is_time, types.is_timestamp, pa.uuid().equals)),
    ):
        if any(test(held) for test in tests):
            return kind
    return Kind.OTHER


def _is_decimal(held: pa.DataType) -> bool:
    """Of at most 38 digits, which is what DuckDB can hold."""
    return pa.types.is_decimal(held) and not pa.types.is_decimal256(held)

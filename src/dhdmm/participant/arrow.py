"""Tables that Arrow reads: Parquet files, tables and streams in memory, pandas frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from dhdmm.participant.connection import unreadable
from dhdmm.participant.sources import LocalSource
from dhdmm.study.attributes.columns import ColumnKind
from dhdmm.study.names import literal

Relation = Any
"""What DuckDB can register under a name: an Arrow table or a stream of record batches."""


@dataclass(frozen=True)
class ParquetSource(LocalSource):
    schema: pa.Schema = field(kw_only=True, repr=False)

    @classmethod
    def at(cls, path: Path, where: str) -> ParquetSource:
        with unreadable("the Parquet file", where):
            schema = pq.read_schema(path)
        return cls(tuple(schema.names), where, path, schema=schema)

    def kind(self, position: int) -> ColumnKind:
        return _kind(self.schema.field(position).type)

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = ", ".join(f"c{i}" for i in range(len(self.names)))
        file = f"read_parquet({literal(str(self.path))}, hive_partitioning = false)"
        return f"{file} AS source({columns})"


@dataclass(frozen=True)
class ArrowSource(LocalSource):
    """A table in memory, or a stream that can be read once."""

    data: pa.Table | pa.RecordBatchReader = field(kw_only=True, repr=False)

    @classmethod
    def of(cls, table: Any) -> ArrowSource:
        """Of anything that offers Arrow's stream interface."""
        if not isinstance(table, pa.Table | pa.RecordBatchReader):
            with unreadable("the table", None):
                table = pa.RecordBatchReader.from_stream(table)
        return cls(tuple(table.schema.names), data=table)

    def kind(self, position: int) -> ColumnKind:
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

    def kind(self, position: int) -> ColumnKind:
        """A frame may hold missing values of any type as NaN, a floating-point number."""
        column = self._column(position)
        if column is None:
            return ColumnKind.MIXED
        return ColumnKind.NULL if column.null_count == len(column) else _kind(column.type)

    def attach(self, connection: DuckDBPyConnection, chosen: Sequence[int]) -> str:
        columns = {f"c{i}": self._column(i) for i in chosen}
        connection.register("source", pa.table(columns))
        return "source"

    def _column(self, position: int) -> pa.Array | None:
        try:
            return pa.array(self.frame.iloc[:, position], from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError):
            return None


def _kind(held: pa.DataType) -> ColumnKind:
    types = pa.types
    if types.is_dictionary(held):
        return _kind(held.value_type)
    if types.is_timestamp(held):
        return ColumnKind.TIMESTAMP if held.tz is None else ColumnKind.ZONED
    for kind, tests in (
        (ColumnKind.TEXT, (types.is_string, types.is_large_string, types.is_string_view)),
        (ColumnKind.INTEGER, (types.is_integer,)),
        (ColumnKind.REAL, (types.is_float32, types.is_float64, _is_decimal)),
        (ColumnKind.BOOLEAN, (types.is_boolean,)),
        (ColumnKind.NULL, (types.is_null,)),
        (ColumnKind.DATE, (types.is_date,)),
        (ColumnKind.SCALAR, (types.is_time, pa.uuid().equals)),
    ):
        if any(test(held) for test in tests):
            return kind
    return ColumnKind.OTHER


def _is_decimal(held: pa.DataType) -> bool:
    """Of at most 38 digits, which is what DuckDB can hold."""
    return pa.types.is_decimal(held) and not pa.types.is_decimal256(held)

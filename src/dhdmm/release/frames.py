"""Tables of numbers with error bars in the forms that other libraries and programs take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow.lib import StringBuilder

from dhdmm.errors import DhdmmError
from dhdmm.release.intervals import Floats
from dhdmm.release.wording import decimals
from dhdmm.summary import Summarised

if TYPE_CHECKING:
    import pandas

STATISTICS = ("value", "standard_error", "low", "high")


PREVIEWED = 5
"""Rows that a notebook shows."""


def preview(table: pa.Table) -> tuple[list[str], Iterable[tuple[Any, ...]]]:
    """The headers and the first rows, for a notebook."""
    columns = [
        [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in column.to_pylist()]
        for column in table.slice(0, PREVIEWED).columns
    ]
    return table.column_names, zip(*columns, strict=True)


class DerivedTable(Summarised):
    """A table made of released ones, in the forms that people use."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to_arrow(self) -> pa.Table: ...

    def _summary(self) -> dict[str, Any]:
        return {"rows": len(self)}

    def to_pandas(self) -> pandas.DataFrame:
        """The columns of `to_arrow` as a pandas frame; needs `dhdmm[pandas]`.

        Returns:
            The frame.

        Raises:
            DhdmmError: pandas is not installed.
        """
        return in_pandas(self.to_arrow())

    def to_csv(self, path: str | Path) -> None:
        """Write the columns of `to_arrow` as CSV.

        Args:
            path: The file.
        """
        pa.csv.write_csv(self.to_arrow(), str(path))

    def to_parquet(self, path: str | Path) -> None:
        """Write the columns of `to_arrow` as a Parquet file.

        Args:
            path: The file.
        """
        pa.parquet.write_table(self.to_arrow(), str(path))


def in_pandas(table: pa.Table) -> pandas.DataFrame:
    extra("pandas")
    frame: pandas.DataFrame = table.to_pandas()
    return frame


def appended(labels: Mapping[str, pa.Array], numbers: Mapping[str, Floats]) -> pa.Table:
    """A table of both, the numbers' names changed where a label column has them."""
    columns = dict(labels)
    for wanted, column in numbers.items():
        name = wanted
        while name in columns:
            name += "_"
        columns[name] = arrow_numbers(column)
    return pa.table(columns)


# Arrow's own conversion, pa.array, imports pandas, which takes half a second.


def arrow_words(words: Iterable[str]) -> pa.Array:
    builder = StringBuilder()
    builder.append_values(list(words))
    return builder.finish()


def arrow_numbers(numbers: Floats, times: str = "") -> pa.Array:
    """Numbers as they are, or as the dates (`times` "D") or full hours ("h") that they count."""
    if times == "D":
        return _arrow(pa.date32(), numbers.astype(np.int32))
    if times == "h":
        return _arrow(pa.timestamp("s"), 3600 * numbers.astype(np.int64))
    return _arrow(pa.float64(), np.ascontiguousarray(numbers, np.float64))


def _arrow(kind: pa.DataType, numbers: NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows for JSON, which has no dates: these are ISO 8601."""
    return [
        {name: cell.isoformat() if isinstance(cell, date) else cell for name, cell in row.items()}
        for row in table.to_pylist()
    ]


def places_of(errors: Floats, *columns: Floats) -> tuple[int, int]:
    """Decimals of columns that are written side by side, and of their errors.

    Two digits of the smallest error are shown; numbers that are all whole have no decimals.

    >>> places_of(np.array([0.26, 1.2]), np.array([47.0, 59.0]))
    (0, 2)
    """
    known = errors[np.isfinite(errors) & (errors > 0)]
    places = decimals(float(known.min())) if len(known) else 0
    return 0 if all_whole(columns) else places, places


def all_whole(columns: Iterable[Floats]) -> bool:
    """Whether every number in the columns is whole; infinite ends of intervals are none."""
    return all(bool(np.all(one[np.isfinite(one)] % 1 == 0)) for one in columns)


def columns_of(table: pa.Table) -> dict[str, pa.Array]:
    return dict(zip(table.column_names, table.columns, strict=True))


def extra(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError:
        raise DhdmmError(
            f"{library} is not installed", hint=f"pip install 'dhdmm[{library}]', or use to_arrow()"
        ) from None

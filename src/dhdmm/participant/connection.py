"""A DuckDB connection that holds personal data: nothing leaves it but what is asked for.

It lives in memory, sees at most one file, loads no extension and spills nothing to disk. DuckDB's
own messages quote lines of the table, so none of them is passed on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from dhdmm.errors import DataError


@contextmanager
def private_connection(
    path: Path | None, where: str | None, threads: int | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database that may read the file and nothing else."""
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "temp_directory": "",
    }
    if threads is not None:
        settings["threads"] = threads
    with duckdb.connect(":memory:", config=settings) as connection:
        if path is not None:
            connection.execute("SET allowed_paths = $paths", {"paths": [str(path)]})
        _silence(connection)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        with unreadable("the table", where):
            yield connection


def _silence(connection: duckdb.DuckDBPyConnection) -> None:
    """No progress bar: it would go to standard output.

    Only where it is on: in a notebook without ipywidgets DuckDB refuses even to turn it off.
    """
    shown = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    if shown == (True,):
        connection.execute("SET enable_progress_bar = false")


@contextmanager
def unreadable(what: str, where: str | None) -> Iterator[None]:
    """Errors of DuckDB and Arrow in our words: theirs quote the table."""
    try:
        yield
    except _errors() as error:
        if str(error).rstrip().endswith("\nKeyboardInterrupt"):  # within a stream
            raise KeyboardInterrupt from None
        raise _explained(error, what, where) from None
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from None
        raise


def _errors() -> tuple[type[Exception], ...]:
    """The errors of DuckDB, and of Arrow if it is loaded; it is slow to import."""
    arrow = sys.modules.get("pyarrow")
    return (duckdb.Error, OSError, *(() if arrow is None else (arrow.ArrowException,)))


def _explained(error: Exception, what: str, where: str | None) -> DataError:
    if isinstance(error, duckdb.OutOfMemoryException):
        return DataError(f"{what} does not fit into memory", where=where)
    if "Invalid unicode" in str(error):
        return not_utf8(where)
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    if line is not None:
        hint = "too few or too many fields, or a quotation mark that is not closed"
        place = f"{where}:{line[1]}"
        return DataError("the line is not CSV like the header", where=place, hint=hint)
    return DataError(f"{what} cannot be read", where=where)


def not_utf8(where: str | None) -> DataError:
    return DataError("the file is not UTF-8 text", where=where, hint="save it as CSV UTF-8")

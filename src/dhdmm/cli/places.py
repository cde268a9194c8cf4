"""Where tables are and where a release goes, as given on a command line. Imports little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dhdmm.errors import DataError

if TYPE_CHECKING:
    from dhdmm.participant.address import TableAddress

UnknownValues = Literal["error", "drop", "other"]
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


def require_free(directory: Path) -> None:
    """Refuse a directory that cannot take the release, before the budget is spent."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DataError(
            "there is something in the release's place already",
            where=str(directory),
            hint="name another folder with --out",
        )
    require_writable(directory)


def require_writable(directory: Path) -> None:
    """Refuse a directory in which nothing can be written; it need not exist yet."""
    places = (directory, *directory.parents)
    parent = next((folder for folder in places if folder.exists()), Path())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise DataError(
            "nothing can be written here",
            where=str(parent),
            hint="name another place with --out",
        )


def tables_given(given: str, state: Path | None = None) -> list[Path | TableAddress]:
    """What `--data` names: an address, a file, every file of a folder, or a data set."""
    from dhdmm.participant.address import TableAddress, is_address
    from dhdmm.participant.data_sets import DataSets

    if is_address(given):
        return [TableAddress.parse(given)]
    path = Path(given)
    if not path.exists():
        named = DataSets(state).holding(given)
        if named is not None:
            return tables_given(named.table)
        raise DataError("there is no such file", where=given)
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in TABLE_SUFFIXES)
    if not files:
        raise DataError(f"no {', '.join(TABLE_SUFFIXES)} file in the folder", where=given)
    return [*files]


def is_new_file(given: str, state: Path | None = None) -> bool:
    """Whether a ledger of this name is to be made: a path, and neither a file nor a data set."""
    from dhdmm.participant.data_sets import DataSets

    return not Path(given).exists() and all(one.name != given for one in DataSets(state).all())


def opened(table: Path | TableAddress) -> Any:
    return table if isinstance(table, Path) else table.open()

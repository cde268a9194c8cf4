"""Holding a release directory against the release that a transcript leads to.

A table file is the same bytes as the one written from the transcript here, or, where another
version or machine wrote it, the same labels in the same order and numbers that differ by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dhdmm.errors import VerificationError
from dhdmm.release import directory as directories
from dhdmm.release.frames import STATISTICS
from dhdmm.release.intervals import DEFAULT_LEVEL
from dhdmm.release.release import Release
from dhdmm.release.tables import Table

ROUNDING = 1e-6
"""Of a standard error: the largest difference that another machine's arithmetic explains."""


@dataclass(frozen=True)
class Comparison:
    """How many table files hold the derived answers, and how many of them to the byte."""

    files: int
    identical: int


def compare(release: Release, directory: Path) -> Comparison:
    """The directory is this release: plan, measurement, survivors and every table."""
    published, manifest = directories.load(directory), directories.read_manifest(directory)
    where = str(directory)
    if published.plan.digest != release.plan.digest or published.round_id != release.round_id:
        raise VerificationError("the release is of another plan or round", where=where)
    if published.survivors != release.survivors:
        raise VerificationError("the release counts other survivors", where=where)
    if published.unremoved != release.unremoved:
        raise VerificationError("in the release others removed noise", where=where)
    if not np.array_equal(published.measurement, release.measurement):
        raise VerificationError("the release has another measurement", where=where)
    if published.made != release.made:
        raise VerificationError("the release has another maker, date or formats", where=where)
    tables = list(release.values())
    entries = directories.table_files(tables)
    if manifest.tables != entries or manifest.level != DEFAULT_LEVEL:
        raise VerificationError("release.json lists other tables or another level", where=where)
    identical = 0
    with TemporaryDirectory() as scratch:
        for table, entry in zip(tables, entries, strict=True):
            own = Path(scratch)
            table.to_csv(own / "table.csv")
            table.to_parquet(own / "table.parquet")
            identical += _same_table(directory / entry.csv, own / "table.csv", table)
            identical += _same_table(directory / entry.parquet, own / "table.parquet", table)
    return Comparison(2 * len(entries), identical)


def _same_table(path: Path, own: Path, table: Table) -> bool:
    """Whether the file has the very bytes; if not, its content must be the same all the same."""
    try:
        if path.read_bytes() == own.read_bytes():
            return True
        found = _read(path, table.to_arrow().schema)
    except (OSError, pa.ArrowException) as error:
        raise VerificationError(f"cannot be read: {error}", where=str(path)) from None
    _check_content(found, table.to_arrow(), str(path))
    return False


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    return pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema, null_values=[], strings_can_be_null=False
        ),
    )


def _check_content(found: pa.Table, derived: pa.Table, where: str) -> None:
    if not found.schema.equals(derived.schema) or len(found) != len(derived):
        raise VerificationError("other columns or rows than the transcript leads to", where=where)
    for name in derived.column_names:
        if name not in STATISTICS and not found[name].equals(derived[name]):
            raise VerificationError(f"labels under '{name}' were changed", where=where)
    errors = derived["standard_error"].to_numpy()
    for name in STATISTICS:
        expected, given = derived[name].to_numpy(), found[name].to_numpy()
        with np.errstate(invalid="ignore"):  # the ends of an interval may be infinite
            close = (given == expected) | (np.abs(given - expected) <= ROUNDING * errors)
        if not close.all():
            row = int(np.argmin(close))
            raise VerificationError(
                f"row {row + 1}: {name} is {given[row]!r},"
                f" the transcript leads to {expected[row]!r}",
                where=where,
            )

"""A first study file: a commented example, or a draft from a table's header and distinct values."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from dhdmm.errors import StudyError
from dhdmm.study import attributes
from dhdmm.study.attributes.columns import MOST_TEXTS, SeenColumn
from dhdmm.study.document import inline
from dhdmm.study.names import first_repeated

WARNING = """\
# A first draft from a table's header and values. WARNING: the ranges and lists of values below were
# read off the data, so they tell something about it. Replace them by what is publicly known (a code
# book, a legal range) before anybody else sees this file.
"""
FOLDED = "  # some were spelled in upper and lower case: tables are read with ignore_case"
REST = """\
workload:
  - {name: singles, marginals: {ways: 1}}
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {participants: {min: 100, max: 1000}, max_records_per_participant: 100}
"""


def example() -> str:
    """A study with a comment on every part."""
    return (resources.files("dhdmm.study") / "presets" / "example.yaml").read_text("utf-8")


def skeleton_from_csv(path: Path, most: int = MOST_TEXTS) -> str:
    """A study file for the table, to be corrected by a person."""
    return skeleton_of(path.stem, _columns(path, most), path.name)


def skeleton_of(name: str, columns: Sequence[SeenColumn], where: str) -> str:
    """The same for a table whose columns have been seen."""
    lines = [_attribute_line(column) for column in columns]
    if all(line.lstrip().startswith("#") for line in lines):
        raise StudyError("no column has usable values", where=where)
    schema = "\n".join(lines)
    return f"{WARNING}study: {inline(name)}\nschema:\n{schema}\n{REST}"


def _columns(path: Path, most: int) -> list[SeenColumn]:
    rows = _rows(path)
    header = [name.strip() for name in next(rows, [])]
    if not header or not all(header):
        raise StudyError("the first line must name every column", where=f"{path.name}:1")
    repeated = first_repeated([name.casefold() for name in header])
    if repeated is not None:
        raise StudyError(f"two columns are called '{repeated}'", where=f"{path.name}:1")
    columns = [SeenColumn(name, most) for name in header]
    for row in rows:
        for column, text in zip(columns, row, strict=False):
            column.add(text)
    return columns


def _rows(path: Path) -> Iterator[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            try:
                yield from reader
            except csv.Error as error:
                where = f"{path.name}:{reader.line_num}"
                raise StudyError(f"not a CSV table: {error}", where=where) from None
    except UnicodeDecodeError:
        raise StudyError("the file is not UTF-8 text", where=path.name) from None
    except OSError as error:
        raise StudyError(f"cannot read the file: {error.strerror}", where=str(path)) from None


def _attribute_line(column: SeenColumn) -> str:
    name = inline(column.name)
    if not column.kinds:
        return f"  # {name}: no values"
    for kind in attributes.TYPES:
        form = kind.draft(column)
        if form is not None:
            note = FOLDED if column.is_folded and str in column.kinds else ""
            return f"  {name}: {f'{form[:-1]}, missing: true}}' if column.empty else form}{note}"
    return f"  # {name}: more than {column.most} different texts; list or group them (--max-values)"

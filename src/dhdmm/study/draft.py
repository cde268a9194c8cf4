"""A first study file: a commented example, or a draft from a table's header and distinct values."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import resources
from pathlib import Path

from dhdmm.errors import StudyError
from dhdmm.study.document import inline, plain_scalar
from dhdmm.study.schema import first_repeated

MOST_CATEGORIES = 50
WIDEST_RANGE = 1_000
BINS = 20

WARNING = """\
# A first draft from a table's header and values. WARNING: the ranges and lists of values below were
# read off the data, so they tell something about it. Replace them by what is publicly known (a code
# book, a legal range) before anybody else sees this file.
"""
REST = """\
workload:
  - {name: singles, marginals: {ways: 1}}
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {participants: {min: 100, max: 1000}, max_records_per_participant: 100}
"""


def example() -> str:
    """A study with a comment on every part."""
    return (resources.files("dhdmm.study") / "presets" / "example.yaml").read_text("utf-8")


def draft_from_csv(path: Path) -> str:
    """A study file for the table, to be corrected by a person."""
    columns = _columns(path)
    lines = [_attribute_line(column) for column in columns]
    if all(line.lstrip().startswith("#") for line in lines):
        raise StudyError("no column has usable values", where=path.name)
    schema = "\n".join(lines)
    return f"{WARNING}study: {inline(path.stem)}\nschema:\n{schema}\n{REST}"


@dataclass
class _Column:
    """What is remembered of a column while it is read."""

    name: str
    kinds: set[type] = field(default_factory=set)
    low: float = math.inf
    high: float = -math.inf
    values: set[str] = field(default_factory=set)
    empty: int = 0

    def add(self, text: str) -> None:
        value = plain_scalar(text.strip())
        if value is None:
            self.empty += 1
            return
        self.kinds.add(type(value))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.low, self.high = min(self.low, value), max(self.high, value)
        if len(self.values) <= MOST_CATEGORIES:
            self.values.add(text.strip())


def _columns(path: Path) -> list[_Column]:
    rows = _rows(path)
    header = [name.strip() for name in next(rows, [])]
    if not header or not all(header):
        raise StudyError("the first line must name every column", where=f"{path.name}:1")
    repeated = first_repeated([name.casefold() for name in header])
    if repeated is not None:
        raise StudyError(f"two columns are called '{repeated}'", where=f"{path.name}:1")
    columns = [_Column(name) for name in header]
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


def _attribute_line(column: _Column) -> str:
    name = inline(column.name)
    note = f"  # {column.empty} empty values: decide what they mean" if column.empty else ""
    if not column.kinds:
        return f"  # {name}: no values"
    if column.kinds == {int} and column.high - column.low < WIDEST_RANGE:
        form = f"{{type: integer, range: [{column.low}, {column.high}]}}"
    elif column.kinds <= {int, float}:
        form = f'{{type: number, edges: "{_steps(column.low, column.high)}"}}'
    elif len(column.values) <= MOST_CATEGORIES:
        form = f"{{type: category, values: [{', '.join(_categories(column))}]}}"
    else:
        return f"  # {name}: more than {MOST_CATEGORIES} different texts; list or group them"
    return f"  {name}: {form}{note}"


def _categories(column: _Column) -> list[str]:
    words = sorted(column.values)
    if column.kinds == {bool}:
        return sorted({word.lower() for word in words})
    return [inline(word) for word in words]


def _steps(low: float, high: float) -> str:
    """About `BINS` bins of a round width (1, 2 or 5 times a power of ten) that cover low … high."""
    first, last = Decimal(repr(low)), Decimal(repr(high))
    rough = (last - first) / BINS or Decimal(1)
    unit = Decimal(10) ** rough.adjusted()
    step = next(unit * digit for digit in (1, 2, 5, 10) if unit * digit >= rough)
    start = (first / step).to_integral_value("ROUND_FLOOR") * step
    stop = (last / step).to_integral_value("ROUND_CEILING") * step
    stop = max(stop, start + step)
    return f"{start:f}:{stop:f}:{step:f}"

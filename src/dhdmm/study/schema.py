"""What a record looks like: named attributes, each with finitely many values, coded 0 … size − 1.

Three kinds: an *integer* in an inclusive range, a *category* from a list, a *number* that falls
into one of consecutive bins. A *cell* is one value of every attribute; cells are numbered with the
last attribute fastest. Nothing here is ever written out per cell, so 10¹⁸ cells are fine.

Predicates are SQL over the raw column, as a participant's table has it.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DataError, StudyError
from dhdmm.study.names import column, literal, number_text

LARGEST_SIZE = 10**6
"""Values an attribute may have: its factors and labels are vectors of this length."""
LARGEST_CELLS = 10**18
"""Cells a schema may have: cell numbers stay 64-bit integers."""
LABEL_PIECES = 6
"""Runs of values that a set's label spells out."""

Codes = NDArray[np.int64]
Kind = Literal["integer", "category", "number"]
Value = str | int | bool


@dataclass(frozen=True)
class Attribute(ABC):
    """One column of a record. Codes are the values' positions."""

    name: str
    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_SIZE:
            raise StudyError(
                f"attribute '{self.name}' would have {self.size:,} values;"
                f" between 1 and {LARGEST_SIZE:,} are possible"
            )

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def code(self, value: Any) -> int:
        """The position of a raw value; refuses values outside the domain without repeating them."""

    @abstractmethod
    def range_label(self, low: int, high: int) -> str:
        """What codes low ≤ c < high are called in a table."""

    @abstractmethod
    def range_predicate(self, low: int, high: int) -> str:
        """SQL that holds for codes low ≤ c < high, empty when that is every value."""

    def label(self, code: int) -> str:
        return self.range_label(code, code + 1)

    def set_label(self, codes: Codes) -> str:
        runs = [self.range_label(low, high) for low, high in _runs(codes)]
        if len(runs) <= LABEL_PIECES:
            return ", ".join(runs)
        return f"{', '.join(runs[:LABEL_PIECES])}, … ({len(codes)} values)"

    def set_predicate(self, codes: Codes) -> str:
        """SQL that holds for these codes, empty when they are every value."""
        runs = list(_runs(codes))
        parts = [self.range_predicate(low, high) for low, high in runs]
        if len(parts) == 1:
            return parts[0]
        return "(" + " OR ".join(f"({part})" for part in parts) + ")" if parts else "FALSE"

    def _outside(self) -> DataError:
        return DataError(
            f"a value of '{self.name}' is not in the study's domain",
            hint=f"the domain is {self.set_label(np.arange(self.size))}",
        )


@dataclass(frozen=True)
class IntegerAttribute(Attribute):
    """The integers low … high, both included."""

    low: int
    high: int
    kind: ClassVar[Kind] = "integer"

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def code(self, value: Any) -> int:
        if not (_is_number(value) and self.low <= value <= self.high and int(value) == value):
            raise self._outside()
        return int(value) - self.low

    def range_label(self, low: int, high: int) -> str:
        first, last = self.low + low, self.low + high - 1
        return str(first) if first == last else f"{first}–{last}"

    def range_predicate(self, low: int, high: int) -> str:
        if (low, high) == (0, self.size):
            return ""
        name = column(self.name)
        if high == low + 1:
            return f"{name} = {self.low + low}"
        return f"{name} >= {self.low + low} AND {name} < {self.low + high}"

    def set_predicate(self, codes: Codes) -> str:
        if len(codes) > 1 and all(high == low + 1 for low, high in _runs(codes)):
            return f"{column(self.name)} IN ({', '.join(str(self.low + c) for c in codes)})"
        return super().set_predicate(codes)


@dataclass(frozen=True)
class CategoryAttribute(Attribute):
    """A list of values of one type, each with a label (by default the value itself)."""

    values: tuple[Value, ...]
    labels: tuple[str, ...] = ()
    kind: ClassVar[Kind] = "category"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.labels:
            object.__setattr__(self, "labels", tuple(_category_label(v) for v in self.values))
        if len({type(value) for value in self.values}) != 1:
            raise StudyError(
                f"the values of '{self.name}' mix types",
                hint="quote all of them, or none: a column has one type",
            )
        for name, entries in (("value", self.values), ("label", self.labels)):
            repeated = first_repeated(entries)
            if repeated is not None:
                raise StudyError(f"'{self.name}' lists the {name} {repeated!r} twice")

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def code(self, value: Any) -> int:
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) is not type(self.values[0]) or plain not in self._codes:
            raise self._outside()
        return self._codes[plain]

    def range_label(self, low: int, high: int) -> str:
        return ", ".join(self.labels[low:high])

    def range_predicate(self, low: int, high: int) -> str:
        return self.set_predicate(np.arange(low, high))

    def set_label(self, codes: Codes) -> str:
        shown = ", ".join(self.labels[code] for code in codes[:LABEL_PIECES])
        return f"{shown}, … ({len(codes)} values)" if len(codes) > LABEL_PIECES else shown

    def set_predicate(self, codes: Codes) -> str:
        if len(codes) == self.size:
            return ""
        values = [literal(self.values[code]) for code in codes]
        if not values:
            return "FALSE"
        name = column(self.name)
        return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"


@dataclass(frozen=True)
class NumberAttribute(Attribute):
    """Consecutive bins [edge_i, edge_{i+1}); the last bin includes its upper edge."""

    edges: tuple[float, ...]
    kind: ClassVar[Kind] = "number"

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def code(self, value: Any) -> int:
        if not (_is_number(value) and self.edges[0] <= value <= self.edges[-1]):
            raise self._outside()
        return min(bisect.bisect_right(self.edges, value) - 1, self.size - 1)

    def range_label(self, low: int, high: int) -> str:
        closing = "]" if high == self.size else ")"
        return f"[{number_text(self.edges[low])}, {number_text(self.edges[high])}{closing}"

    def range_predicate(self, low: int, high: int) -> str:
        if (low, high) == (0, self.size):
            return ""
        name, upper = column(self.name), "<=" if high == self.size else "<"
        return (
            f"{name} >= {number_text(self.edges[low])}"
            f" AND {name} {upper} {number_text(self.edges[high])}"
        )


@dataclass(frozen=True)
class Schema:
    """The attributes in order.

    >>> schema = Schema((IntegerAttribute("age", 17, 91), CategoryAttribute("sex", ("F", "M"))))
    >>> schema.encode({"age": 18, "sex": "M"}), schema.cell((1, 1)), schema.codes(3)
    ((1, 1), 3, (1, 1))
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        if self.cells > LARGEST_CELLS:
            raise StudyError(
                f"the schema has {self.cells:.3g} cells, more than 10^18",
                hint="leave out attributes that no query asks about, or coarsen them",
            )

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> Schema:
        """Integer attributes a0, a1, … that count from 0."""
        return cls(tuple(IntegerAttribute(f"a{i}", 0, size - 1) for i, size in enumerate(sizes)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    def encode(self, record: Mapping[str, Any]) -> tuple[int, ...]:
        """A record's codes, one per attribute; other columns are ignored."""
        missing = [name for name in self.names if name not in record]
        if missing:
            raise DataError(f"the record has no column '{missing[0]}'")
        return tuple(attribute.code(record[attribute.name]) for attribute in self.attributes)

    def cell(self, codes: Sequence[int]) -> int:
        """The number of the cell with these codes."""
        number = 0
        for code, size in zip(codes, self.shape, strict=True):
            number = number * size + code
        return number

    def codes(self, cell: int) -> tuple[int, ...]:
        codes: list[int] = []
        for size in reversed(self.shape):
            cell, code = divmod(cell, size)
            codes.append(code)
        return tuple(reversed(codes))


def first_repeated(entries: Sequence[Any]) -> Any | None:
    seen: set[Any] = set()
    for entry in entries:
        if entry in seen:
            return entry
        seen.add(entry)
    return None


def _runs(codes: Codes) -> list[tuple[int, int]]:
    """Increasing codes as maximal half-open runs."""
    if len(codes) == 0:
        return []
    breaks = np.flatnonzero(np.diff(codes) > 1) + 1
    starts, stops = np.r_[0, breaks], np.r_[breaks, len(codes)]
    return [(int(codes[a]), int(codes[b - 1]) + 1) for a, b in zip(starts, stops, strict=True)]


def _is_number(value: Any) -> bool:
    plain = value.item() if isinstance(value, np.generic) else value
    return isinstance(plain, (int, float)) and not isinstance(plain, bool)


def _category_label(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Whole numbers in a range."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field

from dhdmm.errors import StudyError
from dhdmm.study.attributes import columns
from dhdmm.study.attributes.base import Attribute, AttributeModel, Codes, is_number, runs
from dhdmm.study.forms import Edges, Integer, Value, problem
from dhdmm.study.names import column, number_text

LARGEST_EACH = 100_000
WIDEST_DRAFT = 1_000


def _increasing(bounds: list[int]) -> list[int]:
    if bounds[0] > bounds[1]:
        raise problem(f"the range [{bounds[0]}, {bounds[1]}] is empty", "write the smaller first")
    return bounds


Bounds = Annotated[list[Integer], Field(min_length=2, max_length=2), AfterValidator(_increasing)]


class IntegerModel(AttributeModel):
    """Whole numbers in a range, both ends included."""

    type: Literal["integer"]
    range: Bounds

    def attribute(self, name: str) -> IntegerAttribute:
        return IntegerAttribute(name, *self.range)


@dataclass(frozen=True)
class IntegerAttribute(Attribute):
    """The integers low … high, both included."""

    low: int
    high: int
    model = IntegerModel
    example = "range: [0, 99]"
    grouping_edges = Edges
    reading = columns.WHOLE

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def code(self, value: Any) -> int:
        if not (is_number(value) and self.low <= value <= self.high and int(value) == value):
            raise self._outside()
        return int(value) - self.low

    def examples(self, codes: Codes) -> Codes:
        return self.low + codes

    @classmethod
    def draft(cls, column: columns.SeenColumn) -> str | None:
        if column.kinds != {int} or column.high - column.low >= WIDEST_DRAFT:
            return None
        return f"{{type: integer, range: [{column.low}, {column.high}]}}"

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
        if len(codes) > 1 and all(high == low + 1 for low, high in runs(codes)):
            return f"{column(self.name)} IN ({', '.join(str(self.low + c) for c in codes)})"
        return super().set_predicate(codes)

    def coding(self, i: int) -> columns.Coding:
        low, high = self.low, self.high
        return columns.Coding(f"CASE WHEN x{i} BETWEEN {low} AND {high} THEN x{i} - ({low}) END")

    def warehouse_code(self, x: columns.Expression) -> columns.Expression:
        return x.between(self.low, self.high).ifelse(x - self.low, columns.UNKNOWN)

    def integers(self) -> Codes:
        return np.arange(self.low, self.high + 1, dtype=np.int64)

    def _extent(self) -> str:
        return f"it ranges from {self.low} to {self.high}"

    def cuts(self, edges: Sequence[float]) -> Codes:
        self._require_numbers(edges)
        values = range(self.low, self.high + 1)
        codes = [bisect_left(values, edge) for edge in edges]
        for (left, right), (low, high) in zip(pairwise(edges), pairwise(codes), strict=True):
            if low == high:
                inside = f"{number_text(left)} ≤ {self.name} < {number_text(right)}"
                raise StudyError(f"no value of '{self.name}' has {inside}")
        return np.array(codes, np.int64)

    def each(self, values: Sequence[Value]) -> range:
        codes = super().each(values)
        if len(codes) != 2 or codes[0] > codes[1]:
            raise StudyError("'each' of an integer is a range [first, last]")
        if codes[1] - codes[0] >= LARGEST_EACH:
            raise StudyError(f"'each' makes more than {LARGEST_EACH:,} sets")
        return range(codes[0], codes[1] + 1)

"""Numbers that fall into one of consecutive bins."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import StudyError
from dhdmm.study.attributes import columns
from dhdmm.study.attributes.base import (
    Amounts,
    Attribute,
    AttributeModel,
    Codes,
    Constant,
    is_number,
)
from dhdmm.study.diagram import Mask
from dhdmm.study.forms import Edges, Value
from dhdmm.study.names import column, number_text

DRAFTED_BINS = 20


class NumberModel(AttributeModel):
    """A number that falls into one of consecutive bins; the last bin includes its upper edge."""

    type: Literal["number"]
    edges: Edges

    def attribute(self, name: str) -> NumberAttribute:
        return NumberAttribute(name, tuple(float(edge) for edge in self.edges))


@dataclass(frozen=True)
class NumberAttribute(Attribute):
    """Consecutive bins [edge_i, edge_{i+1}); the last bin includes its upper edge."""

    edges: tuple[float, ...]
    model = NumberModel
    example = "edges: 0:100:5"
    grouping_edges = Edges
    reading = columns.REAL

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    def code(self, value: Any) -> int:
        if not (is_number(value) and self.edges[0] <= value <= self.edges[-1]):
            raise self._outside()
        return min(bisect.bisect_right(self.edges, value) - 1, self.size - 1)

    def examples(self, codes: Codes) -> NDArray[np.float64]:
        edges = np.array(self.edges)
        return np.asarray((edges[codes] + edges[codes + 1]) / 2)

    @classmethod
    def draft(cls, column: columns.SeenColumn) -> str | None:
        if not column.kinds <= {int, float}:
            return None
        return f'{{type: number, edges: "{_steps(column.low, column.high)}"}}'

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

    def coding(self, i: int) -> columns.Coding:
        """Binary search among the lower edges: ki grows by a power of two while x is not below.

        The edges are a list in a table of one row: as a constant of the query they would be copied
        for every block of rows. Beyond the list's end DuckDB reads NULL, which is not ≤ x.
        """
        edges = [float(edge) for edge in self.edges]
        domain = {f"low{i}": edges[:1], f"high{i}": edges[-1:], f"lower{i}": [edges[:-1]]}
        powers = [2**bit for bit in reversed(range((self.size - 1).bit_length()))]
        steps = tuple(
            f"CASE WHEN lower{i}[k{i} + {power + 1}] <= x{i}"
            f" THEN k{i} + {power} ELSE k{i} END AS k{i}"
            for power in powers
        )
        inside = f"CASE WHEN x{i} BETWEEN low{i} AND high{i} THEN 0::BIGINT END"
        return columns.Coding(inside, domain, f" CROSS JOIN domain{i}", steps)

    def warehouse_code(self, x: columns.Expression) -> columns.Expression:
        self._require_expressible()
        edges = [float(edge) for edge in self.edges]
        code = columns.search(0, self.size, lambda _low, middle: x < edges[middle])
        return x.between(edges[0], edges[-1]).ifelse(code, columns.UNKNOWN)

    def amounts(self, representative: str) -> Amounts:
        edges = [Fraction(repr(edge)) for edge in self.edges]
        low, high = edges[:-1], edges[1:]
        chosen = {"lower": low, "upper": high}.get(
            representative, [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        )
        unit = Fraction(1, math.lcm(*(value.denominator for value in chosen)))
        return Amounts(np.array([int(value / unit) for value in chosen], np.int64), unit)

    def largest_bias(self, representative: str) -> float:
        widest = max(float(np.diff(self.edges).max()), 0.0)
        return widest if representative in ("lower", "upper") else widest / 2

    def code_of(self, constant: Constant) -> NoReturn:
        self.value_of(constant)  # a constant of the wrong type explains more
        raise StudyError(
            f"'{self.name}' comes in bins, so a single value cannot be told apart",
            hint="use >= and < with the bins' edges",
        )

    def _compare_order(self, operator: str, value: Any) -> Mask:
        """Bins are [low, high), the last one [low, high]; each must lie on one side of it."""
        edges, cut = np.array(self.edges), float(value)
        low, high = edges[:-1], edges[1:]
        if operator in ("<=", ">"):
            upto, beyond = high <= cut, low > cut
        else:
            upto, beyond = high <= cut, low >= cut
            upto[-1] = high[-1] < cut
        for code in np.flatnonzero(~(upto | beyond)):
            raise self._cut_bin(operator, cut, int(code))
        return upto if operator in ("<", "<=") else beyond

    def _cut_bin(self, operator: str, cut: float, code: int) -> StudyError:
        low, high = (number_text(edge) for edge in self.edges[code : code + 2])
        last = code == self.size - 1
        return StudyError(
            f"'{self.name}' {operator} {number_text(cut)} cuts the bin {self.label(code)}",
            hint=f"a bin is taken whole: use < or >= with {low}"
            + (f", <= or > with {high}" if last else f" or {high}"),
        )

    def cuts(self, edges: Sequence[float]) -> Codes:
        self._require_numbers(edges)
        for edge in sorted(set(edges) - set(self.edges)):
            close = min(self.edges, key=lambda known: abs(known - edge))
            raise StudyError(
                f"edge {number_text(edge)} is not an edge of '{self.name}'",
                hint=f"its nearest is {number_text(close)}",
            )
        return np.searchsorted(self.edges, edges)

    def listed_code(self, value: Value) -> NoReturn:
        raise StudyError(f"'{self.name}' has bins, not values", hint="use 'edges' or 'where'")


def _steps(low: float, high: float) -> str:
    """Bins of a round width (1, 2 or 5 times a power of ten) that cover low … high."""
    first, last = Decimal(repr(low)), Decimal(repr(high))
    rough = (last - first) / DRAFTED_BINS or Decimal(1)
    unit = Decimal(10) ** rough.adjusted()
    step = next(unit * digit for digit in (1, 2, 5, 10) if unit * digit >= rough)
    start = (first / step).to_integral_value("ROUND_FLOOR") * step
    stop = (last / step).to_integral_value("ROUND_CEILING") * step
    stop = max(stop, start + step)
    return f"{start:f}:{stop:f}:{step:f}"

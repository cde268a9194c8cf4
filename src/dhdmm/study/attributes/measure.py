"""Numbers that are added up and averaged, and that no table is broken down by.

A measured column is an attribute with two values, the ends of its range, between which a record is
divided: one with the value v has (v − low)/(high − low) of itself at the upper end and the rest at
the lower one. Sums of the column are then sums over the two values, as for any attribute, and no
record counts for more than one that is wholly at an end (ADR 30).

Shares are whole numbers of parts, of which a range of R steps has R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

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
from dhdmm.study.attributes.columns import FIRST_STEP, UNKNOWN
from dhdmm.study.diagram import Mask
from dhdmm.study.forms import Number, Positive, problem
from dhdmm.study.names import number_text

MOST_STEPS = 10**6

Ends = Annotated[list[Number], Field(min_length=2, max_length=2)]


def _exact(number: float) -> Fraction:
    """As the study file has it: 0.1 is a tenth."""
    return Fraction(repr(number))


class MeasureModel(AttributeModel):
    """A number that is added up; values beyond the range count as its ends."""

    type: Literal["measure"]
    range: Ends
    step: Positive = 1.0

    @model_validator(mode="after")
    def _whole_steps(self) -> MeasureModel:
        low, high, step = (_exact(number) for number in (*self.range, self.step))
        if low >= high:
            raise problem("the range is empty", "write the smaller end first", ("range",))
        steps = (high - low) / step
        if steps.denominator != 1 or steps > MOST_STEPS:
            raise problem(
                f"the range has {float(steps):,g} steps of {number_text(self.step)}",
                f"a whole number of at most {MOST_STEPS:,} is possible",
                ("step",),
            )
        return self

    def attribute(self, name: str) -> MeasureAttribute:
        low, high = self.range
        return MeasureAttribute(name, _exact(low), _exact(high), _exact(self.step))


@dataclass(frozen=True)
class MeasureAttribute(Attribute):
    """The ends of a range, between which a record is divided by its value."""

    low: Fraction
    high: Fraction
    step: Fraction
    model = MeasureModel
    example = "range: [0, 1000], step: 10"
    ordered = False
    size = 2
    reading = columns.REAL

    @property
    def divided(self) -> int:
        return int((self.high - self.low) / self.step)

    def code(self, value: Any) -> int:
        """Of the nearest step; the two codes after the last step are those of clipped values."""
        if not is_number(value) or math.isnan(value):
            raise self._outside()
        if not self.low <= value <= self.high:
            return FIRST_STEP + self.divided + (1 if value < self.low else 2)
        return FIRST_STEP + math.floor((float(value) - float(self.low)) / float(self.step) + 0.5)

    def examples(self, codes: Codes) -> NDArray[np.float64]:
        return np.array([float(self.low), float(self.high)])[codes]

    @classmethod
    def draft(cls, column: columns.SeenColumn) -> str | None:
        return None  # a draft breaks down by every column

    def range_label(self, low: int, high: int) -> str:
        ends = [number_text(float(end)) for end in (self.low, self.high)]
        if high - low == 1:
            return ends[low]
        return f"{ends[0]}–{ends[1]} in steps of {number_text(float(self.step))}, added up"

    def range_predicate(self, low: int, high: int) -> str:
        return ""  # no query is about one end alone

    def coding(self, i: int) -> columns.Coding:
        low, high, step = (float(number) for number in (self.low, self.high, self.step))
        last = FIRST_STEP + self.divided
        return columns.Coding(
            f"CASE WHEN isnan(x{i}) THEN NULL WHEN x{i} < {low!r} THEN {last + 1}"
            f" WHEN x{i} > {high!r} THEN {last + 2}"
            f" ELSE CAST({FIRST_STEP} + floor((x{i} - ({low!r})) / {step!r} + 0.5) AS BIGINT) END"
        )

    def warehouse_code(self, x: columns.Expression) -> columns.Expression:
        low, high, step = (float(number) for number in (self.low, self.high, self.step))
        last = FIRST_STEP + self.divided
        inside = FIRST_STEP + ((x - low) / step + 0.5).floor().cast("int64")
        known = x.between(low, high).ifelse(inside, (x < low).ifelse(last + 1, last + 2))
        return (x.isnull() | x.isnan()).ifelse(UNKNOWN, known)

    def compare(self, operator: str, constant: Constant) -> Mask:
        raise self._only_added_up()

    def code_of(self, constant: Constant) -> NoReturn:
        raise self._only_added_up()

    def _only_added_up(self) -> StudyError:
        return StudyError(
            f"'{self.name}' is measured: it is added up, and not compared",
            hint="to tell its values apart, declare the column as a number with edges, too",
        )

    def amounts(self, representative: str) -> Amounts:
        """What the ends add."""
        unit = Fraction(1, np.lcm(self.low.denominator, self.high.denominator).item())
        return Amounts(np.array([int(end / unit) for end in (self.low, self.high)]), unit)

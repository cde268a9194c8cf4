"""Dates, and dates with the hour: consecutive days or hours.

Times have no zone: a study counts by the clock of whoever holds the data.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dhdmm.errors import StudyError
from dhdmm.study.attributes.base import (
    Attribute,
    AttributeModel,
    Codes,
    Constant,
    Partition,
    compare_integers,
    constant_text,
)
from dhdmm.study.attributes.columns import (
    UNKNOWN,
    Coding,
    ColumnKind,
    Expression,
    Reading,
    SeenColumn,
)
from dhdmm.study.attributes.units import CYCLES, PARTS, STARTS, Moment, Moments, unit_label
from dhdmm.study.diagram import Mask
from dhdmm.study.forms import problem
from dhdmm.study.names import column, literal

ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}(:\d{2}(:\d{2})?)?)?")
FORMAT = re.compile(r"(%[YmdHMSyjbB]|[-/. :,T])+")
"""Of a text: fields of strptime that all engines know, and signs between them."""


def _moment(text: str) -> datetime:
    if not ISO.fullmatch(text):
        raise ValueError
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class _CalendarAttribute(Attribute):
    """The days or hours first … last, both included; both as ISO text."""

    first: str
    last: str
    format: str | None = None
    """Of texts, as in strptime; ISO 8601 if none."""
    sql_type: ClassVar[str]

    @cached_property
    def _moments(self) -> Moments:
        return np.asarray(self._at(self.first) + np.arange(self.size))

    def _at(self, text: str) -> Moment:
        return np.array(text, f"M8[{self.times}]")[()]

    @property
    def size(self) -> int:
        return int((self._at(self.last) - self._at(self.first)).astype(np.int64)) + 1

    def code(self, value: Any) -> int:
        moment = self._read(value)
        if moment is None:
            raise self._outside()
        offset = int((moment - self._at(self.first)).astype(np.int64))
        if not 0 <= offset < self.size:
            raise self._outside()
        return offset

    def _read(self, value: Any) -> Moment | None:
        """The day or hour that holds a moment; None for what is no moment, or has a time zone."""
        try:
            if isinstance(value, str):
                text = value.strip()
                value = datetime.strptime(text, self.format) if self.format else _moment(text)
            if isinstance(value, np.datetime64):
                value = value.astype("M8[us]").item()
        except ValueError:
            return None
        if not isinstance(value, date) or getattr(value, "tzinfo", None) is not None:
            return None
        if self.times == "h" and not isinstance(value, datetime):
            return None
        moment: Moment = np.datetime64(value, "us").astype(f"M8[{self.times}]")
        return moment

    def examples(self, codes: Codes) -> Moments:
        return self._moments[codes].astype("M8[s]" if self.times == "h" else "M8[D]")

    def _text(self, code: int) -> str:
        return str(self._moments[0] + code)

    def range_label(self, low: int, high: int) -> str:
        first, last = self._text(low), self._text(high - 1)
        return first if first == last else f"{first} – {last}"

    def _sql(self, code: int) -> str:
        """The beginning of a value, as a constant in SQL."""
        moment = (self._moments[0] + code).astype("M8[s]").item()
        return f"{self.sql_type} {literal(self._constant(moment))}"

    @abstractmethod
    def _constant(self, moment: datetime) -> str:
        """A moment as SQL writes it."""

    def range_predicate(self, low: int, high: int) -> str:
        if (low, high) == (0, self.size):
            return ""
        name = column(self.name)
        return f"{name} >= {self._sql(low)} AND {name} < {self._sql(high)}"

    def ticks(self, codes: Codes, most: int) -> Sequence[int]:
        """Where days, weeks, months, quarters or years begin: the finest that has room."""
        moments = self._moments[codes]
        for unit in STARTS:
            starts = STARTS[unit](moments)
            new = np.flatnonzero(np.append(starts[0] == moments[0], starts[1:] != starts[:-1]))
            if 0 < len(new) <= most:
                return new.tolist()
        years = PARTS["year"](moments)
        changes = np.flatnonzero(np.diff(years, prepend=years[0] - 1))
        return [int(i) for i in changes[:: -(-len(changes) // most)]]

    # ---- a participant's column -----------------------------------------------------------------

    @property
    def reading(self) -> Reading:
        kind = self.sql_type
        text = f"TRY_CAST(trim({{0}}) AS {kind})"
        if self.format is not None:  # its signs are those of FORMAT
            text = f"CAST(try_strptime(trim({{0}}), '{self.format}') AS {kind})"
        texts = dict.fromkeys((ColumnKind.TEXT, ColumnKind.FIELD), text)
        typed = {ColumnKind.TIMESTAMP: f"CAST({{0}} AS {kind})"}
        if self.times == "D":
            typed[ColumnKind.DATE] = "{0}"
        return Reading(self.words, kind.lower(), kind, {**texts, **typed})

    words: ClassVar[str]
    """What a column must hold."""

    # ---- conditions -----------------------------------------------------------------------------

    def value_of(self, constant: Constant) -> Moment:
        """A moment, to the second."""
        try:
            if isinstance(constant, str):
                return np.datetime64(_moment(constant.strip()), "s")
            if isinstance(constant, date):
                return np.datetime64(constant, "s")
        except ValueError:
            pass
        raise StudyError(
            f"'{self.name}' holds {self.words}, not {constant_text(constant)}",
            hint=f"write {self._sql(0)}",
        )

    def compare(self, operator: str, constant: Constant) -> Mask:
        return self._compare_starts(self._moments, operator, self.value_of(constant), constant)

    def compare_truncated(self, unit: str, operator: str, constant: Constant) -> Mask:
        if unit not in STARTS:
            raise StudyError(f"DATE_TRUNC to '{unit}' is not known", hint=", ".join(STARTS))
        starts = STARTS[unit](self._moments).astype("M8[s]").astype(np.int64)
        return compare_integers(starts, operator, int(self.value_of(constant).astype(np.int64)))

    @abstractmethod
    def _compare_starts(
        self, moments: Moments, operator: str, value: Moment, constant: Constant
    ) -> Mask: ...

    def part(self, name: str) -> Codes:
        if name not in PARTS or (name == "hour" and self.times == "D"):
            known = ", ".join(part for part in PARTS if part != "hour" or self.times == "h")
            raise StudyError(f"'{name}' is no part of '{self.name}'", hint=f"known: {known}")
        return PARTS[name](self._moments)

    def _extent(self) -> str:
        return f"it ranges from {self.first} to {self.last}"

    # ---- groupings ------------------------------------------------------------------------------

    def by_unit(self, unit: str) -> Partition:
        if unit not in self.units:
            return super().by_unit(unit)
        if unit in CYCLES:
            part, label = CYCLES[unit]
            numbers, group = np.unique(self.part(part), return_inverse=True)
            asked = f"EXTRACT({part} FROM {column(self.name)})"
            return Partition(
                group,
                [label(int(number)) for number in numbers],
                [f"{asked} = {number}" for number in numbers],
            )
        starts, group = np.unique(STARTS[unit](self._moments), return_inverse=True)
        return Partition(group, [unit_label(unit, start) for start in starts])

    def cuts(self, edges: Sequence[str]) -> Codes:
        """Edges are moments; the last one may be just after the last value."""
        try:
            at = [np.datetime64(_moment(str(edge)), "s") for edge in edges]
        except ValueError:
            raise StudyError(
                f"the edges of '{self.name}' are dates", hint=f"such as {self.first}"
            ) from None
        codes = [self._cut(moment) for moment in at]
        if any(low >= high for low, high in pairwise(codes)):
            raise StudyError("edges must increase", hint=self._extent())
        return np.array(codes, np.int64)

    def _cut(self, moment: Moment) -> int:
        code = int((moment.astype(f"M8[{self.times}]") - self._moments[0]).astype(np.int64))
        if not 0 <= code <= self.size:
            raise StudyError(f"the edge {moment} is outside '{self.name}'", hint=self._extent())
        return code


def _texts(edges: Any) -> Any:
    if not isinstance(edges, list) or not all(isinstance(edge, str) for edge in edges):
        raise problem("edges of dates are a list of dates")
    return edges


Edges = Annotated[list[str], Field(min_length=2), BeforeValidator(_texts)]


def _format(given: str) -> str:
    if not FORMAT.fullmatch(given):
        raise problem(f"{given!r} is not a format of dates", "such as %d.%m.%Y or %m/%d/%y %H:%M")
    return given


Format = Annotated[str, AfterValidator(_format)]
Ends = Annotated[list[str], Field(min_length=2, max_length=2)]


def _in_order(ends: list[str]) -> list[str]:
    if ends[0] > ends[1]:
        raise problem(f"the range [{ends[0]}, {ends[1]}] is empty", "write the earlier first")
    return ends


def _days(ends: list[str]) -> list[str]:
    try:
        days = [date.fromisoformat(end).isoformat() for end in ends]
    except ValueError:
        raise problem("a date is written YYYY-MM-DD", "such as 2024-01-31") from None
    return _in_order(days)


def _hours(ends: list[str]) -> list[str]:
    """A day by itself means its first hour, or at the end its last."""
    whole = [
        f"{end}T{hour}" if len(end) == 10 else end
        for end, hour in zip(ends, ("00", "23"), strict=True)
    ]
    try:
        hours = [_moment(end).strftime("%Y-%m-%dT%H") for end in whole]
    except ValueError:
        raise problem("an hour is written YYYY-MM-DDTHH", "such as 2024-01-31T23") from None
    return _in_order(hours)


class DateModel(AttributeModel):
    """Days from the first to the last, both included."""

    type: Literal["date"]
    range: Annotated[Ends, AfterValidator(_days)]
    format: Format | None = None

    def attribute(self, name: str) -> DateAttribute:
        first, last = self.range
        return DateAttribute(name, first, last, self.format)


class DatetimeModel(AttributeModel):
    """Hours from the first to the last, both included."""

    type: Literal["datetime"]
    range: Annotated[Ends, AfterValidator(_hours)]
    format: Format | None = None

    @model_validator(mode="after")
    def _format_has_hours(self) -> DatetimeModel:
        if self.format is not None and "%H" not in self.format:
            raise problem("the format has no hour", "such as %Y-%m-%d %H:%M", ("format",))
        return self

    def attribute(self, name: str) -> DatetimeAttribute:
        first, last = self.range
        return DatetimeAttribute(name, first, last, self.format)


@dataclass(frozen=True)
class DateAttribute(_CalendarAttribute):
    """Consecutive days."""

    model = DateModel
    example = "range: [2024-01-01, 2024-12-31]"
    grouping_edges = Edges
    units = (*("day", "week", "month", "quarter", "year", "weekday", "month of year"),)
    words = "dates"
    times = "D"
    sql_type = "DATE"

    @classmethod
    def draft(cls, column: SeenColumn) -> str | None:
        if column.dates is None:
            return None
        return f"{{type: date, range: [{column.dates[0]}, {column.dates[1]}]}}"

    def _constant(self, moment: datetime) -> str:
        return moment.strftime("%Y-%m-%d")

    def range_predicate(self, low: int, high: int) -> str:
        if high == low + 1 < self.size:
            return f"{column(self.name)} = {self._sql(low)}"
        return super().range_predicate(low, high)

    def coding(self, i: int) -> Coding:
        first, last = self._sql(0), self._sql(self.size - 1)
        return Coding(f"CASE WHEN x{i} BETWEEN {first} AND {last} THEN x{i} - {first} END")

    def warehouse_code(self, x: Expression) -> Expression:
        first, last = (date.fromisoformat(end) for end in (self.first, self.last))
        days = x.epoch_days() - (first - date(1970, 1, 1)).days
        return x.between(first, last).ifelse(days, UNKNOWN)

    def _compare_starts(
        self, moments: Moments, operator: str, value: Moment, constant: Constant
    ) -> Mask:
        if operator in ("=", "<>"):
            chosen = np.full(self.size, operator == "<>")
            chosen[self.code_of(constant)] ^= True
            return chosen
        seconds = moments.astype("M8[s]").astype(np.int64)
        return compare_integers(seconds, operator, int(value.astype(np.int64)))


@dataclass(frozen=True)
class DatetimeAttribute(_CalendarAttribute):
    """Consecutive hours, each a bin of times."""

    model = DatetimeModel
    example = "range: [2024-01-01T00, 2024-12-31T23]"
    grouping_edges = Edges
    units = (*DateAttribute.units, "hour")
    words = "dates with times"
    times = "h"
    sql_type = "TIMESTAMP"

    @classmethod
    def draft(cls, column: SeenColumn) -> str | None:
        return None  # a draft counts by days

    def _constant(self, moment: datetime) -> str:
        return moment.strftime("%Y-%m-%d %H:%M:%S")

    def coding(self, i: int) -> Coding:
        first, after = self._sql(0), self._sql(self.size)
        hours = f"date_diff('hour', {first}, x{i})"
        return Coding(f"CASE WHEN x{i} >= {first} AND x{i} < {after} THEN {hours} END")

    def warehouse_code(self, x: Expression) -> Expression:
        first, after = ((self._moments[0] + code).astype("M8[s]").item() for code in (0, self.size))
        hours = x.truncate("h").epoch_seconds().cast("int64") // 3600
        origin = int(self._moments[0].astype(np.int64))
        return ((x >= first) & (x < after)).ifelse(hours - origin, UNKNOWN)

    def _compare_starts(
        self, moments: Moments, operator: str, value: Moment, constant: Constant
    ) -> Mask:
        if operator not in ("<", ">=") or value != value.astype("M8[h]"):
            raise StudyError(
                f"'{self.name}' comes in hours, each taken whole",
                hint=f"use >= and < with full hours, such as {self._sql(0)}",
            )
        below = np.asarray(moments < value)
        return below if operator == "<" else ~below

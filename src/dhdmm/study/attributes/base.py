"""One column of a record, and everything that dhdmm asks of its type.

A type of attribute is a subclass of `Attribute`, with the model of its entry in a study file.
Errors about a study do not say where in it they arose; the code that reads the file adds that.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes.columns import Coding, Expression, Reading, SeenColumn
from dhdmm.study.diagram import Mask
from dhdmm.study.forms import LARGEST_SIZE, Label, Section, Value
from dhdmm.study.names import literal

LABEL_PIECES = 6
"""Runs of values that a set's label spells out."""
LONGEST_LIST = 4_096
"""Values or bins of an attribute that a warehouse's statement can spell out."""

Codes = NDArray[np.int64]
Constant = str | bool | Decimal | date
"""In a condition; a date may have a time."""


@dataclass(frozen=True, eq=False)
class Amounts:
    """What a record of each value adds to a sum: numbers · unit, exactly."""

    numbers: Codes
    unit: Fraction


@dataclass(frozen=True, eq=False)
class Partition:
    """Values in groups that share a unit, such as the days of a month."""

    group: Codes
    """(size,): the number of each value's group."""
    labels: Sequence[str]
    conditions: Sequence[str] = ()
    """SQL for each group, where it is shorter than the values."""


def _label_of_missing(given: Any) -> Any:
    """`true` is a label that need not be chosen, `false` says what is so without it."""
    return {True: "missing", False: None}[given] if isinstance(given, bool) else given


Missing = Annotated[Label | None, BeforeValidator(_label_of_missing)]


class AttributeModel(Section):
    """What a study file says of an attribute; the models are told apart by `type`."""

    type: str
    missing: Missing = None

    @abstractmethod
    def attribute(self, name: str) -> Attribute: ...


@dataclass(frozen=True)
class Attribute(ABC):
    """One column of a record. Codes are the values' positions."""

    name: str
    kind: ClassVar[str]
    """The `type` in a study file, as the model has it."""
    model: ClassVar[type[AttributeModel]]
    example: ClassVar[str]
    """A domain, as a study file would have it: 'key: value'."""
    ordered: ClassVar[bool] = True
    """Consecutive codes are a range, which can be cut anywhere and drawn as a line."""
    grouping_edges: ClassVar[Any] = None
    """The form of 'edges' in a grouping, as a type for pydantic; None if there are none."""
    units: ClassVar[tuple[str, ...]] = ()
    """By which values can be grouped without a list of sets."""
    times: ClassVar[str] = ""
    """Of dates, what a value is: a day ("D") or an hour ("h")."""

    def __init_subclass__(cls) -> None:
        if "model" in vars(cls):
            (cls.kind,) = get_args(cls.model.model_fields["type"].annotation)

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_SIZE:
            raise StudyError(
                f"attribute '{self.name}' would have {self.size:,} values;"
                f" between 1 and {LARGEST_SIZE:,} are possible"
            )

    @property
    @abstractmethod
    def size(self) -> int: ...

    @property
    def present(self) -> Attribute:
        """The attribute without the value that stands for a missing one."""
        return self

    @property
    def missing_code(self) -> int | None:
        """The code of the missing value, the last one; None if no value may be missing."""
        return None

    @property
    def divided(self) -> int | None:
        """Into how many parts a record is divided, between the two values; None if it is not."""
        return None

    def amounts(self, representative: str) -> Amounts | None:
        """What each value adds to a sum; None if values cannot be added up.

        A bin is stood for by its midpoint, or its lower or upper edge.
        """
        integers = self.integers()
        return None if integers is None else Amounts(integers, Fraction(1))

    def largest_bias(self, representative: str) -> float:
        """How far a value may be from what it adds."""
        return 0.0

    @abstractmethod
    def code(self, value: Any) -> int:
        """The position of a raw value; refuses values outside the domain without repeating them."""

    def has_value(self, value: Any) -> bool:
        try:
            self.code(value)
        except DataError:
            return False
        return True

    @abstractmethod
    def examples(self, codes: Codes) -> Sequence[Any] | NDArray[Any]:
        """A raw value of each code."""

    @classmethod
    @abstractmethod
    def draft(cls, column: SeenColumn) -> str | None:
        """The entry of a study file that suits a column, None if another type suits it better."""

    # ---- labels and SQL -------------------------------------------------------------------------

    @abstractmethod
    def range_label(self, low: int, high: int) -> str:
        """What codes low ≤ c < high are called in a table."""

    @abstractmethod
    def range_predicate(self, low: int, high: int) -> str:
        """SQL that holds for codes low ≤ c < high, empty when that is every value."""

    def label(self, code: int) -> str:
        return self.range_label(code, code + 1)

    def set_label(self, codes: Codes) -> str:
        pieces = [self.range_label(low, high) for low, high in runs(codes)]
        if len(pieces) <= LABEL_PIECES:
            return ", ".join(pieces)
        return f"{', '.join(pieces[:LABEL_PIECES])}, … ({len(codes)} values)"

    def set_predicate(self, codes: Codes) -> str:
        """SQL that holds for these codes, empty when they are every value."""
        parts = [self.range_predicate(low, high) for low, high in runs(codes)]
        if len(parts) == 1:
            return parts[0]
        return "(" + " OR ".join(f"({part})" for part in parts) + ")" if parts else "FALSE"

    def ticks(self, codes: Codes, most: int) -> Sequence[int]:
        """The positions that an axis through these codes names, where `most` labels have room."""
        return round_ticks(len(codes), most)

    def _outside(self) -> DataError:
        return DataError(
            f"a value of '{self.name}' is not in the study's domain",
            hint=f"the domain is {self.set_label(np.arange(self.size))}",
        )

    # ---- a participant's column -----------------------------------------------------------------

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """What a column must hold, and how it is read."""

    @abstractmethod
    def coding(self, i: int) -> Coding:
        """SQL from xi to ki: the same codes as `code(value)`."""

    @abstractmethod
    def warehouse_code(self, x: Expression) -> Expression:
        """The same in an expression of ibis, `UNKNOWN` outside the domain."""

    def texts(self) -> Sequence[str]:
        """The values, where they are texts."""
        return ()

    def labels_given(self) -> Sequence[str]:
        """The labels that the study file gives to values, if it does."""
        return ()

    def other_code(self) -> int | None:
        """The code that takes values outside the domain, if one is meant for them."""
        return None

    def _require_expressible(self) -> None:
        """A domain that is written into a warehouse's SQL must fit there."""
        if self.size > LONGEST_LIST:
            raise DataError(
                f"'{self.name}' has {self.size:,} values, too many for a warehouse's SQL",
                hint=f"at most {LONGEST_LIST:,} are possible; export the columns needed as Parquet",
            )

    # ---- conditions -----------------------------------------------------------------------------

    @property
    def constant_type(self) -> type[Constant]:
        """Of the constants that a condition compares the attribute with."""
        return Decimal

    def integers(self) -> Codes | None:
        """(size,): what the codes stand for, None if that is not integers."""
        return None

    def part(self, name: str) -> Codes:
        """(size,): what EXTRACT(name FROM …) is."""
        raise StudyError(f"'{self.name}' is not a date, so EXTRACT means nothing")

    def compare_truncated(self, unit: str, operator: str, constant: Constant) -> Mask:
        """(size,): the values whose DATE_TRUNC to a unit compares so with the constant."""
        raise StudyError(f"'{self.name}' is not a date, so DATE_TRUNC means nothing")

    def truth(self) -> Mask | None:
        """(size,): the values that are true, None if they are not TRUE and FALSE."""
        return None

    def value_of(self, constant: Constant) -> Any:
        """SQL would convert '18' to 18 and fail at 'x'; here a constant has the values' type."""
        if type(constant) is not self.constant_type:
            words = {str: "text", bool: "TRUE and FALSE", Decimal: "numbers"}[self.constant_type]
            raise StudyError(
                f"'{self.name}' holds {words}, not {constant_text(constant)}",
                hint="text stands in single quotes, numbers in none",
            )
        if isinstance(constant, Decimal) and constant == int(constant):
            return int(constant)
        return constant

    def code_of(self, constant: Constant) -> int:
        """The position of the value that equals the constant; there must be one."""
        value = self.value_of(constant)
        try:
            return self.code(value)
        except DataError:
            raise StudyError(
                f"{constant_text(constant)} is not a value of '{self.name}'",
                hint=self._extent() or self._near(constant),
            ) from None

    def compare(self, operator: str, constant: Constant) -> Mask:
        """(size,): the values v with v operator constant; operator is =, <>, <, <=, > or >=."""
        if operator in ("=", "<>"):
            chosen = np.full(self.size, operator == "<>")
            chosen[self.code_of(constant)] ^= True
            return chosen
        return self._compare_order(operator, self.value_of(constant))

    def _compare_order(self, operator: str, value: Any) -> Mask:
        values = self.integers()
        if values is None:
            raise StudyError(
                f"the values of '{self.name}' have no order, so {operator} means nothing",
                hint="use =, <> or IN",
            )
        return compare_integers(values, operator, value)

    def _near(self, value: object) -> str | None:
        """A hint for a value that the domain does not have: the one that was probably meant."""
        return None

    def _extent(self) -> str | None:
        """The domain as such a hint, where it is short."""
        return None

    # ---- groupings ------------------------------------------------------------------------------

    def cuts(self, edges: Any) -> Codes:
        """The codes at which the bins between these edges begin, and the last one ends."""
        raise StudyError(
            f"'{self.name}' is a {self.kind} and has no order", hint="list its values in 'sets'"
        )

    def _require_numbers(self, edges: Sequence[Any]) -> None:
        if any(isinstance(edge, str) for edge in edges):
            raise StudyError(f"the edges of '{self.name}' are numbers")

    def by_unit(self, unit: str) -> Partition:
        """The values in groups that share a unit."""
        known = f"one of {', '.join(self.units)}" if self.units else "units are of dates"
        raise StudyError(f"'{self.name}' cannot be grouped by {unit}", hint=known)

    def listed_code(self, value: Value) -> int:
        """The position of a value that a study file lists."""
        try:
            return self.code(value)
        except DataError as error:
            raise StudyError(
                f"{value!r} is not a value of '{self.name}'", hint=self._near(value) or error.hint
            ) from None

    def each(self, values: Sequence[Value]) -> Sequence[int]:
        """The codes that 'each' makes a set of."""
        return [self.listed_code(value) for value in values]


def compare_integers(values: Codes, operator: str, constant: Decimal | int) -> Mask:
    """(size,): the values v with v operator constant, exactly, also for 17.5."""
    below, upto = values < math.ceil(constant), values <= math.floor(constant)
    match operator:
        case "<":
            return below
        case "<=":
            return upto
        case ">":
            return ~upto
        case ">=":
            return ~below
        case "=":
            return upto & ~below
        case _:
            return below | ~upto


def constant_text(constant: Constant) -> str:
    if isinstance(constant, datetime):
        return f"TIMESTAMP {literal(constant.isoformat(' '))}"
    if isinstance(constant, date):
        return f"DATE {literal(constant.isoformat())}"
    return f"{constant:f}" if isinstance(constant, Decimal) else literal(constant)


def runs(codes: Codes) -> list[tuple[int, int]]:
    """Increasing codes as maximal half-open runs."""
    if len(codes) == 0:
        return []
    breaks = np.flatnonzero(np.diff(codes) > 1) + 1
    starts, stops = np.r_[0, breaks], np.r_[breaks, len(codes)]
    return [(int(codes[a]), int(codes[b - 1]) + 1) for a, b in zip(starts, stops, strict=True)]


def round_ticks(count: int, most: int) -> range:
    """At most `most` of the positions 0 … count − 1: every 1st, 2nd, 5th, 10th, 20th, … of them."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return range(0, count, next(step for step in steps if count <= step * most))


def is_number(value: Any) -> bool:
    plain = value.item() if isinstance(value, np.generic) else value
    return isinstance(plain, (int, float)) and not isinstance(plain, bool)

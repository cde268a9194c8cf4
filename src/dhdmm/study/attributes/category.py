"""One of a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes import columns
from dhdmm.study.attributes.base import LABEL_PIECES, Attribute, AttributeModel, Codes, Constant
from dhdmm.study.diagram import Mask
from dhdmm.study.document import inline
from dhdmm.study.forms import Label, Value
from dhdmm.study.names import column, first_repeated, literal, nearest

READINGS = {int: columns.WHOLE, str: columns.TEXT, bool: columns.TRUTH}
CONSTANTS: dict[type[Value], type[Constant]] = {int: Decimal, str: str, bool: bool}


class CategoryModel(AttributeModel):
    """One of a list of values; a mapping gives each value a label."""

    type: Literal["category"]
    values: Annotated[list[Value], Field(min_length=1)] | dict[Value, Label]

    def attribute(self, name: str) -> CategoryAttribute:
        labels = tuple(self.values.values()) if isinstance(self.values, dict) else ()
        return CategoryAttribute(name, tuple(self.values), labels)


@dataclass(frozen=True)
class CategoryAttribute(Attribute):
    """A list of values of one type, each with a label (by default the value itself)."""

    values: tuple[Value, ...]
    labels: tuple[str, ...] = ()
    model = CategoryModel
    example = "values: [yes, no]"
    ordered = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.labels:
            object.__setattr__(self, "labels", tuple(_label(value) for value in self.values))
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

    def labels_given(self) -> tuple[str, ...]:
        return self.labels

    @property
    def value_type(self) -> type[Value]:
        return type(self.values[0])

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def code(self, value: Any) -> int:
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) is not self.value_type or plain not in self._codes:
            raise self._outside()
        return self._codes[plain]

    def examples(self, codes: Codes) -> list[Value]:
        return [self.values[code] for code in codes]

    @classmethod
    def draft(cls, column: columns.SeenColumn) -> str | None:
        if column.kinds <= {int, float} or len(column.texts) > column.most:
            return None
        if column.kinds == {bool}:
            words = sorted({text.lower() for text in column.values})
        else:
            words = [inline(text) for text in column.values]
        return f"{{type: category, values: [{', '.join(words)}]}}"

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

    @property
    def reading(self) -> columns.Reading:
        return READINGS[self.value_type]

    def coding(self, i: int) -> columns.Coding:
        domain = {f"value{i}": list(self.values), f"position{i}": range(self.size)}
        return columns.Coding(f"position{i}", domain, f" LEFT JOIN domain{i} ON value{i} = x{i}")

    def warehouse_code(self, x: columns.Expression) -> columns.Expression:
        self._require_expressible()
        code = columns.search(0, self.size, lambda low, middle: x.isin(self.values[low:middle]))
        return x.isin(self.values).ifelse(code, columns.UNKNOWN)

    def _require_expressible(self) -> None:
        super()._require_expressible()
        if any("\\" in str(value) for value in self.values):
            raise DataError(
                f"a value of '{self.name}' contains a backslash",
                hint="some warehouses take it for part of their SQL; export the table as Parquet",
            )

    def texts(self) -> Sequence[str]:
        return [value for value in self.values if isinstance(value, str)]

    def other_code(self) -> int | None:
        named = [code for code, label in enumerate(self.labels) if label.casefold() == "other"]
        return named[0] if len(named) == 1 else None

    @property
    def constant_type(self) -> type[Constant]:
        return CONSTANTS[self.value_type]

    def integers(self) -> Codes | None:
        return np.array(self.values, np.int64) if self.value_type is int else None

    def truth(self) -> Mask | None:
        return np.array(self.values, np.bool_) if self.value_type is bool else None

    def _near(self, value: object) -> str | None:
        return nearest(value, self.values)


def _label(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

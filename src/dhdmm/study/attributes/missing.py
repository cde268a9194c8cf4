"""An attribute of any type whose value may be missing: one more value, the last one.

It belongs to no range or prefix, and no comparison holds for it; SQL calls it NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes.base import Attribute, AttributeModel, Codes, Partition
from dhdmm.study.attributes.columns import (
    MISSING_TEXTS,
    Coding,
    Expression,
    Reading,
    SeenColumn,
)
from dhdmm.study.forms import Value
from dhdmm.study.names import column


def declared(name: str, model: AttributeModel) -> Attribute:
    """The attribute that an entry of a study file declares."""
    attribute = model.attribute(name)
    return attribute if model.missing is None else WithMissing(name, attribute, model.missing)


@dataclass(frozen=True)
class WithMissing(Attribute):
    """The values of `known`, and after them the missing one, which tables call `called`."""

    known: Attribute
    called: str
    ordered = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.called in self.known.labels_given():
            raise StudyError(
                f"'{self.name}' has a value called '{self.called}'",
                hint="give the missing value another label, as in 'missing: not recorded'",
            )

    @property
    def size(self) -> int:
        return self.known.size + 1

    @property
    def present(self) -> Attribute:
        return self.known

    @property
    def missing_code(self) -> int:
        return self.known.size

    def code(self, value: Any) -> int:
        try:
            return self.known.code(value)
        except DataError:
            if is_missing(value):
                return self.missing_code
            raise

    def examples(self, codes: Codes) -> list[Any]:
        held = iter(np.asarray(self.known.examples(codes[codes < self.known.size])).tolist())
        return [None if code == self.missing_code else next(held) for code in codes]

    @classmethod
    def draft(cls, column: SeenColumn) -> str | None:
        return None  # the draft of the values' own type says that some are missing

    def range_label(self, low: int, high: int) -> str:
        return self.set_label(np.arange(low, high))

    def set_label(self, codes: Codes) -> str:
        held, missing = self._split(codes)
        parts = [self.known.set_label(held)] if len(held) else []
        return ", ".join([*parts, self.called] if missing else parts)

    def range_predicate(self, low: int, high: int) -> str:
        return self.set_predicate(np.arange(low, high))

    def set_predicate(self, codes: Codes) -> str:
        held, missing = self._split(codes)
        name, every = column(self.name), len(held) == self.known.size
        if not missing:
            return f"{name} IS NOT NULL" if every else self.known.set_predicate(held)
        if every:
            return ""
        null = f"{name} IS NULL"
        return f"(({self.known.set_predicate(held)}) OR {null})" if len(held) else null

    def _split(self, codes: Codes) -> tuple[Codes, bool]:
        """The codes of values, and whether the missing one is among them."""
        missing = len(codes) > 0 and int(codes[-1]) == self.missing_code
        return (codes[:-1] if missing else codes), missing

    @property
    def reading(self) -> Reading:
        return self.known.reading

    def coding(self, i: int) -> Coding:
        """A field that says it is missing, unless the domain has it as a value."""
        coding = self.known.coding(i)
        step = f"CASE WHEN k{i} IS NULL AND m{i} THEN {self.missing_code} ELSE k{i} END AS k{i}"
        return replace(coding, steps=(*coding.steps, step))

    def warehouse_code(self, x: Expression) -> Expression:
        return self.known.warehouse_code(x)

    def other_code(self) -> int | None:
        return self.known.other_code()

    def cuts(self, edges: Any) -> Codes:
        return self.known.cuts(edges)

    def by_unit(self, unit: str) -> Partition:
        return self.known.by_unit(unit)

    def listed_code(self, value: Value) -> int:
        """The missing value is listed by its label."""
        return self.missing_code if value == self.called else self.known.listed_code(value)

    def each(self, values: Sequence[Value]) -> Sequence[int]:
        listed = [value for value in values if value != self.called]
        known = self.known.each(listed) if listed else ()
        return known if len(listed) == len(values) else [*known, self.missing_code]


def is_missing(value: Any) -> bool:
    """None, a number or date that is not one, and what programs write for them."""
    if isinstance(value, str):
        return value.strip().lower() in MISSING_TEXTS
    return value is None or bool(value != value)

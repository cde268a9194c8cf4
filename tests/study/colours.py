"""A fourth type of attribute, as a module of its own would define it: hues around the colour wheel.

A table holds text such as h137, a hue of 137 degrees; the attribute has `shades` equal parts of the
wheel. It needs a reading, a coding, constants, edges and ticks that no other type has.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import Field

from dhdmm.study import attributes
from dhdmm.study.attributes.base import Attribute, AttributeModel, Codes
from dhdmm.study.attributes.columns import UNKNOWN, Coding, ColumnKind, Reading, SeenColumn
from dhdmm.study.models import GroupingModel, StudyModel
from dhdmm.study.names import column

HUE = "CASE WHEN regexp_full_match({0}, 'h[0-9]+') THEN CAST(substr({0}, 2) AS BIGINT) END"
HUES = Reading("hues", "string", "BIGINT", {ColumnKind.TEXT: HUE, ColumnKind.FIELD: HUE})


class ColourModel(AttributeModel):
    """A hue, in some parts of the wheel."""

    type: Literal["colour"]
    shades: Annotated[int, Field(ge=4, le=360, multiple_of=4)]

    def attribute(self, name: str) -> "ColourAttribute":
        return ColourAttribute(name, self.shades)


@dataclass(frozen=True)
class ColourAttribute(Attribute):
    shades: int
    kind: ClassVar[str] = "colour"
    model: ClassVar[type[AttributeModel]] = ColourModel
    example: ClassVar[str] = "shades: 24"
    grouping_edges: ClassVar[Any] = Literal["quarters"]

    @property
    def size(self) -> int:
        return self.shades

    def code(self, value: Any) -> int:
        if not (isinstance(value, str) and re.fullmatch("h[0-9]+", value) and int(value[1:]) < 360):
            raise self._outside()
        return int(value[1:]) * self.shades // 360

    def examples(self, codes: Codes) -> list[str]:
        return [f"h{-(-360 * int(code) // self.shades)}" for code in codes]

    @classmethod
    def draft(cls, column: SeenColumn) -> str | None:
        hues = all(re.fullmatch("h[0-9]+", text) for text in column.texts)
        return "{type: colour, shades: 24}" if hues else None

    def range_label(self, low: int, high: int) -> str:
        return f"{360 * low // self.shades}°–{360 * high // self.shades}°"

    def range_predicate(self, low: int, high: int) -> str:
        degrees = f"CAST(substr({column(self.name)}, 2) AS BIGINT) * {self.shades} // 360"
        return "" if high - low == self.size else f"{degrees} BETWEEN {low} AND {high - 1}"

    @property
    def reading(self) -> Reading:
        return HUES

    def coding(self, i: int) -> Coding:
        return Coding(f"CASE WHEN x{i} < 360 THEN x{i} * {self.shades} // 360 END")

    def warehouse_code(self, x: Any) -> Any:
        degrees = x.substr(1).cast("int64")
        return (degrees < 360).ifelse(degrees * self.shades // 360, UNKNOWN)

    @property
    def constant_type(self) -> type[str]:
        return str

    def _compare_order(self, operator: str, value: str) -> Any:
        below = np.arange(self.size) < self.code(value)
        return {"<": below, ">=": ~below}[operator]

    def cuts(self, edges: str) -> Codes:
        assert edges == "quarters"
        return np.arange(5) * (self.shades // 4)

    def ticks(self, codes: Codes, most: int) -> list[int]:
        return np.flatnonzero(codes % (self.shades // 4) == 0).tolist()


@contextmanager
def registered() -> Iterator[None]:
    """Within, there is a type `colour`; the only change is to the list of types."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(attributes, "TYPES", (ColourAttribute, *attributes.TYPES))
        _rebuild()
        yield
    _rebuild()


def _rebuild() -> None:
    for model in (GroupingModel, StudyModel):
        model.model_rebuild(force=True)

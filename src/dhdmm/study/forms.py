"""What every part of a study file is made of: sections that refuse unknown keys, and scalars."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dhdmm.study.document import shown
from dhdmm.study.names import nearest

LARGEST_INTEGER = 2**53
"""Up to here every whole number is a float."""
LARGEST_SIZE = 10**6
"""Values an attribute may have: its factors and labels are vectors of this length."""
NAME = r"^[^\s\x00-\x1f\x7f](.{0,98}[^\s\x00-\x1f\x7f])?$"
LONGEST_STEPS = 100
"""Characters of first:last:step."""

Name = Annotated[str, Field(pattern=NAME)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Integer = Annotated[int, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
Number = Annotated[float, Field(allow_inf_nan=False)] | Integer
Value = bool | Integer | Annotated[str, Field(max_length=200)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Names = Annotated[list[Name], Field(min_length=1)]


def problem(
    what: str, hint: str = "", at: tuple[str, ...] = (), kind: Literal["study", "unknown"] = "study"
) -> PydanticCustomError:
    """A complaint in words; `at` leads from the section to the key that it is about."""
    return PydanticCustomError(kind, "{what}", {"what": what, "hint": hint, "at": at})


@cache
def _keys(section: type[Section]) -> tuple[str, ...]:
    """What a section's keys are called in a file."""
    return tuple(field.alias or name for name, field in section.model_fields.items())


class Section(BaseModel):
    """A part of a study file: refuses unknown keys, and all but one of the keys in `one_of`."""

    one_of: ClassVar[tuple[str, ...]] = ()
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        """Unknown keys first, with the near miss: they explain what seems to be missing."""
        if isinstance(given, dict):
            known = _keys(cls)
            for key in given:
                if key not in known:
                    hint = nearest(key, known) or ""
                    raise problem(f"unknown key {shown(key)}", hint, (str(key),), "unknown")
        made = make(given)
        if cls.one_of:
            made.exactly_one(*cls.one_of)
        return made

    def exactly_one(self, *keys: str) -> str:
        """The only one of these keys that is given."""
        given = [key for key in keys if getattr(self, key) not in (None, False)]
        if len(given) != 1:
            listed = ", ".join(f"'{key}'" for key in keys)
            seen = " and ".join(f"'{key}'" for key in given)
            raise problem(f"exactly one of {listed} is needed" + (f", not {seen}" if seen else ""))
        return given[0]


# ---- edges of bins ------------------------------------------------------------------------------


def expand_edges(written: str | list[int | float]) -> list[int | float]:
    """Increasing edges from a list, or from "first:last:step" with both ends included.

    >>> expand_edges("0:100:25"), expand_edges("0:0.3:0.1")
    ([0, 25, 50, 75, 100], [0, 0.1, 0.2, 0.3])
    """
    edges = _steps(written) if isinstance(written, str) else written
    if any(abs(edge) > LARGEST_INTEGER for edge in edges):
        raise problem(f"edges beyond {LARGEST_INTEGER:,} are not supported")
    if len(edges) < 2:
        raise problem("one bin needs two edges")
    for left, right in pairwise(edges):
        if left >= right:
            raise problem(f"bins overlap: edge {right} follows {left}, but edges must increase")
    return [int(edge) if edge == int(edge) else edge for edge in edges]


def _steps(written: str) -> list[int | float]:
    """Decimal arithmetic, so that 0:1:0.1 has the edges that a person would write."""
    if len(written) > LONGEST_STEPS:
        raise problem("the text is too long for first:last:step")
    try:
        first, last, step = (Decimal(part.strip()) for part in written.split(":"))
        usable = all(abs(number) <= LARGEST_INTEGER for number in (first, last, step))
    except (ValueError, InvalidOperation):
        usable = False
    if not usable:
        raise problem(f"{written!r} is not of the form first:last:step")
    if step <= 0 or last <= first:
        raise problem(f"{written!r} must rise from its first to its last edge")
    if (last - first) / step > LARGEST_SIZE:
        raise problem(f"{written!r} has more than {LARGEST_SIZE:,} bins")
    count, remainder = divmod(last - first, step)
    if remainder:
        raise problem(f"the steps of {written!r} do not meet its last edge")
    return [float(first + i * step) for i in range(int(count) + 1)]


Edges = Annotated[str | list[Number], AfterValidator(expand_edges)]

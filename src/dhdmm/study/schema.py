"""What a record looks like: named attributes, each with finitely many values, coded 0 … size − 1.

A *cell* is one value of every attribute; cells are numbered with the last attribute fastest.
Nothing is ever written out per cell, nor is a cell numbered where data are counted: a record is its
codes, one per attribute. So 10¹⁰⁰ cells are fine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes import Attribute, IntegerAttribute
from dhdmm.summary import Summarised

LARGEST_CELLS = 10**250
"""Cells a schema may have: their number, and sums over all of them, are written as doubles."""

LARGEST_UNITS = 2**31
"""Parts of a record: sums of parts must fit into the modulus of a round."""


@dataclass(frozen=True, repr=False)
class Schema(Summarised):
    """The attributes of a record, in order. A study has one: `study.schema`.

    Attributes:
        attributes: The attributes, see `dhdmm.study.attributes`.

    Raises:
        StudyError: The schema has more than 10^250 cells.

    Example:
        >>> from dhdmm.study.attributes import CategoryAttribute
        >>> schema = Schema((IntegerAttribute("age", 17, 91), CategoryAttribute("sex", ("F", "M"))))
        >>> schema.encode({"age": 18, "sex": "M"}), schema.cell((1, 1)), schema.codes(3)
        ((1, 1), 3, (1, 1))
    """

    attributes: tuple[Attribute, ...]

    def _summary(self) -> dict[str, Any]:
        return {"attributes": ", ".join(self.names), "cells": self.cells}

    def __post_init__(self) -> None:
        if self.units > LARGEST_UNITS:
            raise StudyError(
                f"the measured columns have {self.units:,} steps, multiplied,"
                f" more than {LARGEST_UNITS:,}",
                hint="measure fewer columns in one study, or in coarser steps",
            )
        if self.cells > LARGEST_CELLS:
            raise StudyError(
                f"the schema has more than 10^{len(str(self.cells)) - 1} cells, beyond 10^250",
                hint="leave out attributes that no query asks about, or coarsen them",
            )

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> Schema:
        """A schema of integer attributes a0, a1, … that count from 0.

        Args:
            sizes: How many values each attribute has.

        Returns:
            The schema.
        """
        return cls(tuple(IntegerAttribute(f"a{i}", 0, size - 1) for i, size in enumerate(sizes)))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def cells(self) -> int:
        """How many combinations of values there are."""
        return math.prod(self.shape)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def units(self) -> int:
        """Into how many parts a record is divided, by its measured columns."""
        return math.prod(attribute.present.divided or 1 for attribute in self.attributes)

    def encode(self, record: Mapping[str, Any]) -> tuple[int, ...]:
        """Translate a record to codes, the positions of its values.

        Args:
            record: A value for every attribute; other keys are ignored.

        Returns:
            One code per attribute.

        Raises:
            DataError: A value is missing or outside its attribute's domain.
        """
        missing = [name for name in self.names if name not in record]
        if missing:
            raise DataError(f"the record has no column '{missing[0]}'")
        return tuple(attribute.code(record[attribute.name]) for attribute in self.attributes)

    def cell(self, codes: Sequence[int]) -> int:
        """The number of the cell with these codes.

        Args:
            codes: One code per attribute.

        Returns:
            The number, from 0 to `cells` − 1; the last attribute counts fastest.
        """
        number = 0
        for code, size in zip(codes, self.shape, strict=True):
            number = number * size + code
        return number

    def codes(self, cell: int) -> tuple[int, ...]:
        """The codes of a cell: the inverse of `cell`.

        Args:
            cell: The number of a cell.

        Returns:
            One code per attribute.
        """
        codes: list[int] = []
        for size in reversed(self.shape):
            cell, code = divmod(cell, size)
            codes.append(code)
        return tuple(reversed(codes))

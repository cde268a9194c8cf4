"""What a record looks like: named attributes, each with finitely many values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    name: str
    size: int


@dataclass(frozen=True)
class Schema:
    attributes: tuple[Attribute, ...]

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> Schema:
        return cls(tuple(Attribute(f"a{i}", size) for i, size in enumerate(sizes)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

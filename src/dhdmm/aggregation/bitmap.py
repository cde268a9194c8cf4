"""A set of roster positions or of places in a neighbourhood, one bit each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import MalformedMessage


@dataclass(frozen=True, slots=True)
class Bitmap:
    """A set of indices below `size`; index i is bit i mod 8 of byte i div 8.

    >>> Bitmap.of(10, [1, 9]).data.hex(), Bitmap.of(10, [1, 9]).members()
    ('0202', (1, 9))
    """

    size: int
    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != (self.size + 7) // 8:
            raise MalformedMessage("a bitmap's length differs from its size")
        if self.size % 8 and self.data[-1] >> self.size % 8:
            raise MalformedMessage("padding bits of a bitmap are set")

    @classmethod
    def of(cls, size: int, members: Iterable[int]) -> Bitmap:
        flags = np.zeros(size, dtype=np.bool_)
        flags[list(members)] = True
        return cls.from_array(flags)

    @classmethod
    def from_array(cls, flags: NDArray[np.bool_]) -> Bitmap:
        return cls(len(flags), np.packbits(flags, bitorder="little").tobytes())

    def __len__(self) -> int:
        """How many members: the population count."""
        return int.from_bytes(self.data, "little").bit_count()

    def __contains__(self, index: int) -> bool:
        return 0 <= index < self.size and bool(self.data[index >> 3] >> (index & 7) & 1)

    def array(self) -> NDArray[np.bool_]:
        bits = np.unpackbits(np.frombuffer(self.data, np.uint8), count=self.size, bitorder="little")
        return bits.view(np.bool_)

    def without(self, members: Iterable[int]) -> Bitmap:
        flags = self.array().copy()
        flags[list(members)] = False
        return Bitmap.from_array(flags)

    def members(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.array()).tolist())

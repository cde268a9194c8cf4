"""Lists that stay in their encoding until somebody looks at an item: most are only passed on."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Encoded(Sequence[Any]):
    """A list in its encoding. It equals the tuple of its items."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoded | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


class Slots(Encoded):
    """Byte strings of one size."""

    __slots__ = ("size",)

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.size = size

    def __len__(self) -> int:
        return len(self.data) // self.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and 0 <= index < len(self):
            return self.data[index * self.size : (index + 1) * self.size]
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[bytes]:
        data, size = self.data, self.size
        return iter([data[start : start + size] for start in range(0, len(data), size)])


class RecordTable(Encoded):
    """Records of one layout."""

    __slots__ = ("_layout", "_make")

    def __init__(
        self, data: bytes, layout: struct.Struct, make: Callable[..., tuple[Any, ...]]
    ) -> None:
        super().__init__(data)
        self._layout, self._make = layout, make

    def __len__(self) -> int:
        return len(self.data) // self._layout.size

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return starmap(self._make, self._layout.iter_unpack(self.data))

    @property
    def columns(self) -> NDArray[Any]:
        """The fields of all records as arrays, named f0, f1, … in order."""
        return np.frombuffer(self.data, dtype=dtype_of(self._layout.format))


@cache
def dtype_of(layout: str) -> np.dtype[Any]:
    """The NumPy type of a record of big-endian integers and byte strings.

    >>> dtype_of(">IB36s").itemsize
    41
    """
    kinds = {"I": ">u4", "B": "u1", "s": "V"}
    fields = re.findall(r"([0-9]*)([IBs])", layout)
    return np.dtype([(f"f{i}", kinds[kind] + size) for i, (size, kind) in enumerate(fields)])

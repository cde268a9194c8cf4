"""What is added up: a vector over Z_m and, in some rounds, one number modulo q beside it.

Without one, q is 1: the number is 0, has no bytes and takes no key stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation import masks
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.masks import Sign
from dhdmm.aggregation.modulus import (
    Modulus,
    Vector,
    pack,
    packed_size,
    require_packed,
    unpack,
)

_SURPLUS_BYTES = 16
"""So many bytes more of key stream than q has make a mask within 2⁻¹²⁸ of uniform modulo q."""


@dataclass(slots=True, repr=False, eq=False)
class Element:
    """A working vector, whose words may overflow, and a residue modulo q."""

    vector: Vector
    scalar: int = 0

    def copy(self) -> Element:
        return Element(self.vector.copy(), self.scalar)


@dataclass(frozen=True)
class Group:
    """Z_m^k × Z_q, with k = `length` and q = `scalar_modulus`."""

    modulus: Modulus
    length: int
    scalar_modulus: int = 1

    def __post_init__(self) -> None:
        if self.length < 1 or self.scalar_modulus < 1:
            raise LocalProtocolError("nothing to add up")

    def zero(self) -> Element:
        return Element(self.modulus.zeros(self.length))

    def element(self, vector: NDArray[Any], scalar: int) -> Element:
        """A copy of these residues, refused if they are none."""
        if vector.shape != (self.length,) or vector.dtype.kind not in "iu":
            raise LocalProtocolError("the input is not an integer vector of the agreed length")
        if vector.min() < 0 or vector.max() >= self.modulus.value:
            raise LocalProtocolError("the input is not in Z_m")
        if not 0 <= scalar < self.scalar_modulus:
            raise LocalProtocolError("the number beside the input is not in Z_q")
        return Element(vector.astype(self.modulus.dtype), scalar)

    def add(self, accumulator: Element, other: Element) -> None:
        """accumulator + other in place."""
        self.modulus.add(accumulator.vector, other.vector)
        self._add_scalar(accumulator, other.scalar)

    def subtract(self, accumulator: Element, other: Element) -> None:
        """accumulator − other in place."""
        np.subtract(accumulator.vector, other.vector, out=accumulator.vector)
        self._add_scalar(accumulator, -other.scalar)

    def add_masks(self, accumulator: Element, signed_seeds: Iterable[tuple[bytes, Sign]]) -> None:
        """accumulator + Σ ± F(seed) in place. The number's mask is behind the vector's."""
        size = self._scalar_bytes and self._scalar_bytes + _SURPLUS_BYTES
        left = masks.add_masks(self.modulus, accumulator.vector, signed_seeds, size)
        self._add_scalar(accumulator, left)

    def _add_scalar(self, accumulator: Element, scalar: int) -> None:
        accumulator.scalar = (accumulator.scalar + scalar) % self.scalar_modulus

    # On the wire: the packed vector, then the number, little-endian

    @cached_property
    def packed_size(self) -> int:
        return packed_size(self.modulus, self.length) + self._scalar_bytes

    def pack(self, element: Element) -> bytes:
        return pack(self.modulus, element.vector) + self._encoded(element.scalar)

    def require_packed(self, packed: bytes) -> None:
        """Refuse what `pack` does not give: another size, padding, a number that is not reduced."""
        require_packed(self.modulus, self.length, self._divided(packed)[0])

    def unpack(self, packed: bytes) -> Element:
        """The inverse of `pack`, strict: see `require_packed`."""
        vector, scalar = self._divided(packed)
        return Element(unpack(self.modulus, self.length, vector), scalar)

    def _divided(self, packed: bytes) -> tuple[bytes, int]:
        """The packed vector, of whatever size, and the number behind it."""
        end = max(0, len(packed) - self._scalar_bytes)
        scalar = int.from_bytes(packed[end:], "little")
        if scalar >= self.scalar_modulus:
            raise RemoteProtocolError(AbortReason.MALFORMED, "a number that is not reduced")
        return packed[:end], scalar

    # In a store: the words of the vector, then the number

    def dump(self, element: Element) -> bytes:
        return element.vector.tobytes() + self._encoded(element.scalar)

    def load(self, dumped: bytes) -> Element:
        words = np.frombuffer(dumped, self.modulus.dtype, self.length)
        return Element(words.copy(), int.from_bytes(dumped[words.nbytes :], "little"))

    @cached_property
    def _scalar_bytes(self) -> int:
        return ((self.scalar_modulus - 1).bit_length() + 7) // 8

    def _encoded(self, scalar: int) -> bytes:
        return scalar.to_bytes(self._scalar_bytes, "little")

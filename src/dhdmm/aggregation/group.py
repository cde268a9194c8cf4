"""What is added up: a vector over Z_m and, in some rounds, one number modulo q beside it.

Without one, q is 1: the number is 0, has no bytes and takes no key stream.

Where it is known in which range of fewer than m integers a coordinate's sum lies, that coordinate
is sent modulo the power of two that tells them apart. This modulus divides m, so what is added and
subtracted in Z_m is right modulo it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation import masks
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.masks import Sign
from dhdmm.aggregation.modulus import (
    SUMMED_TOGETHER,
    Modulus,
    SumRange,
    Vector,
    pack,
    packed_size,
    require_packed,
    summed,
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


class _Part(NamedTuple):
    """The coordinates that are sent modulo the same number."""

    modulus: Modulus
    length: int
    places: slice | NDArray[np.intp]

    @property
    def packed_size(self) -> int:
        return packed_size(self.modulus, self.length)


@dataclass(frozen=True)
class Group:
    """Z_m^k × Z_q, with k = `length` and q = `scalar_modulus`."""

    modulus: Modulus
    length: int
    scalar_modulus: int = 1
    sum_ranges: tuple[SumRange, ...] = ()
    """Of all coordinates; without them they have the modulus alone."""

    def __post_init__(self) -> None:
        if self.length < 1 or self.scalar_modulus < 1:
            raise LocalProtocolError("nothing to add up")
        ranges = self.sum_ranges
        if ranges and sum(one.rows for one in ranges) != self.length:
            raise LocalProtocolError("not a range for each sum")
        if any(one.bits > self.modulus.bits for one in ranges):
            raise LocalProtocolError("a range that the modulus cannot hold")

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

    def residues(self, total: Element) -> Vector:
        """Of the sums, in [0, m): where their ranges are known, what was sent says no more."""
        if not self.sum_ranges:
            return self.modulus.reduce(total.vector)
        above_low = (total.vector - self._lows) & self._masks
        return self.modulus.reduce(self._lows + above_low)

    @cached_property
    def _lows(self) -> Vector:
        lows = np.array([one.low for one in self.sum_ranges], np.int64)
        return self._by_coordinate(self.modulus.residues(lows))

    @cached_property
    def _masks(self) -> Vector:
        masks = [(1 << one.bits) - 1 for one in self.sum_ranges]
        return self._by_coordinate(np.array(masks, self.modulus.dtype))

    def _by_coordinate(self, of_ranges: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(of_ranges, [one.rows for one in self.sum_ranges])

    # On the wire: for each modulus, ascending, the packed vector of the coordinates that are sent
    # modulo it; then the number, little-endian

    @cached_property
    def _parts(self) -> list[_Part]:
        if not self.sum_ranges:
            return [_Part(self.modulus, self.length, slice(None))]
        bits = self._by_coordinate(np.array([one.bits for one in self.sum_ranges]))
        places = {number: np.flatnonzero(bits == number) for number in np.unique(bits).tolist()}
        return [_Part(Modulus(1 << b), len(found), found) for b, found in places.items()]

    @cached_property
    def packed_size(self) -> int:
        return sum(part.packed_size for part in self._parts) + self._scalar_bytes

    def pack(self, element: Element) -> bytes:
        vectors = (
            pack(modulus, element.vector[places].astype(modulus.dtype, copy=False))
            for modulus, _, places in self._parts
        )
        return b"".join([*vectors, self._encoded(element.scalar)])

    def require_packed(self, packed: bytes) -> None:
        """Refuse what `pack` does not give: another size, padding, a number that is not reduced."""
        for part, own in self._divided(packed):
            require_packed(part.modulus, part.length, own)
        self._scalar_of(packed)

    def unpack(self, packed: bytes) -> Element:
        """The inverse of `pack`, strict: see `require_packed`."""
        vector = self.modulus.zeros(self.length)
        for part, own in self._divided(packed):
            vector[part.places] = unpack(part.modulus, part.length, own)
        return Element(vector, self._scalar_of(packed))

    def add_packed(self, accumulator: Element, packed: Sequence[bytes]) -> None:
        """accumulator + what `unpack` gives of each, in place; each has passed `require_packed`."""
        for first in range(0, len(packed), SUMMED_TOGETHER):
            some = packed[first : first + SUMMED_TOGETHER]
            octets = np.frombuffer(b"".join(some), np.uint8).reshape(len(some), self.packed_size)
            start = 0
            for modulus, length, places in self._parts:
                end = start + packed_size(modulus, length)
                accumulator.vector[places] += summed(modulus, length, octets[:, start:end])
                start = end
            self._add_scalar(accumulator, sum(map(self._scalar_of, some)))

    def _divided(self, packed: bytes) -> Iterator[tuple[_Part, bytes]]:
        if len(packed) != self.packed_size:
            raise RemoteProtocolError(AbortReason.MALFORMED, "masked vector of the wrong size")
        start = 0
        for part in self._parts:
            end = start + part.packed_size
            yield part, packed[start:end]
            start = end

    def _scalar_of(self, packed: bytes) -> int:
        scalar = int.from_bytes(packed[len(packed) - self._scalar_bytes :], "little")
        if scalar >= self.scalar_modulus:
            raise RemoteProtocolError(AbortReason.MALFORMED, "a number that is not reduced")
        return scalar

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

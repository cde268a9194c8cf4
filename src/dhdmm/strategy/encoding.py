"""A strategy as bytes: canonical, compact, versioned, and safe to read from an untrusted source.

CBOR with integers, byte strings and arrays only:

    [b"dhdmm strategy", version, [axis, …], [block, …]]
    axis  = [values, merged values, orbits, value → merged value, merged value → orbit, count,
             vectors], and in version 3 two more: [levels, shapes], places
    block = [[[attribute, part + 1, p, q], …], [side, …]], and from version 2 a third:
             [count, others]
    side  = [[axis, …], [rows, products], lengths, coefficients, vector numbers, T]

Integer arrays are packed: one byte with the width in bits, then every entry's zigzag code (0, −1,
1, −2, …) in that many bits, least significant first, zero padded. Vectors 0 … orbits (all ones,
then one per orbit) are not written; of T only the upper triangle is; `lengths` (products per row)
and `coefficients` are empty when every row is a single product of coefficient 1. `others` are the
attributes of the residuals in every further copy of the block. `shapes` are the children of every
node of each orbit's tree, level by level, 1 where an orbit has no more levels, and `places` the
positions of merged values in their orbits; where nothing is nested both are empty, with one level.
The part of a residual is level · orbits + orbit. A strategy is written in the first version that
can say it.

In version 4 there is one block, of one long attribute each of whose values is an orbit:

    block = [axis, reach, [entries, …]]

with the entries of T of dyadic.py in packed arrays, one for each level, wider level and neighbour
where there are any. A strategy with such a block has no other.

There is one encoding of a strategy: CBOR in its canonical form, arrays of the smallest width. Both
are checked when a strategy is read, and it keeps the bytes that it was read from. They suffice to
apply A' and to recompute its sensitivity; nothing in them is trusted. Sizes are checked before
anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import ge
from typing import Any

import cbor2
import numpy as np

from dhdmm import formats
from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import (
    LARGEST_ROWS,
    LARGEST_TABLE,
    Block,
    MeasuredAxis,
    Residual,
    Side,
)
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.dyadic import LARGEST_REACH, Dyadic, Halves
from dhdmm.strategy.matrix import Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.sizes import VALUES_BY_HALVES
from dhdmm.strategy.tree import Tree

MAGIC = b"dhdmm strategy"
TREES, DYADIC = 3, 4
"""The versions of strategies of nested values, and by halves."""
LARGEST_BYTES = 2**28
LARGEST_ATTRIBUTES = 128
LARGEST_AXIS = 2**22
LARGEST_LEVELS = 62
LARGEST_TRIANGLE = 2**13
"""Rows of one T."""
LARGEST_PRODUCTS = 2**26
"""Rows times products of one side."""
LARGEST_VECTOR_TABLES = 2**25
"""Entries of all attributes' vectors together, the common ones included: 256 MiB."""
LARGEST_NUMBER = 2**40
"""Bound for every integer written down."""
NOTHING = bytes(1)
"""A packed array of no entries."""
FEW = 40
"""Entries of a packed array that are read one by one."""


Parts = tuple[tuple[MeasuredAxis, ...], tuple[Block, ...]]
EncodedBasis = tuple[int, int, bytes, bytes, bytes]
"""Rows, products, lengths, coefficients and vector numbers."""


def encode(axes: Sequence[MeasuredAxis], blocks: Sequence[Block]) -> bytes:
    version = format_of(axes, blocks)
    if version == DYADIC:
        written = [_dyadic_document(blocks[0])]
    else:
        written = [_block_document(block, version) for block in blocks]
    return _canonical([MAGIC, version, [_axis_document(axis, version) for axis in axes], written])


def format_of(axes: Sequence[MeasuredAxis], blocks: Sequence[Block]) -> int:
    """The first format that can say it."""
    if isinstance(blocks[0].sides[0].T, Dyadic):
        return DYADIC
    if not all(axis.tree.is_flat for axis in axes):
        return TREES
    return 2 if any(block.others for block in blocks) else 1


def decode(data: bytes, made_by: str | None = None) -> Parts:
    """The strategy's parts, or a StrategyError that says what is wrong with the bytes.

    `made_by` is the dhdmm that made the file they stand in.
    """
    if len(data) > LARGEST_BYTES:
        raise refused(f"{len(data):,} bytes exceed the limit of {LARGEST_BYTES:,}")
    try:
        document = cbor2.loads(data)
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise refused("not CBOR") from error
    if type(document) is not list or len(document) < 2 or document[0] != MAGIC:
        raise refused("not a strategy")
    version = formats.readable(formats.STRATEGY, document[1], StrategyError, made_by)
    _, _, axes, blocks = _array(document, 4, "the document")
    read_axes = _read_axes(_list(axes, LARGEST_ATTRIBUTES, "the axes"), version)
    parts = _Parts(read_axes)
    read_blocks: list[Block] = []
    rows = 0
    if version == DYADIC:
        (block,) = _array(blocks, 1, "the blocks")
        read_blocks, blocks = [_read_dyadic(block, read_axes)], []
    for block in _list(blocks, LARGEST_ROWS, "the blocks"):
        read_blocks.append(_read_block(block, parts, version))
        rows += read_blocks[-1].rows
        if rows > LARGEST_ROWS:
            raise refused(f"more than {LARGEST_ROWS:,} rows")
    if not read_blocks:
        raise refused("no row")
    if version != format_of(read_axes, read_blocks):
        raise refused("not the canonical encoding: its version is too high")
    if _canonical(document) != data:  # now that it is known to hold numbers, bytes and arrays only
        raise refused("not the canonical encoding")
    return read_axes, tuple(read_blocks)


def _canonical(document: list[Any]) -> bytes:
    return bytes(cbor2.dumps(document, canonical=True))


def pack(values: Integers) -> bytes:
    """Width byte and bit-packed zigzag codes.

    >>> pack(np.array([0, -1, 1])).hex()
    '0224'
    """
    values = np.asarray(values, np.int64).ravel()
    codes = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = int(codes.max()).bit_length() if len(codes) else 0
    bits = (codes[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return bytes([width]) + np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()


def unpack(data: Any, count: int, what: str) -> Integers:
    if type(data) is not bytes or not data:
        raise refused(f"{what} is not a packed array")
    width = data[0]
    if width > LARGEST_NUMBER.bit_length() + 1:
        raise refused(f"{what} has entries of {width} bits")
    if len(data) != 1 + (count * width + 7) // 8:
        raise refused(f"{what} does not have {count:,} entries")
    if count <= FEW:  # belong to the object that they are read for
        return np.array(_unpack_few(data, count, what), np.int64)
    borrow(4 * count)
    work(10 * count)
    allocate(2 * count)
    place = np.arange(count) * width
    # The eight bytes from each byte on: a code of at most 42 bits begins in the first of them.
    words = np.ndarray(len(data), "<u8", data[1:] + bytes(8), strides=(1,))
    codes = (words[place >> 3] >> (place & 7).astype(np.uint64)) & np.uint64((1 << width) - 1)
    if int(codes.max(initial=0)).bit_length() != width or _padding(data, count * width):
        raise refused(f"{what}: not the canonical encoding")
    signed = codes.astype(np.int64)
    return np.asarray((signed >> 1) ^ -(signed & 1))


def _unpack_few(data: bytes, count: int, what: str) -> list[int]:
    """The same without arrays, which take longer to make than a few numbers to read."""
    width, bits = data[0], int.from_bytes(data[1:], "little")
    codes = [(bits >> place) & ((1 << width) - 1) for place in range(0, count * width, width or 1)]
    codes = codes or [0] * count
    if max(codes, default=0).bit_length() != width or _padding(data, count * width):
        raise refused(f"{what}: not the canonical encoding")
    return [(code >> 1) ^ -(code & 1) for code in codes]


def _padding(data: bytes, bits: int) -> int:
    """What stands behind so many bits, in the last byte."""
    return data[-1] >> (bits % 8) if bits % 8 else 0


def _axis_document(axis: MeasuredAxis, version: int) -> list[Any]:
    document = [
        len(axis.merged),
        len(axis.orbit),
        len(axis.sizes),
        pack(axis.merged),
        pack(axis.orbit),
        len(axis.extra),
        pack(axis.extra),
    ]
    tree = axis.tree
    if version == TREES and tree.is_flat:
        return [*document, [1, b""], b""]
    if version == TREES:
        written = [(*shape, *[1] * (tree.levels - len(shape))) for shape in tree.shapes]
        return [*document, [tree.levels, pack(np.array(written))], pack(tree.places)]
    return document


def _read_axes(documents: list[Any], version: int) -> tuple[MeasuredAxis, ...]:
    axes, spare = [], LARGEST_VECTOR_TABLES
    for document in documents:
        axes.append(_read_axis(document, spare, version))
        if version != DYADIC:
            orbits = len(axes[-1].sizes)
            spare -= (1 + orbits + len(axes[-1].extra)) * orbits
    if not axes:
        raise refused("no attribute")
    return tuple(axes)


def _read_axis(document: Any, spare: int, version: int) -> MeasuredAxis:
    given = _array(document, 9 if version == TREES else 7, "an axis")
    values, merged, orbits, merged_map, orbit_map, count, extra, *nested = given
    values = _number(values, 1, LARGEST_AXIS, "an attribute's values")
    merged = _number(merged, 1, values, "an attribute's merged values")
    orbits = _number(orbits, 1, merged, "an attribute's orbits")
    if version == DYADIC:  # vectors are neither written nor made
        count = _number(count, 0, 0, "an attribute's vectors")
        allocate(2 * values)
    else:
        count = _number(count, 0, LARGEST_NUMBER, "an attribute's vectors")
        if (1 + orbits + count) * orbits > spare:
            raise refused(f"an attribute has {count:,} vectors over {orbits:,} orbits")
        allocate(values + (1 + orbits + count) * orbits)
        borrow(orbits**2)
    orbit = _onto(unpack(orbit_map, merged, "the map to orbits"), orbits)
    return MeasuredAxis(
        _onto(unpack(merged_map, values, "the map to merged values"), merged),
        _read_tree(orbit, *nested) if nested else Tree.flat(orbit),
        unpack(extra, count * orbits, "the vectors").reshape(count, orbits),
    )


def _read_tree(orbit: Integers, levels: Any, places: Any) -> Tree:
    """Levels of every orbit, and the positions of its values."""
    count, shapes = _array(levels, 2, "an attribute's levels")
    if places == b"" and count == 1 and shapes == b"":
        return Tree.flat(orbit)
    orbits = int(orbit.max()) + 1
    count = _number(count, 1, LARGEST_LEVELS, "an attribute's levels")
    written = unpack(shapes, orbits * count, "the levels").reshape(orbits, count)
    sizes = np.bincount(orbit)
    if (
        written.min() < 1
        or written.max() > len(orbit)
        or np.any((written[:, :-1] == 1) & (written[:, 1:] > 1))
    ):
        raise refused("the levels of an orbit are not its nodes' children")
    if math.prod(map(int, written.max(axis=0))) >= 2**62 or np.any(written.prod(axis=1) != sizes):
        raise refused("the levels of an orbit do not add up to its values")
    work(OBJECT * orbits)
    found = unpack(places, len(orbit), "the positions")
    order = np.lexsort([found, orbit])
    if not np.array_equal(
        found[order], np.arange(len(orbit)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ):
        raise refused("the positions in an orbit leave gaps")
    tree = Tree(orbit, found, tuple(tuple(n for n in shape if n > 1) for shape in written.tolist()))
    if tree.is_flat or tree.levels != count:
        raise refused("not the canonical encoding: levels without children")
    return tree


def _onto(labels: Integers, count: int) -> Integers:
    if labels.min() < 0 or not np.array_equal(np.unique(labels), np.arange(count)):
        raise refused("a map of values leaves gaps")
    return labels


def _block_document(block: Block, version: int) -> list[Any]:
    residuals = [[r.attribute, r.part + 1, r.contrast.p, r.contrast.q] for r in block.residuals]
    others = [len(block.others), pack(np.array(block.others, np.int64))]
    return [residuals, [_side_document(side) for side in block.sides], others][
        : 1 + min(version, 2)
    ]


def _side_document(side: Side) -> list[Any]:
    basis, T = side.basis, side.triangle
    return [
        list(side.axes),
        [basis.rows, len(basis.coefficients)],
        b"" if basis.is_plain else pack(np.diff(basis.starts)),
        b"" if basis.is_plain else pack(basis.coefficients),
        pack(basis.ids),
        pack(T[_upper_triangle(len(T))]),
    ]


def _dyadic_document(block: Block) -> list[Any]:
    (side,) = block.sides
    assert isinstance(side.T, Dyadic)
    halves, packed = side.T.halves, []
    for m, entries in zip(halves.levels, side.T.rows, strict=True):
        for wider, i, _, inside in halves.slots(m):
            if inside.any():
                packed.append(pack(entries[wider - m, i, inside]))
    return [side.axes[0], halves.reach, packed]


def _read_dyadic(document: Any, axes: tuple[MeasuredAxis, ...]) -> Block:
    a, reach, packed = _array(document, 3, "a block")
    a = _number(a, 0, len(axes) - 1, "an axis")
    n = len(axes[a].sizes)
    if not 2 <= n == len(axes[a].orbit) <= VALUES_BY_HALVES:
        raise refused("an attribute's values cannot be halved")
    halves = Halves(n, _number(reach, 1, LARGEST_REACH, "the reach"))
    allocate(2 * halves.entries)
    work(OBJECT * halves.top**2 * halves.width)
    places = [(m, slot) for m in halves.levels for slot in halves.slots(m) if slot[3].any()]
    rows = tuple(np.zeros(halves.shape(m), np.int64) for m in halves.levels)
    arrays = _array(packed, len(places), "the entries")
    for (m, (wider, i, _, inside)), data in zip(places, arrays, strict=True):
        rows[m - 1][wider - m, i, inside] = unpack(data, int(inside.sum()), "entries of T")
    matrix = Dyadic(halves, rows)
    if not np.all(matrix.diagonal):
        raise refused("T is singular")
    return Block((), (Side((a,), Basis.plain(1 + np.arange(n)[:, None]), matrix),))


def _read_block(document: Any, parts: _Parts, version: int) -> Block:
    work(20 * OBJECT)
    axes = parts.axes
    residuals, held, *others = _array(document, 1 + min(version, 2), "a block")
    residuals = tuple(parts.residual(r) for r in _list(residuals, len(axes), "the residuals"))
    sides = tuple(parts.side(side) for side in _list(held, len(axes) + 1, "the sides"))
    if not sides:
        raise refused("a block without a side")
    block = Block(residuals, sides, *(_read_others(one, len(residuals)) for one in others))
    _check_places(block, axes)
    return block


def _read_others(document: Any, residuals: int) -> tuple[tuple[int, ...], ...]:
    count, places = _array(document, 2, "the copies of a block")
    count = _number(count, 0, LARGEST_ROWS if residuals else 0, "the number of copies")
    if not count and places == NOTHING:
        return ()
    allocate(4 * count * residuals)
    numbers = unpack(places, count * residuals, "the copies' attributes")
    return tuple(map(tuple, numbers.reshape(count, residuals).tolist()))


def _check_places(block: Block, axes: tuple[MeasuredAxis, ...]) -> None:
    """Attributes of every copy are in order, different, and as large as the contrasts."""
    work(OBJECT / 10 * block.copies)
    others = zip(*block.others, strict=True)  # the first copy's were read as what they are
    for residual, attributes in zip(block.residuals, others, strict=bool(block.others)):
        for a in {*attributes}:
            part = residual.part
            if not 0 <= a < len(axes) or not part < axes[a].tree.parts:
                raise refused("a residual's attribute does not exist")
            if axes[a].nest(part) != residual.contrast.nest:
                raise refused("a copy's attribute has another number of values")
    places = block.places
    if any(place != tuple(sorted(place)) for place in places):
        raise refused("a block's residuals are not in order")
    held = {a for place in places for a in place}
    is_twice = any(len({*place}) < len(place) for place in places)
    if is_twice or len(held.union(block.axes)) < len(held) + len(block.axes):
        raise refused("an attribute occurs twice in a block")
    if any(map(ge, places, block.others)):
        raise refused("a block's copies are not in order")


class _Parts:
    """Reads the parts of blocks. Many are equal, and are then the same object."""

    def __init__(self, axes: tuple[MeasuredAxis, ...]) -> None:
        self.axes = axes

    def side(self, document: Any) -> Side:
        held, sizes, *packed = _array(document, 6, "a side")
        held = tuple(
            _number(a, 0, len(self.axes) - 1, "an axis")
            for a in _list(held, len(self.axes), "a side's axes")
        )
        if list(held) != sorted(set(held)):
            raise refused("a side's axes are not increasing")
        rows, products = _array(sizes, 2, "a side's size")
        rows = _number(rows, 1, LARGEST_TRIANGLE, "a side's rows")
        products = _number(products, rows, LARGEST_PRODUCTS // rows, "a side's products")
        if not all(type(data) is bytes for data in packed):
            raise refused("a side has something else than packed arrays")
        lengths, coefficients, ids, T = packed
        return self._side(held, (rows, products, lengths, coefficients, ids), T)

    def residual(self, document: Any) -> Residual:
        numbers = _array(document, 4, "a residual")
        if not all(type(number) is int for number in numbers):
            raise refused("a residual's attribute, part, or contrast's p or q is not an integer")
        return self._residual(*numbers)

    @memoised
    def _residual(self, attribute: int, part: int, p: int, q: int) -> Residual:
        axis = self.axes[_number(attribute, 0, len(self.axes) - 1, "a residual's attribute")]
        part = _number(part, 0, axis.tree.parts, "a residual's part") - 1
        nest = axis.nest(part)
        if nest is None or nest.n < 2:
            raise refused("a residual of a single value")
        p = _number(p, 1, LARGEST_NUMBER, "a contrast's p")
        q = _number(q, 0, LARGEST_NUMBER, "a contrast's q")
        contrast = Contrast(nest.n, p, q, nest.outer, nest.inner)
        if contrast.r == 0:
            raise refused("a contrast is singular")
        return Residual(attribute, part, contrast)

    @memoised
    def _side(self, held: tuple[int, ...], basis: EncodedBasis, T: bytes) -> Side:
        rows = basis[0]
        found = self._basis(held, basis)
        allocate(rows**2)
        matrix = np.zeros((rows, rows), np.int64)
        matrix[_upper_triangle(rows)] = unpack(T, rows * (rows + 1) // 2, "T")
        if not matrix.diagonal().all():
            raise refused("T is singular")
        side = Side(held, found, matrix)
        if side.largest_group(self.axes) > LARGEST_TABLE:
            raise refused("a side is too large to apply")
        return side

    @memoised
    def _basis(self, held: tuple[int, ...], encoded: EncodedBasis) -> Basis:
        return _read_basis(*encoded, [self.axes[a] for a in held])


@lru_cache(maxsize=16)
def _upper_triangle(rows: int) -> tuple[Integers, Integers]:
    return np.triu_indices(rows)


def _read_basis(
    rows: int,
    products: int,
    lengths: bytes,
    coefficients: bytes,
    ids: bytes,
    axes: list[MeasuredAxis],
) -> Basis:
    if lengths == b"" and coefficients == b"":
        if rows != products:
            raise refused("a plain basis has one product per row")
        counts, weights = np.ones(rows, np.int64), np.ones(rows, np.int64)
    else:
        counts = unpack(lengths, rows, "the rows' lengths")
        weights = unpack(coefficients, products, "the coefficients")
        if counts.min() < 1 or counts.sum() != products:
            raise refused("the rows' lengths do not add up")
        if rows == products and np.all(weights == 1):
            raise refused("not the canonical encoding: a plain basis is not written out")
    numbers = unpack(ids, products * len(axes), "the vector numbers").reshape(products, len(axes))
    for i, axis in enumerate(axes):
        if numbers[:, i].min() < 0 or numbers[:, i].max() >= len(axis.vectors):
            raise refused("a vector number is out of range")
    return Basis(np.concatenate([[0], np.cumsum(counts)]), weights, numbers)


def refused(reason: str) -> StrategyError:
    return StrategyError(f"the encoded strategy is refused: {reason}")


def _array(value: Any, length: int, what: str) -> list[Any]:
    if type(value) is not list or len(value) != length:
        raise refused(f"{what} is not an array of {length}")
    return value


def _list(value: Any, longest: int, what: str) -> list[Any]:
    if type(value) is not list or len(value) > longest:
        raise refused(f"{what} are not an array of at most {longest:,}")
    return value


def _number(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise refused(f"{what} must be an integer from {low:,} to {high:,}")
    return value

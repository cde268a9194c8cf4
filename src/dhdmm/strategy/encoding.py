"""A strategy as bytes: canonical, compact, versioned, and safe to read from an untrusted source.

CBOR with integers, byte strings and arrays only:

    [b"dhdmm strategy", version, [axis, …], [block, …]]
    axis  = [values, merged values, orbits, value → merged value, merged value → orbit, count,
             vectors]
    block = [[[attribute, part + 1, p, q], …], [side, …]], and in version 2 a third: [count, others]
    side  = [[axis, …], [rows, products], lengths, coefficients, vector numbers, T]

Integer arrays are packed: one byte with the width in bits, then every entry's zigzag code (0, −1,
1, −2, …) in that many bits, least significant first, zero padded. Vectors 0 … orbits (all ones,
then one per orbit) are not written; of T only the upper triangle is; `lengths` (products per row)
and `coefficients` are empty when every row is a single product of coefficient 1. `others` are the
attributes of the residuals in every further copy of the block. Where no block has any, the strategy
is written in version 1.

There is one encoding of a strategy: CBOR in its canonical form, arrays of the smallest width. Both
are checked when a strategy is read, and it keeps the bytes that it was read from. They suffice to
apply A' and to recompute its sensitivity; nothing in them is trusted. Sizes are checked before
anything of that size is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
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
    WHOLE,
    Block,
    MeasuredAxis,
    Residual,
    Side,
)
from dhdmm.strategy.contrast import Contrast
from dhdmm.strategy.matrix import Integers

MAGIC = b"dhdmm strategy"
LARGEST_BYTES = 2**28
LARGEST_ATTRIBUTES = 128
LARGEST_AXIS = 2**22
LARGEST_TRIANGLE = 2**13
"""Rows of one T."""
LARGEST_PRODUCTS = 2**26
"""Rows times products of one side."""
LARGEST_VECTOR_TABLES = 2**25
"""Entries of all attributes' vectors together, the common ones included: 256 MiB."""
LARGEST_NUMBER = 2**40
"""Bound for every integer written down."""


Parts = tuple[tuple[MeasuredAxis, ...], tuple[Block, ...]]


def encode(axes: Sequence[MeasuredAxis], blocks: Sequence[Block]) -> bytes:
    version = format_of(blocks)
    written = [_axis_document(axis) for axis in axes], [_block_document(b, version) for b in blocks]
    return _canonical([MAGIC, version, *written])


def format_of(blocks: Sequence[Block]) -> int:
    """The first format that can say it."""
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
    read_axes = _read_axes(_list(axes, LARGEST_ATTRIBUTES, "the axes"))
    read_blocks: list[Block] = []
    rows = 0
    for block in _list(blocks, LARGEST_ROWS, "the blocks"):
        read_blocks.append(_read_block(block, read_axes, version))
        rows += read_blocks[-1].rows
        if rows > LARGEST_ROWS:
            raise refused(f"more than {LARGEST_ROWS:,} rows")
    if not read_blocks:
        raise refused("no row")
    if version != format_of(read_blocks):
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
    borrow(count * width / 8)
    work(2 * count * width)
    allocate(2 * count)
    raw = np.frombuffer(data, np.uint8, offset=1)
    bits = np.unpackbits(raw, bitorder="little", count=count * width).reshape(count, width)
    codes = np.zeros(count, np.int64)
    for position in range(width):
        codes |= bits[:, position].astype(np.int64) << position
    values: Integers = (codes >> 1) ^ -(codes & 1)
    if pack(values) != data:  # a wider array than needed, or padding that is not zero
        raise refused(f"{what}: not the canonical encoding")
    return values


def _axis_document(axis: MeasuredAxis) -> list[Any]:
    return [
        len(axis.merged),
        len(axis.orbit),
        len(axis.sizes),
        pack(axis.merged),
        pack(axis.orbit),
        len(axis.extra),
        pack(axis.extra),
    ]


def _read_axes(documents: list[Any]) -> tuple[MeasuredAxis, ...]:
    axes, spare = [], LARGEST_VECTOR_TABLES
    for document in documents:
        axes.append(_read_axis(document, spare))
        orbits = len(axes[-1].sizes)
        spare -= (1 + orbits + len(axes[-1].extra)) * orbits
    if not axes:
        raise refused("no attribute")
    return tuple(axes)


def _read_axis(document: Any, spare: int) -> MeasuredAxis:
    values, merged, orbits, merged_map, orbit_map, count, extra = _array(document, 7, "an axis")
    values = _number(values, 1, LARGEST_AXIS, "an attribute's values")
    merged = _number(merged, 1, values, "an attribute's merged values")
    orbits = _number(orbits, 1, merged, "an attribute's orbits")
    count = _number(count, 0, LARGEST_NUMBER, "an attribute's vectors")
    if (1 + orbits + count) * orbits > spare:
        raise refused(f"an attribute has {count:,} vectors over {orbits:,} orbits")
    allocate(values + (1 + orbits + count) * orbits)
    borrow(orbits**2)
    return MeasuredAxis(
        _onto(unpack(merged_map, values, "the map to merged values"), merged),
        _onto(unpack(orbit_map, merged, "the map to orbits"), orbits),
        unpack(extra, count * orbits, "the vectors").reshape(count, orbits),
    )


def _onto(labels: Integers, count: int) -> Integers:
    if labels.min() < 0 or not np.array_equal(np.unique(labels), np.arange(count)):
        raise refused("a map of values leaves gaps")
    return labels


def _block_document(block: Block, version: int) -> list[Any]:
    residuals = [[r.attribute, r.part + 1, r.contrast.p, r.contrast.q] for r in block.residuals]
    others = [len(block.others), pack(np.array(block.others, np.int64))]
    return [residuals, [_side_document(side) for side in block.sides], others][: version + 1]


def _side_document(side: Side) -> list[Any]:
    basis, T = side.basis, side.T
    return [
        list(side.axes),
        [basis.rows, len(basis.coefficients)],
        b"" if basis.is_plain else pack(np.diff(basis.starts)),
        b"" if basis.is_plain else pack(basis.coefficients),
        pack(basis.ids),
        pack(T[_upper_triangle(len(T))]),
    ]


def _read_block(document: Any, axes: tuple[MeasuredAxis, ...], version: int) -> Block:
    work(20 * OBJECT)
    residuals, sides, *others = _array(document, version + 1, "a block")
    block = Block(
        tuple(_read_residual(r, axes) for r in _list(residuals, len(axes), "the residuals")),
        tuple(_read_side(side, axes) for side in _list(sides, len(axes) + 1, "the sides")),
    )
    if not block.sides:
        raise refused("a block without a side")
    if others:
        block = replace(block, others=_read_others(others[0], len(block.residuals)))
    _check_places(block, axes)
    return block


def _read_others(document: Any, residuals: int) -> tuple[tuple[int, ...], ...]:
    count, places = _array(document, 2, "the copies of a block")
    count = _number(count, 0, LARGEST_ROWS if residuals else 0, "the number of copies")
    allocate(4 * count * residuals)
    numbers = unpack(places, count * residuals, "the copies' attributes")
    return tuple(map(tuple, numbers.reshape(count, residuals).tolist()))


def _check_places(block: Block, axes: tuple[MeasuredAxis, ...]) -> None:
    """Attributes of every copy are in order, different, and as large as the contrasts."""
    work(OBJECT * block.copies)
    places = np.array(block.places, np.int64)
    for residual, attributes in zip(block.residuals, places.T, strict=True):
        for a in np.unique(attributes).tolist():
            part = residual.part
            if not 0 <= a < len(axes) or not part < len(axes[a].sizes):
                raise refused("a residual's attribute does not exist")
            if len(axes[a].part(part)) != residual.contrast.n:
                raise refused("a copy's attribute has another number of values")
    if np.any(np.diff(places, axis=1) < 0):
        raise refused("a block's residuals are not in order")
    if np.any(np.diff(places, axis=1) == 0) or np.isin(places, block.axes).any():
        raise refused("an attribute occurs twice in a block")
    if len(set(block.axes)) != len(block.axes):
        raise refused("an attribute occurs twice in a block")
    if any(place >= after for place, after in pairwise(block.places)):
        raise refused("a block's copies are not in order")


def _read_side(document: Any, axes: tuple[MeasuredAxis, ...]) -> Side:
    held, sizes, lengths, coefficients, ids, T = _array(document, 6, "a side")
    held = tuple(
        _number(a, 0, len(axes) - 1, "an axis") for a in _list(held, len(axes), "a side's axes")
    )
    if list(held) != sorted(set(held)):
        raise refused("a side's axes are not increasing")
    rows, products = _array(sizes, 2, "a side's size")
    rows = _number(rows, 1, LARGEST_TRIANGLE, "a side's rows")
    products = _number(products, rows, LARGEST_PRODUCTS // rows, "a side's products")
    basis = _read_basis(rows, products, lengths, coefficients, ids, [axes[a] for a in held])
    allocate(rows**2)
    matrix = np.zeros((rows, rows), np.int64)
    matrix[_upper_triangle(rows)] = unpack(T, rows * (rows + 1) // 2, "T")
    if not np.all(np.diag(matrix)):
        raise refused("T is singular")
    side = Side(held, basis, matrix)
    if side.largest_table(axes) > LARGEST_TABLE:
        raise refused("a side is too large to apply")
    return side


@lru_cache(maxsize=16)
def _upper_triangle(rows: int) -> tuple[Integers, Integers]:
    return np.triu_indices(rows)


def _read_residual(document: Any, axes: tuple[MeasuredAxis, ...]) -> Residual:
    attribute, part, p, q = _array(document, 4, "a residual")
    attribute = _number(attribute, 0, len(axes) - 1, "a residual's attribute")
    axis = axes[attribute]
    part = _number(part, 0, len(axis.sizes), "a residual's part") - 1
    n = len(axis.orbit) if part == WHOLE else int(axis.sizes[part])
    if n < 2:
        raise refused("a residual of a single value")
    p = _number(p, 1, LARGEST_NUMBER, "a contrast's p")
    q = _number(q, 0, LARGEST_NUMBER, "a contrast's q")
    contrast = Contrast(n, p, q)
    if contrast.r == 0:
        raise refused("a contrast is singular")
    return Residual(attribute, part, contrast)


def _read_basis(
    rows: int, products: int, lengths: Any, coefficients: Any, ids: Any, axes: list[MeasuredAxis]
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

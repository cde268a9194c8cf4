"""Lists in their encoding behave as the tuples that they encode."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation import wire
from dhdmm.aggregation.errors import MalformedMessage
from dhdmm.aggregation.lists import RecordTable, Slots, dtype_of
from dhdmm.aggregation.randomness import uniform_below
from dhdmm.secagg.messages import REVEALS, Reveal
from tests.secagg.seeded import seeded

items = st.lists(st.binary(min_size=3, max_size=3), max_size=9).map(tuple)


@given(items, st.integers(-10, 10))
def test_slots_are_the_tuple_of_their_items(values, index):
    slots = Slots(b"".join(values), 3)
    assert len(slots) == len(values)
    assert slots == values
    assert values == slots
    assert hash(slots) == hash(values)
    assert slots[index:] == values[index:]
    if -len(values) <= index < len(values):
        assert slots[index] == values[index]
    else:
        with pytest.raises(IndexError):
            slots[index]


def test_slots_of_different_items_differ():
    assert Slots(b"abcdef", 3) != (b"abc", b"deg")
    assert Slots(b"abcdef", 3) != Slots(b"abcdef", 2)
    assert Slots(b"abc", 3) != [b"abc"]


def test_slots_of_another_size_are_not_encoded_as_they_are():
    assert wire.Items(3).encode(Slots(b"abcdef", 3)) == b"\0\0\0\2abcdef"
    with pytest.raises(MalformedMessage):
        wire.Items(3).encode(Slots(b"abcdef", 2))


def test_table_is_the_tuple_of_its_records_and_has_their_columns():
    records = (Reveal(3, 0, bytes(range(36))), Reveal(700, 1, bytes(range(36, 72))))
    encoded = REVEALS.encode(records)
    table = REVEALS.decode(wire.Reader(encoded))
    assert isinstance(table, RecordTable)
    assert table == records
    assert table[1].share == records[1].share
    assert table.columns["f0"].tolist() == [3, 700]
    assert table.columns["f1"].tolist() == [0, 1]
    assert table.columns["f2"][1].tobytes() == records[1].share
    assert REVEALS.encode(table) == encoded


def test_table_out_of_order_is_refused():
    row = struct.Struct(">IB36s")
    twice = row.pack(5, 0, bytes(36)) * 2
    with pytest.raises(MalformedMessage):
        REVEALS.decode(wire.Reader((2).to_bytes(4, "big") + twice))


@pytest.mark.parametrize("layout", [">I32s32s", ">IB32s32s64s", ">IB36s", ">B32s"])
def test_columns_are_as_wide_as_the_layout(layout):
    assert dtype_of(layout).itemsize == struct.calcsize(layout)


def test_bitmap_without_some_members():
    bitmap = wire.Bitmap.of(10, [1, 4, 9])
    assert bitmap.without([4, 5]).members() == (1, 9)
    assert bitmap.members() == (1, 4, 9)


@pytest.mark.parametrize("modulus", [1, 2, 5, 1 << 16, 2**31 - 1, 2**32 - 5])
def test_residues_are_drawn_as_integers_below_equal_bounds(modulus):
    bounds = np.full(500, modulus, dtype=np.uint32)
    drawn = uniform_below(seeded(modulus), np.full(500, modulus, np.uint32))
    assert drawn.tolist() == uniform_below(seeded(modulus), bounds).tolist()

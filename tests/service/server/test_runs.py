"""Rows of the log with many records in them."""

from __future__ import annotations

from dhdmm.aggregation.method import STATE
from dhdmm.server.runs import FEWEST, packed, rows_with, unpacked, value_in

Record = tuple[str, bytes]


def _all(rows: list[Record]) -> list[Record]:
    return [record for row in rows for record in unpacked(*row)]


def _notes(family: str, count: int, size: int = 33) -> list[Record]:
    return [(f"{family}/{7 * i}", bytes([i % 256]) * size) for i in range(count)]


def test_what_is_noted_of_many_is_one_row_and_comes_back_in_its_order() -> None:
    records = [*_notes("reported", FEWEST), (STATE, b"x"), *_notes("transcript/reports", 1000, 32)]
    rows = list(packed(records))
    assert [name for name, _ in rows] == ["reported/*", STATE, "transcript/reports/*"]
    assert _all(rows) == records


def test_the_later_of_two_records_of_one_name_stays_the_later() -> None:
    records = [*_notes("reported", FEWEST), ("reported/0", b"!" * 33)]
    rows = list(packed(records))
    assert len(rows) == 1
    assert dict(_all(rows))["reported/0"] == b"!" * 33


def test_few_long_and_unnumbered_records_have_a_row_each() -> None:
    few, long = _notes("left", FEWEST - 1), _notes("pending", 2 * FEWEST, 65)
    others = [("transcript/date", b"now")] * FEWEST
    sizes = [(f"sizes/{i}", bytes(i % 2)) for i in range(2 * FEWEST)]
    records = [*few, *long, *others, *sizes]
    assert list(packed(records)) == records


def test_a_record_is_found_in_its_row_wherever_its_number_stands_besides() -> None:
    numbers = [0, 1, 256, 65536, 900_000, *range(2, FEWEST), 257]
    records = [(f"reported/{i}", (256 * i).to_bytes(5, "big")) for i in numbers]
    records.append(("reported/257", b"later"))
    ((row, value),) = packed(records)
    for name, expected in dict(records).items():
        assert value_in(row, value, name) == expected
    assert value_in(row, value, "reported/300") is None
    assert value_in(row, value, "reported/512") is None  # stands in the value of another
    assert value_in("left/3", b"alone", "left/3") == b"alone"


def test_a_record_is_looked_for_in_both_kinds_of_rows() -> None:
    records = _notes("reported", FEWEST)
    (row,) = packed(records)
    assert row[0] in rows_with("reported/7")
    assert "reported/7" in rows_with("reported/7")

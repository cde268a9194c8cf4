"""Rows of a round's log that hold many records: what is noted of participants is short.

A row `family/*` stands for records `family/number` whose values have one size: that size as a
byte, then every number, big-endian in four bytes, with its value. The order is that in which they
were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from dhdmm.session.compact import LONGEST, split_name

FEWEST = 16
"""Records in a row of many; fewer have a row each."""
_ALL, _NUMBER_BYTES = "/*", 4

Record = tuple[str, bytes]


def packed(records: Iterable[Record]) -> Iterator[Record]:
    """The rows of these records: those that follow each other in a family share one."""
    for (family, size), group in groupby(records, _kind):
        run = list(group)
        if size is None or len(run) < FEWEST:
            yield from run
        else:
            numbers = (
                int(name[len(family) + 1 :]).to_bytes(_NUMBER_BYTES, "big") for name, _ in run
            )
            values = (value for _, value in run)
            pairs = (part for pair in zip(numbers, values, strict=True) for part in pair)
            yield family + _ALL, b"".join([bytes([size]), *pairs])


def unpacked(name: str, value: bytes) -> Iterator[Record]:
    """The records of a row."""
    if not name.endswith(_ALL):
        yield name, value
        return
    family, length = name[: -len(_ALL)], _NUMBER_BYTES + value[0]
    for start in range(1, len(value), length):
        number = int.from_bytes(value[start : start + _NUMBER_BYTES], "big")
        yield f"{family}/{number}", value[start + _NUMBER_BYTES : start + length]


def value_in(row: str, value: bytes, name: str) -> bytes | None:
    """What a row says last of the record of this name, without looking at all others."""
    if row == name:
        return value
    length = _NUMBER_BYTES + value[0]
    number = int(name.rpartition("/")[2]).to_bytes(_NUMBER_BYTES, "big")
    place = value.rfind(number)
    while place > 0 and (place - 1) % length:  # within another record
        place = value.rfind(number, 0, place + _NUMBER_BYTES - 1)
    return value[place + _NUMBER_BYTES : place + length] if place > 0 else None


def rows_with(name: str) -> tuple[str, ...]:
    """Names of the rows in which a record of this name may be."""
    return name, name.rpartition("/")[0] + _ALL


def _kind(record: Record) -> tuple[str, int | None]:
    name, value = record
    family, number = split_name(name)
    short = number is not None and len(value) <= LONGEST
    return family, len(value) if short else None

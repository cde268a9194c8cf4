"""Records by name in little memory: most are short, of one size, and numbered by participants."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping

LONGEST = 64
_NUMBER = re.compile("0|[1-9][0-9]{0,5}")
"""No position has more digits (`dhdmm.aggregation.turnout`)."""


class CompactRecords(MutableMapping[str, bytes]):
    """A mapping in which `family/number` takes a byte more than its value, if that is short.

    The first value of a family says how long its values are; one of another size is kept aside.
    """

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._others: dict[str, bytes] = {}

    def __setitem__(self, name: str, value: bytes) -> None:
        family, number = split_name(name)
        if number is not None and len(value) <= LONGEST:
            rows = self._families.setdefault(family, _Family(len(value)))
            if len(value) == rows.size:
                rows.put(number, value)
                self._others.pop(name, None)
                return
        self._remove(family, number)
        self._others[name] = value

    def __getitem__(self, name: str) -> bytes:
        family, number = split_name(name)
        if number is not None and family in self._families:
            found = self._families[family].get(number)
            if found is not None:
                return found
        return self._others[name]

    def __delitem__(self, name: str) -> None:
        if not self._remove(*split_name(name)):
            del self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._others
        for family, rows in self._families.items():
            for number in rows.numbers():
                yield f"{family}/{number}"

    def __len__(self) -> int:
        return len(self._others) + sum(rows.count for rows in self._families.values())

    def _remove(self, family: str, number: int | None) -> bool:
        rows = self._families.get(family)
        return rows is not None and number is not None and rows.remove(number)


class _Family:
    """Values of one size by number."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 0
        self._known, self._values = bytearray(), bytearray()

    def put(self, number: int, value: bytes) -> None:
        if number >= len(self._known):
            missing = number + 1 - len(self._known)
            self._known.extend(bytes(missing))
            self._values.extend(bytes(missing * self.size))
        self.count += not self._known[number]
        self._known[number] = 1
        self._values[number * self.size : (number + 1) * self.size] = value

    def get(self, number: int) -> bytes | None:
        if number >= len(self._known) or not self._known[number]:
            return None
        return bytes(self._values[number * self.size : (number + 1) * self.size])

    def remove(self, number: int) -> bool:
        known = self.get(number) is not None
        if known:
            self._known[number] = 0
            self.count -= 1
        return known

    def numbers(self) -> Iterator[int]:
        return (number for number, known in enumerate(self._known) if known)


def split_name(name: str) -> tuple[str, int | None]:
    """Family and number; None unless the number is a participant's, written in the usual way."""
    family, slash, digits = name.rpartition("/")
    return family, int(digits) if slash and _NUMBER.fullmatch(digits) else None

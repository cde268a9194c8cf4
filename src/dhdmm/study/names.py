"""Names and constants as SQL writes them, and sequences of strings that are made on access."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, overload

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_LISTED = 12
RESERVED = frozenset(  # DuckDB's
    """
    all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by
    case cast check collate collation column columns concurrently constraint create cross default
    deferrable desc describe distinct do else end except false fetch for foreign freeze from full
    generated glob group having ilike in initially inner intersect into is isnull join lambda
    lateral leading left like limit map natural not notnull null offset on only or order outer
    overlaps pivot pivot_longer pivot_wider placing positional primary qualify references
    returning right select semi show similar some struct summarize symmetric table tablesample
    then to trailing true try_cast tuple union unique unpack unpivot using variadic verbose when
    where window with
    """.split()  # noqa: SIM905 - a hundred words are read as a text, not as a list
)


def column(name: str) -> str:
    """A column's name in SQL, quoted when it must be.

    >>> column("age"), column("income>50K")
    ('age', '"income>50K"')
    """
    if PLAIN_NAME.fullmatch(name) and name.lower() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | bool) -> str:
    """A constant in SQL.

    >>> literal("it's"), literal(3), literal(True)
    ("'it''s'", '3', 'TRUE')
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper()


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number; whole numbers without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def near_miss(name: object, known: Iterable[object]) -> str | None:
    """A hint for an unknown name: the known one that is most similar; None if none is."""
    close = most_similar(name, known)
    return None if close is None else f"did you mean '{close}'?"


def most_similar(name: object, known: Iterable[object]) -> object | None:
    """The known name that a misspelled one is most likely meant to be, if any."""
    folded = {str(candidate).casefold(): candidate for candidate in reversed(list(known))}
    close = get_close_matches(str(name).casefold(), folded, n=1)
    return folded[close[0]] if close else None


def nearest(name: object, known: Iterable[object]) -> str | None:
    """The most similar name as a hint, or else all known names if they are few."""
    candidates = [str(candidate) for candidate in known]
    listed = f"known: {', '.join(candidates)}" if 0 < len(candidates) <= MOST_LISTED else None
    return near_miss(name, candidates) or listed


def first_repeated(entries: Sequence[Any]) -> Any | None:
    seen: set[Any] = set()
    for entry in entries:
        if entry in seen:
            return entry
        seen.add(entry)
    return None


@dataclass(frozen=True, eq=False)
class LazySequence(Sequence[str]):
    """`length` strings, string i made by make(i) on access: unread labels cost nothing.

    >>> list(LazySequence(3, lambda i: f"row {i}")[1:])
    ['row 1', 'row 2']
    """

    length: int
    make: Callable[[int], str]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            chosen = range(self.length)[index]
            return LazySequence(len(chosen), lambda i: self.make(chosen[i]))
        return self.make(range(self.length)[index])

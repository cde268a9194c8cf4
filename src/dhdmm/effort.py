"""How much memory and work a description from somebody else may cause, counted beforehand.

A plan of a few kilobytes can describe arrays of gigabytes and searches without end. Code that is
about to make an array, or to begin a loop, of a size that somebody else chose calls this first:
`allocate` counts array entries of eight bytes, `work` elementary operations. Inside `limited`, too
much of either raises `TooCostly` before it is done; elsewhere nothing is limited. Counts are not
times, so every participant comes to the same verdict about a plan, on every machine.

Who makes a plan has a clock instead: inside `within`, the first of these calls after so many
seconds raises `TooLong`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from dhdmm.errors import StrategyError, TooCostly

ENTRY_BYTES = 8
OPERATIONS_PER_SECOND = 3 * 10**8
"""Roughly what a processor does with arrays today; tests compare the limits with measured times."""
OBJECT = 1000
"""Operations that making an object of Python's costs, with all that belongs to it."""


class TooLong(StrategyError):
    """The search for a strategy was given up because its time was over."""


@dataclass(frozen=True)
class Limit:
    """At most so many bytes of arrays, and so many seconds of a processor."""

    megabytes: float
    seconds: float


@dataclass
class _Spent:
    limit: Limit
    entries: float = 0.0
    operations: float = 0.0


_spent: ContextVar[_Spent | None] = ContextVar("spent", default=None)


_end: ContextVar[float] = ContextVar("end", default=math.inf)


def limited(limit: Limit) -> AbstractContextManager[None]:
    """Everything in the block together stays within the limit, or raises `TooCostly`."""
    return _holding(_spent, _Spent(limit))


def within(seconds: float) -> AbstractContextManager[None]:
    """Everything in the block ends after so many seconds by the clock, or raises `TooLong`."""
    return _holding(_end, time.monotonic() + seconds)


@contextmanager
def _holding(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def allocate(entries: float) -> None:
    """So many array entries are about to be made; making them is work, too.

    >>> with limited(Limit(megabytes=1, seconds=1)):
    ...     allocate(10**6)
    Traceback (most recent call last):
    ...
    dhdmm.errors.TooCostly: more than 1 MB of memory would be needed
    """
    spent = _spent.get()
    if spent is not None:
        spent.entries += entries
        if spent.entries * ENTRY_BYTES > spent.limit.megabytes * 1e6:
            raise TooCostly(f"more than {spent.limit.megabytes:g} MB of memory would be needed")
    work(entries)


def borrow(entries: float) -> None:
    """So many array entries are about to be made, and soon forgotten."""
    spent = _spent.get()
    before = spent.entries if spent else 0.0
    allocate(entries)
    if spent:
        spent.entries = before


def work(operations: float) -> None:
    """So many elementary operations are about to be done."""
    spent = _spent.get()
    if spent is None:
        if time.monotonic() > _end.get():
            raise TooLong("no strategy was found in the time allowed")
        return
    spent.operations += operations
    if spent.operations > spent.limit.seconds * OPERATIONS_PER_SECOND:
        raise TooCostly(f"more than {spent.limit.seconds:g} s of computing would be needed")

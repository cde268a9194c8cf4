"""What a validated sum has from the way to add up below it, unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Below(Generic[T]):
    """An attribute that is the one of `self.below`.

    >>> class Wrapper:
    ...     def __init__(self, below: complex) -> None:
    ...         self.below = below
    ...     size = Below(lambda number: number.real)
    >>> Wrapper(3 + 4j).size
    3.0
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        return self._read(instance.below)

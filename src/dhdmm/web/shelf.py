"""Releases in memory: the last few that somebody read, each loaded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from dhdmm.release.comparison import Difference, compare
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.service.studies import Hub

KEPT_RELEASES = 6
KEPT_COMPARISONS = 6

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Volume:
    """A loaded release, with what its pages need again and again."""

    release: Release
    tables: list[Table]
    typical_errors: list[float]
    """The median standard error of every table."""


class Kept(Generic[Value]):
    """Values by key, the last few of them. Who asks for one that is being made waits for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: OrderedDict[str, asyncio.Task[Value]] = OrderedDict()

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        if key not in self._made:
            self._made[key] = asyncio.create_task(make())
            if len(self._made) > self._most:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        making = self._made[key]
        try:
            return await asyncio.shield(making)
        finally:
            if making.done() and (making.cancelled() or making.exception()):
                self._made.pop(key, None)  # whoever asks next tries again


class Shelf:
    """The releases of one coordinator, and comparisons of two of them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._volumes: Kept[Volume] = Kept(KEPT_RELEASES)
        self._compared: Kept[list[Difference]] = Kept(KEPT_COMPARISONS)

    async def volume(self, round_id: str) -> Volume:
        """A 404 if there is no such round, a 409 if it has no release."""
        place = await self._hub.saved_release(round_id)
        return await self._volumes.get(round_id, lambda: asyncio.to_thread(_load, place))

    async def differences(self, first: str, second: str) -> list[Difference]:
        """What changed from the first round to the second."""
        releases = [(await self.volume(round_id)).release for round_id in (first, second)]
        return await self._compared.get(
            f"{first} {second}", lambda: asyncio.to_thread(compare, *releases)
        )


def _load(place: Path) -> Volume:
    release = Release.load(place)
    tables = release.values()
    ends = [0, *np.cumsum([len(table) for table in tables]).tolist()]
    errors = release.standard_errors
    typical = [float(np.median(errors[start:end])) for start, end in pairwise(ends)]
    return Volume(release, tables, typical)

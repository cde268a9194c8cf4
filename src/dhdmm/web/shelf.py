"""Releases in memory: the last few that somebody read, each loaded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow.parquet as pq

from dhdmm.release.comparison import Difference, compare
from dhdmm.release.directory import read_manifest
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.server.studies import Hub

KEPT_RELEASES = 6
KEPT_COMPARISONS = 6

Value = TypeVar("Value")


@dataclass(eq=False)
class Volume:
    """A loaded release, with what its pages need again and again."""

    release: Release
    typical_errors: list[float]
    """The median standard error of every table."""

    @cached_property
    def _tables(self) -> list[Table]:
        return list(self.release.values())

    async def tables(self) -> list[Table]:
        """With answers and errors, which take a while to compute the first time."""
        return await asyncio.to_thread(lambda: self._tables)


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
    """Typical errors as they were written down: reading is quicker than computing them again."""
    release = Release.load(place)
    written = (place / entry.parquet for entry in read_manifest(place).tables)
    errors = (pq.read_table(path, columns=["standard_error"])[0].to_numpy() for path in written)
    return Volume(release, [float(np.median(column)) for column in errors])

"""Releases in memory: the last few that somebody read, and comparisons of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow.parquet as pq

from dhdmm.network.status import Status
from dhdmm.release.comparison import Difference, compare
from dhdmm.release.coverage import coverage_words
from dhdmm.release.directory import read_manifest
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.release.wording import day
from dhdmm.server.responses import not_found
from dhdmm.server.studies import Hub

CACHED_RELEASES = 6
CACHED_COMPARISONS = 6

Value = TypeVar("Value")


@dataclass(eq=False)
class LoadedRelease:
    """A loaded release, with what its pages need again and again."""

    place: Path
    release: Release
    written: list[tuple[int, float]]
    """Of every table: how many rows it has, and their median standard error."""
    rows_counted: str
    """How many rows were counted and left out, as far as the release knows."""

    @cached_property
    def _tables(self) -> list[Table]:
        return list(self.release.values())

    async def tables(self) -> list[Table]:
        """With answers and errors, which take a while to compute the first time."""
        return await asyncio.to_thread(lambda: self._tables)


class Cache(Generic[Value]):
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


class ReleaseSource(Protocol):
    """Where releases are, by a name that is part of their pages' addresses."""

    async def place(self, name: str) -> Path:
        """The release's directory; a 404 or a 409 if there is none."""
        ...

    async def others(self, name: str) -> dict[str, str]:
        """The releases that this one can be compared with, in words; the oldest first."""
        ...

    async def parents(self, name: str) -> list[tuple[str, str]]:
        """The pages above the release's own: their names and addresses."""
        ...


@dataclass(frozen=True)
class HubReleases:
    """The releases of one coordinator, by their rounds."""

    hub: Hub

    async def place(self, name: str) -> Path:
        return await self.hub.saved_release(name)

    async def others(self, name: str) -> dict[str, str]:
        mine = (await self.hub.live(name)).status()
        return {
            other.round: f"{round_name(other)}, {other.alive:,} participants"
            for other in reversed(await self.hub.statuses(study=mine.study_digest))
            if other.finished and other.round != mine.round
        }

    async def parents(self, name: str) -> list[tuple[str, str]]:
        status = (await self.hub.live(name)).status()
        return [
            ("Studies", "/"),
            (status.study, f"/studies/{status.study_digest}"),
            (round_name(status), f"/rounds/{name}"),
        ]


def round_name(status: Status) -> str:
    """`Round 3 of 2026-W47, 18 November 2026`."""
    occurrence = f" of {status.occurrence}" if status.occurrence else ""
    begun = f", {day(status.begun)}" if status.begun else ""
    return f"Round {status.number}{occurrence}{begun}"


@dataclass(frozen=True)
class FolderReleases:
    """Release directories on this machine, by their position."""

    folders: Sequence[Path]

    async def place(self, name: str) -> Path:
        found = dict(zip(self._names, self.folders, strict=True)).get(name)
        if found is None:
            raise not_found("release")
        return found

    async def others(self, name: str) -> dict[str, str]:
        named = zip(self._names, self.folders, strict=True)
        return {other: folder.name for other, folder in named if other != name}

    async def parents(self, name: str) -> list[tuple[str, str]]:
        return [("Releases", "/")] if len(self.folders) > 1 else []

    @property
    def _names(self) -> list[str]:
        return [str(number) for number in range(1, len(self.folders) + 1)]


class ReleaseCache:
    """The releases of a source, and comparisons of two of them."""

    def __init__(self, source: ReleaseSource) -> None:
        self.source = source
        self._releases: Cache[LoadedRelease] = Cache(CACHED_RELEASES)
        self._compared: Cache[list[Difference]] = Cache(CACHED_COMPARISONS)

    async def loaded(self, name: str) -> LoadedRelease:
        place = await self.source.place(name)
        return await self._releases.get(name, lambda: asyncio.to_thread(_load, place))

    async def differences(self, first: str, second: str) -> list[Difference]:
        """What changed from the first release to the second."""
        releases = [(await self.loaded(name)).release for name in (first, second)]
        return await self._compared.get(
            f"{first} {second}", lambda: asyncio.to_thread(compare, *releases)
        )


def _load(place: Path) -> LoadedRelease:
    """Errors as they were written down: reading is quicker than computing them again."""
    release = Release.load(place)
    written = (place / entry.parquet for entry in read_manifest(place).tables)
    errors = (pq.read_table(path, columns=["standard_error"])[0].to_numpy() for path in written)
    lengths = [(len(column), float(np.nanmedian(column))) for column in errors]
    return LoadedRelease(place, release, lengths, coverage_words(release))

"""The folder of a coordinator's releases: each is saved once by itself, and when it is asked for.

The store keeps the transcript, so that nothing is lost while a release cannot be saved.
"""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection

from dhdmm.errors import DhdmmError, ReleaseError
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.status import Status
from dhdmm.release.directory import file_stems, remove_left_overs
from dhdmm.server import store
from dhdmm.server.database import Database
from dhdmm.server.defects import caught
from dhdmm.server.logs import logger
from dhdmm.server.metrics import Metrics
from dhdmm.server.outages import Outage
from dhdmm.server.saving import save
from dhdmm.server.threads import in_thread, query
from dhdmm.server.waiting import Clock

LONGEST_PAUSE = 60.0
"""Seconds between two attempts to save a release."""


@dataclass
class Releases:
    """What is saved, and what is still to be."""

    database: Database
    out: Path
    observer: Metrics
    clock: Clock
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    def directory(self, status: Status) -> Path:
        """Where the round's release is, or will be."""
        return self.out / f"{file_stems([status.study])[0]}-{status.round}"

    async def unsaved(self, finished: Sequence[Status]) -> list[Status]:
        """Those whose release is neither here nor known to have been."""
        await asyncio.to_thread(self._tidy, finished)
        return await query(
            self.database,
            lambda found: [one for one in finished if not self._known_as_saved(found, one)],
        )

    async def save_by_itself(self, status: Status) -> None:
        """Try until it is saved, however often that takes. It is done once for a release."""
        saved = False
        outage = Outage("saving the release", self.clock, LONGEST_PAUSE, round=status.round)
        while not saved:
            failure: Exception | None = None
            with caught(self.observer, round=status.round):
                try:
                    if not await self._was_saved(status):
                        await self.save(status)
                        await self._remember_saved(status)
                    saved = True
                except (DhdmmError, Problem) as error:
                    failure = error
            if not saved:
                outage.failed(failure)
                await asyncio.sleep(outage.pause)
        outage.ended()

    async def save(self, status: Status) -> Path:
        """Once: another worker may have been faster. A 409 if the round has no release."""
        place = self.directory(status)
        async with self._saving:
            if place.exists():
                return place
            transcript = await query(
                self.database, lambda found: store.read_transcript(found, status.round)
            )
            if transcript is None:
                raise Problem(409, Reason.NOT_YET, "the round has no release")
            try:
                await save(transcript, place)
            except ReleaseError:
                if not place.exists():
                    raise
        return place

    async def _was_saved(self, status: Status) -> bool:
        """Whether it was saved before, even if the operator has moved it away since."""
        if self.directory(status).exists():
            await self._remember_saved(status)
            return True
        return await query(self.database, lambda found: self._known_as_saved(found, status))

    async def _remember_saved(self, status: Status) -> None:
        def remember() -> None:
            with self.database.turn(status.round) as turn:
                store.remember_saved(turn, self._place(status))

        await in_thread(remember)

    def _known_as_saved(self, connection: Connection, status: Status) -> bool:
        row = store.read_row(connection, status.round)
        purged = row is not None and row.purged is not None  # and with it the note of saving
        return purged or store.was_saved(connection, status.round, self._place(status))

    def _place(self, status: Status) -> str:
        return str(self.directory(status).resolve())

    def _tidy(self, finished: Sequence[Status]) -> None:
        """Remove what processes left that were killed while they saved these releases."""
        try:
            if self.out.is_dir() and any(path.name.startswith(".") for path in self.out.iterdir()):
                for status in finished:
                    remove_left_overs(self.directory(status))
        except OSError as error:
            logger().warning("left-overs stay", exc_info=error)


def zipped(directory: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.rglob("*")):
            archive.write(path, path.relative_to(directory.parent))
    return packed.getvalue()

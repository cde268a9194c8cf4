"""Coordinators in a test's own process: short pauses, and releases saved without another process.

A folder whose tests have such coordinators imports `quick_coordinators` in its conftest.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dhdmm.errors import DhdmmError, ReleaseError
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify
from dhdmm.server import members, releases

PAUSE = 0.02


@pytest.fixture(autouse=True)
def quick_coordinators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused callers wait hardly at all; only tests marked `saving` have the saving process."""
    monkeypatch.setattr(members, "PAUSE", PAUSE)
    if not request.node.get_closest_marker("saving"):
        monkeypatch.setattr(releases, "save", _save_here)


async def _save_here(transcript: bytes, place: Path) -> None:
    """What `dhdmm.server.saving` does, without the second that its process takes to start."""

    def save() -> None:
        verify(Transcript.from_bytes(transcript)).release.save(place)

    try:
        await asyncio.to_thread(save)
    except DhdmmError as error:
        raise ReleaseError(str(error), where=str(place)) from None

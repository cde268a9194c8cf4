"""Releases on the coordinator's disk: saved at last, saved once, and nothing left over."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from dhdmm.release.release import Release
from tests.service.server.rounds import (
    AS_OPERATOR,
    Coordinator,
    database_at,
    measurement,
    roster_file,
    serving,
    sqlite,
    study_of,
    visitors,
)

Scene = Callable[[Coordinator], Awaitable[None]]


def a_life(tmp_path: Path, scene: Scene) -> None:
    """Of a coordinator with one store and one folder for releases."""

    async def scenario() -> None:
        database = database_at(sqlite(tmp_path))
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", roster=roster_file()
        ) as coordinator:
            await scene(coordinator)
        database.close()

    asyncio.run(scenario())


async def whole_round(coordinator: Coordinator) -> None:
    people = visitors(coordinator.http, coordinator.round_id)
    await asyncio.gather(*(visitor.take_part() for visitor in people))
    await coordinator.until("finished")


@pytest.mark.fault(46)
def test_a_release_that_could_not_be_saved_is_saved_when_it_can_be(
    tmp_path: Path, log: io.StringIO
) -> None:
    (tmp_path / "out").write_text("a file where the folder should be")

    async def scene(coordinator: Coordinator) -> None:
        await whole_round(coordinator)
        while "saving the release fails" not in log.getvalue():
            await asyncio.sleep(0.01)
        (tmp_path / "out").unlink()
        await coordinator.hub.published()
        (place,) = (tmp_path / "out").iterdir()
        assert np.array_equal(Release.load(place).measurement, await measurement(coordinator))

    a_life(tmp_path, scene)
    said = [json.loads(line)["event"] for line in log.getvalue().splitlines()]
    assert said.count("saving the release fails") == 1
    assert said.count("saving the release works again") == 1


@pytest.mark.fault(46)
def test_a_release_that_was_moved_away_is_not_written_again(tmp_path: Path) -> None:
    async def first(coordinator: Coordinator) -> None:
        await whole_round(coordinator)
        await coordinator.hub.published()

    async def second(coordinator: Coordinator) -> None:
        assert (await coordinator.status())["state"] == "finished"
        await coordinator.hub.published()
        assert not list((tmp_path / "out").iterdir())
        place = f"/v1/rounds/{coordinator.round_id}/release.zip"
        packed = await coordinator.http.get(place, headers=AS_OPERATOR)
        assert packed.content.startswith(b"PK"), "whoever asks for it gets it all the same"

    a_life(tmp_path, first)
    (place,) = (tmp_path / "out").iterdir()
    place.rename(tmp_path / "archive")
    a_life(tmp_path, second)


@pytest.mark.fault(46)
def test_what_earlier_lives_left_is_removed_at_the_start(tmp_path: Path) -> None:
    """Even if the release was saved by somebody else in the meantime."""

    async def first(coordinator: Coordinator) -> None:
        await whole_round(coordinator)
        await coordinator.hub.published()

    async def second(_coordinator: Coordinator) -> None:
        assert list((tmp_path / "out").iterdir()) == [place]

    a_life(tmp_path, first)
    (place,) = (tmp_path / "out").iterdir()
    for digit in "01234567":
        (place.parent / f".{place.name}.{digit * 16}").mkdir()
    a_life(tmp_path, second)

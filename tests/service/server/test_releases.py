"""Releases on the coordinator's disk: saved at last, saved once, and nothing left over."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import Popen

import numpy as np
import pytest

from dhdmm.release.release import Release
from dhdmm.release.verify import verify
from dhdmm.server import saving
from tests.service.coordinators import AS_OPERATOR, sqlite_in
from tests.service.server.rounds import (
    Coordinator,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

Scene = Callable[[Coordinator], Awaitable[None]]

pytestmark = [pytest.mark.saving, pytest.mark.slow]


def a_life(tmp_path: Path, scene: Scene) -> None:
    """Of a coordinator with one store and one folder for releases."""

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
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


def held_up(monkeypatch: pytest.MonkeyPatch) -> list[Popen[bytes]]:
    """Processes that save releases, each stopped before it does anything."""
    begun: list[Popen[bytes]] = []

    def begin_stopped(command: list[str], **options: int) -> Popen[bytes]:
        child = Popen(command, **options)
        child.send_signal(signal.SIGSTOP)
        begun.append(child)
        return child

    monkeypatch.setattr(saving, "Popen", begin_stopped)
    return begun


async def first_of(begun: list[Popen[bytes]]) -> Popen[bytes]:
    while not begun:
        await asyncio.sleep(0.01)
    return begun[0]


@pytest.mark.fault(46)
def test_a_release_is_published_before_it_is_saved_and_saved_though_the_saving_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    begun = held_up(monkeypatch)

    async def scene(coordinator: Coordinator) -> None:
        await whole_round(coordinator)
        child = await first_of(begun)
        assert np.any(await measurement(coordinator)), "the transcript is there already"
        assert not (tmp_path / "out").exists()
        monkeypatch.undo()
        child.kill()
        await coordinator.hub.published()
        (place,) = (tmp_path / "out").iterdir()
        saved = Release.load(place)
        assert saved.transcript is not None
        derived = verify(saved.transcript).release
        assert np.array_equal(derived.measurement, saved.measurement)
        assert (place / "answers.svg").exists()

    a_life(tmp_path, scene)
    assert "saving the release works again" in log.getvalue()


@pytest.mark.fault(46)
def test_a_coordinator_that_ends_does_not_wait_for_the_saving_and_the_next_one_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = held_up(monkeypatch)

    async def first(coordinator: Coordinator) -> None:
        await whole_round(coordinator)
        await first_of(begun)

    async def second(coordinator: Coordinator) -> None:
        await coordinator.hub.published()
        assert len(list((tmp_path / "out").iterdir())) == 1

    a_life(tmp_path, first)
    assert begun[0].wait(60) == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    a_life(tmp_path, second)


def test_what_saves_a_release_gives_way_to_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    monkeypatch.setattr("sys.argv", ["saving", str(tmp_path / "release")])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no transcript")))
    with pytest.raises(SystemExit) as ended:
        saving.main()
    assert asked == [saving.LOWER_PRIORITY]
    assert ended.value.code, "why it was not saved"


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

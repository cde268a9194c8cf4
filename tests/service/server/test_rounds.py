"""Whole rounds through the application: what comes out is what an ideal sum would give."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from dhdmm.release.release import Release
from dhdmm.secagg.states import ParticipantState
from dhdmm.server.waiting import Deadlines
from tests.service.coordinators import sqlite_in
from tests.service.server.rounds import (
    enrol,
    ideal,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow

BOTH_MODELS = pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])


@BOTH_MODELS
def test_a_round_over_http_gives_the_ideal_sum(tmp_path: Path, threat_model: str) -> None:
    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        async with serving(database, study_of(threat_model), tmp_path / "out") as coordinator:
            await enrol(coordinator)
            people = visitors(coordinator.http, coordinator.round_id)
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            found = await measurement(coordinator)
            assert np.array_equal(found, await ideal(coordinator))
            await coordinator.hub.published()
            directory = coordinator.hub.directory(coordinator.hub.live_statuses()[0])
            assert np.array_equal(Release.load(directory).measurement, found)

    asyncio.run(scenario())


@BOTH_MODELS
def test_who_falls_silent_before_the_deadline_is_left_out(
    tmp_path: Path, threat_model: str
) -> None:
    async def scenario() -> None:
        database, study = sqlite_in(tmp_path), study_of(threat_model)
        options = {"roster": roster_file(), "deadlines": Deadlines(2, 2)}
        async with serving(database, study, tmp_path / "out", **options) as coordinator:
            *present, silent = visitors(coordinator.http, coordinator.round_id)
            leaving = silent.take_part(until=ParticipantState.AWAITING_SURVIVORS)
            await asyncio.gather(leaving, *(visitor.take_part() for visitor in present))
            found = await measurement(coordinator)
            assert np.array_equal(found, await ideal(coordinator, {silent.position}))

    asyncio.run(scenario())

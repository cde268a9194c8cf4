"""Real coordinator processes: killed at every commit point, and two of them at one round."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dhdmm.aggregation.method import ENROLMENT, ThreatModel
from dhdmm.planning.methods import METHODS
from dhdmm.release.release import Release
from dhdmm.server.studies import add_study, current_round
from tests.participant.postgres import Server
from tests.service.coordinators import database_at, fresh_database, sqlite
from tests.service.server.killable import (
    Death,
    Keeper,
    Patient,
    deaths,
    free_ports,
    half_the_deaths,
)
from tests.service.server.rounds import (
    Coordinator,
    enrol,
    ideal,
    measurement,
    roster_file,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow


@pytest.mark.fault(4, 5)
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
@pytest.mark.parametrize("fates", [half_the_deaths, pytest.param(deaths, marks=pytest.mark.soak)])
def test_a_coordinator_killed_at_every_commit_point_gives_the_same_result(
    tmp_path: Path, threat_model: str, fates: Callable[[list[str]], list[Death]]
) -> None:
    phases = [ENROLMENT.name, *(p.name for p in METHODS[ThreatModel(threat_model)].phases)]
    _round_through_deaths(sqlite(tmp_path), tmp_path / "out", threat_model, fates(phases))


@pytest.mark.fault(4)
def test_a_coordinator_on_postgresql_killed_in_the_midst_gives_the_same_result(
    tmp_path: Path, postgres: Server
) -> None:
    fates = deaths(["collecting-inputs"])
    _round_through_deaths(fresh_database(postgres), tmp_path / "out", "semi-honest", fates)


def _round_through_deaths(url: str, out: Path, threat_model: str, fates: list[Death]) -> None:
    async def scenario() -> None:
        database = database_at(url)
        round_id = current_round(database, add_study(database, study_of(threat_model)))
        keeper = Keeper(url, out, free_ports(1))
        http = Patient(keeper.ports)
        coordinator = Coordinator(None, None, http, round_id)
        try:
            living = asyncio.create_task(keeper.survive(fates))
            await enrol(coordinator)
            people = visitors(http, round_id)
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            await living
            found = await measurement(coordinator)
            assert np.array_equal(found, await ideal(coordinator))
            packed = await coordinator.read("/release.zip")
            assert packed.status_code == 200
        finally:
            keeper.end()
            await http.aclose()
        (directory,) = out.iterdir()
        assert np.array_equal(Release.load(directory).measurement, found)

    asyncio.run(scenario())


@pytest.mark.fault(4)
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_two_coordinators_share_a_round_and_killing_one_loses_nothing(
    tmp_path: Path, postgres: Server, threat_model: str
) -> None:
    """Every participant speaks with both in turn; one is killed once inputs have come in."""

    async def scenario() -> None:
        url = fresh_database(postgres)
        database = database_at(url)
        study = add_study(database, study_of(threat_model))
        round_id = current_round(database, study, roster_file())
        keeper = Keeper(url, tmp_path / "out", free_ports(2))
        first, second = (keeper.start(port) for port in keeper.ports)
        http = Patient(keeper.ports)
        coordinator = Coordinator(None, None, http, round_id)
        try:
            people = visitors(http, round_id)
            taking_part = [asyncio.create_task(visitor.take_part()) for visitor in people]
            await coordinator.until("collecting-inputs", received=1)
            first.kill()
            await asyncio.gather(*taking_part)
            found = await measurement(coordinator)
            assert np.array_equal(found, await ideal(coordinator))
            assert first.exitcode == -signal.SIGKILL
            assert second.is_alive()
        finally:
            keeper.end()
            await http.aclose()

    asyncio.run(scenario())

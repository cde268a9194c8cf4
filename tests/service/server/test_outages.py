"""A store that fails for longer than a phase: nobody is left out, and little is tried or said."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dhdmm.client import http as client
from dhdmm.server import live
from dhdmm.server.database import Database, StoreUnavailable
from dhdmm.server.outages import Backoff
from dhdmm.server.waiting import Deadlines
from tests.participant.postgres import Server, require_postgres, running_server
from tests.service.coordinators import database_at, fresh_database, sqlite_in
from tests.service.server.outages import Away, Full, at_the_inputs, restarted, stoppable
from tests.service.server.rounds import (
    PARTICIPANTS,
    Coordinator,
    ideal,
    measurement,
    roster_file,
    serving,
    study_of,
)

pytestmark = pytest.mark.slow

PHASE = 20.0


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def pass_by(self, seconds: float, step: float = 1.0) -> None:
        """In steps; after each, the coordinator has looked around more than once."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + step, end)
            await asyncio.sleep(0.02)

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await asyncio.sleep(0.005)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of a coordinator that looks around often in ours."""
    monkeypatch.setattr(live, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(live, "IDLE_POLL_SECONDS", 0.005)
    return Clock()


@pytest.fixture
def postgres() -> Iterator[Server]:
    require_postgres()
    with running_server() as server:
        yield server


@asynccontextmanager
async def timed(database: Database, out: Path, clock: Clock) -> AsyncIterator[Coordinator]:
    options: dict[str, Any] = {"clock": clock, "deadlines": Deadlines(PHASE, PHASE)}
    study = study_of("semi-honest")
    async with serving(database, study, out, roster=roster_file(), **options) as coordinator:
        yield coordinator


async def ready(coordinator: Coordinator) -> int:
    return (await coordinator.http.get("/readyz")).status_code


async def survives(
    coordinator: Coordinator, clock: Clock, begin: Callable[[], Any], end: Callable[[], Any]
) -> None:
    """Everybody's input is refused for longer than the phase, and everybody's input counts."""
    people, inputs = await at_the_inputs(coordinator)
    await clock.pass_by(PHASE - 2)
    begin()
    for visitor, body in zip(people, inputs, strict=True):
        refused = await visitor.post(body)
        assert (refused.status_code, refused.json()["reason"]) == (503, "store-unavailable")
    await clock.pass_by(PHASE + 10)
    status = await coordinator.status()
    assert (status["state"], status["remaining_s"]) == ("collecting-inputs", 2)
    assert await ready(coordinator) == 503
    end()
    while await ready(coordinator) == 503:
        await clock.pass_by(1)
    await clock.pass_by(client.LONGEST_PAUSE)  # who was refused last comes only now
    assert (await coordinator.status())["state"] == "collecting-inputs"
    await asyncio.gather(*(visitor.take_part() for visitor in restarted(people)))
    assert np.array_equal(await measurement(coordinator), await ideal(coordinator))
    assert (await coordinator.status())["alive"] == PARTICIPANTS


@pytest.mark.fault(43)
@pytest.mark.parametrize("kind", [Away, Full])
def test_an_outage_longer_than_a_phase_leaves_nobody_out(
    tmp_path: Path, clock: Clock, kind: type[Away] | type[Full]
) -> None:
    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        outage = kind(database)
        async with timed(database, tmp_path / "out", clock) as coordinator:
            await survives(
                coordinator,
                clock,
                lambda: setattr(outage, "failing", True),
                lambda: setattr(outage, "failing", False),
            )

    asyncio.run(scenario())


@pytest.mark.fault(43)
def test_postgresql_stopped_for_longer_than_a_phase_leaves_nobody_out(
    tmp_path: Path, clock: Clock, postgres: Server
) -> None:
    async def scenario(stop: Callable[[], None], start: Callable[[], None]) -> None:
        database = database_at(fresh_database(postgres))
        async with timed(database, tmp_path / "out", clock) as coordinator:
            await survives(coordinator, clock, stop, start)
        database.close()

    with stoppable(postgres) as server:
        asyncio.run(scenario(server.stop, server.start))


@pytest.mark.fault(43)
def test_a_phase_whose_time_was_up_when_the_store_failed_is_not_closed_at_once(
    tmp_path: Path, clock: Clock
) -> None:
    """The close itself is what the store refuses; whoever wanted to be heard then still is."""

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        outage = Away(database)
        async with timed(database, tmp_path / "out", clock) as coordinator:
            people, _inputs = await at_the_inputs(coordinator)
            outage.failing = True
            clock.now += PHASE
            await clock.until(lambda: outage.attempts > 0)
            outage.failing = False
            while await ready(coordinator) == 503:
                await clock.pass_by(1)
            await clock.pass_by(client.LONGEST_PAUSE)
            await asyncio.gather(*(visitor.take_part() for visitor in restarted(people)))
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    asyncio.run(scenario())


@pytest.mark.fault(43)
def test_after_an_outage_a_phase_ends_all_the_same(tmp_path: Path, clock: Clock) -> None:
    """Nobody comes any more: the clock that stood still has gone on, and the round is aborted."""

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        outage = Full(database)
        async with timed(database, tmp_path / "out", clock) as coordinator:
            people, inputs = await at_the_inputs(coordinator)
            outage.failing = True
            assert (await people[0].post(inputs[0])).status_code == 503
            await clock.pass_by(PHASE)
            outage.failing = False
            await clock.pass_by(2 * PHASE)
            assert (await coordinator.until("aborted"))["reason"] == "too-few-participants"

    asyncio.run(scenario())


@pytest.mark.fault(44)
def test_pauses_double_up_to_the_longest_however_long_it_lasts() -> None:
    backoff, pauses = Backoff(lambda: 0.0, longest=5.0), []
    for _ in range(5000):
        backoff.failed()
        pauses.append(backoff.pause)
    assert pauses[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert set(pauses[8:]) == {5.0}
    backoff.succeeded()
    assert backoff.pause == 0


@pytest.mark.fault(44)
@pytest.mark.parametrize("kind", [Away, Full])
def test_a_store_that_goes_on_failing_is_seldom_tried_and_seldom_spoken_of(
    tmp_path: Path, clock: Clock, log: io.StringIO, kind: type[Away] | type[Full]
) -> None:
    """Ten minutes, in which participants keep coming and the phase would have been closed."""

    async def scenario() -> int:
        database = sqlite_in(tmp_path)
        outage = kind(database)
        async with timed(database, tmp_path / "out", clock) as coordinator:
            people, inputs = await at_the_inputs(coordinator)
            assert await ready(coordinator) == 200
            outage.failing = True
            assert (await people[0].post(inputs[0])).status_code == 503
            for step in range(120):
                await clock.pass_by(5, step=5)
                assert (await people[step % 12].post(inputs[step % 12])).status_code == 503
            assert await ready(coordinator) == 503
            attempts, outage.failing = outage.attempts, False
            await clock.pass_by(6)
            assert await ready(coordinator) == 200
            return attempts

    attempts = asyncio.run(scenario())
    assert 100 < attempts < 140, "once in five seconds, and a few times more in the first ones"
    said = [json.loads(line) for line in log.getvalue().splitlines()]
    events = [line["event"] for line in said if line["event"].startswith("store")]
    assert events[0] == "store fails"
    assert events[-1] == "store works again"
    assert set(events[1:-1]) == {"store still fails"}
    assert 8 <= len(events[1:-1]) <= 10, "once a minute"
    still = next(line for line in said if line["event"] == "store still fails")
    assert still["count"] > 10
    assert still["seconds"] >= 60
    assert len(said) == len(events), "and nothing else"


@pytest.mark.fault(43)
@pytest.mark.parametrize(
    "error",
    [
        OperationalError("COMMIT", None, ConnectionResetError("the server closed the connection")),
        InternalError("SELECT", None, RuntimeError("damaged page")),
        DatabaseError("SELECT", None, sqlite3.DatabaseError("database disk image is malformed")),
        InterfaceError("SELECT", None, RuntimeError("closed"), connection_invalidated=True),
        PoolTimeout("no connection became free"),
        OSError(errno.ENOSPC, "no space left on device"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_store_is_to_blame_for_may_pass(tmp_path: Path, error: Exception) -> None:
    database = sqlite_in(tmp_path)
    with pytest.raises(StoreUnavailable), database.writing():
        raise error


@pytest.mark.fault(42)
@pytest.mark.parametrize(
    "error",
    [
        IntegrityError("INSERT", None, sqlite3.IntegrityError("UNIQUE constraint failed")),
        ProgrammingError("SELECT", None, RuntimeError("syntax error")),
        FileNotFoundError(errno.ENOENT, "no such file"),
        KeyError("ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_we_are_to_blame_for_stays_what_it_is(tmp_path: Path, error: Exception) -> None:
    database = sqlite_in(tmp_path)
    with pytest.raises(type(error)), database.writing():
        raise error


@pytest.mark.fault(42)
def test_a_wrong_statement_is_not_an_outage(tmp_path: Path) -> None:
    """SQLite calls it operational, too."""
    database = sqlite_in(tmp_path)
    with pytest.raises(OperationalError, match="no such table"), database.reading() as connection:
        connection.exec_driver_sql("SELECT * FROM nowhere")

"""What the store does not keep did not happen: full disks, torn files, failing commits, drains."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from dhdmm.aggregation.method import ENROLMENT, Reply
from dhdmm.secagg import messages
from dhdmm.secagg.collected import record_name
from dhdmm.secagg.keys import KeyPair
from dhdmm.server import live, store
from dhdmm.server.database import Database, StoreUnavailable
from dhdmm.server.enrolment import make_tokens
from dhdmm.server.metrics import Metrics
from dhdmm.server.requests import Close, Enrol, Outcome, Request, Upload
from dhdmm.server.round_state import RoundState
from dhdmm.server.store import Turn
from dhdmm.server.studies import add_study, current_round
from tests.service.coordinators import SERVER_KEY, sqlite, sqlite_in
from tests.service.server.outages import restarted
from tests.service.server.rounds import (
    PARTICIPANTS,
    Visitor,
    ideal,
    identity_of,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow


class FullDisk:
    """SQLite may not grow the file beyond its present size; the error is SQLite's own."""

    def __init__(self, database: Database) -> None:
        self._engine, self.full = database._engine, False
        event.listen(self._engine, "begin", self._limit)

    def _limit(self, connection: Connection) -> None:
        most = 1 if self.full else 2**30  # never less than what is there
        connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")


@pytest.mark.fault(7)
def test_on_a_full_disk_nothing_is_acknowledged_and_later_everything_goes_on(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        with sqlite3.connect(tmp_path / "coordinator.db") as small:  # pages that are full soon
            small.executescript("PRAGMA page_size = 4096; VACUUM")
        database = sqlite_in(tmp_path)
        disk = FullDisk(database)
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", roster=roster_file()
        ) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            sessions = [await visitor.session() for visitor in people]
            for visitor, session in zip(people, sessions, strict=True):
                assert (await visitor.post(session.begin())).status_code == 200
            await coordinator.until("collecting-shares")
            told = [(await visitor.get()).content for visitor in people]
            shares = [s.receive(message) for s, message in zip(sessions, told, strict=True)]
            disk.full = True
            statuses = [await answered(v, body) for v, body in zip(people, shares, strict=True)]
            assert 503 in statuses, "the disk was never full"
            assert (await coordinator.status())["received"] == statuses.count(200)
            disk.full = False
            await asyncio.gather(*(visitor.take_part() for visitor in restarted(people)))
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    asyncio.run(scenario())


async def answered(visitor: Visitor, body: bytes) -> int:
    response = await visitor.post(body)
    if response.status_code == 503:
        assert response.json()["reason"] == "store-unavailable"
        assert response.headers["retry-after"] == "1"
    return response.status_code


class Failing(Database):
    """Every second turn that has something to write is lost at its commit, or the `nth` alone."""

    def __init__(self, url: str, nth: int | None = None) -> None:
        super().__init__(url)
        self.lost = self._writing = 0
        self._nth = nth

    @contextmanager
    def turn(self, round_id: str) -> Iterator[Turn]:
        with super().turn(round_id) as turn:
            version = turn.row.version
            yield turn
            turn.close()
            if turn.row.version != version:
                self._writing += 1
                if self._writing % 2 if self._nth is None else self._writing == self._nth:
                    self.lost += 1
                    raise OperationalError("COMMIT", None, OSError("connection lost"))


@pytest.mark.fault(7)
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_a_round_whose_every_second_commit_fails_gives_the_same_sum(
    tmp_path: Path, threat_model: str
) -> None:
    async def scenario() -> None:
        database = Failing(sqlite(tmp_path))
        database.migrate()
        study = study_of(threat_model)
        async with serving(database, study, tmp_path / "out", roster=roster_file()) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))
        assert database.lost > 5

    asyncio.run(scenario())


@pytest.mark.fault(7)
def test_an_agreement_is_not_told_before_it_is_committed(tmp_path: Path) -> None:
    database = Failing(sqlite(tmp_path), nth=2)  # after the turn that gave everybody a seat
    database.migrate()
    round_id = current_round(database, add_study(database, study_of()))
    live = RoundState(database, round_id, SERVER_KEY)
    with database.turn(round_id) as turn:
        tokens = make_tokens(turn, PARTICIPANTS, 60)
    for_all = [
        Enrol(token.encode(), f"participant {i}", identity_of(i).public)
        for i, token in enumerate(tokens)
    ]
    live.turn(for_all)
    with pytest.raises(StoreUnavailable):
        live.turn([Close(ENROLMENT.name)])
    assert (live.seats, live.row.state) == (None, ENROLMENT.name)
    live.turn([Close(ENROLMENT.name)])
    assert live.seats is not None


class Clinging(RoundState):
    """Weakened: keeps its session when a turn has failed."""

    def turn(self, requests: Sequence[Request]) -> list[Outcome]:
        kept = self._running
        try:
            return super().turn(requests)
        except StoreUnavailable:
            self._running = kept
            raise


@pytest.mark.fault(7)
@pytest.mark.parametrize(("kind", "loses"), [(RoundState, False), (Clinging, True)])
def test_a_retry_after_a_failed_commit_is_kept_unless_the_session_was(
    tmp_path: Path, kind: type[RoundState], loses: bool
) -> None:
    """The weakened worker acknowledges the retry as a repetition of what the store never had."""
    database = Failing(sqlite(tmp_path), nth=2)
    database.migrate()
    study = add_study(database, study_of("semi-honest"))
    round_id = current_round(database, study, roster_file())
    live = kind(database, round_id, SERVER_KEY)
    live.turn([])
    assert live.seats is not None
    pairs = [KeyPair.from_secret(bytes([i]) * 32).public for i in (1, 2)]
    session = live.seats.plan.round(bytes.fromhex(round_id)).session
    upload = Upload(0, messages.Keys(session, 0, *pairs).encode())
    with pytest.raises(StoreUnavailable):
        live.turn([upload])
    assert live.turn([upload]) == [Reply.REPEATED if loses else Reply.ACCEPTED]
    with database.reading() as connection:
        assert (
            store.read_record(connection, round_id, record_name(messages.Keys, 0)) is None
        ) == loses


@pytest.mark.fault(7)
def test_a_torn_write_loses_whole_turns_and_never_half_of_one(tmp_path: Path) -> None:
    """The write-ahead log cut off anywhere is a store after some turn: version and log agree."""

    async def scenario() -> str:
        database = sqlite_in(tmp_path)
        with database.writing() as connection:
            connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 0")
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", roster=roster_file()
        ) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            for visitor in people[:6]:
                assert (await visitor.post((await visitor.session()).begin())).status_code == 200
            for suffix in ("", "-wal"):
                shutil.copy(tmp_path / f"coordinator.db{suffix}", tmp_path / f"whole.db{suffix}")
            return coordinator.round_id

    round_id = asyncio.run(scenario())
    log = (tmp_path / "whole.db-wal").read_bytes()
    seen = set()
    for cut in range(len(log), 0, -3001):
        shutil.copy(tmp_path / "whole.db", tmp_path / "torn.db")
        (tmp_path / "torn.db-shm").unlink(missing_ok=True)
        (tmp_path / "torn.db-wal").write_bytes(log[:cut])
        torn = Database(f"sqlite:///{tmp_path / 'torn.db'}")
        try:
            with torn.reading() as connection:
                row = store.read_row(connection, round_id)
                entries = list(store.read_log(connection, round_id))
        except OperationalError:  # before the tables were made
            continue
        finally:
            torn.close()
        if row is not None:
            assert len(entries) == row.sequence
            received = [e for e in entries if e.name.startswith(f"{messages.Keys.TYPE}/")]
            assert row.received == len(received)
            seen.add(row.received)
    assert seen >= {0, 3, 6}, "the cuts went through the turns"


@pytest.mark.fault(39)
def test_more_uploads_than_memory_allows_are_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait for a slow store are bounded in number and bytes; the rest come again."""
    monkeypatch.setattr(live, "PENDING", 4)
    most = 0

    async def scenario() -> None:
        nonlocal most
        database = sqlite_in(tmp_path)
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", roster=roster_file()
        ) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            keys = [(await visitor.session()).begin() for visitor in people]
            hosted = await coordinator.hub.live(coordinator.round_id)
            await people[0].get()
            blocker = sqlite3.connect(tmp_path / "coordinator.db", isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")  # the store is busy
            posts = [
                asyncio.create_task(visitor.post(body))
                for visitor, body in zip(people, keys, strict=True)
            ]
            await asyncio.sleep(0.2)
            most = len(hosted._queue)
            blocker.execute("ROLLBACK")
            statuses = [(await post).status_code for post in posts]
            assert set(statuses) == {200, 503}
            assert statuses.count(200) <= 8
            await asyncio.gather(*(visitor.take_part() for visitor in restarted(people)))
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    asyncio.run(scenario())
    assert most <= 4


def test_a_drain_answers_what_is_under_way_and_refuses_what_is_new(tmp_path: Path) -> None:
    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        async with serving(
            database, study_of("semi-honest"), tmp_path / "out", roster=roster_file()
        ) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            keys = (await people[0].session()).begin()
            waiting = asyncio.create_task(people[0].get(wait=30))
            upload = asyncio.create_task(people[0].post(keys))
            await asyncio.sleep(0.1)
            coordinator.hub.drain()
            assert (await waiting).status_code == 204
            assert (await upload).status_code == 200
            refused = await people[1].post((await people[1].session()).begin())
            assert (refused.status_code, refused.json()["reason"]) == (503, "draining")
            assert (await coordinator.http.get("/readyz")).status_code == 503
            assert (await coordinator.http.get("/healthz")).status_code == 200

    asyncio.run(scenario())


def test_metrics_count_replies_and_batches(tmp_path: Path) -> None:
    class Counting(Metrics):
        def __init__(self) -> None:
            super().__init__()
            self.replies: list[str] = []
            self.batches = 0

        def upload(self, reply: str, size: int) -> None:
            self.replies.append(reply)

        def committed(self, messages: int, seconds: float) -> None:
            self.batches += messages

    async def scenario() -> None:
        counting = Counting()
        database = sqlite_in(tmp_path)
        async with serving(
            database,
            study_of("semi-honest"),
            tmp_path / "out",
            roster=roster_file(),
            observer=counting,
        ) as coordinator:
            visitor = visitors(coordinator.http, coordinator.round_id)[0]
            keys = (await visitor.session()).begin()
            for body in (keys, keys, b"nonsense"):
                await visitor.post(body)
        assert counting.replies == ["accepted", "repeated", "malformed"]
        assert counting.batches == 3

    asyncio.run(scenario())

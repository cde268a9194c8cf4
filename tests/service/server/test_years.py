"""A coordinator that is operated for years: many rounds, restarts, and what it forgets."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from dhdmm.client.http import LARGEST_CONTROL_BYTES
from dhdmm.release.receipt import MAGIC
from dhdmm.server import retention, store, tables
from dhdmm.server.database import Database
from dhdmm.server.retention import purge
from dhdmm.server.store import StoredStudy, Window, read_rounds
from dhdmm.server.studies import MOST_LISTED, add_study, begin_again, next_round
from tests.cli.commands import Shell
from tests.service.coordinators import AS_OPERATOR, sqlite, sqlite_in
from tests.service.server.rounds import roster_file, serving, study_of, visitors

pytestmark = pytest.mark.slow

STUDY = StoredStudy("ab" * 32, "a study", "malicious", 3, 5, b"a draft")
DAY = 86400
MANY = 2201


def end(database: Database, round_id: str, state: str = "finished") -> None:
    with database.turn(round_id) as turn:
        turn.row.state = state


def passes(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """So much time, on the calendar."""
    now = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: now)


# ---- many rounds --------------------------------------------------------------------------------


def many_rounds(database: Database, count: int = MANY) -> None:
    """All but the middle one are over."""
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        row = store.add_round(connection, STUDY)
        columns = {column.name: getattr(row, column.name) for column in tables.rounds.columns}
        made = [
            columns | {
                "id": f"{number:032x}",
                "number": number,
                "begun": row.begun + number // 3,
                "state": "enrolling" if number == count // 2 else "finished",
            }
            for number in range(2, count + 1)
        ]  # fmt: skip
        connection.execute(insert(tables.rounds), made)
    end(database, row.id)


def test_pages_of_rounds_have_each_of_them_once_newest_first(database: Database) -> None:
    many_rounds(database)
    found, window = [], Window(limit=MOST_LISTED)
    with database.reading() as connection:
        while page := [row for row, _ in read_rounds(connection, window)]:
            assert len(page) <= MOST_LISTED
            found += page
            window = Window(limit=MOST_LISTED, after=page[-1])
        running = read_rounds(connection, Window(running=True))
    assert [row.number for row in found] == list(range(MANY, 0, -1))
    assert [row.number for row, _ in running] == [MANY // 2]


@pytest.mark.fault(51)
def test_an_answer_about_thousands_of_rounds_is_one_that_clients_take(tmp_path: Path) -> None:
    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        many_rounds(database)
        async with serving(database, study_of(), tmp_path / "out") as coordinator:
            whole = await coordinator.http.get("/v1/rounds", headers=AS_OPERATOR)
            assert len(whole.content) < LARGEST_CONTROL_BYTES / 2
            assert len(whole.json()) == MOST_LISTED
            last = whole.json()[-1]["round"]
            older = await coordinator.http.get(
                f"/v1/rounds?after={last}&limit=3", headers=AS_OPERATOR
            )
            assert len({entry["round"] for entry in whole.json() + older.json()}) == 203
            for query, status in {"after=x": 422, "limit=0": 422, "after=" + "f" * 32: 404}.items():
                wrong = await coordinator.http.get(f"/v1/rounds?{query}", headers=AS_OPERATOR)
                assert wrong.status_code == status, query

    asyncio.run(scenario())


@pytest.mark.parametrize("read", [False, True])
def test_rounds_that_are_over_have_no_thread(tmp_path: Path, read: bool) -> None:
    """Neither those that wait to be saved, nor those that somebody asks for."""

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        many_rounds(database, 301)
        async with serving(database, study_of(), tmp_path / "out") as coordinator:
            going_on = {status.round for status in coordinator.hub.live_statuses()}
            assert going_on == {f"{150:032x}", coordinator.round_id}
            for number in range(2, 32 if read else 2):
                status = await coordinator.http.get(
                    f"/v1/rounds/{number:032x}", headers=AS_OPERATOR
                )
                assert status.json()["state"] == "finished"
            assert len(own_threads()) <= len(going_on)

    asyncio.run(scenario())
    assert not own_threads()


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("round")]


# ---- one round at a time ------------------------------------------------------------------------


@pytest.fixture
def again(database: Database) -> Callable[..., str]:
    with database.writing() as connection:
        study = store.add_study(connection, STUDY)
    return lambda **options: begin_again(database, study, **options).round


@pytest.mark.fault(52)
def test_restarts_begin_one_round_at_a_time_and_none_too_soon(
    database: Database, again: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = again(apart=3600)
    assert {again(apart=3600) for _ in range(5)} == {first}
    passes(monkeypatch, 7200)
    assert again(apart=3600) == first, "it is going on, however long that takes"
    end(database, first, "aborted")
    second = again(apart=3600)
    assert second != first
    end(database, second)
    assert again(apart=3600) == second, "it began a moment ago"
    passes(monkeypatch, 3600)
    assert again(apart=3600) not in (first, second)


@pytest.mark.fault(52)
def test_an_occurrence_has_one_round_however_often_it_is_begun(
    database: Database, again: Callable[..., str]
) -> None:
    first = again(occurrence="2026-W47")
    end(database, first)
    assert again(occurrence="2026-W47") == first
    second = again(occurrence="2026-W48")
    assert second != first
    assert again(occurrence="2026-W49") == second, "which is going on"
    assert again(occurrence="2026-W47") == first


# ---- retention ----------------------------------------------------------------------------------


def counts(database: Database, round_id: str) -> dict[str, int]:
    """Rows of this round, table by table."""
    found = {}
    with database.reading() as connection:
        for table in tables.metadata.sorted_tables:
            if "round" in table.columns:
                here = select(table).where(table.c.round == round_id)
                found[table.name] = len(connection.execute(here).all())
    return found


@pytest.mark.fault(57)
def test_purging_deletes_messages_and_keeps_transcripts_and_the_fact_of_rounds(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of("semi-honest")
    aborted = next_round(database, add_study(database, study), roster_file())
    running = next_round(database, add_study(database, study), roster_file())

    async def before() -> str:
        finished = next_round(database, add_study(database, study), roster_file())
        async with serving(database, study, tmp_path / "out") as coordinator:
            coordinator.round_id = finished
            *most, first = visitors(coordinator.http, finished)
            await asyncio.gather(first.take_part(), *(one.take_part() for one in most))
            await coordinator.until("finished")
            await coordinator.hub.saved_release(finished)
            spoken = visitors(coordinator.http, running)[0]
            await spoken.post((await spoken.session()).begin())
            await coordinator.http.post(f"/v1/rounds/{aborted}/abort", headers=AS_OPERATOR)
        return finished

    async def after(finished: str) -> None:
        async with serving(database, study, tmp_path / "out") as coordinator:
            base = f"/v1/rounds/{finished}"
            status = (await coordinator.http.get(base, headers=AS_OPERATOR)).json()
            assert (status["state"], status["alive"]) == ("finished", 12)
            assert status["purged"] >= status["ended"] >= status["begun"] > 0
            transcript = await coordinator.http.get(f"{base}/transcript", headers=AS_OPERATOR)
            assert transcript.content == kept
            assert (
                await coordinator.http.get(f"{base}/release.zip", headers=AS_OPERATOR)
            ).status_code == 200
            assert (
                await coordinator.http.get(f"{base}/roster", headers=AS_OPERATOR)
            ).status_code == 200
            late = visitors(coordinator.http, finished)[0]
            assert (await late.get()).content.startswith(MAGIC)  # a receipt, as before
            gone = await coordinator.http.get(f"/v1/rounds/{aborted}/plan", headers=AS_OPERATOR)
            assert gone.status_code == 410
            status = (
                await coordinator.http.get(f"/v1/rounds/{aborted}", headers=AS_OPERATOR)
            ).json()
            assert (status["state"], status["reason"]) == ("aborted", "stopped")

    finished = asyncio.run(before())
    with database.reading() as connection:
        kept = store.read_transcript(connection, finished)
    going_on = counts(database, running)
    assert counts(database, finished)["records"] > 0
    assert purge(database, 90 * DAY) == [], "they have just ended"
    passes(monkeypatch, 91 * DAY)
    assert set(purge(database, 90 * DAY)) == {finished, aborted}
    assert purge(database, 90 * DAY) == []
    left = {name: count for name, count in counts(database, finished).items() if count}
    assert left == {"agreements": 1, "releases": 1}
    assert not any(counts(database, aborted).values())
    assert counts(database, running) == going_on
    assert going_on["records"] > 0
    asyncio.run(after(finished))


@pytest.mark.fault(57)
def test_a_purged_file_has_nothing_of_the_messages_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = sqlite_in(tmp_path)
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        row = store.add_round(connection, STUDY)
    with database.turn(row.id) as turn:
        turn.append([("Shares/1", b"canary" * 5000)])
        turn.put_shard("sum/x", b"canary" * 5000)
        turn.row.state = "aborted"
    database.close()

    def content() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.glob("coordinator.db*"))

    assert b"canary" in content()
    shell = Shell(tmp_path, monkeypatch, capsys)
    early = shell("coordinator", "purge", "--older-than", "90d", "--store", sqlite(tmp_path))
    assert (early.code, early.out) == (0, "0 rounds purged\n")
    passes(monkeypatch, 91 * DAY)
    late = shell("coordinator", "purge", "--older-than", "90d", "--store", sqlite(tmp_path))
    assert (late.code, late.out) == (0, "1 rounds purged\n")
    assert b"canary" not in content()
    assert shell("coordinator", "purge", "--older-than", "soon").code == 3


@pytest.mark.fault(57)
def test_purging_makes_no_store_and_upgrades_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name is said; an older coordinator may be at work in an older store."""
    shell = Shell(tmp_path, monkeypatch, capsys)
    nowhere = shell("coordinator", "purge", "--older-than", "90d")
    assert (nowhere.code, "there is no store" in nowhere.err) == (3, True)
    assert shell.files() == set()
    (tmp_path / "coordinator.db").touch()
    older = shell("coordinator", "purge", "--older-than", "90d")
    assert (older.code, "dhdmm serve brings" in older.err) == (3, True)


def test_rounds_of_an_older_store_are_dated_when_it_is_upgraded(tmp_path: Path) -> None:
    """So that nothing of them is purged before its time."""
    database = sqlite_in(tmp_path)
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        row = store.add_round(connection, STUDY)
    end(database, row.id)
    with database.writing() as connection:
        for index in ("one_occurrence_one_round", "newest_rounds"):
            connection.execute(text(f"DROP INDEX {index}"))
        for column in ("begun", "ended", "purged", "occurrence", "registrar", "roster_serial"):
            connection.execute(text(f"ALTER TABLE rounds DROP COLUMN {column}"))
        connection.execute(text("ALTER TABLE records RENAME TO log"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    before = int(time.time())
    database.migrate()
    with database.reading() as connection:
        ((upgraded, _),) = read_rounds(connection)
    assert before <= upgraded.begun == upgraded.ended
    assert retention.purge(database, 1) == []

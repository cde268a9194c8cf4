"""The store itself: migrations, both engines, and addresses that are none."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from dhdmm.server import store, tables
from dhdmm.server.database import Database
from dhdmm.server.store import StoredStudy, StoreError
from dhdmm.server.studies import current_round

STUDY = StoredStudy("ab" * 32, "a study", "malicious", 3, 5, b"a draft")


def test_migrations_make_the_tables_that_the_code_uses(database: Database) -> None:
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []


def test_migrating_again_changes_nothing_and_a_newer_store_is_refused(database: Database) -> None:
    database.migrate()
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        StoreError, match=r"store format 9999; this is dhdmm .*, which reads formats 1–2"
    ):
        database.migrate()


def test_a_turn_is_all_or_nothing(database: Database) -> None:
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        row = store.add_round(connection, STUDY)
    with suppress(RuntimeError), database.turn(row.id) as turn:
        turn.append([("a", b"1")])
        turn.put_shard("sum/x", b"2")
        turn.row.received = 7
        raise RuntimeError
    with database.turn(row.id) as turn:
        assert list(turn.log_after(0)) == []
        assert turn.shards() == []
        assert (turn.row.received, turn.row.version) == (0, 1)


def test_a_log_is_appended_to_and_a_shard_overwritten(database: Database) -> None:
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        row = store.add_round(connection, STUDY)
    for value in (b"1", b"2"):
        with database.turn(row.id) as turn:
            turn.append([("state", value), ("other", value)])
            turn.put_shard("sum/x", value)
    with database.turn(row.id) as turn:
        assert [entry.value for entry in turn.log_after(1)] == [b"1", b"2", b"2"]
        assert turn.shards() == [("sum/x", b"2")]
        assert turn.row.version == 3
        assert store.read_record(turn.connection, row.id, "state") == b"2"


def test_the_first_draft_of_a_study_stays(database: Database) -> None:
    with database.writing() as connection:
        store.add_study(connection, STUDY)
        kept = store.add_study(connection, replace(STUDY, preview=b"another"))
    assert kept == STUDY


def test_workers_that_start_together_begin_one_round(database: Database) -> None:
    together = Barrier(4)

    def start(worker: int) -> tuple[bytes, str]:
        together.wait()
        with database.writing() as connection:
            kept = store.add_study(connection, replace(STUDY, preview=bytes([worker])))
        return kept.preview, current_round(database, kept)

    with ThreadPoolExecutor(4) as workers:
        assert len(set(workers.map(start, range(4)))) == 1


@pytest.mark.parametrize("url", ["no address", "sqlite://", "sqlite:///:memory:", "nosuch://x/y"])
def test_what_is_not_a_stores_address_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        Database(url)
    assert refused.value.hint


def test_an_unreachable_store_says_so_without_its_password() -> None:
    nowhere = Database("postgresql://me:secret@127.0.0.1:1/x")
    with pytest.raises(StoreError) as refused:
        nowhere.migrate()
    assert "secret" not in str(refused.value)
    assert not nowhere.answers()

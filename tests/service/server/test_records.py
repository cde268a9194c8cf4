"""What a worker keeps of a round in memory: little, and the same as the log."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from dhdmm.server import records as records_module
from dhdmm.server.database import Database
from dhdmm.server.records import RoundRecords
from dhdmm.server.store import StoredStudy, add_round, add_study, read_record
from dhdmm.session.compact import CompactRecords

STUDY = StoredStudy("00", "any", "two-servers", 3, 3, b"")


def test_compact_records_are_a_mapping_whatever_comes() -> None:
    """Against a dictionary, with sizes that change, numbers that are none, and deletions."""
    dice, compact, plain = random.Random(1), CompactRecords(), dict[str, bytes]()
    names = [f"{family}/{i}" for family in ("a", "a/b", "") for i in (0, 1, 7, 300, "07", "x", "²")]
    names += ["a", "a/", "a/1000000", "7", ""]
    for _ in range(5000):
        name = dice.choice(names)
        if dice.random() < 0.3:
            assert compact.pop(name, None) == plain.pop(name, None)
        else:
            compact[name] = plain[name] = dice.randbytes(dice.choice([0, 32, 32, 33, 64, 100]))
        assert compact.get(name) == plain.get(name)
    assert dict(compact) == plain
    assert len(compact) == len(plain)


@pytest.mark.slow
def test_a_participant_of_two_servers_takes_a_hundred_bytes() -> None:
    count = 20_000
    tracemalloc.start()
    try:
        compact = CompactRecords()
        for i in range(count):
            compact[f"reported/{i}"] = bytes(33)
            compact[f"transcript/collecting-reports/{i}"] = bytes(32)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(compact) == 2 * count
    assert used / count < 100


@pytest.mark.parametrize("kept", [0, 250, 10**6])
def test_messages_that_wait_are_read_from_the_log_if_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(records_module, "KEPT_BYTES", kept)
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    database.migrate()
    with database.writing() as connection:
        add_study(connection, STUDY)
        round_id = add_round(connection, STUDY).id
    records, said = RoundRecords(), {f"pending/{i}": bytes([i]) * 100 for i in range(10)}
    with database.turn(round_id) as turn:
        records.load(turn)
        records.update(said)
        records.write(turn)
    with database.turn(round_id) as turn:
        assert records.read(turn) == []
        assert {name: records[name] for name in said} == said
        del records["pending/3"], records["pending/9"]
        records["reported/3"] = b"+"
        records.write(turn)
    again = RoundRecords()
    with database.turn(round_id) as turn:
        again.load(turn)
        left = {name: value for name, value in said.items() if name[-1] not in "39"}
        assert {name: again[name] for name in again} == left | {"reported/3": b"+"}
        held = [value for value in again._pending.values() if value is not None]
        assert sum(map(len, held)) <= kept + 100


def test_what_is_noted_of_many_is_one_row_of_the_log(tmp_path: Path) -> None:
    """Beside messages, of which each has a row; whoever looks for one record finds the last."""
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    database.migrate()
    with database.writing() as connection:
        add_study(connection, STUDY)
        round_id = add_round(connection, STUDY).id
    records = RoundRecords()
    pending = {f"pending/{i}": bytes([i]) * 100 for i in range(3)}
    noted = {f"reported/{7 * i}": bytes([i]) * 33 for i in range(100)}
    with database.turn(round_id) as turn:
        records.load(turn)
        records.update(pending | noted)
        records.write(turn)
        assert turn.row.sequence == 4
    with database.turn(round_id) as turn:
        assert records.read(turn) == []
        records["reported/7"] = b"!" * 33
        del records["pending/0"], records["pending/1"]
        records.write(turn)
    again = RoundRecords()
    with database.turn(round_id) as turn:
        again.load(turn)
        left = {"pending/2": pending["pending/2"]}
        assert dict(again) == noted | {"reported/7": b"!" * 33} | left
        found = [read_record(turn.connection, round_id, f"reported/{i}") for i in (0, 7, 693, 1)]
    assert found == [noted["reported/0"], b"!" * 33, noted["reported/693"], None]

"""A leader in a process of its own, on its real store: to be killed at any moment.

    python -m tests.twoservers.leader_process FOLDER

Frames as those of `helper_process`; the first byte says what is asked. Every one is a turn.
"""

from __future__ import annotations

import secrets
import sys
from functools import partial
from pathlib import Path

from sqlalchemy import select

from dhdmm.server.database import Database
from dhdmm.server.records import RoundRecords
from dhdmm.server.store import StoredStudy, Turn, add_round, add_study
from dhdmm.server.tables import rounds
from dhdmm.twoservers import leader as leader_module
from dhdmm.twoservers.leader import Leader
from tests.twoservers.helper_process import parties, serve_frames

STUDY = StoredStudy("00", "any", "two-servers", 3, 3, b"")
SIZE = 4


class Process:
    """What one life knows of the round."""

    def __init__(self, folder: Path) -> None:
        self._database = Database(f"sqlite:///{folder / 'leader.db'}")
        self._database.migrate()
        self._records = RoundRecords()
        self.leader: Leader | None = None
        with self._database.writing() as connection:
            known = connection.execute(select(rounds.c.id)).scalar_one_or_none()
            if known is None:
                known = add_round(connection, add_study(connection, STUDY)).id
        self._id = known

    def answer(self, asked: bytes) -> bytes:
        with self._database.turn(self._id) as turn:
            leader = self.leader = self._present(turn)
            said = self._serve(leader, turn, asked[:1], asked[1:])
            leader.flush()
            self._records.write(turn)
        return said

    def _present(self, turn: Turn) -> Leader:
        if self.leader is not None:
            self.leader.follow((entry.name, entry.value) for entry in self._records.read(turn))
            return self.leader
        self._records.load(turn)
        self._records.read_sums(turn)
        make = partial(Leader, shard=secrets.token_hex(8))
        return parties(store=self._records, make_leader=make).leader

    def _serve(self, leader: Leader, turn: Turn, what: bytes, given: bytes) -> bytes:
        match what:
            case b"K":
                return leader.message_for(int.from_bytes(given, "big")) or b""
            case b"R":
                position = int.from_bytes(given[:SIZE], "big")
                return leader.receive(position, given[SIZE:]).value.encode()
            case b"H":
                return leader.to_helper() or b""
            case b"A":
                size = int.from_bytes(given[:SIZE], "big")
                leader.from_helper(given[SIZE : SIZE + size], given[SIZE + size :])
            case b"C":
                self._records.read_sums(turn)
                leader.close_phase()
            case b"S":
                return b"" if leader.result is None else leader.result.total.tobytes()
        return b""


if __name__ == "__main__":
    leader_module.LARGEST_BATCH = 5
    serve_frames(Process(Path(sys.argv[1])).answer)

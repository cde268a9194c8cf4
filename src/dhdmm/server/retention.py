"""What a coordinator forgets of rounds that are long over.

Of a finished round the transcript stays, with the plan and the roster that it names anyway; of an
aborted one only its row: study, number, dates, counts and the reason. Messages, the running sum,
seats and tokens go, and an aborted round's plan and roster. Nothing of a round that is going on is
ever deleted.
"""

from __future__ import annotations

import time

from sqlalchemy import delete, select

from dhdmm.aggregation.method import ABORTED, OVER
from dhdmm.server.database import Database
from dhdmm.server.store import Turn
from dhdmm.server.tables import agreements, enrolments, log, rounds, shards, tokens

DELETED = (log, shards, enrolments, tokens)


def purge(database: Database, older_than: float) -> list[str]:
    """Rounds that ended so many seconds ago are purged, each in a turn of its own; which ones."""
    latest = int(time.time() - older_than)
    over = rounds.c.state.in_(OVER) & rounds.c.purged.is_(None) & (rounds.c.ended <= latest)
    with database.reading() as connection:
        due = list(connection.execute(select(rounds.c.id).where(over)).scalars())
    for round_id in due:
        with database.turn(round_id) as turn:
            _forget(turn)
    return due


def _forget(turn: Turn) -> None:
    if turn.connection.dialect.name == "sqlite":  # or the file keeps what was deleted for a while
        turn.connection.exec_driver_sql("PRAGMA secure_delete = ON")
    gone = list(DELETED)
    if turn.row.state == ABORTED.name:
        gone.append(agreements)
    for table in gone:
        turn.connection.execute(delete(table).where(table.c.round == turn.row.id))
    turn.row.purged = int(time.time())

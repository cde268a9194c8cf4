"""When rounds began and ended, what they are an occurrence of, and which roster they had."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Rounds that are there already are dated now: nothing of them is purged too early."""
    for column in (
        sa.Column("begun", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("ended", sa.BigInteger),
        sa.Column("purged", sa.BigInteger),
        sa.Column("occurrence", sa.Text),
        sa.Column("registrar", sa.Text),
        sa.Column("roster_serial", sa.BigInteger, nullable=False, server_default="0"),
    ):
        op.add_column("rounds", column)
    occurrence = ["study", "occurrence"]
    op.create_index("one_occurrence_one_round", "rounds", occurrence, unique=True)
    op.create_index("newest_rounds", "rounds", ["begun", "number", "id"])
    rounds = sa.table("rounds", *map(sa.column, ("state", "begun", "ended")))
    now = int(time.time())
    op.execute(sa.update(rounds).values(begun=now))
    over = rounds.c.state.in_(["finished", "aborted"])
    op.execute(sa.update(rounds).where(over).values(ended=now))

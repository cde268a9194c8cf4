"""Messages by their numbers on the wire, and what rounds need that are kept for years.

The log no longer knows messages by the names of classes.
The names are those of dhdmm 0.1.0, whatever the classes are called by now. A round that is under
way goes on from its log as before. The table has another name, too: a process of 0.1.0 that was not
stopped can then neither misread the log nor write to it.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NUMBERS = {
    "Keys": 0x01,
    "SignedKeys": 0x02,
    "Choice": 0x04,
    "Shares": 0x07,
    "MaskedInput": 0x09,
    "EvidencedInput": 0x0A,
    "Acks": 0x0D,
    "Unmask": 0x0F,
    "Aborted": 0x10,
}
"""Of the messages that participants send."""


def upgrade() -> None:
    _number_messages()
    _date_rounds()


def _number_messages() -> None:
    renamed = sa.text(
        "UPDATE log SET name = :number || substr(name, :rest)"
        " WHERE substr(name, 1, :length) = :start"
    )
    for name, number in NUMBERS.items():
        start = f"{name}/"
        values = {"number": str(number), "start": start, "length": len(start), "rest": len(start)}
        op.get_bind().execute(renamed, values)
    op.rename_table("log", "records")


def _date_rounds() -> None:
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

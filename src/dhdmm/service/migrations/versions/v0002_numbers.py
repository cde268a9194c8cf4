"""The log knows messages by their numbers on the wire, and no longer by the names of classes.

The names are those of dhdmm 0.1.0, whatever the classes are called by now. A round that is under
way goes on from its log as before. The table has another name, too: a process of 0.1.0 that was not
stopped can then neither misread the log nor write to it.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

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
    renamed = text(
        "UPDATE log SET name = :number || substr(name, :rest)"
        " WHERE substr(name, 1, :length) = :start"
    )
    for name, number in NUMBERS.items():
        start = f"{name}/"
        values = {"number": str(number), "start": start, "length": len(start), "rest": len(start)}
        op.get_bind().execute(renamed, values)
    op.rename_table("log", "records")

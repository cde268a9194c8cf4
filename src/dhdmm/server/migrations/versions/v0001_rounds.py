"""Studies, rounds with their logs, enrolment, releases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("threat_model", sa.Text, nullable=False),
        sa.Column("minimum", sa.Integer, nullable=False),
        sa.Column("maximum", sa.Integer, nullable=False),
        sa.Column("draft", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "rounds",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("study", sa.Text, sa.ForeignKey("studies.digest"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("enrolled", sa.Integer, nullable=False),
        sa.Column("invited", sa.Integer, nullable=False),
        sa.Column("received", sa.Integer, nullable=False),
        sa.Column("alive", sa.Integer, nullable=False),
        sa.Column("departed", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("plan_digest", sa.Text),
        sa.Column("roster_digest", sa.Text),
        sa.UniqueConstraint("study", "number", name="one_number_one_round"),
    )
    op.create_table(
        "agreements",
        _round(),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("roster", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        _round(primary_key=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("key", sa.LargeBinary),
    )
    op.create_table(
        "enrolments",
        _round(),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("round", "name", name="one_name_one_seat"),
        sa.UniqueConstraint("round", "key", name="one_key_one_seat"),
    )
    op.create_table(
        "log",
        _round(),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "shards",
        _round(),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "releases",
        _round(),
        sa.Column("transcript", sa.LargeBinary, nullable=False),
    )


def _round(*, primary_key: bool = True) -> sa.Column[str]:
    there = sa.ForeignKey("rounds.id")
    return sa.Column("round", sa.Text, there, primary_key=primary_key, nullable=False)

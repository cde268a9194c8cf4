"""The tables of a store. `migrations` makes them; a test holds one against the other."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

metadata = MetaData()
studies = Table(
    "studies",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("threat_model", Text, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("maximum", Integer, nullable=False),
    Column("draft", LargeBinary, key="preview", nullable=False),
)
rounds = Table(
    "rounds",
    metadata,
    Column("id", Text, primary_key=True),
    Column("study", Text, ForeignKey("studies.digest"), nullable=False),
    Column("number", Integer, nullable=False),  # of the study's rounds, from 1
    Column("state", Text, nullable=False),
    Column("version", Integer, nullable=False),  # goes up with every turn that changed something
    Column("sequence", Integer, nullable=False),  # of the last log entry
    Column("enrolled", Integer, nullable=False),
    Column("invited", Integer, nullable=False),
    Column("received", Integer, nullable=False),
    Column("alive", Integer, nullable=False),
    Column("departed", Integer, nullable=False),
    Column("reason", Text),
    Column("plan_digest", Text),
    Column("roster_digest", Text),
    Column("begun", BigInteger, nullable=False, server_default="0"),  # seconds of the Unix era
    Column("ended", BigInteger),
    Column("purged", BigInteger),
    Column("occurrence", Text),  # such as 2026-W47; a study has one round of each
    Column("registrar", Text),  # who signed the roster, and its serial number
    Column("roster_serial", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("study", "number", name="one_number_one_round"),
    Index("one_occurrence_one_round", "study", "occurrence", unique=True),
    Index("newest_rounds", "begun", "number", "id"),
)


def _of_a_round(name: str, *columns: SchemaItem) -> Table:
    """A table whose primary key begins with a round."""
    round_id = Column("round", Text, ForeignKey("rounds.id"), primary_key=True)
    return Table(name, metadata, round_id, *columns)


agreements = _of_a_round(
    "agreements",
    Column("plan", LargeBinary, nullable=False),
    Column("roster", LargeBinary, nullable=False),
)
tokens = Table(
    "tokens",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("round", Text, ForeignKey("rounds.id"), nullable=False),
    Column("expires", Integer, nullable=False),  # seconds of the Unix era
    Column("key", LargeBinary),  # who used it
)
enrolments = _of_a_round(
    "enrolments",
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("key", LargeBinary, nullable=False),
    UniqueConstraint("round", "name", name="one_name_one_seat"),
    UniqueConstraint("round", "key", name="one_key_one_seat"),
)
log = _of_a_round(
    "records",
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
)
shards = _of_a_round(
    "shards",
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
releases = _of_a_round(
    "releases",
    Column("transcript", LargeBinary, nullable=False),
)

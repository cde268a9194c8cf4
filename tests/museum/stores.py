"""A coordinator's store as a text, and the way back: into SQLite, and into PostgreSQL.

The text has the statements that made the tables in SQLite and every row, so the store that is
loaded from it is the one that was there. PostgreSQL's tables are made by the migrations of that
revision.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import text

from dhdmm.server.database import Database

Dump = dict[str, Any]


def read(path: Path) -> Dump:
    """What an SQLite file holds."""
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        tables = {}
        for name, statement in made.fetchall():
            cursor = connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
            columns = [column for column, *_ in cursor.description]
            rows = [[_plain(value) for value in row] for row in cursor]
            tables[name] = {"made by": statement, "columns": columns, "rows": rows}
    return {"tables": tables}


def write(dump: Dump, path: Path) -> None:
    path.write_text(json.dumps(dump, indent=1) + "\n", encoding="utf-8")


def revision(dump: Dump) -> str:
    return str(dump["tables"]["alembic_version"]["rows"][0][0])


def into_sqlite(dump: Dump, path: Path) -> str:
    """The address of a new store with this content."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, table in dump["tables"].items():
            connection.execute(table["made by"])
            marks = ", ".join("?" for _ in table["columns"])
            rows = [[_value(entry) for entry in row] for row in table["rows"]]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    return f"sqlite:///{path}"


def into_database(dump: Dump, url: str) -> str:
    """The same in the empty database at this address; its tables are of the dump's revision."""
    database = Database(url)
    config = Config()
    config.set_main_option("script_location", "dhdmm.server:migrations")
    with database.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision(dump))
        for name, table in dump["tables"].items():
            if name == "alembic_version":
                continue
            marks = ", ".join(f":c{i}" for i in range(len(table["columns"])))
            columns = ", ".join(f'"{column}"' for column in table["columns"])
            for row in table["rows"]:
                values = {f"c{i}": _value(entry) for i, entry in enumerate(row)}
                connection.execute(text(f"INSERT INTO {name} ({columns}) VALUES ({marks})"), values)
    database.close()
    return url


def _plain(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _value(entry: Any) -> Any:
    return bytes.fromhex(entry["hex"]) if isinstance(entry, dict) else entry

"""Where the tests' coordinators keep their rounds: SQLite, and a real PostgreSQL server."""

from __future__ import annotations

import secrets

from tests.participant.postgres import OWNER, Server


def fresh_database(server: Server) -> str:
    """The address of an empty database on this server."""
    name = f"coordinator_{secrets.token_hex(4)}"
    with server.owner() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://{OWNER}:{server.password}@127.0.0.1:{server.port}/{name}"

"""Both kinds of store: a SQLite file, and a database on a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dhdmm.service.database import Database
from tests.participant.postgres import Server, require_postgres, running_server
from tests.service.server.rounds import database_at, sqlite
from tests.service.server.stores import fresh_database


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    require_postgres()
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = sqlite(tmp_path)
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    opened = database_at(url)
    yield opened
    opened.close()

"""What several tests of the coordinator look at: its log, and both kinds of store."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from dhdmm.server import logs
from dhdmm.server.database import Database
from tests.service.coordinators import database_at, fresh_database, sqlite


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The coordinator's log, as JSON lines."""
    written = io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    logs.configure(as_json=True, stream=written)
    yield written
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = sqlite(tmp_path)
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    opened = database_at(url)
    yield opened
    opened.close()

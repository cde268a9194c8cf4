"""Where tests get a coordinator: its store, and what of it runs where.

`assembled` is a coordinator that nobody reaches yet. `tests.service.server.rounds.serving` asks it
without a network, `listening` has it listen in this process, `tests.service.server.killable` in a
process that is killed. `dhdmm serve` as it is typed is `tests.cli.test_serve.serving`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from dhdmm.aggregation.identity import Identity
from dhdmm.server.app import create_app
from dhdmm.server.database import Database
from dhdmm.server.guard import Recogniser
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics
from dhdmm.server.process import Server
from dhdmm.server.studies import Hub
from dhdmm.server.waiting import Deadlines
from dhdmm.web.pages import create_pages
from tests.participant.postgres import OWNER
from tests.participant.postgres import Server as Postgres
from tests.service.walls.servers import Files, running

OPERATOR = "the operator's token"
AS_OPERATOR = {"Authorization": f"Bearer {OPERATOR}"}
SERVER_KEY = Identity(sha256(b"the coordinator").digest())


# Stores


def database_at(url: str) -> Database:
    database = Database(url)
    database.migrate()
    return database


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'coordinator.db'}"


def sqlite_in(folder: Path) -> Database:
    return database_at(sqlite(folder))


def fresh_database(server: Postgres) -> str:
    """The address of an empty database on this server."""
    name = f"coordinator_{secrets.token_hex(4)}"
    with server.owner() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://{OWNER}:{server.password}@127.0.0.1:{server.port}/{name}"


# Coordinators


def assembled(
    database: Database,
    out: Path,
    *,
    identity: Identity = SERVER_KEY,
    pages: bool = False,
    public: bool = False,
    metrics: Metrics | None = None,
    **options: Any,
) -> tuple[Hub, Starlette]:
    """The rounds of a store and their application; unless a test says so, no phase ends by time."""
    hub = Hub(database, identity, out, options.pop("deadlines", Deadlines(600, 600)), **options)
    shown = create_pages(hub, OPERATOR, public=public) if pages else None
    return hub, create_app(hub, OPERATOR, metrics=metrics, pages=shown, public=public)


@dataclass(frozen=True)
class Listening:
    """Where it listens, and what it holds."""

    address: str
    server: Server
    hub: Hub
    database: Database


@contextmanager
def listening(
    database: Database,
    out: Path,
    *,
    files: Files | None = None,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    guarded: bool = True,
    recognise: Recogniser | None = None,
    proxies: str = "",
    **options: Any,
) -> Iterator[Listening]:
    """In this process; `around` may put something hostile before it.

    Unless it is `guarded`, its wall takes everybody for a stranger.
    """
    hub, app = assembled(database, out, metrics=metrics, **options)
    wall: dict[str, Any] = {"on_drain": hub.drain, "proxies": proxies}
    wall["recognise"] = recognise or (app.state.callers.admit if guarded else None)
    with running(around(app), limits or Limits(), files, metrics, **wall) as server:
        address = f"https://localhost:{server.port}" if files else f"http://127.0.0.1:{server.port}"
        yield Listening(address, server, hub, database)
    database.close()

"""Stores that fail for a while, and a round that stands in the midst of one of its phases."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from dhdmm.server.database import Database
from tests.participant import postgres
from tests.service.server.rounds import Coordinator, Visitor, visitors

SECONDS_TO_STOP = 60


class Away:
    """While `failing`, no transaction can be begun."""

    def __init__(self, database: Database) -> None:
        self.failing, self.attempts = False, 0
        event.listen(database._engine, "begin", self._begin)

    def _begin(self, _connection: Connection) -> None:
        if self.failing:
            self.attempts += 1
            raise OperationalError("BEGIN", None, ConnectionRefusedError("the server is away"))


class Full:
    """While `failing`, everything can be read and nothing written."""

    def __init__(self, database: Database) -> None:
        self.failing, self.attempts = False, 0
        event.listen(database._engine, "before_cursor_execute", self._execute)

    def _execute(self, _connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if self.failing and statement.startswith(("INSERT", "UPDATE")):
            self.attempts += 1
            full = sqlite3.OperationalError("database or disk is full")
            raise OperationalError(statement, None, full)


class Stoppable:
    """A PostgreSQL server that is stopped and started again where it was."""

    def __init__(self, server: postgres.Server) -> None:
        self._server = server
        with server.owner() as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        self._data = Path(found[0])
        self._started: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        lock = self._data / "postmaster.pid"
        os.kill(int(lock.read_text().splitlines()[0]), signal.SIGINT)
        end = time.monotonic() + SECONDS_TO_STOP
        while lock.exists():
            assert time.monotonic() < end, "PostgreSQL did not stop"
            time.sleep(0.02)

    def start(self) -> None:
        program, options = postgres._found("postgres"), postgres._options
        command = [program, "-D", str(self._data), *options(self._server, self._data.parent)]
        self._started = postgres._as_owner(command)
        end = time.monotonic() + postgres.SECONDS_TO_START
        while True:
            try:
                self._server.owner().close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, "PostgreSQL did not start"
                time.sleep(0.02)

    def end(self) -> None:
        if self._started is not None:
            self._started.send_signal(signal.SIGINT)
            self._started.wait(SECONDS_TO_STOP)


@contextmanager
def stoppable(server: postgres.Server) -> Iterator[Stoppable]:
    stopping = Stoppable(server)
    try:
        yield stopping
    finally:
        stopping.end()


async def at_the_inputs(coordinator: Coordinator) -> tuple[list[Visitor], list[bytes]]:
    """A semi-honest round whose participants are about to send their inputs, which cost them."""
    people = visitors(coordinator.http, coordinator.round_id)
    sessions = [await visitor.session() for visitor in people]
    bodies = [session.begin() for session in sessions]
    for state in ("collecting-shares", "collecting-inputs"):
        for visitor, body in zip(people, bodies, strict=True):
            assert (await visitor.post(body)).status_code == 200
        await coordinator.until(state)
        told = [(await visitor.get(wait=5)).content for visitor in people]
        answers = [s.receive(message) for s, message in zip(sessions, told, strict=True)]
        bodies = [answer for answer in answers if answer is not None]
    return people, bodies


def restarted(people: list[Visitor]) -> list[Visitor]:
    """The same journals, new processes."""
    return [Visitor(v.http, v.round_id, v.position, v.histogram, v.journal) for v in people]

"""A real PostgreSQL server of our own: in a temporary folder, on a loopback port, gone afterwards.

Its programs are looked for on the PATH and where Debian puts them. PostgreSQL refuses to run as
root, so root starts it as the user `postgres`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

OWNER = "postgres"
READER = "reader"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "work_mem": "64MB",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
}
SECONDS_TO_START = 60


@dataclass(frozen=True)
class Server:
    """Its owner writes the tables; a reader may read them, and cannot even make temporary ones."""

    port: int
    password: str = field(repr=False)
    database: str = "postgres"

    def owner(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=OWNER,
            password=self.password,
            dbname=self.database,
            autocommit=True,
        )

    def url(self, password: str | None = None) -> str:
        address = f"127.0.0.1:{self.port}/{self.database}"
        return f"postgresql://{READER}:{password or self.password}@{address}"

    def with_database(self, *statements: str) -> Server:
        """The same server with a database of its own, in which these statements are executed."""
        made = replace(self, database=f"hospital_{secrets.token_hex(4)}")
        self.execute(f"CREATE DATABASE {made.database}")
        made.execute(
            "CREATE EXTENSION pg_stat_statements",
            f"REVOKE TEMPORARY ON DATABASE {made.database} FROM PUBLIC",
            f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {READER}",
            *statements,
        )
        return made

    def execute(self, *statements: str) -> None:
        with self.owner() as connection:
            for statement in statements:
                connection.execute(statement)

    def forget_statements(self) -> None:
        self.execute("SELECT pg_stat_statements_reset()")

    def statements_of_the_reader(self) -> list[tuple[str, int, int]]:
        """(SQL, times executed, rows sent) since they were forgotten, in the server's own words."""
        with self.owner() as connection:
            return connection.execute(
                "SELECT query, calls, rows FROM pg_stat_statements AS s JOIN pg_roles AS r"
                " ON r.oid = s.userid WHERE rolname = %s AND query NOT IN ('BEGIN', 'COMMIT')",
                (READER,),
            ).fetchall()


def require_postgres() -> None:
    """Skip the test where PostgreSQL is not installed, except where every test has to run."""
    if _program("initdb") is None:
        missing = (
            "PostgreSQL is not installed (initdb is neither on the PATH nor in its usual place)"
        )
        pytest.fail(missing) if os.environ.get("DHDMM_CI") else pytest.skip(missing)


@contextmanager
def running_server() -> Iterator[Server]:
    password = secrets.token_hex(8)
    with TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "password").write_text(password)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                shutil.chown(path, OWNER, OWNER)
        _initialise(folder)
        server = Server(_free_port(), password)
        process = _as_owner(
            [_found("postgres"), "-D", str(folder / "data"), *_options(server, folder)]
        )
        try:
            _wait_until_ready(process, server)
            server.execute(
                f"CREATE ROLE {READER} LOGIN PASSWORD '{password}'",
                f"ALTER ROLE {READER} SET default_transaction_read_only = on",
            )
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # what PostgreSQL calls a fast shutdown
            process.wait(SECONDS_TO_START)


def _initialise(folder: Path) -> None:
    command = [_found("initdb"), "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8"]
    also = ["--locale=C.UTF-8", f"--username={OWNER}", f"--pwfile={folder / 'password'}"]
    process = _as_owner([*command, *also, "-D", str(folder / "data")])
    assert process.wait(SECONDS_TO_START) == 0, "initdb failed"


def _options(server: Server, folder: Path) -> list[str]:
    settings = {**SETTINGS, "port": server.port, "unix_socket_directories": folder}
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _wait_until_ready(process: subprocess.Popen[bytes], server: Server) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.owner().close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError("PostgreSQL did not start")


def _as_owner(command: Sequence[str]) -> subprocess.Popen[bytes]:
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_user = {"user": OWNER, "group": OWNER, "extra_groups": []}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **as_user
    )


def _found(name: str) -> str:
    program = _program(name)
    if program is None:
        raise RuntimeError(f"PostgreSQL's {name} is not installed")
    return program


def _program(name: str) -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(installed[-1]) if installed else shutil.which(name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

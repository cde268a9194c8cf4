"""The reverse proxy of docs/DEPLOYING.md, with a real nginx before a real coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from dhdmm.network import signing
from dhdmm.server.studies import Hub, add_study, current_round
from tests.round.small import people
from tests.service.coordinators import AS_OPERATOR, listening, sqlite_in
from tests.service.server.rounds import (
    Coordinator,
    ideal,
    identity_of,
    measurement,
    roster_file,
    study_of,
    visitors,
)
from tests.service.walls.page import PROJECT
from tests.service.walls.servers import Files, certificate, until
from tests.service.walls.strangers import head

pytestmark = pytest.mark.slow

SAMPLE = (PROJECT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
LIMIT = "limit_conn dhdmm_addresses 2000;"
CROWD = 300
SECONDS = 3  # that every question waits: by then all have been asked
MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{sample}
}}
"""


def require_nginx() -> str:
    """Where nginx is installed; CI has to have it."""
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        assert "DHDMM_CI" not in os.environ, "nginx is missing"
        pytest.skip("nginx is not installed")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that nginx's worker, another user, may enter."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextlib.contextmanager
def nginx(
    folder: Path, files: Files, upstream: int, sample: str, connections: int
) -> Iterator[int]:
    """The sample before a coordinator at this port; the port it listens on itself."""
    program, port = require_nginx(), free_port()
    for old, new in {
        "127.0.0.1:8443": f"127.0.0.1:{upstream}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/dhdmm/coordinator.pem": str(files.certificate),
        "/etc/dhdmm/coordinator.key": str(files.key),
    }.items():
        assert old in sample
        sample = sample.replace(old, new)
    config = folder / "nginx.conf"
    config.write_text(MAIN.format(folder=folder, connections=connections, sample=sample))
    with subprocess.Popen([program, "-p", folder, "-e", "stderr", "-c", config]) as process:
        try:
            until(lambda: _listens(port))
            yield port
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def proxied(
    folder: Path, sample: str = SAMPLE, connections: int = 1024
) -> Iterator[tuple[str, Files, str, Hub]]:
    """A coordinator with a round of many, behind nginx."""
    require_nginx()
    database = sqlite_in(folder)
    study = add_study(database, study_of("semi-honest", participants=CROWD))
    round_id = current_round(database, study, roster_file(CROWD))
    files = certificate(folder)
    with (
        listening(database, folder / "out", proxies="127.0.0.1") as here,
        nginx(folder, files, here.server.port, sample, connections) as port,
    ):
        yield f"https://localhost:{port}", files, round_id, here.hub


def client(address: str, files: Files) -> httpx.AsyncClient:
    """One connection for each participant, all from one address."""
    many = httpx.Limits(max_connections=CROWD + 10, max_keepalive_connections=CROWD + 10)
    return httpx.AsyncClient(base_url=address, verify=files.client(), limits=many, timeout=60)


async def waiting(port: int | None, files: Files, round_id: str) -> Counter[bytes]:
    """What everybody's question is answered with: all connect before anybody asks."""
    target, tls = f"/v1/rounds/{round_id}/message?after=&wait={SECONDS}", files.client()
    connected = asyncio.Barrier(CROWD)

    async def ask(position: int) -> bytes:
        signed = signing.sign(identity_of(position), "GET", target)
        try:
            reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)
        except OSError:
            return b"no connection"
        finally:
            await connected.wait()
        try:
            writer.write(head("GET", target, signed))
            return (await reader.readline())[9:12] or b"cut"
        except OSError:
            return b"cut"
        finally:
            writer.close()

    return Counter(await asyncio.gather(*map(ask, range(CROWD))))


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    ("limit", "connections", "refused"),
    [(LIMIT, 1024, False), ("limit_conn dhdmm_addresses 200;", 1024, True), (LIMIT, 400, True)],
    ids=["sample", "counting those that wait", "too few connections of a worker"],
)
def test_participants_wait_behind_one_address(
    folder: Path, limit: str, connections: int, refused: bool
) -> None:
    """Questions of 300; the sample keeps all of them, its weaker variants turn some away."""
    assert LIMIT in SAMPLE

    with proxied(folder, SAMPLE.replace(LIMIT, limit), connections) as (address, files, name, _):
        found = asyncio.run(waiting(httpx.URL(address).port, files, name))
    assert (found[b"204"] < CROWD) == refused, found


@pytest.mark.soak
@pytest.mark.fault(54)
def test_a_round_of_many_behind_one_address_gives_its_sum(folder: Path) -> None:
    async def scenario(address: str, files: Files, round_id: str, hub: Hub) -> None:
        async with client(address, files) as http:
            held = people(CROWD)
            await asyncio.gather(
                *(visitor.take_part() for visitor in visitors(http, round_id, held))
            )
            coordinator = Coordinator(hub, None, http, round_id)
            assert np.array_equal(
                await measurement(coordinator), await ideal(coordinator, held=held)
            )

    with proxied(folder) as (address, files, round_id, hub):
        asyncio.run(scenario(address, files, round_id, hub))


def test_the_proxy_hands_on_what_the_coordinator_says_to_strangers(folder: Path) -> None:
    """And keeps the metrics to itself."""
    with (
        proxied(folder) as (address, files, round_id, _hub),
        httpx.Client(base_url=address, verify=files.client()) as http,
    ):
        assert http.get("/metrics").status_code == 403
        assert http.get("/v1/rounds").status_code == 401
        assert http.get("/v1/rounds", headers=AS_OPERATOR).json()[0]["round"] == round_id
        refused = http.post(f"/v1/rounds/{round_id}/message", content=bytes(1_000_000))
        assert refused.status_code == 401

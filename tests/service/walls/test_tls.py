"""What a server accepts to be spoken to in, and how it stops."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.errors import DhdmmError
from dhdmm.server.process import make_server
from tests.service.walls.servers import (
    QUICK,
    Files,
    Toy,
    ask,
    certificate,
    connect,
    read_all,
    read_response,
    running,
    status,
    until,
)

pytestmark = pytest.mark.slow

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return certificate(tmp_path)


@pytest.mark.fault(36)
def test_older_tls_is_refused(files: Files) -> None:
    with running(Toy(), files=files) as server:
        old = files.client()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError), connect(server) as plain:
            old.wrap_socket(plain, server_hostname="localhost")
        with connect(server, files) as client:
            assert client.version() == "TLSv1.3"
            assert status(ask(client, b"x")) == 200


@pytest.mark.fault(36)
def test_plain_http_on_a_tls_port_gets_no_answer(files: Files) -> None:
    app = Toy()
    with running(app, files=files) as server, connect(server) as client:
        client.sendall(GET)
        assert not read_all(client).startswith(b"HTTP/1.1 200")
    assert app.calls == 0


@pytest.mark.fault(36)
def test_a_client_that_does_not_know_the_certificate_leaves(files: Files) -> None:
    app = Toy()
    with running(app, files=files) as server, connect(server) as plain:
        with pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        with connect(server, files) as client:
            assert status(ask(client, b"x")) == 200


@pytest.mark.fault(36)
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "coordinator.example"])
def test_plain_http_stays_on_this_machine(host: str) -> None:
    with pytest.raises(DhdmmError, match="without a certificate"):
        make_server(Toy(), host, 0)


@pytest.mark.fault(36)
def test_an_expired_certificate_is_not_served(tmp_path: Path) -> None:
    old = certificate(tmp_path, days=-1)
    with pytest.raises(DhdmmError, match="expired"):
        make_server(Toy(), "127.0.0.1", 0, old.certificate, old.key)


def test_a_certificate_without_its_key_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(DhdmmError, match="together"):
        make_server(Toy(), "127.0.0.1", 0, files.certificate)
    (tmp_path / "other").mkdir()
    other = certificate(tmp_path / "other")
    with pytest.raises(DhdmmError, match="no certificate with its key"):
        make_server(Toy(), "127.0.0.1", 0, files.certificate, other.key)


def test_a_renewed_certificate_is_served_without_a_restart(files: Files) -> None:
    with running(Toy(), files=files) as server:
        before = files.client()
        certificate(files.certificate.parent)
        server.renew_certificate()
        with pytest.raises(ssl.SSLCertVerificationError), connect(server) as plain:
            before.wrap_socket(plain, server_hostname="localhost")
        with connect(server, files) as client:
            assert status(ask(client, b"x")) == 200


def test_half_a_renewal_leaves_the_old_certificate_in_use(files: Files, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with running(Toy(), files=files) as server:
        before = files.client()
        other = certificate(tmp_path / "other")
        files.certificate.write_bytes(other.certificate.read_bytes())  # its key is still to come
        server.renew_certificate()
        with before.wrap_socket(connect(server), server_hostname="localhost") as client:
            assert status(ask(client, b"x")) == 200


def test_what_is_under_way_is_answered_before_the_server_stops(files: Files) -> None:
    app, told = Toy(), threading.Event()
    app.hold = lambda: not told.is_set()
    with running(app, files=files, on_drain=told.set) as server, connect(server, files) as client:
        client.sendall(GET)
        until(lambda: app.calls == 1)
        server.stop()
        assert status(read_response(client)) == 200
        assert told.is_set()


def test_a_request_that_never_ends_does_not_keep_the_server(files: Files) -> None:
    app, gone = Toy(), threading.Event()
    app.hold = lambda: not gone.is_set()
    limits = replace(QUICK, drain_seconds=0.2)
    with running(app, limits, files) as server, connect(server, files) as client:
        client.sendall(GET)
        until(lambda: app.calls == 1)
        server.stop()
        assert status(read_all(client)) in (0, 500)
        gone.set()


SERVER = """
    import sys
    from pathlib import Path
    from dhdmm.server.process import make_server
    from tests.service.walls.servers import QUICK, Toy
    folder = Path(sys.argv[1])
    server = make_server(Toy(), "127.0.0.1", 0, folder / "server.pem", folder / "server.key", QUICK)
    started = server.startup
    async def startup(sockets=None):
        await started(sockets)
        print(server.port, flush=True)
    server.startup = startup
    server.run()
    print("and went on", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_the_program_goes_on(files: Files, number: int) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(files.certificate.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as process:
        server = type("Remote", (), {"port": int(process.stdout.readline())})
        with connect(server, files) as client:
            assert status(ask(client, b"x")) == 200
        os.kill(process.pid, number)
        assert process.stdout.read() == "and went on\n"
    assert process.returncode == 0


@pytest.fixture(scope="module")
def shared_server():
    with running(Toy(), replace(QUICK, header_seconds=0.05, body_seconds=0.05)) as server:
        yield server


REQUEST = b"POST /v1/rounds HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello"


@pytest.mark.fault(41)
@given(noise=st.binary(max_size=200), at=st.integers(0, len(REQUEST)), cut=st.booleans())
def test_malformed_requests_are_answered_or_cut_and_harm_nobody(
    shared_server, noise: bytes, at: int, cut: bool
) -> None:
    with connect(shared_server) as client:
        client.sendall(REQUEST[:at] + noise + (b"" if cut else REQUEST[at:]))
        answer = read_response(client)
        assert status(answer) in (0, 200, 400, 408, 411, 413, 415, 431, 501)
    with connect(shared_server) as client:
        assert status(ask(client, b"x")) == 200


@pytest.mark.fault(41)
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -5\r\n\r\nhello",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\nhello\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nhello",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
    ],
)
def test_ambiguous_requests_are_refused(shared_server, request_bytes: bytes) -> None:
    with connect(shared_server) as client:
        client.sendall(request_bytes)
        assert status(read_response(client)) in (0, 400, 408)

"""A real server in a thread of its own, and clients that misbehave on plain sockets."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics
from dhdmm.server.process import Server, make_server

LENGTH = re.compile(rb"content-length: (\d+)")
SECONDS_TO_START = 60.0
PATIENCE = 10.0  # a client gives up after these seconds; what a test calls cut came before them
QUICK = Limits(
    header_seconds=0.5, body_seconds=0.5, body_bytes_per_second=2**30, idle_seconds=1.0,
    drain_seconds=5.0, close_seconds=0.2,
)  # fmt: skip


class Toy:
    """An application that reads what it is sent and says how much that was."""

    def __init__(self) -> None:
        self.calls = 0
        self.hold: Callable[[], bool] = lambda: False

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        self.calls += 1
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        while self.hold():
            await asyncio.sleep(0.01)
        status = 401 if scope["path"] == "/unauthorised" else 200
        said = str(size).encode()
        length = (b"content-length", str(len(said)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": said})


async def _live(receive, send) -> None:
    for moment in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{moment}.complete"})


@dataclass(frozen=True)
class Files:
    """A certificate for localhost and its key."""

    certificate: Path
    key: Path

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


def certificate(folder: Path, *, days: float = 1) -> Files:
    """Signed by itself; it expires after so many days from now, or before it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = Files(folder / "server.pem", folder / "server.key")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.touch(0o600)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


@contextlib.contextmanager
def running(
    app, limits: Limits = QUICK, files: Files | None = None, metrics: Metrics | None = None, **more
) -> Iterator[Server]:
    """Our server."""
    cert, key = (files.certificate, files.key) if files else (None, None)
    server = make_server(app, "127.0.0.1", 0, cert, key, limits, metrics=metrics, **more)
    with _in_thread(server):
        yield server


@contextlib.contextmanager
def running_plain_uvicorn(app) -> Iterator[uvicorn.Server]:
    """The same web server without our walls."""
    config = uvicorn.Config(app, port=0, http="httptools", loop="uvloop", log_config=None)
    server = uvicorn.Server(config)
    with _in_thread(server):
        server.port = server.servers[0].sockets[0].getsockname()[1]
        yield server


@contextlib.contextmanager
def _in_thread(server: uvicorn.Server) -> Iterator[None]:
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, SECONDS_TO_START)
        yield
    finally:
        server.should_exit = True
        thread.join()


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something that will come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def connect(server, files: Files | None = None, source: str = "127.0.0.1") -> socket.socket:
    plain = socket.create_connection(
        ("127.0.0.1", server.port), timeout=PATIENCE, source_address=(source, 0)
    )
    if files is None:
        return plain
    return files.client().wrap_socket(plain, server_hostname="localhost")


def read_all(client: socket.socket) -> bytes:
    """Until the server hangs up."""
    parts = []
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def read_response(client: socket.socket) -> bytes:
    """One response with its body; nothing if the server hung up."""
    got, size = b"", None
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        while size is None or len(got) < size:
            part = client.recv(65536)
            if not part:
                break
            got += part
            if size is None and b"\r\n\r\n" in got:
                size = got.index(b"\r\n\r\n") + 4 + int(LENGTH.search(got)[1])
    return got


def trickle(client: socket.socket, data: bytes, every: float, seconds: float) -> bool:
    """One byte after the other, again and again; whether the server hung up before `seconds`."""
    end, sent = time.monotonic() + seconds, 0
    client.settimeout(every)
    while time.monotonic() < end:
        try:
            client.sendall(data[sent % len(data)].to_bytes())
            sent += 1
            if not client.recv(65536):
                return True
        except TimeoutError:
            continue  # nothing was said: still open
        except OSError:
            return True
    return False


def ask(client: socket.socket, body: bytes = b"", path: str = "/", headers: str = "") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    )
    client.sendall(head.encode() + body)
    return read_response(client)


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1]) if response else 0

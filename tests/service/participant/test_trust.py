"""With whom a participant speaks: TLS 1.3, and a certificate that it has a reason to believe."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dhdmm.client.http import CoordinatorClient, Unreachable
from dhdmm.errors import DhdmmError, Refused
from dhdmm.network.trust import Address, parse_digest, trusting
from tests.service.walls.servers import Files, certificate

pytestmark = pytest.mark.slow

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]"


@contextlib.contextmanager
def answering(files: Files | None, newest: ssl.TLSVersion | None = None) -> Iterator[int]:
    """A server that answers everything with an empty list, under whatever certificate."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if newest is not None:
        context.maximum_version = newest
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listener.accept()[0]
                with contextlib.suppress(OSError), client:
                    client.settimeout(10)
                    spoken = client if files is None else context.wrap_socket(client, True)
                    spoken.recv(65536)
                    spoken.sendall(REPLY)
                    spoken.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ask(port: int, trust: ssl.SSLContext, host: str = "localhost") -> list[object]:
    with CoordinatorClient(Address.parse(f"https://{host}:{port}"), trust, patience=0.0) as client:
        return client.rounds()


@contextlib.contextmanager
def proxying(port: int) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy whose every tunnel leads to this port, and what it was asked for."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listener.accept()[0]
                with client, socket.create_connection(("127.0.0.1", port)) as beyond:
                    asked.append(client.recv(65536))
                    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=copy, args=(beyond, client), daemon=True)
                    back.start()
                    copy(client, beyond)
                    back.join()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def digest_of(files: Files) -> bytes:
    encoded = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    return hashlib.sha256(encoded).digest()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return certificate(tmp_path)


def another(tmp_path: Path) -> Files:
    (tmp_path / "another").mkdir()
    return certificate(tmp_path / "another")


def test_a_certificate_of_a_known_authority_is_believed(files: Files):
    with answering(files) as port:
        assert ask(port, trusting(files.certificate)) == []


@pytest.mark.fault(36)
def test_an_unknown_certificate_is_refused(files: Files, tmp_path: Path):
    with answering(files) as port:
        for trust in (trusting(), trusting(another(tmp_path).certificate)):
            with pytest.raises(Refused, match="certificate is not believed"):
                ask(port, trust)


@pytest.mark.fault(36)
def test_a_certificate_for_another_name_is_refused(files: Files):
    with answering(files) as port, pytest.raises(Refused, match="not believed"):
        ask(port, trusting(files.certificate), host="127.0.0.1")


@pytest.mark.fault(36)
def test_a_pinned_certificate_is_believed_and_no_other(files: Files, tmp_path: Path):
    with answering(files) as port:
        assert ask(port, trusting(pin=digest_of(files)), host="127.0.0.1") == []
        with pytest.raises(Refused, match="not the pinned certificate"):
            ask(port, trusting(pin=digest_of(another(tmp_path))))


@pytest.mark.fault(36)
def test_an_expired_certificate_is_refused_pinned_or_not(tmp_path: Path):
    expired = certificate(tmp_path, days=-1)
    with answering(expired) as port:
        for trust in (trusting(expired.certificate), trusting(pin=digest_of(expired))):
            with pytest.raises(Refused, match="expired"):
                ask(port, trust)


@pytest.mark.fault(36)
def test_a_coordinator_without_tls_or_with_an_older_one_is_refused(files: Files):
    trust = trusting(files.certificate)
    with (
        answering(files, ssl.TLSVersion.TLSv1_2) as port,
        pytest.raises(Refused, match=r"TLS 1\.3"),
    ):
        ask(port, trust)
    with answering(None) as port, pytest.raises(DhdmmError):
        ask(port, trust)


@pytest.mark.fault(36)
@pytest.mark.parametrize("host", ["coordinator.example", "10.0.0.1", "127.0.0.1.example"])
def test_plain_http_is_for_this_machine_only(host: str):
    with pytest.raises(Refused, match="without TLS"):
        Address.parse(f"http://{host}:8080")
    assert Address.parse("http://127.0.0.1:8080").local


@pytest.mark.parametrize(
    "written", ["", "coordinator", "ftp://a", "https://u:p@a", "https://a/x", "https://a:b", "//a"]
)
def test_what_is_no_address_is_refused(written: str):
    with pytest.raises(DhdmmError):
        Address.parse(written)


def test_a_name_in_another_script_is_the_one_that_is_looked_up():
    assert Address.parse("https://müller.example:8443").base == "https://xn--mller-kva.example:8443"


def test_the_proxy_of_the_environment_is_on_the_way_to_others_only(
    files: Files, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    trust = trusting(pin=digest_of(files))
    with answering(files) as port, proxying(port) as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://somebody:a%20word@127.0.0.1:{proxy}")
        assert ask(port, trust) == [] == asked  # on this machine
        assert ask(8443, trust, "coordinator.example") == []
        (tunnel,) = asked
        assert tunnel.startswith(b"CONNECT coordinator.example:8443 HTTP/1.1\r\n")
        assert b"Basic " + base64.b64encode(b"somebody:a word") in tunnel
        monkeypatch.setenv("NO_PROXY", "coordinator.example")
        with pytest.raises(Unreachable):
            ask(port, trust, "coordinator.example")
        assert asked == [tunnel]
        monkeypatch.setenv("HTTPS_PROXY", f"socks5://127.0.0.1:{proxy}")
        with pytest.raises(DhdmmError, match="only HTTP proxies"):
            ask(8443, trust, "elsewhere.example")


def test_an_address_may_name_a_round():
    named = Address.parse(f"https://a:1/v1/rounds/{'ab' * 16}")
    assert (named.base, named.round_id) == ("https://a:1", b"\xab" * 16)


def test_a_fingerprint_may_be_written_with_colons():
    assert parse_digest(":".join(["AB"] * 32), "it") == b"\xab" * 32
    with pytest.raises(DhdmmError, match="64 hexadecimal digits"):
        parse_digest("ab", "it")

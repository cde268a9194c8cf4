"""The coordinator's web server: uvicorn behind our own acceptor, TLS 1.3, and a graceful end.

Plain HTTP is spoken on this machine only, to a reverse proxy or to somebody who tries things out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509

from dhdmm.errors import DhdmmError
from dhdmm.network.files import OTHERS_BUT_READERS_OF_THE_GROUP, require_private
from dhdmm.network.trust import is_loopback
from dhdmm.optional import optional_module
from dhdmm.server import logs
from dhdmm.server.asgi import Application
from dhdmm.server.connections import ACCEPT_PAUSE, Acceptor, Connection, Slot
from dhdmm.server.defects import caught
from dhdmm.server.guard import Guard, Recogniser, recognise_nobody
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import Metrics

resource, uvloop = optional_module("resource"), optional_module("uvloop")

BACKLOG = 4096
GC_THRESHOLDS = (20_000, 20, 20)
"""New objects before Python looks for cycles among them, and how often it looks further back."""
OTHER_FILES = 256
"""Open files that are not connections: the store, logs, libraries."""


@dataclass(frozen=True)
class Certificate:
    """The files of a server's certificate chain and of its key, both PEM."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """TLS 1.3 and nothing older."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # participants do not resume sessions
        try:
            expires = self.expires()
            require_private(self.key, OTHERS_BUT_READERS_OF_THE_GROUP)
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ValueError) as error:
            raise DhdmmError(
                f"no certificate with its key can be read: {error}",
                where=str(self.chain),
                hint="--tls-cert and --tls-key name two PEM files that belong together",
            ) from None
        if expires <= datetime.now(UTC):
            raise DhdmmError(
                f"the certificate expired on {expires:%Y-%m-%d}",
                where=str(self.chain),
                hint="participants would refuse it",
            )
        return context

    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.chain.read_bytes()).not_valid_after_utc


class Server(uvicorn.Server):
    """Runs until it is told to stop, then answers what is under way and ends.

    `await serve()` or `run()`; `stop()` from the loop's own thread or any other.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        certificate: Certificate | None,
        limits: Limits,
        metrics: Metrics,
        on_drain: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._certificate, self._limits, self._metrics = certificate, limits, metrics
        self._on_drain = on_drain
        tls = certificate.context() if certificate else None
        proxies = str(config.forwarded_allow_ips or "") if config.proxy_headers else ""
        self._acceptor = Acceptor(limits, metrics, tls, self._connection, proxies)
        self.servers = []  # uvicorn's own listeners: there are none
        self.port = config.port
        """The port in use; before the start, the one asked for."""
        self._note_expiry()

    def stop(self) -> None:
        self.should_exit = True

    def renew_certificate(self) -> None:
        """Read the certificate's files again; connections that are open keep the old one."""
        if self._certificate is not None:
            try:
                self._acceptor.tls = self._certificate.context()
            except DhdmmError as error:
                logs.logger().error("certificate not renewed", exc_info=error)
            else:
                self._note_expiry()

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise DhdmmError("the application did not start")
        config = self.config
        try:
            self._listener = socket.create_server(
                (config.host, config.port), backlog=config.backlog, family=_family(config.host)
            )
        except OSError as error:
            await self.lifespan.shutdown()
            place = f"{config.host}:{config.port}"
            hint = "choose another port with --port, or 0 for any free one"
            in_use = error.errno == errno.EADDRINUSE
            why = os.strerror(error.errno) if error.errno else str(error)
            raise DhdmmError(
                f"cannot listen: {why}", where=place, hint=hint if in_use else None
            ) from None
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        self.port = self._listener.getsockname()[1]
        self.started = True
        scheme = "https" if self._certificate else "http"
        host = f"[{config.host}]" if ":" in config.host else config.host
        url = f"{scheme}://{host}:{self.port}"
        logs.logger().info("listening", url=url, scheme=scheme, port=self.port)

    async def _accept(self) -> None:
        """For ever: a defect is reported, and does not end it."""
        while True:
            with caught(self._metrics):
                await self._acceptor.accept(self._listener)
            await asyncio.sleep(ACCEPT_PAUSE)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        logs.logger().info("draining", connections=len(self.server_state.connections))
        self._on_drain()
        self._accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._accepting
        self._listener.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but the signal is not raised again: whoever called goes on."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers: dict[signal.Signals, Callable[[int, Any], None]] = {
            signal.SIGINT: self.handle_exit,
            signal.SIGTERM: self.handle_exit,
        }
        if hasattr(signal, "SIGHUP"):  # not on Windows
            handlers[signal.SIGHUP] = lambda _number, _frame: self.renew_certificate()
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _connection(self, slot: Slot) -> Connection:
        return Connection(
            self._limits,
            self._metrics,
            slot,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def _note_expiry(self) -> None:
        if self._certificate is not None:
            self._metrics.certificate_expires(self._certificate.expires().timestamp())


def make_server(
    app: Application,
    host: str,
    port: int,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    limits: Limits | None = None,
    *,
    metrics: Metrics | None = None,
    on_drain: Callable[[], None] = lambda: None,
    proxies: str = "",
    recognise: Recogniser | None = None,
) -> Server:
    """A server for the application, which is called with whole and small requests only.

    `proxies` are addresses of reverse proxies, separated by commas: what they say about whom they
    speak for is believed. `recognise` tells who is asking; without one all are strangers.
    """
    certificate = _certificate(tls_cert, tls_key)
    if certificate is None and not is_loopback(host):
        raise DhdmmError(
            "without a certificate only this machine can be served",
            where=host,
            hint="give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a reverse proxy",
        )
    limits = _within_open_files(limits or Limits())
    counted = metrics or Metrics()
    config = uvicorn.Config(
        Guard(app, limits, counted, recognise=recognise or recognise_nobody),
        host=host,
        port=port,
        loop="auto",  # uvloop where it is installed
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        backlog=BACKLOG,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=limits.drain_seconds,  # type: ignore[arg-type]
    )
    return Server(config, certificate, limits, counted, on_drain)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run it to its end in the event loop that the server is made for.

    Requests leave few cycles behind, and looking for them among all that was imported took a third
    of a coordinator's time: what is there now is left alone, and the rest looked at less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop and uvloop.new_event_loop) as runner:
        runner.run(main)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _certificate(chain: Path | None, key: Path | None) -> Certificate | None:
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise DhdmmError(
            "a certificate and its key are given together", hint="give --tls-cert and --tls-key"
        )
    return Certificate(chain, key)


def _within_open_files(limits: Limits) -> Limits:
    """Let the process open as many files as it needs; if it may not, fewer connections."""
    if resource is None:
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + limits.turned_away + OTHER_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    fewer = max(allowed - limits.turned_away - OTHER_FILES, 1)
    if fewer < limits.connections:
        logs.logger().warning("fewer connections than asked for: open files", connections=fewer)
    return replace(limits, connections=min(limits.connections, fewer))

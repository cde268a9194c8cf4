"""A lean HTTP/1.1 client for load: one TLS connection a participant, one request at a time."""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import NamedTuple

LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
END = b"\r\n\r\n"


class Response(NamedTuple):
    status: int
    body: bytes


class Line(asyncio.Protocol):
    """A connection that stays open."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._wanted: int | None = None
        self._asked: asyncio.Future[Response] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext) -> Line:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            cls, "127.0.0.1", port, ssl=tls, server_hostname="localhost", ssl_handshake_timeout=300
        )
        return line

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Response:
        if self._transport is None:
            raise ConnectionResetError("the coordinator has hung up")
        self._asked = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._asked

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._wanted is None:
            end = self._got.find(END)
            if end < 0:
                return
            length = LENGTH.search(self._got, 0, end)
            self._wanted = end + len(END) + (int(length[1]) if length else 0)
        if len(self._got) >= self._wanted and self._asked is not None:
            head = self._got.index(END) + len(END)
            asked, self._asked = self._asked, None
            asked.set_result(Response(int(self._got[9:12]), bytes(self._got[head : self._wanted])))
            self._got.clear()
            self._wanted = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(exc or ConnectionResetError("the coordinator hung up"))

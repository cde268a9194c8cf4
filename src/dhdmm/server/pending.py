"""What a live round has yet to do: requests that wait for a turn, and messages that are wanted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256

from dhdmm.network.problems import Problem
from dhdmm.server.requests import Outcome, Request, Upload

Asked = tuple[Request, asyncio.Future[Outcome]]
UNKNOWN = "unknown"  # no digest is written so
REMEMBERED = 100_000
"""Digests that an outbox keeps, more than anybody has connections: what they are of can be fetched
again, and a million of them take 200 MB."""


class RequestQueue:
    """Requests in the order of their arrival, each with the future of its outcome."""

    def __init__(self) -> None:
        self._requests: deque[Asked] = deque()
        self.size = 0
        """Bytes of the messages in it, and of those whose turn has not ended."""
        self._enough, self._gathered = 0, asyncio.Event()

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first_waits(self) -> bool:
        """Whether whoever came first stays for what comes next, and loses nothing by waiting."""
        first = self._requests[0][0] if self._requests else None
        return isinstance(first, Upload) and first.waits

    def add(self, request: Request) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._requests.append((request, future))
        self.size += size_of(request)
        if len(self._requests) >= self._enough:
            self._gathered.set()
        return future

    async def gather(self, enough: int, seconds: float) -> None:
        """Wait until there are so many requests, or this long."""
        self._enough = enough
        self._gathered.clear()
        if len(self) < enough:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._gathered.wait()

    def take(self, most: int) -> list[Asked]:
        return [self._requests.popleft() for _ in range(min(most, len(self._requests)))]

    def answer(self, asked: Iterable[Asked], outcomes: Sequence[Outcome]) -> None:
        for (request, future), outcome in zip(asked, outcomes, strict=True):
            self.size -= size_of(request)
            if not future.done():
                future.set_result(outcome)


class Outbox:
    """What participants are to be sent in the present phase, fetched when they ask for it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake  # whoever fetches
        self.wanted: dict[int, asyncio.Future[None]] = {}
        self._digests: dict[int, str | None] = {}
        self._messages: dict[int, bytes] = {}  # until somebody takes them

    def clear(self) -> None:
        """Another phase has begun."""
        self._digests.clear()
        self._messages.clear()

    def has_nothing_after(self, position: int, digest: str) -> bool:
        """Whether it is known that there is no other message than the one with this digest."""
        return self._digests.get(position, UNKNOWN) in (None, digest)

    async def take(self, position: int) -> bytes | None:
        """The message, if it is there; otherwise None, after it has been fetched."""
        if position in self._messages:
            return self._messages.pop(position)
        if position not in self.wanted:
            self.wanted[position] = asyncio.get_running_loop().create_future()
            self._wake()
        await asyncio.shield(self.wanted[position])
        return None

    def put(self, position: int, found: bytes | Problem | None) -> None:
        """What was fetched for this participant, or why nothing could be."""
        future = self.wanted.pop(position)
        if isinstance(found, Problem):
            future.set_exception(found.again())
            return
        if found is not None:
            self._messages[position] = found
        self._digests[position] = None if found is None else sha256(found).hexdigest()
        if len(self._digests) > REMEMBERED:
            del self._digests[next(iter(self._digests))]
        future.set_result(None)


def size_of(request: Request) -> int:
    return len(request.body) if isinstance(request, Upload) else 0

"""How much anybody may ask of the coordinator: the figures, and the counters that hold them.

No web server enforces these for us: one that is sent a header a byte at a time waits for as long as
the bytes come, and one that is sent a large body keeps all of it.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from dhdmm.errors import DhdmmError

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Rate:
    """So many a second in the long run, and so many at once."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Limits:
    """Every limit of the service. The defaults hold 5,000 participants within 1 GB."""

    connections: int = 8000
    """Open connections, those still in their TLS handshake included; one more is answered 503."""
    connections_per_address: int | None = None
    """The same for one address. Off by default: participants may share a proxy's."""
    turned_away: int = 64
    """Connections over the cap that are told so at one time; others are closed without a word."""
    header_seconds: float = 10.0
    """For the TLS handshake, and again for the header of each request, however it trickles in."""
    header_bytes: int = 16 * KIB
    """Of a request's line and header together: 431."""
    idle_seconds: float = 30.0
    """Between two requests on one connection."""
    body_seconds: float = 10.0
    """For a body to arrive, and more in proportion to its size: see `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * KIB
    """The slowest line that a large body may come over."""
    body_bytes: int = 16 * MIB
    """Of one body: 413 as soon as it is announced or has arrived."""
    memory_bytes: int = 256 * MIB
    """Of all bodies in memory. Whoever would exceed it is not read from until others are done."""
    memory_bytes_per_address: int = 128 * MIB
    """The same for one address, so that nobody's slow bodies keep everybody else's out."""
    memory_seconds: float = 30.0
    """How long a body waits for that memory before it is answered 503."""
    requests: Rate = field(default=Rate(50, 200))
    """Of one identity at one address: 429."""
    unsigned_requests: Rate = field(default=Rate(500, 5000))
    """Of one address, without a signature: 429."""
    refusals: Rate = field(default=Rate(5, 100))
    """Wrong signatures and tokens from one address: 429."""
    callers: int = 20_000
    """Identities and addresses whose rate is remembered; the longest silent are forgotten."""
    retry_seconds: int = 2
    """What Retry-After says to those who came at a bad time."""
    drain_seconds: float = 20.0
    """For requests under way when the server is told to stop."""
    close_seconds: float = 2.0
    """For the other end to read what is left when a connection is closed."""

    def __post_init__(self) -> None:
        if self.body_bytes > min(self.memory_bytes, self.memory_bytes_per_address):
            raise DhdmmError("one body may be larger than all bodies together", where="limits")

    def body_deadline(self, length: int | None) -> float:
        """Seconds that a body of this length may take; of an unknown one, the longest."""
        expected = self.body_bytes if length is None else length
        return self.body_seconds + expected / self.body_bytes_per_second


class Buckets:
    """One token bucket for each caller: it fills at the rate and holds the burst."""

    def __init__(self, rate: Rate, callers: int, clock: Callable[[], float]) -> None:
        self._rate, self._callers, self._clock = rate, callers, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> int:
        """Whole seconds until the caller has a token again; 0 if there is one."""
        level = self._level(caller)
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate.per_second)

    def take(self, caller: str) -> None:
        """Use a token up; a debt is never larger than one."""
        self._levels[caller] = (max(self._level(caller) - 1, -1.0), self._clock())
        self._levels.move_to_end(caller)
        if len(self._levels) > self._callers:
            self._levels.popitem(last=False)

    def _level(self, caller: str) -> float:
        level, seen = self._levels.get(caller, (float(self._rate.burst), self._clock()))
        filled = level + (self._clock() - seen) * self._rate.per_second
        return min(filled, float(self._rate.burst))


class ByteBudget:
    """Bytes that may be held at once. Who finds too few left waits in line.

    The line is strict: a small body does not overtake a large one, which would otherwise never
    get its turn.
    """

    def __init__(self, total: int) -> None:
        self._left, self._total = total, total
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        return self._total - self._left

    @property
    def is_idle(self) -> bool:
        return not self.held and not self._line

    @asynccontextmanager
    async def hold(self, count: int) -> AsyncIterator[None]:
        await self._take(count)
        try:
            yield
        finally:
            self._give(count)

    async def _take(self, count: int) -> None:
        if not self._line and count <= self._left:
            self._left -= count
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append((count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # it may have been our turn in the very moment that we left
            self._give(0 if turn.cancelled() else count)
            raise

    def _give(self, count: int) -> None:
        self._left += count
        while self._line:
            wanted, turn = self._line[0]
            if turn.cancelled():
                self._line.popleft()
            elif wanted <= self._left:
                self._line.popleft()
                self._left -= wanted
                turn.set_result(None)
            else:
                break


class SharedBudget:
    """Bytes that may be held at once by all addresses, and by each."""

    def __init__(self, total: int, each: int) -> None:
        self._everybody, self._each = ByteBudget(total), each
        self._own: dict[str, ByteBudget] = {}

    @property
    def held(self) -> int:
        return self._everybody.held

    @asynccontextmanager
    async def hold(self, address: str, count: int, patience: float) -> AsyncIterator[None]:
        """`TimeoutError` if the bytes are not to be had within `patience` seconds."""
        own = self._own.setdefault(address, ByteBudget(self._each))
        try:
            async with AsyncExitStack() as held:
                async with asyncio.timeout(patience):
                    await held.enter_async_context(own.hold(count))  # first: not in others' line
                    await held.enter_async_context(self._everybody.hold(count))
                yield
        finally:
            if own.is_idle:
                self._own.pop(address, None)

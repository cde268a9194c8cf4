"""How much anybody may ask of the coordinator: the figures, and the counters that hold them.

No web server enforces these for us: one that is sent a header a byte at a time waits for as long as
the bytes come, and one that is sent a large body keeps all of it.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from heapq import heappop, heappush
from ipaddress import IPv4Address, ip_address, ip_network
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from dhdmm.errors import DhdmmError
from dhdmm.study import document
from dhdmm.study.document import Place

KIB, MIB = 2**10, 2**20
Number = TypeVar("Number", int, float)
_SIZE = re.compile("([0-9]{1,9}) ?(KiB|MiB)")


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
    stranger_connections: int = 4000
    """Of these, connections over which nobody has shown yet who it is; the rest is for members."""
    connections_per_address: int | None = 500
    """Connections of one address over which nobody has shown yet who it is."""
    connections_per_identity: int = 16
    """Connections of one identity, wherever it connects from: 429."""
    turned_away: int = 64
    """Connections over a cap that are told so at one time; others are closed without a word."""
    header_seconds: float = 10.0
    """For the TLS handshake, and again for the header of each request, however it trickles in."""
    header_bytes: int = 16 * KIB
    """Of a request's line and header together: 431."""
    idle_seconds: float = 30.0
    """Between two requests on one connection."""
    answer_seconds: float = 10.0
    """How often it is looked whether an answer is being read; if not, the connection is cut."""
    answer_bytes_per_second: int = 4 * KIB
    """The slowest line over which an answer may be read."""
    body_seconds: float = 10.0
    """For a body to arrive, and more in proportion to its size: see `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * KIB
    """The slowest line that a large body may come over."""
    body_bytes: int = 16 * MIB
    """Of one body: 413 as soon as it is announced or has arrived."""
    stranger_body_bytes: int = 64 * KIB
    """The same for a stranger: an enrolment, or a form."""
    memory_bytes: int = 256 * MIB
    """Of all members' bodies in memory. More is not read until others are done."""
    memory_bytes_per_identity: int = 32 * MIB
    """The same for one identity: 503."""
    stranger_memory_bytes: int = 4 * MIB
    """Of all strangers' bodies in memory, apart from that of members."""
    stranger_memory_bytes_per_address: int = MIB
    """The same for one address: 503."""
    memory_seconds: float = 30.0
    """How long a body waits for memory before it is answered 503."""
    requests: Rate = field(default=Rate(50, 200))
    """Of one identity: 429."""
    requests_at_once: int = 16
    """Of one identity under way, long-polls included: 429."""
    stranger_requests: Rate = field(default=Rate(100, 1000))
    """Of all strangers at one address: 429."""
    stranger_requests_at_once: int = 100
    """Of all strangers at one address under way: 429."""
    refusals: Rate = field(default=Rate(5, 100))
    """Requests from one address with credentials that do not hold, or without: 429."""
    guesses: Rate = field(default=Rate(0.2, 20))
    """Wrong operator's tokens from one address: 429."""
    callers: int = 20_000
    """Identities and addresses whose rate is remembered; the longest silent are forgotten."""
    retry_seconds: int = 2
    """What Retry-After says to those who came at a bad time."""
    drain_seconds: float = 20.0
    """For requests under way when the server is told to stop."""
    close_seconds: float = 2.0
    """For the other end to read what is left when a connection is closed."""

    def __post_init__(self) -> None:
        for one, together in (
            ("body_bytes", "memory_bytes"),
            ("body_bytes", "memory_bytes_per_identity"),
            ("stranger_body_bytes", "stranger_memory_bytes"),
            ("stranger_body_bytes", "stranger_memory_bytes_per_address"),
        ):
            if getattr(self, one) > getattr(self, together):
                raise DhdmmError(f"{one} is larger than {together}", where="limits")

    @classmethod
    def load(cls, path: Path) -> Limits:
        """The limits of a YAML file; what it does not name is as by default."""
        values, place = document.parse(document.read_text(path), path.name)
        if not isinstance(values, dict):
            raise place.error("not a mapping of limits", "such as  connections: 2000")
        known = {entry.name: entry.default for entry in fields(cls)}
        given = {}
        for name, value in values.items():
            if name not in known:
                near = get_close_matches(str(name), known, 1)
                raise (place / str(name)).error(
                    f"unknown limit {document.shown(name)}",
                    f"did you mean {near[0]}?" if near else "docs/DEPLOYING.md lists all limits",
                )
            given[name] = _limit(name, known[name], value, place / name)
        try:
            return cls(**given)
        except DhdmmError as error:
            named = [name for name in error.what.split() if name in given]
            raise (place / named[0]).error(error.what) from None

    def body_deadline(self, length: int | None) -> float:
        """Seconds that a body of this length may take; of an unknown one, the longest."""
        expected = self.body_bytes if length is None else length
        return self.body_seconds + expected / self.body_bytes_per_second


def _limit(name: str, default: Any, value: Any, place: Place) -> Any:
    """One value of a limits file: as the default, but positive; sizes also as `16 MiB`."""
    if isinstance(default, Rate):
        if not isinstance(value, dict) or value.keys() != {"per_second", "burst"}:
            raise place.error("not a rate", "such as  {per_second: 50, burst: 200}")
        return Rate(
            _positive(value["per_second"], float, place / "per_second"),
            _positive(value["burst"], int, place / "burst"),
        )
    if value is None and name == "connections_per_address":
        return None
    if "bytes" in name and isinstance(value, str):
        size = _SIZE.fullmatch(value)
        if size is None:
            raise place.error(f"{document.shown(value)} is not a size", "such as 65536 or 64 KiB")
        value = int(size[1]) * {"KiB": KIB, "MiB": MIB}[size[2]]
    return _positive(value, float if isinstance(default, float) else int, place)


def _positive(value: Any, kind: Callable[[Any], Number], place: Place) -> Number:
    wanted = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or not 0 < value < math.inf:
        words = "a whole number above 0" if kind is int else "a number above 0"
        raise place.error(f"{document.shown(value)} is not {words}")
    return kind(value)


@lru_cache(maxsize=4096)
def origin(address: str) -> str:
    """What requests of an address are counted under: of IPv6, the network that one customer has.

    >>> origin("192.0.2.1"), origin("::ffff:192.0.2.1"), origin("2001:db8:1:2:3::4")
    ('192.0.2.1', '192.0.2.1', '2001:db8:1:2::/64')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address) or parsed.ipv4_mapped is not None:
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return str(ip_network((parsed, 64), strict=False))


class Buckets:
    """One token bucket for each caller: it fills at the rate and holds the burst."""

    def __init__(self, rate: Rate, callers: int, clock: Callable[[], float]) -> None:
        self._rate, self._callers, self._clock = rate, callers, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> int:
        """Whole seconds until the caller has a token again; 0 if there is one."""
        level = self._level(caller)
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate.per_second)

    def wait_or_take(self, caller: str) -> int:
        """Take a token if there is one and return 0; otherwise the seconds until there is."""
        wait = self.wait(caller)
        if not wait:
            self.take(caller)
        return wait

    def take(self, caller: str) -> None:
        """Take a token; a debt is never larger than one."""
        self._levels[caller] = (max(self._level(caller) - 1, -1.0), self._clock())
        self._levels.move_to_end(caller)
        if len(self._levels) > self._callers:
            self._levels.popitem(last=False)

    def _level(self, caller: str) -> float:
        level, seen = self._levels.get(caller, (float(self._rate.burst), self._clock()))
        filled = level + (self._clock() - seen) * self._rate.per_second
        return min(filled, float(self._rate.burst))


class MemoryExceeded(Exception):
    """One caller's bodies are as many bytes as it may have."""


class BodyMemory:
    """Bytes of bodies that may be in memory at once, of all callers and of each.

    They are reserved as they arrive. A body that finds too few left waits in a queue and is not
    read from; earlier bodies stand before later ones. So that bodies of which each has a part do
    not wait for each other for ever, enough for one whole body is set aside for the first in the
    queue, which needs no more until it is complete.
    """

    def __init__(self, total: int, each: int, largest: int) -> None:
        self._left, self._each = total - largest, each
        self._asked_for: Counter[str] = Counter()
        self.held = 0
        self._first: ArrivingBody | None = None
        """Uses what was set aside."""
        self._begun = count()
        self._queue: list[tuple[int, ArrivingBody, int, asyncio.Future[None]]] = []

    def begin(self, caller: str) -> ArrivingBody:
        """A body that may grow; release it in the end."""
        return ArrivingBody(self, caller, next(self._begun))

    def take(self, body: ArrivingBody, size: int) -> asyncio.Future[None] | None:
        """Reserve so many bytes more: None if they are there at once, or what to wait for.

        Raises `MemoryExceeded` if the caller has too many.
        """
        if self._asked_for[body.caller] + size > self._each:
            raise MemoryExceeded
        self._asked_for[body.caller] += size
        body.asked_for += size
        if body is self._first or (not self._queue and size <= self._left):
            self._grant(body, size)
            return None
        turn = asyncio.get_running_loop().create_future()
        heappush(self._queue, (body.number, body, size, turn))
        self._serve()
        return turn

    def give_back(self, body: ArrivingBody) -> None:
        self._left += body.pooled
        self.held -= body.held
        self._asked_for[body.caller] -= body.asked_for
        if not self._asked_for[body.caller]:
            del self._asked_for[body.caller]
        if self._first is body:
            self._first = None
        body.asked_for = body.held = body.pooled = 0  # a second time, nothing is given back
        self._serve()

    def _grant(self, body: ArrivingBody, size: int) -> None:
        if body is not self._first:
            self._left -= size
            body.pooled += size
        self.held += size
        body.held += size

    def _serve(self) -> None:
        while self._queue:
            _, body, size, turn = self._queue[0]
            if not turn.cancelled():
                if size > self._left:
                    if self._first is not None:
                        break
                    self._first = body
                self._grant(body, size)
                turn.set_result(None)
            heappop(self._queue)


@dataclass(eq=False)
class ArrivingBody:
    """Bytes that one body has asked for, those it holds, and of these how many of the pool."""

    memory: BodyMemory
    caller: str
    number: int
    asked_for: int = 0
    held: int = 0
    pooled: int = 0

    def grow(self, count: int) -> asyncio.Future[None] | None:
        return self.memory.take(self, count)

    def release(self) -> None:
        self.memory.give_back(self)


class AtOnce:
    """How many requests each caller has under way."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, Counter[str]()

    def begin(self, caller: str) -> bool:
        """Count one more, unless it is one too many: then false."""
        if self._count[caller] >= self._most:
            return False
        self._count[caller] += 1
        return True

    def end(self, caller: str) -> None:
        self._count[caller] -= 1
        if not self._count[caller]:
            del self._count[caller]


@dataclass(frozen=True)
class CallerLimits:
    """What callers of one kind may use: members by identity, strangers by address."""

    rate: Buckets
    at_once: AtOnce
    memory: BodyMemory
    body_bytes: int

    @classmethod
    def both(cls, of: Limits, clock: Callable[[], float]) -> tuple[CallerLimits, CallerLimits]:
        """Those of members and those of strangers."""
        each, strangers = of.memory_bytes_per_identity, of.stranger_memory_bytes_per_address
        return (
            cls(
                Buckets(of.requests, of.callers, clock),
                AtOnce(of.requests_at_once),
                BodyMemory(of.memory_bytes, each, of.body_bytes),
                of.body_bytes,
            ),
            cls(
                Buckets(of.stranger_requests, of.callers, clock),
                AtOnce(of.stranger_requests_at_once),
                BodyMemory(of.stranger_memory_bytes, strangers, of.stranger_body_bytes),
                of.stranger_body_bytes,
            ),
        )

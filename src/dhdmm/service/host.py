"""A live round among the requests of a web server: batches, long-polls and deadlines.

Requests that arrive while a turn is being taken form the next batch. All work on the session
happens in one thread that belongs to the round; the event loop only ever reads what that thread has
left: the round's row, and the messages that somebody has asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import Protocol, TypeVar

from dhdmm.secagg.coordinator import Reply
from dhdmm.service.live import LiveRound, Seats
from dhdmm.service.logs import logger
from dhdmm.service.problems import Problem, Reason, store_unavailable
from dhdmm.service.requests import Close, Outcome, Request, Seat, Upload
from dhdmm.service.status import Status
from dhdmm.service.waiting import Clock, Deadlines, PhaseClock, Signal

BATCH = 256
PENDING = 8192
PENDING_BYTES = 192 * 2**20
POLL_SECONDS, IDLE_POLL_SECONDS = 0.2, 2.0
LONGEST_WAIT = 30.0
UNKNOWN = "unknown"  # no digest is written so

Result = TypeVar("Result")


class Observer(Protocol):
    """Is told what happens, for metrics."""

    def upload(self, reply: str, size: int) -> None:
        """A message was answered with this word."""

    def committed(self, messages: int, seconds: float) -> None:
        """A batch became durable."""

    def commit_failed(self) -> None: ...


class Unobserved:
    """Nobody is interested."""

    def upload(self, reply: str, size: int) -> None: ...

    def committed(self, messages: int, seconds: float) -> None: ...

    def commit_failed(self) -> None: ...


class Host:
    """One round in one process."""

    def __init__(
        self,
        live: LiveRound,
        deadlines: Deadlines,
        observer: Observer,
        clock: Clock = time.monotonic,
    ) -> None:
        self._live, self._observer, self._clock = live, observer, clock
        self._phase_clock = PhaseClock(deadlines, live.row.state, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="round")
        self._pending: deque[tuple[Request, asyncio.Future[Outcome]]] = deque()
        self._pending_bytes = 0
        self.received_bytes = 0  # of messages that this process has served
        self._wanted: dict[int, asyncio.Future[None]] = {}
        self._digests: dict[int, str | None] = {}  # of what everybody is to be sent in this phase
        self._messages: dict[int, bytes] = {}  # until they are fetched
        self._work, self._ended = asyncio.Event(), asyncio.Event()
        self._progress, self._phase = Signal(), Signal()
        self._draining, self._behind = False, True
        self._tasks: list[asyncio.Task[None]] = []

    # Beginning and end

    def start(self) -> None:
        """Go on from where the store is."""
        if self.over:
            self._ended.set()
        self._tasks = [asyncio.create_task(self._pump()), asyncio.create_task(self._watch())]
        self._work.set()

    def drain(self) -> None:
        """Nothing new is begun, and whoever waits is sent away."""
        self._draining = True
        self._progress.happen()
        self._phase.happen()
        self._work.set()

    async def stop(self) -> None:
        """After everything that has been asked is answered."""
        self.drain()
        pump, watch = self._tasks
        watch.cancel()
        await asyncio.gather(pump, watch, return_exceptions=True)
        self._thread.shutdown()

    async def ended(self) -> None:
        """Returns when the round is over."""
        await self._ended.wait()

    # What is known now

    @property
    def over(self) -> bool:
        return self._live.row.over

    @property
    def seats(self) -> Seats | None:
        return self._live.seats

    @property
    def draft(self) -> bytes:
        return self._live.study.draft

    def status(self) -> Status:
        return Status.of(self._live.row, self._live.study, self._phase_clock.remaining)

    async def transcript(self) -> bytes | None:
        if not self.over:
            return None
        found = await self._attempt(lambda: (self._live.transcript(),))
        if found is None:
            raise store_unavailable()
        return found[0]

    # What can be waited for

    async def status_after(self, version: int, wait: float) -> Status:
        """As soon as the version is higher, or after `wait` seconds."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while self._live.row.version <= version and not (self._draining or self.over):
            if not await self._progress.wait(end - self._clock()):
                break
        return self.status()

    async def agreed(self, wait: float) -> Seats:
        """The plan and the roster; a 409 if they do not exist after `wait` seconds."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while self.seats is None and not (self._draining or self.over):
            if not await self._phase.wait(end - self._clock()):
                break
        if self.seats is not None:
            return self.seats
        if self.over:
            raise Problem(410, Reason.OVER, f"the round was aborted: {self._live.row.reason}")
        raise Problem(409, Reason.NOT_YET, "enrolment is still open")

    async def message(self, position: int, after: str, wait: float) -> bytes | None:
        """What this participant is to be sent, unless it is what it has; None if that lasts."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while True:
            if self._digests.get(position, UNKNOWN) not in (None, after):
                if position in self._messages:
                    return self._messages.pop(position)
                await self._want(position)
            elif self.over:
                raise Problem(410, Reason.OVER, "the round has ended")
            elif self._draining or not await self._phase.wait(end - self._clock()):
                return None

    # What can be asked

    async def ask(self, request: Request) -> Reply | Seat | None:
        """Serve it in the next turn; the answer is durable."""
        size = _size(request)
        if self._draining:
            raise Problem(503, Reason.DRAINING, "this coordinator is going away", retry_after=1)
        if len(self._pending) >= PENDING or self._pending_bytes + size > PENDING_BYTES:
            raise Problem(503, Reason.BUSY, "too many uploads at once", retry_after=1)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._pending.append((request, future))
        self._pending_bytes += size
        self._work.set()
        outcome = await future
        if isinstance(request, Upload):
            word = outcome.reason if isinstance(outcome, Problem) else str(outcome)
            self._observer.upload(word, size)
            self.received_bytes += size
        if isinstance(outcome, Problem):
            raise outcome
        return outcome

    async def close_phase(self, state: str | None = None) -> None:
        """Close enrolment or the present phase now, unless another than this one is open."""
        await self.ask(Close(state or self._live.row.state))

    # The round's thread, and the two tasks that keep it busy

    async def _pump(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            if self._behind:
                self._behind = False
                await self._turn([])
            while self._pending or self._wanted or (self._live.complete and not self._draining):
                await self._take_batch()
                await self._fetch_messages()
            if self._draining:
                return

    async def _watch(self) -> None:
        """Notice when a deadline has passed, and when another worker has been here."""
        while not self.over:
            remaining = self._phase_clock.remaining or 0.0
            waited_for = self._progress.waiting or self._phase.waiting
            await asyncio.sleep(min(POLL_SECONDS if waited_for else IDLE_POLL_SECONDS, remaining))
            if self._phase_clock.remaining == 0.0:
                with suppress(Problem):  # the store has failed: again after a while
                    await self.close_phase()
            elif self._behind or await self._attempt(self._live.is_behind) is not False:
                self._behind = True
                self._work.set()

    async def _take_batch(self) -> None:
        batch = [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]
        requests = [request for request, _ in batch]
        if self._live.complete and not batch:
            requests = [Close(self._live.row.state)]
        if not requests:
            return
        outcomes = await self._turn(requests)
        for (request, future), outcome in zip(batch, outcomes, strict=False):
            self._pending_bytes -= _size(request)
            if not future.done():
                future.set_result(outcome)

    async def _turn(self, requests: Sequence[Request]) -> Sequence[Outcome]:
        before, started = self._live.row, time.perf_counter()
        outcomes = await self._attempt(lambda: self._live.turn(requests))
        if outcomes is None:
            self._observer.commit_failed()
            self._live.complete = False  # found out again when the turn is repeated
            self._behind = True
            return [store_unavailable() for _ in requests]
        if requests:
            self._observer.committed(len(requests), time.perf_counter() - started)
        self._notice(before.state, before.version)
        return outcomes

    def _notice(self, state: str, version: int) -> None:
        row = self._live.row
        if row.version != version:
            self._progress.happen()
        if row.state != state:
            self._digests.clear()
            self._messages.clear()
            self._phase_clock.see(row.state)
            self._phase.happen()
        if row.over:
            self._ended.set()

    async def _want(self, position: int) -> None:
        """Have this participant's message ready; many wants are met at once."""
        if position not in self._wanted:
            self._wanted[position] = asyncio.get_running_loop().create_future()
            self._work.set()
        await asyncio.shield(self._wanted[position])

    async def _fetch_messages(self) -> None:
        wanted = [(i, self._wanted.pop(i)) for i in list(self._wanted)[:BATCH]]
        found = await self._attempt(lambda: self._live.messages(i for i, _ in wanted))
        for position, future in wanted:
            if found is None:
                future.set_exception(store_unavailable())
                continue
            message = found[position]
            if message is not None:
                self._messages[position] = message
            self._digests[position] = None if message is None else sha256(message).hexdigest()
            future.set_result(None)

    async def _attempt(self, work: Callable[[], Result]) -> Result | None:
        """In the round's thread. A failure, whatever it is, means that nothing has happened."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        await asyncio.wait([done])
        error = done.exception()
        if error is not None:
            logger().error("turn failed", round=self._live.row.id, exc_info=error)
        return None if error else done.result()


def _size(request: Request) -> int:
    return len(request.body) if isinstance(request, Upload) else 0

"""A live round among the requests of a web server: batches, long-polls and deadlines.

Requests that arrive while a turn is being taken form the next batch. All work on the session
happens in one thread that belongs to the round; the event loop only ever reads what that thread has
left: the round's row, and the messages that somebody has asked for.

While the store fails nothing is asked of it but, less and less often, whether it works again:
requests are answered 503 at once, and the phase's clock stands still. A turn that meets a defect of
ours is answered 500. In both cases nothing has happened, and the session is made anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from typing import Protocol, TypeVar

from dhdmm.aggregation.method import Reply
from dhdmm.network.problems import LONGEST_RETRY, Problem, Reason
from dhdmm.network.status import Status
from dhdmm.server.database import StoreUnavailable
from dhdmm.server.defects import DefectCounter, caught
from dhdmm.server.requests import Close, EnrolledSeat, Outcome, Request, Upload
from dhdmm.server.responses import store_unavailable
from dhdmm.server.round_state import RoundState, Seats
from dhdmm.server.store import status_of
from dhdmm.server.trouble import Backoff, Trouble
from dhdmm.server.waiting import Clock, Deadlines, PhaseClock, Signal

BATCH = 256
CROWD, GATHER_SECONDS = 64, 0.01
"""Among so many it pays to wait this long for others to speak: they share a commit."""
PENDING = 8192
PENDING_BYTES = 192 * 2**20
POLL_SECONDS, IDLE_POLL_SECONDS = 0.2, 2.0
LONGEST_WAIT = 30.0
AFTER_AN_OUTAGE = 2 * LONGEST_RETRY
"""Seconds that a phase lasts at least once the store works again: everybody has tried by then."""
UNKNOWN = "unknown"  # no digest is written so

Result = TypeVar("Result")
Asked = tuple[Request, asyncio.Future[Outcome]]


class Observer(DefectCounter, Protocol):
    """Is told what happens, for metrics."""

    def upload(self, reply: str, size: int) -> None:
        """A message was answered with this word."""

    def committed(self, messages: int, seconds: float) -> None:
        """A batch became durable."""

    def commit_failed(self) -> None: ...

    def round_ended(self, phase: str) -> None: ...


class Unobserved:
    """Nobody is interested."""

    def upload(self, reply: str, size: int) -> None: ...

    def committed(self, messages: int, seconds: float) -> None: ...

    def commit_failed(self) -> None: ...

    def round_ended(self, phase: str) -> None: ...

    def internal_error(self) -> None: ...


class LiveRound:
    """A running round: a queue in front of its state, which one thread owns.

    What is asked is served in turns, and answered when its turn is durable.
    """

    def __init__(
        self,
        state: RoundState,
        deadlines: Deadlines,
        observer: Observer,
        clock: Clock = time.monotonic,
    ) -> None:
        self._state, self._observer, self._clock = state, observer, clock
        self._phase_clock = PhaseClock(deadlines, state.row.state, state.arrival, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="round")
        self._pending: deque[Asked] = deque()
        self._pending_bytes = 0
        self.received_bytes = 0  # of messages that this process has served
        self._wanted: dict[int, asyncio.Future[None]] = {}
        self._digests: dict[int, str | None] = {}  # of what everybody is to be sent in this phase
        self._messages: dict[int, bytes] = {}  # until they are fetched
        self._work, self._ended = asyncio.Event(), asyncio.Event()
        self._progress, self._phase = Signal(), Signal()
        self._draining, self._behind = False, True
        self._seen = (state.row.state, state.row.version)  # by those who wait
        self._in_time: int | None = None  # pending requests that came before the phase's end
        self._store = Trouble("store", clock, round=state.row.id)
        self._defective = Backoff(clock)  # before we do again what nobody asked for

    # Beginning and end

    def start(self) -> None:
        """Go on from where the store is."""
        if self.over:
            self._ended.set()
        self._task = asyncio.create_task(self._run())
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
        await self._task
        self._thread.shutdown()

    async def ended(self) -> None:
        """Returns when the round is over."""
        await self._ended.wait()

    # What is known now

    @property
    def over(self) -> bool:
        return self._state.row.over

    @property
    def store_fails(self) -> bool:
        """Whether the last attempt to use the store failed."""
        return self._store.failing

    @property
    def seats(self) -> Seats | None:
        return self._state.seats

    @property
    def preview(self) -> bytes:
        return self._state.study.preview

    def status(self) -> Status:
        return status_of(self._state.row, self._state.study, self._phase_clock.remaining)

    async def transcript(self) -> bytes | None:
        if not self.over:
            return None
        try:
            return await self._in_thread(self._state.transcript)
        except StoreUnavailable:
            raise store_unavailable() from None

    # What can be waited for

    async def status_after(self, version: int, wait: float) -> Status:
        """As soon as the version is higher, or after `wait` seconds."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while self._state.row.version <= version and not (self._draining or self.over):
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
            raise Problem(410, Reason.OVER, f"the round was aborted: {self._state.row.reason}")
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

    async def ask(self, request: Request) -> Reply | EnrolledSeat | None:
        """Serve it in the next turn; the answer is durable."""
        size = _size(request)
        if self._draining:
            raise Problem(503, Reason.DRAINING, "this coordinator is going away", retry_after=1)
        if len(self._pending) >= PENDING or self._pending_bytes + size > PENDING_BYTES:
            raise Problem(503, Reason.BUSY, "too many uploads at once", retry_after=1)
        if self._store.pause:
            raise store_unavailable(self._store.pause)
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
        await self.ask(Close(state or self._state.row.state))

    # The round's thread, and the task that keeps it busy

    async def _run(self) -> None:
        while not self._draining or self._pending or self._wanted:
            with caught(self._observer, round=self._state.row.id) as defect:
                await self._serve(asked=await self._rest())
            if defect.id is not None:
                self._defective.failed()
                await asyncio.sleep(self._defective.pause)

    async def _rest(self) -> bool:
        """Until something is asked, or it is time to look around; whether it was the former."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._until_next_look()):
                await self._work.wait()
        asked = self._work.is_set()
        self._work.clear()
        return asked

    def _until_next_look(self) -> float | None:
        """Seconds: for the next deadline, for another worker's deeds, for a store that failed."""
        if self._store.failing:
            return min(POLL_SECONDS, max(self._store.pause, self._defective.pause))
        if self.over:
            return None
        waited_for = self._progress.waiting or self._phase.waiting
        poll = POLL_SECONDS if waited_for else IDLE_POLL_SECONDS
        return min(poll, self._defective.pause or self._phase_clock.remaining or 0.0)

    async def _serve(self, asked: bool) -> None:
        """Do what there is to do now, in as many turns as it takes."""
        if not self._store.pause and not self._defective.pause:
            await self._catch_up(look=not asked)
        while not self._store.pause and (
            (closing := self._closes_now()) or self._pending or self._wanted
        ):
            if closing:
                self._in_time = None
                await self._turn([Close(self._state.row.state)])
            else:
                await self._take_batch()
            await self._fetch_messages()
        if self._store.pause:
            self._turn_away()

    async def _catch_up(self, look: bool) -> None:
        """Follow other workers, and find out whether a store that failed can commit again."""
        if self._store.failing:
            await self._turn([])
            if not self._store.pause and await self._attempt(self._state.write_nothing_new) is True:
                self._store.ended()
                self._phase_clock.go_on(AFTER_AN_OUTAGE)
        elif self._behind or (
            look and not self.over and await self._attempt(self._state.is_behind) is True
        ):
            await self._turn([])

    def _closes_now(self) -> bool:
        """Everybody has spoken or the time is up, and whoever came before that is served."""
        due = self._state.complete or self._phase_clock.remaining == 0.0
        if not due or self._draining or self._defective.pause:
            self._in_time = None
            return False
        if self._in_time is None:
            self._in_time = len(self._pending)
        return self._in_time == 0

    async def _take_batch(self) -> None:
        if self._state.row.invited >= CROWD and len(self._pending) < BATCH:
            await asyncio.sleep(GATHER_SECONDS)
        batch = [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]
        if not batch:
            return
        if self._in_time is not None:
            self._in_time = max(self._in_time - len(batch), 0)
        self._answer(batch, await self._turn([request for request, _ in batch]))

    def _turn_away(self) -> None:
        """Nobody waits for a store that fails."""
        self._answer(self._pending, [store_unavailable(self._store.pause) for _ in self._pending])
        self._pending.clear()
        for future in self._wanted.values():
            future.set_exception(store_unavailable(self._store.pause))
        self._wanted.clear()

    def _answer(self, asked: Iterable[Asked], outcomes: Sequence[Outcome]) -> None:
        for (request, future), outcome in zip(asked, outcomes, strict=True):
            self._pending_bytes -= _size(request)
            if not future.done():
                future.set_result(outcome)

    async def _turn(self, requests: Sequence[Request]) -> Sequence[Outcome]:
        """Outcomes that are durable; if the turn fails, nothing of it has happened."""
        started = time.perf_counter()
        outcomes = await self._attempt(lambda: self._state.turn(requests))
        self._behind = isinstance(outcomes, Problem)
        self._notice()
        if isinstance(outcomes, Problem):
            self._state.complete = False  # found out again when the turn is repeated
            return [outcomes.again() for _ in requests]
        if requests:
            self._observer.committed(len(requests), time.perf_counter() - started)
        return outcomes

    def _notice(self) -> None:
        """Tell those who wait what has changed since they were last told."""
        row = self._state.row
        (state, version), self._seen = self._seen, (row.state, row.version)
        if row.version != version:
            self._defective.succeeded()
            self._progress.happen()
        if row.state != state:
            self._digests.clear()
            self._messages.clear()
            self._phase_clock.see(row.state)
            self._phase.happen()
        if row.over:
            self._ended.set()
            self._thread.shutdown(wait=False)

    async def _want(self, position: int) -> None:
        """Have this participant's message ready; many wants are met at once."""
        if position not in self._wanted:
            self._wanted[position] = asyncio.get_running_loop().create_future()
            self._work.set()
        await asyncio.shield(self._wanted[position])

    async def _fetch_messages(self) -> None:
        wanted = [(i, self._wanted.pop(i)) for i in list(self._wanted)[:BATCH]]
        if not wanted:
            return
        found = await self._attempt(lambda: self._state.messages(i for i, _ in wanted))
        self._notice()
        for position, future in wanted:
            if isinstance(found, Problem):
                future.set_exception(found.again())
                continue
            message = found[position]
            if message is not None:
                self._messages[position] = message
            self._digests[position] = None if message is None else sha256(message).hexdigest()
            future.set_result(None)

    async def _attempt(self, work: Callable[[], Result]) -> Result | Problem:
        """In the round's thread; if it fails, what is to be answered."""
        begun = self._clock()
        with caught(self._observer, round=self._state.row.id) as defect:
            try:
                done = await self._in_thread(work)
            except StoreUnavailable as error:
                self._observer.commit_failed()
                self._store.failed(error)
                self._phase_clock.stop(begun)
                return store_unavailable(self._store.pause)
        if defect.id is not None:
            self._defective.failed()
            return defect.problem()
        return done

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """The round's own; one that is over has none, and all of them share a few."""
        thread = None if self.over else self._thread
        return await asyncio.get_running_loop().run_in_executor(thread, work)


def _size(request: Request) -> int:
    return len(request.body) if isinstance(request, Upload) else 0

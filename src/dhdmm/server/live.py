"""A live round: a queue of requests, long-polls and deadlines in front of the round's state.

Requests that arrive while a turn is being taken form the next batch. All work on the session
happens in one thread that belongs to the round; the event loop only reads what that thread has
left: the round's row, and the messages that somebody has asked for.

While the store fails it is only asked, less and less often, whether it works again: requests are
answered 503 at once, and the phase's clock stands still. A turn that meets a defect of ours is
answered 500. In both cases nothing has happened, and the session is rebuilt from the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import TypeVar

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.method import Reply
from dhdmm.errors import DhdmmError
from dhdmm.network.compressed import compress
from dhdmm.network.helper_link import HelperLink, HelperUnavailable, encode_opening
from dhdmm.network.problems import LONGEST_RETRY, Problem, Reason
from dhdmm.network.status import Status
from dhdmm.server.database import StoreUnavailable
from dhdmm.server.defects import caught
from dhdmm.server.metrics import Metrics
from dhdmm.server.outages import Backoff, Outage
from dhdmm.server.pending import Outbox, RequestQueue, size_of
from dhdmm.server.requests import (
    Abort,
    AskHelper,
    Close,
    EnrolledSeat,
    HelperAnswer,
    Outcome,
    Request,
    Upload,
)
from dhdmm.server.responses import internal_error, store_unavailable
from dhdmm.server.round_state import RoundState, Seats
from dhdmm.server.store import status_of
from dhdmm.server.waiting import Clock, Deadlines, PhaseClock, Signal

BATCH = 256
LARGE_ROUND, GATHER_SECONDS = 64, 0.5
"""In a round of so many participants, a turn waits up to so many seconds until all messages of the
phase are there, so that more of them share one commit. A message is answered with the next phase's,
for which all of them are needed anyway, so a phase takes no longer. A sender that does not wait for
the next phase is answered at once."""
PENDING = 8192
PENDING_BYTES = 192 * 2**20
POLL_SECONDS, IDLE_POLL_SECONDS = 0.2, 2.0
LONGEST_WAIT = 30.0
AFTER_AN_OUTAGE = 2 * LONGEST_RETRY
"""Seconds that a phase lasts at least once the store works again: everybody has tried by then."""

Result = TypeVar("Result")


class LiveRound:
    """A running round: a queue in front of its state, which only one thread uses.

    Requests are served in turns, and answered when their turn is durable.
    """

    def __init__(
        self,
        state: RoundState,
        deadlines: Deadlines,
        metrics: Metrics,
        clock: Clock = time.monotonic,
        helper: HelperLink | None = None,
    ) -> None:
        self._state, self._metrics, self._clock = state, metrics, clock
        self._helper = helper
        self._helper_outage = Outage("helper", clock, round=state.row.id)
        self._asking: asyncio.Task[None] | None = None
        self._told_of_helper_key = state.helper_key_known
        self._phase_clock = PhaseClock(deadlines, state.row.state, state.arrival_phase, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="round")
        self._work, self._ended = asyncio.Event(), asyncio.Event()
        self._queue, self._outbox = RequestQueue(), Outbox(self._work.set)
        self._progress, self._phase = Signal(), Signal()
        self._draining, self._is_stale = False, True
        self._row = state.row
        """As those who wait last saw it; the round's thread may have a newer one."""
        self._before_deadline: int | None = None
        """Requests in the queue that came before the phase's end; None while it lasts."""
        self._store = Outage("store", clock, round=state.row.id)
        self._defective = Backoff(clock)  # pauses background work after a defect
        self.received_bytes = 0  # of messages that this process has served

    # Beginning and end

    def start(self) -> None:
        """Continue from what the store has."""
        if self.over:
            self._ended.set()
        self._task = asyncio.create_task(self._run())
        self._work.set()

    def drain(self) -> None:
        """Accept nothing new, and answer everybody who waits."""
        self._draining = True
        self._progress.happen()
        self._phase.happen()
        self._work.set()

    async def stop(self) -> None:
        """Drain, and return when everything that has been asked is answered."""
        self.drain()
        await self._task
        if self._asking is not None:
            await self._asking
        self._thread.shutdown()

    async def ended(self) -> None:
        """Returns when the round is over."""
        await self._ended.wait()

    # What is known now

    @property
    def over(self) -> bool:
        return self._row.over

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

    @cached_property
    def compressed_preview(self) -> bytes:
        return compress(self.preview)

    def status(self) -> Status:
        status = status_of(self._row, self._state.study, self._phase_clock.remaining)
        if self._state.settled is None:
            return status
        away = self._helper_outage.failing and not self.over
        return status.model_copy(update={"settled": self._state.settled, "helper_away": away})

    async def transcript(self) -> bytes | None:
        return await self._read(self._state.transcript) if self.over else None

    async def roster_file(self) -> bytes:
        """Once it is agreed."""
        return await self._read(self._state.roster_file)

    async def _read(self, reading: Callable[[], Result]) -> Result:
        try:
            return await self._in_thread(reading)
        except StoreUnavailable:
            raise store_unavailable() from None

    # What can be waited for

    async def status_after(self, version: int, wait: float) -> Status:
        """The status as soon as its version is higher, or after `wait` seconds."""
        await self._until(lambda: self._row.version > version, self._progress, wait)
        return self.status()

    async def agreed(self, wait: float) -> Seats:
        """The plan and the roster; a 409 if they do not exist after `wait` seconds."""
        await self._until(lambda: self.seats is not None, self._phase, wait)
        if self.seats is not None:
            return self.seats
        if self.over:
            raise Problem(410, Reason.OVER, f"the round was aborted: {self._row.reason}")
        people = f"{self._row.enrolled} enrolled, at least {self._state.study.minimum} are needed"
        raise Problem(409, Reason.NOT_YET, people)

    async def message(self, position: int, after: str, wait: float) -> bytes | None:
        """This participant's next message after the one it has; None if `wait` seconds pass."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while True:
            if not self._outbox.has_nothing_after(position, after):
                message = await self._outbox.take(position)
                if message is not None:
                    return message
            elif self.over:
                raise Problem(410, Reason.OVER, "the round has ended")
            elif self._draining or not await self._phase.wait(end - self._clock()):
                return None

    async def _until(self, done: Callable[[], bool], signal: Signal, wait: float) -> None:
        """Returns when it is done, when nothing more will happen, or after `wait` seconds."""
        end = self._clock() + min(wait, LONGEST_WAIT)
        while not (done() or self._draining or self.over):
            if not await signal.wait(end - self._clock()):
                break

    # What can be asked

    async def ask(self, request: Request) -> Reply | EnrolledSeat | bytes | None:
        """Serve it in the next turn; the answer is durable."""
        size = size_of(request)
        if self._draining:
            raise Problem(503, Reason.DRAINING, "this coordinator is going away", retry_after=1)
        if len(self._queue) >= PENDING or self._queue.size + size > PENDING_BYTES:
            raise Problem(503, Reason.BUSY, "too many uploads at once", retry_after=1)
        if self._store.pause:
            raise store_unavailable(self._store.pause)
        future = self._queue.add(request)
        self._work.set()
        outcome = await future
        if isinstance(request, Upload):
            word = outcome.reason if isinstance(outcome, Problem) else str(outcome)
            self._metrics.upload(word, size)
            self.received_bytes += size
        if isinstance(outcome, Problem):
            raise outcome
        return outcome

    async def close_phase(self, state: str | None = None) -> None:
        """Close enrolment or the present phase now, unless another than this one is open."""
        await self.ask(Close(state or self._row.state))

    # The task that takes turns

    async def _run(self) -> None:
        while not self._draining or self._queue or self._outbox.wanted:
            with caught(self._metrics, round=self._row.id) as defect:
                await self._serve(asked=await self._wait_for_work())
            if defect.id is not None:
                self._defective.failed()
                await asyncio.sleep(self._defective.pause)

    async def _wait_for_work(self) -> bool:
        """Wait until something is asked, or the next look is due; whether it was the former."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds_until_check()):
                await self._work.wait()
        asked = self._work.is_set()
        self._work.clear()
        return asked

    def _seconds_until_check(self) -> float | None:
        """Seconds until the next deadline, look for other workers' turns, or try of the store."""
        if self._store.failing:
            return min(POLL_SECONDS, max(self._store.pause, self._defective.pause))
        if self.over:
            return None
        if self._state.waits_for_helper:
            return POLL_SECONDS
        waited_for = self._progress.waiting or self._phase.waiting
        poll = POLL_SECONDS if waited_for else IDLE_POLL_SECONDS
        return min(poll, self._defective.pause or self._phase_clock.remaining or 0.0)

    async def _serve(self, asked: bool) -> None:
        """Do what there is to do now, in as many turns as it takes."""
        if not self._store.pause and not self._defective.pause:
            await self._catch_up(look=not asked)
        while not self._store.pause and (
            (closing := self._phase_ends_now()) or self._queue or self._outbox.wanted
        ):
            if closing:
                self._before_deadline = None
                await self._turn([Close(self._row.state)])
            else:
                await self._take_batch()
            await self._fetch_messages()
            self._start_asking_helper()
        if self._store.pause:
            self._refuse_all(store_unavailable(self._store.pause))
        self._start_asking_helper()

    def _start_asking_helper(self) -> None:
        """Beside everything else: the helper is asked what there is to ask it."""
        idle = self._asking is None or self._asking.done()
        if self._state.asks_helper and idle and not self._draining and not self._must_pause():
            self._asking = asyncio.create_task(self._ask_helper())

    def _must_pause(self) -> bool:
        return bool(self._store.pause or self._helper_outage.pause or self._defective.pause)

    async def _ask_helper(self) -> None:
        """Until there is nothing to ask. A helper that is away is asked again, less and less."""
        with caught(self._metrics, round=self._row.id), suppress(Problem):
            while self._state.asks_helper and not self._draining:
                request = await self.ask(AskHelper())
                if not isinstance(request, bytes):
                    return
                answer = await self._answer_of_helper(request)
                if answer is None:
                    return
                await self.ask(answer)

    async def _answer_of_helper(self, request: bytes) -> HelperAnswer | Abort | None:
        if self._helper is None:
            self._helper_outage.failed(DhdmmError("no helper is given", hint="--helper"))
            return None
        try:
            answer = await asyncio.to_thread(self._helper.ask, self._row.id, request, self._opening)
        except HelperUnavailable as error:
            self._helper_outage.failed(error)
            return None
        except RemoteProtocolError as error:
            return Abort(error.reason)
        self._helper_outage.ended()
        return HelperAnswer(request, answer)

    def _opening(self) -> bytes:
        assert self.seats is not None
        return encode_opening(self.seats.encoded_plan, self._state.roster_file())

    async def _catch_up(self, look: bool) -> None:
        """Follow other workers, and find out whether a store that failed can commit again."""
        if self._store.failing:
            await self._turn([])
            if not self._store.pause and await self._attempt(self._state.check_writable) is True:
                self._store.ended()
                self._phase_clock.resume(AFTER_AN_OUTAGE)
        elif self._is_stale or (
            look and not self.over and await self._attempt(self._state.is_behind) is True
        ):
            await self._turn([])

    def _phase_ends_now(self) -> bool:
        """Whether all have sent or the time is up, and requests from before that are served."""
        due = self._state.complete or self._phase_clock.remaining == 0.0
        if not due or self._state.waits_for_helper or self._draining or self._defective.pause:
            self._before_deadline = None
            return False
        if self._before_deadline is None:
            self._before_deadline = len(self._queue)
        return self._before_deadline == 0

    async def _take_batch(self) -> None:
        if not self._queue:
            return
        gathers = self._row.invited >= LARGE_ROUND and self._queue.first_waits
        if gathers and self._before_deadline is None:
            await self._queue.gather(min(BATCH, self._row.missing), GATHER_SECONDS)
        batch = self._queue.take(BATCH)
        if self._before_deadline is not None:
            self._before_deadline = max(self._before_deadline - len(batch), 0)
        self._queue.answer(batch, await self._turn([request for request, _ in batch]))

    def _refuse_all(self, problem: Problem) -> None:
        waiting = self._queue.take(len(self._queue))
        self._queue.answer(waiting, [problem.again() for _ in waiting])
        for position in list(self._outbox.wanted):
            self._outbox.put(position, problem)

    async def _turn(self, requests: Sequence[Request]) -> Sequence[Outcome]:
        """Outcomes that are durable; if the turn fails, nothing of it has happened."""
        started = time.perf_counter()
        outcomes = await self._attempt(lambda: self._state.turn(requests))
        self._is_stale = isinstance(outcomes, Problem)
        self._notify()
        if isinstance(outcomes, Problem):
            self._state.complete = False  # found out again when the turn is repeated
            return [outcomes.again() for _ in requests]
        if requests:
            self._metrics.committed(len(requests), time.perf_counter() - started)
        return outcomes

    def _notify(self) -> None:
        """Wake those who wait for what has changed since they were last woken."""
        before, row = self._row, self._state.row
        self._row = row
        if row.version != before.version:
            self._defective.succeeded()
            self._progress.happen()
        if self._state.helper_key_known != self._told_of_helper_key:  # the helper's key has come
            self._told_of_helper_key = self._state.helper_key_known
            self._outbox.clear()
            self._phase.happen()
        if row.state != before.state:
            self._outbox.clear()
            self._phase_clock.begin(row.state)
            self._phase.happen()
        if row.over:
            self._ended.set()
            self._thread.shutdown(wait=False)

    async def _fetch_messages(self) -> None:
        wanted = list(self._outbox.wanted)[:BATCH]
        if not wanted:
            return
        found = await self._attempt(lambda: self._state.messages(wanted))
        self._notify()
        for position in wanted:
            self._outbox.put(position, found if isinstance(found, Problem) else found[position])

    # The round's thread

    async def _attempt(self, work: Callable[[], Result]) -> Result | Problem:
        """What the work returns; if it fails, what is to be answered."""
        begun = self._clock()
        with caught(self._metrics, round=self._row.id) as defect:
            try:
                done = await self._in_thread(work)
            except StoreUnavailable as error:
                self._metrics.commit_failed()
                self._store.failed(error)
                self._phase_clock.stop(begun)
                return store_unavailable(self._store.pause)
        if defect.id is not None:
            self._defective.failed()
            return internal_error(defect.id)
        return done

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        """In the round's own thread; a round that is over has none and uses the shared ones."""
        thread = None if self.over else self._thread
        return await asyncio.get_running_loop().run_in_executor(thread, work)

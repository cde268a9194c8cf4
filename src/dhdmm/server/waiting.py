"""Waiting in a round: for a signal, and for a phase's deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from dhdmm.aggregation.method import ENROLMENT, OVER

Clock = Callable[[], float]


class Signal:
    """An event that happens repeatedly, and that many tasks may wait for."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.waiting = 0

    def happen(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        """Whether it happened within so many seconds."""
        following = self._next
        self.waiting += 1
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await following.wait()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1
        return True


@dataclass(frozen=True)
class Deadlines:
    """Seconds until a phase is closed without those who have not come."""

    enrolment: float = 3600.0
    phase: float = 300.0

    def of(self, state: str, arrival_phase: str) -> float:
        """Where there is no enrolment, people arrive in the first phase instead."""
        return self.enrolment if state == arrival_phase else self.phase


class PhaseClock:
    """How long the present phase may still last.

    Counted on this process's monotonic clock from when it first saw the phase: nobody's calendar
    plays a part, and a restart gives the phase its full time again. It stands still while the store
    cannot commit, since nobody can be heard then.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        state: str,
        arrival_phase: str = ENROLMENT.name,
        clock: Clock = time.monotonic,
    ) -> None:
        self._deadlines, self._clock = deadlines, clock
        self._arrival_phase = arrival_phase
        self.begin(state)

    def begin(self, state: str) -> None:
        """This phase has begun."""
        self._state, self._begun = state, self._clock()
        self._stopped: float | None = None

    def stop(self, at: float) -> None:
        """Stand still since then, until `resume`."""
        if self._stopped is None:
            self._stopped = max(at, self._begun)

    def resume(self, least: float) -> None:
        """Run on from where it stopped, and for at least so many seconds."""
        remaining, self._stopped = self.remaining, None
        if remaining is not None:
            now = self._clock()
            self._begun = now + max(remaining, least) - self._allowed

    @property
    def remaining(self) -> float | None:
        """Seconds; None when there is nothing left to wait for."""
        if self._state in OVER:
            return None
        now = self._clock() if self._stopped is None else self._stopped
        return max(self._begun + self._allowed - now, 0.0)

    @property
    def _allowed(self) -> float:
        return self._deadlines.of(self._state, self._arrival_phase)

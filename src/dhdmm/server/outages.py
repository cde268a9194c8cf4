"""Outages of something we depend on: when to try it again, and when to log that it fails."""

from __future__ import annotations

import math

from dhdmm.server.logs import logger
from dhdmm.server.waiting import Clock

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
SUMMARY_SECONDS = 60.0


class Backoff:
    """When to try again what has failed: soon, then after pauses of twice the length each time."""

    def __init__(self, clock: Clock, longest: float = LONGEST_PAUSE) -> None:
        self._clock, self._longest = clock, longest
        self.succeeded()

    def succeeded(self) -> None:
        self._next_pause, self._again = FIRST_PAUSE, -math.inf

    def failed(self) -> None:
        self._again = self._clock() + self._next_pause
        self._next_pause = min(2 * self._next_pause, self._longest)

    @property
    def pause(self) -> float:
        """Seconds until it may be tried again; 0 if that is now."""
        return max(self._again - self._clock(), 0.0)


class Outage:
    """Whether `what` fails at present, and what the log is told of it.

    The first failure is logged at once, further ones as one line a minute, and the end.
    """

    def __init__(
        self, what: str, clock: Clock, longest: float = LONGEST_PAUSE, **about: object
    ) -> None:
        self._what, self._clock, self._about = what, clock, about
        self._backoff = Backoff(clock, longest)
        self._failures = 0
        self._since = self._said = 0.0

    @property
    def failing(self) -> bool:
        return self._failures > 0

    @property
    def pause(self) -> float:
        """Seconds until it may be tried again; 0 if that is now."""
        return self._backoff.pause

    def failed(self, error: Exception | None) -> None:
        """Again, or for the first time; without an error if that has been reported."""
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._since = self._said = now
            logger().error(f"{self._what} fails", exc_info=error, **self._about)
        elif now - self._said >= SUMMARY_SECONDS:
            self._said = now
            logger().error(f"{self._what} still fails", exc_info=error, **self._so_far(now))
        self._backoff.failed()

    def ended(self) -> None:
        """It works; nothing is said if it did before."""
        if self.failing:
            logger().warning(f"{self._what} works again", **self._so_far(self._clock()))
        self._failures = 0
        self._backoff.succeeded()

    def _so_far(self, now: float) -> dict[str, object]:
        return {"count": self._failures, "seconds": round(now - self._since, 1), **self._about}

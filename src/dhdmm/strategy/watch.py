"""How long a search may still take, and who hears how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[[float], None]
"""Called with the ratio of the best strategy found so far to the best bound."""


def nobody(ratio: float) -> None:
    del ratio


@dataclass(frozen=True)
class Watch:
    seconds: float = math.inf
    report: Report = nobody
    _start: float = field(default_factory=lambda: time.monotonic())

    @property
    def left(self) -> float:
        """Seconds, never less than 0."""
        return max(self._start + self.seconds - time.monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return self.left == 0.0

    def part(self, share: float) -> Watch:
        """A share of what is left, for one of several attempts."""
        return Watch(self.left * share, self.report)

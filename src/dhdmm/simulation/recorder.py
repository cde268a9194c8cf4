"""Writes a trace while a round goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhdmm.aggregation.method import CountedRound
from dhdmm.cohort.members import Answer
from dhdmm.session.introductions import split
from dhdmm.simulation.trace import Trace

Progress = Callable[[int, int], None]
"""Told how many answers there are, and how many there would be if everybody answered."""


class TraceRecorder:
    """A meter (`dhdmm.cohort.drive.Meter`) that keeps all; `counted` is shown each message."""

    def __init__(
        self, trace: Trace, progress: Progress, counted: CountedRound | None = None
    ) -> None:
        self.trace, self._progress, self._counted = trace, progress, counted
        self._rows = {name: row for row, name in enumerate(trace.phases)}
        self._answers = 0
        self.introductions = np.zeros_like(trace.received_bytes)
        """Bytes of what stands before messages, where messages are counted."""
        trace.asked[0] = True  # for keys, by the plan itself

    def opened(self, phase: str, position: int, message: bytes, seconds: float) -> None:
        row, trace = self._rows[phase], self.trace
        trace.asked[row, position] = True
        trace.received_bytes[row, position] = len(message)
        trace.opening_seconds[row, position] = seconds
        if self._counted is not None:
            said = split(message).message
            self._counted.opened(position, said)
            self.introductions[row, position] = len(message) - len(said)

    def answered(self, phase: str, position: int, answer: Answer, seconds: float) -> None:
        row, trace = self._rows[phase], self.trace
        trace.answered[row, position] = True
        trace.sent_bytes[row, position] = len(answer.message)
        trace.participant_seconds[row, position] = answer.seconds
        trace.taking_seconds[row, position] = seconds
        if self._counted is not None:
            self._counted.answered(position, answer.message)
        self._answers += 1
        self._progress(self._answers, trace.answered.size)

    def closed(self, phase: str, seconds: float) -> None:
        self.trace.closing_seconds[self._rows[phase]] += seconds

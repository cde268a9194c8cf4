"""Writes a trace while a round goes on."""

from __future__ import annotations

from collections.abc import Callable

from dhdmm.cohort.members import Answer
from dhdmm.secagg.states import CoordinatorState
from dhdmm.simulation.trace import Trace

Progress = Callable[[int, int], None]
"""Told how many answers there are, and how many there would be if everybody answered."""


class Recorder:
    """A meter (`dhdmm.cohort.drive.Meter`) that keeps everything."""

    def __init__(self, trace: Trace, progress: Progress) -> None:
        self.trace, self._progress = trace, progress
        self._rows = {CoordinatorState(name): p for p, name in enumerate(trace.phases)}
        self._answers = 0
        trace.asked[0] = True  # for keys, by the plan itself

    def opened(
        self, phase: CoordinatorState, position: int, message: bytes, seconds: float
    ) -> None:
        row, trace = self._rows[phase], self.trace
        trace.asked[row, position] = True
        trace.received_bytes[row, position] = len(message)
        trace.opening_seconds[row, position] = seconds

    def answered(
        self, phase: CoordinatorState, position: int, answer: Answer, seconds: float
    ) -> None:
        row, trace = self._rows[phase], self.trace
        trace.answered[row, position] = True
        trace.sent_bytes[row, position] = len(answer.message)
        trace.participant_seconds[row, position] = answer.seconds
        trace.taking_seconds[row, position] = seconds
        self._answers += 1
        self._progress(self._answers, trace.answered.size)

    def closed(self, phase: CoordinatorState, seconds: float) -> None:
        self.trace.closing_seconds[self._rows[phase]] = seconds

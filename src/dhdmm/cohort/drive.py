"""Moving the bytes of a round between the coordinator and its cohorts, until it is over.

Messages go in small batches, so that neither all questions nor all answers of a phase are ever in
memory at once; a cohort gets its next batch while it is at the last. Whoever sits at position i is
in cohort i mod (number of cohorts).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from time import thread_time
from typing import Protocol

from dhdmm.aggregation.randomness import Randomness, uniform_permutation
from dhdmm.cohort.members import Answer, Cohort
from dhdmm.session.coordinator import CoordinatorSession

BATCH = 64
AHEAD = 2  # batches that a cohort may have before it

ROUNDING = 1e-9
"""A dropout of 0.29 among 100 is 29, whatever the product is in floating point."""

Silent = Mapping[str, Collection[int]]
"""Who stops answering, by the phase in which it stops."""


class Meter(Protocol):
    """Is told what passes, by the phase in which an answer is collected.

    `seconds` are the coordinator's: to make the message, to take the answer, to close the phase.
    """

    def opened(self, phase: str, position: int, message: bytes, seconds: float) -> None: ...

    def answered(self, phase: str, position: int, answer: Answer, seconds: float) -> None: ...

    def closed(self, phase: str, seconds: float) -> None: ...


def drive(
    coordinator: CoordinatorSession,
    cohorts: Sequence[Cohort],
    silent: Silent,
    meter: Meter,
    before_inputs: Callable[[], None] = lambda: None,
    progress: Callable[[str], None] = lambda _phase: None,
) -> None:
    """A phase ends when all who will answer have; `progress` is told the one that begins.

    The coordinator does not know who will be silent: it has a message for them, too.
    """
    machine, gone = coordinator.machine, set[int]()
    if machine.state == coordinator.input_phase:
        before_inputs()
    while not coordinator.over:
        phase = machine.state
        _ask_helper(coordinator, phase, meter)
        gone.update(silent.get(phase, ()))
        _exchange(coordinator, cohorts, gone, meter)
        _ask_helper(coordinator, phase, meter)
        started = thread_time()
        coordinator.close_phase()
        meter.closed(phase, thread_time() - started)
        if machine.state == coordinator.input_phase:
            before_inputs()
        if not coordinator.over:
            progress(machine.state)


def _ask_helper(coordinator: CoordinatorSession, phase: str, meter: Meter) -> None:
    """Where there are two servers: what both have to settle before anything else."""
    started = thread_time()
    coordinator.consult()
    meter.closed(phase, thread_time() - started)


def dropouts(randomness: Randomness, participants: int, share: float) -> list[int]:
    """A share of the participants, chosen at random and rounded down."""
    order: list[int] = uniform_permutation(randomness, participants).tolist()
    return order[: math.floor(share * participants + ROUNDING)]


def _exchange(
    coordinator: CoordinatorSession, cohorts: Sequence[Cohort], gone: Collection[int], meter: Meter
) -> None:
    """One phase: everybody invited is asked, answers are taken as they come."""
    waiting: deque[Cohort] = deque()
    for cohort, positions in _batches(cohorts, sorted(coordinator.machine.invited)):
        messages = {i: _opened(coordinator, i, meter) for i in positions}
        cohort.send({i: message for i, message in messages.items() if i not in gone})
        waiting.append(cohort)
        if len(waiting) >= AHEAD * len(cohorts):
            _take(coordinator, waiting.popleft(), meter)
    for cohort in waiting:
        _take(coordinator, cohort, meter)


def _batches(
    cohorts: Sequence[Cohort], positions: Sequence[int]
) -> Iterator[tuple[Cohort, list[int]]]:
    """In turn, so that all cohorts are busy."""
    homes: list[list[int]] = [[] for _ in cohorts]
    for i in positions:
        homes[i % len(cohorts)].append(i)
    for start in range(0, max(map(len, homes)), BATCH):
        for cohort, home in zip(cohorts, homes, strict=True):
            if home[start : start + BATCH]:
                yield cohort, home[start : start + BATCH]


def _opened(coordinator: CoordinatorSession, position: int, meter: Meter) -> bytes | None:
    """What the phase opens with for this participant; the first opens with nothing."""
    started = thread_time()
    message = coordinator.message_for(position)
    seconds = thread_time() - started
    if message is not None:
        meter.opened(coordinator.machine.state, position, message, seconds)
    return message


def _take(coordinator: CoordinatorSession, cohort: Cohort, meter: Meter) -> None:
    answers = cohort.collect()
    started = thread_time()
    coordinator.prepare((position, answer.message) for position, answer in answers.items())
    together = (thread_time() - started) / max(1, len(answers))
    for position, answer in answers.items():
        started = thread_time()
        coordinator.receive(position, answer.message)
        seconds = together + thread_time() - started
        meter.answered(coordinator.machine.state, position, answer, seconds)
    _ask_helper(coordinator, coordinator.machine.state, meter)

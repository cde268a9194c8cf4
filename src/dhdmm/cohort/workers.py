"""A cohort in a worker process with a core of its own. Frames are length-prefixed CBOR.

A worker is asked one thing at a time. A thread here waits for its answers, so that the next batch
can be handed over while the worker is at the last one.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Any

import cbor2
import numpy as np

from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.members import Answer, Cohort, Invitation, LocalCohort, Messages
from dhdmm.cohort.people import People, decode_people
from dhdmm.cohort.usage import Usage, own_usage
from dhdmm.errors import RoundAborted
from dhdmm.participant.policy import Policy, review

Frame = dict[str, Any]

SMALL_ROUND = 64
"""Up to here a worker process takes longer to start than the participants take to compute."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class WorkerCohort:
    """Members in a worker process. It starts at once and, when invited, reviews the plan itself."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dhdmm.cohort.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent to act upon
            env=os.environ | ONE_THREAD,  # a worker is one of several, a core each
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sink, self._source = self._process.stdin, self._process.stdout
        self._messenger = ThreadPoolExecutor(1)
        self._waiting: deque[Future[bytes]] = deque()

    def invite(
        self, invitation: Invitation, people: People, resident_limit: int | None = None
    ) -> None:
        setup = cbor2.dumps(encode_setup(invitation, people, resident_limit))
        self._messenger.submit(write_frame, self._sink, setup)

    def send(self, messages: Messages) -> None:
        self._waiting.append(self._ask({"messages": messages}))

    def collect(self) -> dict[int, Answer]:
        return decode_answers(cbor2.loads(self._waiting.popleft().result()))

    def total(self, positions: Iterable[int]) -> Callable[[], Vector]:
        asked = self._ask({"total": list(positions)})
        return lambda: decode_vector(cbor2.loads(asked.result()))

    def usage(self) -> Usage:
        return decode_usage(cbor2.loads(self._ask({"usage": None}).result()))

    def close(self) -> None:
        self._process.kill()
        self._messenger.shutdown(wait=True, cancel_futures=True)
        self._process.communicate()

    def _ask(self, frame: Frame) -> Future[bytes]:
        return self._messenger.submit(self._exchange, cbor2.dumps(frame))

    def _exchange(self, data: bytes) -> bytes:
        answer = None
        with suppress(BrokenPipeError):
            write_frame(self._sink, data)
            answer = read_frame(self._source)
        if answer is None:
            raise RoundAborted("a worker process died", hint="is there enough memory?")
        return answer


@contextmanager
def cohorts_here(
    invitation: Invitation, people: People, workers: int | None, resident_limit: int | None = None
) -> Iterator[list[Cohort]]:
    """One cohort in this process, or one in each of several worker processes."""
    crowd = len(people.positions()) > SMALL_ROUND
    count = workers or (os.cpu_count() or 1 if crowd else 1)
    started: list[WorkerCohort] = []
    try:
        if count > 1:
            started.extend(WorkerCohort() for _ in range(count))
        # refused here, in one place, while the workers are still starting
        reviewed = review(invitation.plan, invitation.policy, invitation.roster)
        for w, worker in enumerate(started):
            worker.invite(invitation, people.part(w, count), resident_limit)
        yield [*started] or [LocalCohort(reviewed, invitation, people, resident_limit)]
    finally:
        for worker in started:
            worker.close()


class Host:
    """What a worker does with a frame, wherever the worker is."""

    def __init__(self, setup: Frame) -> None:
        invitation = Invitation(
            setup["plan"],
            setup["round"],
            Roster(tuple(setup["names"]), tuple(setup["identities"])),
            Policy.model_validate_json(setup["policy"]),
        )
        reviewed = review(invitation.plan, invitation.policy, invitation.roster)
        people = decode_people(setup["people"])
        self._cohort = LocalCohort(reviewed, invitation, people, setup["resident_limit"])

    def answer(self, frame: Frame) -> Frame:
        if "messages" in frame:
            self._cohort.send(frame["messages"])
            gc.freeze()  # members are not to pay for searches through each other's objects
            return {"answers": self._cohort.collect()}
        if "total" in frame:
            total = self._cohort.total(frame["total"])()
            return {"total": [total.tobytes(), total.dtype.str]}
        return {"usage": own_usage()}


def encode_setup(invitation: Invitation, people: People, resident_limit: int | None) -> Frame:
    return {
        "plan": invitation.plan,
        "round": invitation.round_id,
        "names": list(invitation.roster.names),
        "identities": list(invitation.roster.identities),
        "policy": invitation.policy.model_dump_json(),
        "people": people.encode(),
        "resident_limit": resident_limit,
    }


def decode_answers(frame: Frame) -> dict[int, Answer]:
    return {i: Answer(*answer) for i, answer in frame["answers"].items()}


def decode_vector(frame: Frame) -> Vector:
    data, dtype = frame["total"]
    return np.frombuffer(data, np.dtype(dtype))


def decode_usage(frame: Frame) -> Usage:
    return Usage(*frame["usage"])


def write_frame(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(8, "big"))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    header = stream.read(8)
    data = stream.read(int.from_bytes(header, "big")) if len(header) == 8 else b""
    return data or None


def _work() -> None:
    """A worker: one cohort, until the pipe closes."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    setup = read_frame(source)
    if setup is None:
        return
    host = Host(cbor2.loads(setup))
    while (data := read_frame(source)) is not None:
        write_frame(sink, cbor2.dumps(host.answer(cbor2.loads(data))))


if __name__ == "__main__":
    _work()

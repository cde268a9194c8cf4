"""Participants that live together: in this process, or in a worker process with a core of its own.

A cohort is handed the coordinator's messages and gives back its members' answers. Each member is a
real `ParticipantSession` with its own keys, journal and noise; only the plan's review is shared,
since all of them would repeat it word by word. Frames to a worker are length-prefixed CBOR.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Protocol

import cbor2
import numpy as np

from dhdmm.errors import RoundAborted
from dhdmm.participant.policy import Policy, Review, review
from dhdmm.privacy.keystream import KeyStream
from dhdmm.secagg.journal import MemoryJournal
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.round import Roster
from dhdmm.session.participant import ParticipantSession
from dhdmm.study.histogram import Histogram

Messages = Mapping[int, bytes]
"""By roster position."""


@dataclass(frozen=True)
class Seat:
    """One participant: where it sits, who it is, what it holds."""

    position: int
    identity: Identity = field(repr=False)
    histogram: Histogram = field(repr=False)


@dataclass(frozen=True)
class Invitation:
    """What every participant of a round is given; all of it is public."""

    plan: bytes
    round_id: bytes
    roster: Roster
    policy: Policy


class Cohort(Protocol):
    """Some of a round's participants. `cpu_seconds` is what they have computed for so far."""

    cpu_seconds: float

    def send(self, messages: Messages | None) -> None:
        """Hand over the coordinator's messages; None asks every member for its first one."""

    def collect(self) -> dict[int, bytes]:
        """The answers to what was sent last."""

    def close(self) -> None: ...


class LocalCohort:
    """Members in this process."""

    def __init__(
        self,
        reviewed: Review,
        invitation: Invitation,
        seats: Iterable[Seat],
        noise: Callable[[int], KeyStream] = lambda _position: KeyStream.fresh(),
    ) -> None:
        self.cpu_seconds = 0.0
        self._answers: dict[int, bytes] = {}
        self._sessions = {
            seat.position: ParticipantSession(
                reviewed,
                invitation.round_id,
                invitation.roster,
                seat.position,
                seat.identity,
                seat.histogram,
                pay=_already_paid,
                randomness=os.urandom,
                noise=partial(noise, seat.position),
                journal=MemoryJournal(),
            )
            for seat in seats
        }

    def send(self, messages: Messages | None) -> None:
        started = time.process_time()
        answers: dict[int, bytes | None]
        if messages is None:
            answers = {i: session.begin() for i, session in self._sessions.items()}
        else:
            answers = {i: self._sessions[i].receive(message) for i, message in messages.items()}
        self._answers = {i: answer for i, answer in answers.items() if answer is not None}
        self.cpu_seconds += time.process_time() - started

    def collect(self) -> dict[int, bytes]:
        return self._answers

    def close(self) -> None:
        self._sessions.clear()


def _already_paid(_digest: bytes) -> None:
    """Whoever runs all participants debits one ledger for all of them, before asking for inputs."""


class WorkerCohort:
    """Members in a worker process. It starts at once and, when invited, reviews the plan itself."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dhdmm.cohort"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent to act upon
        )

    def invite(self, invitation: Invitation, seats: Iterable[Seat]) -> None:
        self._write(_encode(invitation, seats))

    def send(self, messages: Messages | None) -> None:
        self._write({"messages": messages})

    def collect(self) -> dict[int, bytes]:
        assert self._process.stdout is not None
        frame = _read_frame(self._process.stdout)
        if frame is None:
            raise RoundAborted("a worker process died", hint="is there enough memory?")
        self.cpu_seconds = frame["cpu_seconds"]
        answers: dict[int, bytes] = frame["answers"]
        return answers

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _write(self, frame: dict[Any, Any]) -> None:
        assert self._process.stdin is not None
        try:
            _write_frame(self._process.stdin, frame)
        except BrokenPipeError:
            raise RoundAborted("a worker process died") from None


def _encode(invitation: Invitation, seats: Iterable[Seat]) -> dict[str, Any]:
    return {
        "plan": invitation.plan,
        "round": invitation.round_id,
        "names": list(invitation.roster.names),
        "identities": list(invitation.roster.identities),
        "policy": invitation.policy.model_dump_json(),
        "seats": [
            (seat.position, seat.identity.seed, *_encode_histogram(seat.histogram))
            for seat in seats
        ],
    }


def _encode_histogram(histogram: Histogram) -> tuple[int, bytes, bytes]:
    return histogram.codes.shape[1], histogram.codes.tobytes(), histogram.counts.tobytes()


def _decode(frame: dict[str, Any]) -> tuple[Invitation, list[Seat]]:
    roster = Roster(tuple(frame["names"]), tuple(frame["identities"]))
    policy = Policy.model_validate_json(frame["policy"])
    seats = [
        Seat(position, Identity(seed), Histogram(_integers(codes, width), _integers(counts)))
        for position, seed, width, codes, counts in frame["seats"]
    ]
    return Invitation(frame["plan"], frame["round"], roster, policy), seats


def _integers(data: bytes, width: int | None = None) -> Any:
    integers = np.frombuffer(data, np.int64)
    return integers if width is None else integers.reshape(-1, width)


def _write_frame(stream: IO[bytes], frame: dict[Any, Any]) -> None:
    data = cbor2.dumps(frame)
    stream.write(len(data).to_bytes(8, "big") + data)
    stream.flush()


def _read_frame(stream: IO[bytes]) -> dict[Any, Any] | None:
    header = stream.read(8)
    data = stream.read(int.from_bytes(header, "big")) if len(header) == 8 else b""
    return cbor2.loads(data) if data else None


def _work() -> None:
    """A worker: one cohort, until the pipe closes."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    setup = _read_frame(source)
    if setup is None:
        return
    invitation, seats = _decode(setup)
    reviewed = review(invitation.plan, invitation.policy, invitation.roster)
    cohort = LocalCohort(reviewed, invitation, seats)
    while (frame := _read_frame(source)) is not None:
        cohort.send(frame["messages"])
        _write_frame(sink, {"answers": cohort.collect(), "cpu_seconds": cohort.cpu_seconds})


if __name__ == "__main__":
    _work()

"""What happened in a round, message by message: bytes and processor seconds, whatever the network.

Rows are phases, named by what the coordinator collects in them; columns are roster positions. The
coordinator opens a phase with a message for everybody it asks (the first with none), each computes
and answers, the coordinator takes the answers and closes the phase.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from dhdmm import formats
from dhdmm.aggregation.method import Phase
from dhdmm.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Trace:
    """Arrays of shape (phases, n), `closing_seconds` (phases,), and what belongs to no phase.

    Bytes are those of the bodies of HTTP requests and answers, as the service has them.
    """

    phases: tuple[str, ...]
    asked: Flags
    answered: Flags
    received_bytes: Integers  # by the participant
    sent_bytes: Integers
    participant_seconds: Floats
    opening_seconds: Floats  # the coordinator's, for one participant
    taking_seconds: Floats
    closing_seconds: Floats
    joining_bytes: Integers  # (n,): the draft and the offer that a participant receives
    ending_bytes: Integers  # (n,): its receipt
    plan_bytes: int = 0
    plan_check_seconds: float = 0.0  # of each participant
    optimisation_seconds: float = 0.0  # of the coordinator, before everything
    release_seconds: float = 0.0  # of the coordinator, after everything

    @classmethod
    def empty(cls, phases: Sequence[Phase], participants: int) -> Trace:
        shape = len(phases), participants
        return cls(
            phases=tuple(phase.name for phase in phases),
            asked=np.zeros(shape, np.bool_),
            answered=np.zeros(shape, np.bool_),
            received_bytes=np.zeros(shape, np.int64),
            sent_bytes=np.zeros(shape, np.int64),
            participant_seconds=np.zeros(shape),
            opening_seconds=np.zeros(shape),
            taking_seconds=np.zeros(shape),
            closing_seconds=np.zeros(len(phases)),
            joining_bytes=np.zeros(participants, np.int64),
            ending_bytes=np.zeros(participants, np.int64),
        )

    @property
    def participants(self) -> int:
        return int(self.asked.shape[1])

    @property
    def survivors(self) -> Flags:
        """Who answered to the end; in a phase of two servers nobody is asked."""
        asked = np.flatnonzero(self.asked.any(axis=1))
        survivors: Flags = self.answered[asked[-1]]
        return survivors

    @property
    def coordinator_seconds(self) -> float:
        """All of the coordinator's processor time, optimisation included."""
        phases = self.opening_seconds, self.taking_seconds, self.closing_seconds
        return (
            sum(float(s.sum()) for s in phases) + self.optimisation_seconds + self.release_seconds
        )

    def participant_bytes(self) -> Integers:
        """All that each sends and receives, from the draft to the receipt."""
        messages = self.sent_bytes.sum(axis=0) + self.received_bytes.sum(axis=0)
        total: Integers = messages + self.joining_bytes + self.ending_bytes
        return total

    def coordinator_seconds_in(self, phase: int) -> float:
        parts = self.opening_seconds, self.taking_seconds, self.closing_seconds
        return sum(float(part[phase].sum()) for part in parts)

    def save(self, path: Path) -> None:
        """One compressed file: the arrays, and the rest as JSON."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _ARRAYS}
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _ARRAYS}
        text = json.dumps({"format": formats.TRACE.writes, **rest}).encode()
        with path.open("wb") as file:
            np.savez_compressed(file, rest=np.frombuffer(text, np.uint8), **arrays)

    @classmethod
    def load(cls, path: Path) -> Trace:
        try:
            with np.load(path, allow_pickle=False) as stored:
                rest = json.loads(stored["rest"].tobytes())
                arrays = {name: stored[name] for name in _ARRAYS if name not in _SINCE_2}
                arrays |= {
                    name: stored[name] if name in stored else np.zeros(count, np.int64)
                    for count in arrays["asked"].shape[1:]
                    for name in _SINCE_2
                }
        except (OSError, EOFError, BadZipFile, ValueError, KeyError, TypeError):
            raise DataError("not a trace of a simulation", where=str(path)) from None
        formats.readable(
            formats.TRACE, rest.pop("format", None), partial(DataError, where=str(path))
        )
        return cls(**arrays | rest | {"phases": tuple(rest["phases"])})


_ARRAYS = (
    *("asked", "answered", "received_bytes", "sent_bytes", "participant_seconds"),
    *("opening_seconds", "taking_seconds", "closing_seconds"),
    *("joining_bytes", "ending_bytes"),
)
_SINCE_2 = ("joining_bytes", "ending_bytes")

"""Processor time and bytes of whole rounds, beside the floors that the cryptography sets.

The floors are those of bench/floor.py. Neighbours are counted in the round itself; the costs are
those of the libraries' bare calls (of dhdmm's own for sharing), made warm between the batches of
the round, so that both meet the same load of the machine. Medians are printed, because a busy
machine doubles some.

Every party's real machine runs, a batch of participants at a time: whoever serves a round finds its
own code in the cache. 5 % drop out before their masked input, so that the coordinator has masks to
remove. The time of a participant is flat in n but for its degree and the bitmap of survivors: the
column of microseconds a neighbour says so.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from statistics import mean, median
from time import process_time
from typing import TypeVar

import numpy as np

from bench.floor import Costs, floors, items
from bench.primitives import bare, bare_bulk
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import messages as m
from dhdmm.secagg import shamir
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.parameters import MODELS, choose
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState, ParticipantState

PARTICIPANTS = (100, 1_000, 3_000, 10_000)
LENGTHS = (3_112, 33_184, 100_000)
LARGE = 10_000  # from here on, unless the whole grid is asked for, only the shortest vectors
MODULUS = Modulus(2**25)
RATE = 0.05  # corrupt, and dropping out
BATCH, PROBES = 10, 5

Result = TypeVar("Result")


class NoJournal:
    """Whoever measures does not restart."""

    def write(self, state: bytes, outgoing: bytes) -> None:
        pass

    def read(self) -> tuple[bytes, bytes] | None:
        return None


class Meter:
    """Seconds of every call by party and step, bytes by message type, costs of the primitives."""

    def __init__(self, degree: int, threshold: int) -> None:
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.sizes: Counter[tuple[str, str]] = Counter()  # by party that sends, and type
        self.neighbours: list[int] = []
        secrets, holders = [bytes(32), bytes(32)], list(range(degree))
        sharing = partial(shamir.split, secrets, threshold, holders, os.urandom)
        bare_calls = [(name, 1, work) for name, work in bare()]
        self._probes: list[tuple[str, int, Callable[[], object]]] = [
            *bare_calls,
            ("shamir", 1, sharing),
            *bare_bulk(),
        ]
        self._probed: defaultdict[str, list[float]] = defaultdict(list)

    def time(self, party: str, step: str, work: Callable[[], Result]) -> Result:
        start = process_time()
        result = work()
        self.seconds[party, step].append(process_time() - start)
        return result

    def weigh(self, sender: str, data: bytes) -> bytes:
        self.sizes[sender, type(m.decode(data)).__name__] += len(data)
        return data

    def kilobytes(self, sender: str) -> float:
        return sum(size for (by, _), size in self.sizes.items() if by == sender) / 1000

    def probe(self) -> None:
        """Each of the libraries' primitives a few times, warm."""
        for name, count, work in self._probes:
            work()
            start = process_time()
            for _ in range(PROBES):
                work()
            self._probed[name].append((process_time() - start) / PROBES / count * 1e6)

    def unit_costs(self) -> Costs:
        """Microseconds of a call, or of a byte or word of bulk work."""
        return {name: median(costs) for name, costs in self._probed.items()}

    def participant(self) -> float:
        """Seconds of one who stays to the end."""
        steps = self.seconds.items()
        return sum(median(times) for (party, _), times in steps if party == "participant")

    def coordinator(self) -> float:
        """Seconds of the whole round."""
        steps = self.seconds.items()
        return sum(median(t) * len(t) for (party, _), t in steps if party == "coordinator")


def parties(n: int, length: int, model: ThreatModel) -> RoundRun:
    chosen = choose(n, RATE, RATE, model)
    identities = [Identity(sha256(b"%d" % i).digest()) for i in range(n)]
    roster = Roster(
        tuple(f"participant {i}" for i in range(n)), tuple(i.public for i in identities)
    )
    parameters = RoundParameters(
        plan_digest=bytes(32),
        round_id=os.urandom(16),
        threat_model=model,
        roster_digest=roster.digest,
        participants=n,
        degree=chosen.degree,
        threshold=chosen.threshold,
        minimum_survivors=chosen.minimum_survivors,
        modulus=MODULUS,
        length=length,
    )
    participants = [
        Participant(parameters, roster, identity, i, os.urandom, NoJournal())
        for i, identity in enumerate(identities)
    ]
    coordinator = Coordinator(parameters, roster, os.urandom)
    meter = Meter(chosen.degree, chosen.threshold)
    return RoundRun(parameters, coordinator, participants, meter)


@dataclass
class RoundRun:
    """One round, metered."""

    parameters: RoundParameters
    coordinator: Coordinator
    participants: list[Participant]
    meter: Meter

    def run(self) -> Meter:
        meter, coordinator = self.meter, self.coordinator
        vector = np.arange(self.parameters.length) % MODULUS.value
        begun = {p.position: meter.time("participant", "begin", p.begin) for p in self.participants}
        self._deliver(begun)
        while coordinator.result is None:
            phase = f"closing {coordinator.state}"
            invited = sorted(meter.time("coordinator", phase, coordinator.close_phase))
            if coordinator.abort_reason is not None:
                raise RuntimeError(f"the round was aborted: {coordinator.abort_reason}")
            for start in range(0, len(invited), BATCH):
                self._exchange(invited[start : start + BATCH], vector)
                meter.probe()
        expected = vector * len(coordinator.result.survivors) % MODULUS.value
        if (coordinator.result.total != expected).any():
            raise RuntimeError("the sum is wrong")
        return meter

    def _exchange(self, positions: list[int], vector: np.ndarray) -> None:
        """Messages to some participants, and their answers."""
        messages = {i: self._message_for(i) for i in positions}
        if self.coordinator.state is CoordinatorState.COLLECTING_INPUTS:
            dropping = int(RATE * self.parameters.participants)
            messages = {i: message for i, message in messages.items() if i >= dropping}
        self._deliver({i: self._react(i, message, vector) for i, message in messages.items()})

    def _message_for(self, position: int) -> bytes:
        def message_for() -> bytes:
            message = self.coordinator.message_for(position)
            assert message is not None
            return message

        message = self.meter.time("coordinator", f"opening {self.coordinator.state}", message_for)
        return self.meter.weigh("coordinator", message)

    def _react(self, position: int, message: bytes, vector: np.ndarray) -> bytes:
        meter, participant = self.meter, self.participants[position]
        phase = str(self.coordinator.state)
        answer = meter.time("participant", phase, lambda: participant.receive(message))
        if participant.state is ParticipantState.READY_FOR_INPUT:
            meter.neighbours.append(len(participant._memory.neighbours))
            answer = meter.time("participant", "input", lambda: participant.give_input(vector))
        assert answer is not None
        participant.outgoing = None  # thousands of masked inputs would fill the memory
        return answer

    def _deliver(self, answers: dict[int, bytes]) -> None:
        phase = str(self.coordinator.state)
        for i, answer in answers.items():
            self.meter.weigh("participant", answer)
            receive = partial(self.coordinator.receive, i, answer)
            self.meter.time("coordinator", phase, receive)


def report(n: int, length: int, model: ThreatModel, itemise: bool) -> None:
    measured = parties(n, length, model)
    meter = measured.run()
    parameters, costs, neighbours = measured.parameters, meter.unit_costs(), mean(meter.neighbours)
    counted = items(parameters, neighbours)
    narrow, whole = floors(counted, costs)
    each = meter.participant() * 1000
    sent, received = meter.kilobytes("participant") / n, meter.kilobytes("coordinator") / n
    print(
        f"{model:<11}{n:>6}{parameters.degree:>4}{parameters.threshold:>4}{length:>8}"
        f"{each:>8.2f}{each / neighbours * 1000:>7.0f}{narrow:>8.2f}{each / narrow:>6.2f}"
        f"{whole:>8.2f}{each / whole:>6.2f}{meter.coordinator():>8.2f}{sent:>8.1f}{received:>8.1f}",
        flush=True,
    )
    if itemise:
        for item in counted:
            unit, total = costs[item.primitive], item.milliseconds(costs)
            print(f"    {item.name:<20}{item.count:>12,.0f} × {unit:>11.6f} µs ={total:>8.3f} ms")
        for (sender, name), size in meter.sizes.items():
            print(f"    {name:<20}{size / n:>12,.0f} bytes a participant, from the {sender}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, nargs="+", default=list(PARTICIPANTS))
    options.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options.add_argument("--models", nargs="+", default=list(MODELS), type=ThreatModel)
    options.add_argument("--itemise", action="store_true", help="primitives, and bytes by message")
    options.add_argument("--all", action="store_true", help="the whole grid: half an hour and more")
    chosen = options.parse_args()
    gc.disable()  # a thousand participants in one heap would pay for each other's objects
    print(
        "ms of processor time a participant, µs of it a neighbour, over two floors;"
        " s for the coordinator; kB sent and received"
    )
    print(
        f"{'model':<11}{'n':>6}{'k':>4}{'t':>4}{'length':>8}{'ms':>8}{'µs':>7}{'narrow':>8}{'':>6}"
        f"{'whole':>8}{'':>6}{'coord':>8}{'sent':>8}{'recv':>8}"
    )
    left_out = []
    for model in chosen.models:
        for n in chosen.participants:
            for length in chosen.lengths:
                if n >= LARGE and length > min(chosen.lengths) and not chosen.all:
                    left_out.append(f"{model} {n:,} × {length:,}")
                    continue
                report(n, length, model, chosen.itemise)
                gc.collect()
    if left_out:
        print(f"left out for their minutes (--all measures them): {'; '.join(left_out)}")


if __name__ == "__main__":
    main()

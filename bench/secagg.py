"""Processor time and bytes of whole rounds, beside the floor that the cryptography sets.

The core floor of a participant: two agreements a neighbour, key stream and addition for each
neighbour and for itself, and in the malicious model one signature check a neighbour. The whole
floor has the rest of the prescribed cryptography too: key derivations, cipher set-ups, sealed
shares, MACs, one's own keys and signature, the hashes of the key tree. Neither has Shamir sharing,
encodings or the journal. Neighbours are counted in the round itself; the costs are those of the
libraries' bare calls, made warm between the batches of the round, so that both meet the same load
of the machine. Medians are printed, because a busy machine doubles some.

Every party's real machine runs, a batch of participants at a time: whoever serves a round finds its
own code in the cache. 5 % drop out before their masked input, so that the coordinator has masks to
remove.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from statistics import mean, median
from time import process_time
from typing import TypeVar

import numpy as np

from bench.primitives import bare, bare_bulk
from dhdmm.secagg import messages as m
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.masks import Modulus
from dhdmm.secagg.parameters import ThreatModel, choose
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.round import EvidenceKind, Roster, RoundParameters
from dhdmm.secagg.states import CoordinatorState, ParticipantState

PARTICIPANTS = (100, 1_000)  # 3,000 and 10,000 on demand: a minute and more each
LENGTHS = (3_112, 33_184, 100_000)
MODULUS = Modulus(2**25)
RATE = 0.05  # corrupt, and dropping out
BATCH, PROBES = 10, 5

Result = TypeVar("Result")
Costs = dict[str, float]  # µs


class NoJournal:
    """Whoever measures does not restart."""

    def write(self, state: bytes, outgoing: bytes) -> None:
        pass

    def read(self) -> tuple[bytes, bytes] | None:
        return None


class Meter:
    """Seconds of every call by party and step, bytes by message type, costs of the primitives."""

    def __init__(self) -> None:
        self.seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.sizes: Counter[str] = Counter()
        self.neighbours: list[int] = []
        self._probes = [*((name, 1, work) for name, work in bare()), *bare_bulk()]
        self._probed: defaultdict[str, list[float]] = defaultdict(list)

    def time(self, party: str, step: str, work: Callable[[], Result]) -> Result:
        start = process_time()
        result = work()
        self.seconds[party, step].append(process_time() - start)
        return result

    def weigh(self, data: bytes) -> bytes:
        self.sizes[type(m.decode(data)).__name__] += len(data)
        return data

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


def parties(n: int, length: int, model: ThreatModel, evidence: EvidenceKind) -> RoundRun:
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
        evidence=evidence,
    )
    participants = [
        Participant(parameters, roster, identity, i, os.urandom, NoJournal())
        for i, identity in enumerate(identities)
    ]
    return RoundRun(parameters, Coordinator(parameters, roster, os.urandom), participants)


@dataclass
class RoundRun:
    """One round, metered."""

    parameters: RoundParameters
    coordinator: Coordinator
    participants: list[Participant]
    meter: Meter = field(default_factory=Meter)

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

        return self.meter.weigh(
            self.meter.time("coordinator", f"opening {self.coordinator.state}", message_for)
        )

    def _react(self, position: int, message: bytes, vector: np.ndarray) -> bytes:
        meter, participant = self.meter, self.participants[position]
        phase = str(self.coordinator.state)
        answer = meter.time("participant", phase, lambda: participant.receive(message))
        if participant.state is ParticipantState.READY_FOR_INPUT:
            meter.neighbours.append(len(participant._memory.neighbours))
            answer = meter.time("participant", "input", lambda: participant.give_input(vector))
        assert answer is not None
        return answer

    def _deliver(self, answers: dict[int, bytes]) -> None:
        phase = str(self.coordinator.state)
        for i, answer in answers.items():
            self.meter.weigh(answer)
            receive = partial(self.coordinator.receive, i, answer)
            self.meter.time("coordinator", phase, receive)


def core_floor(costs: Costs, parameters: RoundParameters, neighbours: float) -> float:
    """Microseconds of agreements, masks and signature checks alone."""
    words = parameters.length * (neighbours + 1)
    stretch = 4 * costs["aes-ctr byte"] + costs["add 32-bit word"]
    checks = neighbours * costs["ed25519 verify"] if parameters.malicious else 0.0
    return 2 * neighbours * costs["x25519"] + words * stretch + checks


def whole_floor(costs: Costs, parameters: RoundParameters, neighbours: float) -> float:
    """The same with all other cryptography that the protocol prescribes."""
    sealed = 2 * parameters.degree  # shares of and for the participant, one derived key each
    derived = 3 * neighbours + 2 + sealed  # masks and channels; its own mask
    set_up = (neighbours + 1) * costs["aes-ctr set-up"] + 2 * costs["x25519 base"]
    rest = set_up + sealed * costs["aes-gcm"] + derived * costs["hmac"]
    if parameters.malicious:
        spoken = 2 * neighbours + 2 * parameters.degree  # included and ack, said and heard
        leaves = neighbours + 1
        hashed = leaves * (2 + math.log2(parameters.participants / leaves))
        rest += 2 * spoken * costs["hmac"] + hashed * costs["sha256"] + costs["ed25519 sign"]
    return core_floor(costs, parameters, neighbours) + rest


def report(n: int, length: int, model: ThreatModel, evidence: EvidenceKind, itemise: bool) -> None:
    measured = parties(n, length, model, evidence)
    meter = measured.run()
    parameters = measured.parameters
    neighbours = mean(meter.neighbours)
    core = core_floor(meter.unit_costs(), parameters, neighbours) / 1000
    whole = whole_floor(meter.unit_costs(), parameters, neighbours) / 1000
    each = meter.participant() * 1000
    size = sum(meter.sizes.values()) / n / 1000
    print(
        f"{model:<11}{n:>6}{parameters.degree:>4}{parameters.threshold:>4}{length:>7}"
        f"{each:>8.2f}{core:>8.2f}{each / core:>6.2f}{whole:>8.2f}{each / whole:>6.2f}"
        f"{meter.coordinator():>8.2f}{size:>8.1f}",
        flush=True,
    )
    if itemise:
        for name, total in meter.sizes.items():
            print(f"    {name:<22}{total / n:>10,.0f} bytes a participant")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, nargs="+", default=list(PARTICIPANTS))
    options.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options.add_argument("--models", nargs="+", default=list(ThreatModel), type=ThreatModel)
    options.add_argument("--evidence", default=EvidenceKind.MAC, type=EvidenceKind)
    options.add_argument("--itemise", action="store_true", help="bytes by message type")
    chosen = options.parse_args()
    gc.disable()  # a thousand participants in one heap would pay for each other's objects
    print("ms of processor time a participant, over two floors; s for the coordinator; kB each")
    print(
        f"{'model':<11}{'n':>6}{'k':>4}{'t':>4}{'length':>7}"
        f"{'ms':>8}{'core':>8}{'':>6}{'whole':>8}{'':>6}{'coord':>8}{'kB':>8}"
    )
    for model in chosen.models:
        for n in chosen.participants:
            for length in chosen.lengths:
                report(n, length, model, chosen.evidence, chosen.itemise)
                gc.collect()


if __name__ == "__main__":
    main()

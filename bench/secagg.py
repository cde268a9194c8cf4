"""Processor time and bytes of whole rounds, beside the floor that the cryptography sets.

The floor of a participant: two agreements a neighbour, mask and add for each neighbour and for
itself, and in the malicious model one signature check a neighbour; counted in the round itself,
times the mean cost of the libraries' bare calls, made in between, so that both meet the same load
of the machine. Every party's real machine runs; 5 % drop out before
their masked input, so the coordinator removes their masks.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
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

LENGTHS = (3_112, 33_184, 100_000)
MODULUS = Modulus(2**25)
RATE = 0.05  # corrupt, and dropping out
PROBE_EVERY = 5

Result = TypeVar("Result")


class NoJournal:
    """Whoever measures does not restart."""

    def write(self, state: bytes, outgoing: bytes) -> None:
        pass

    def read(self) -> tuple[bytes, bytes] | None:
        return None


@dataclass
class Meter:
    """Seconds by party, bytes by message type, work by kind."""

    seconds: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    neighbours: list[int] = field(default_factory=list)
    probes: Counter[str] = field(default_factory=Counter)
    probed: int = 0

    def __post_init__(self) -> None:
        bulk = [(name, count, work) for name, count, work in bare_bulk()]
        self._probes = [*((name, 1, work) for name, work in bare()), *bulk]

    def probe(self) -> None:
        """Each of the libraries' primitives once."""
        for name, count, work in self._probes:
            start = process_time()
            work()
            self.probes[name] += (process_time() - start) / count  # type: ignore[assignment]
        self.probed += 1

    def unit_costs(self) -> dict[str, float]:
        """Mean microseconds of a call, or of a byte or word of bulk work."""
        return {name: total / self.probed * 1e6 for name, total in self.probes.items()}

    def time(self, party: str, work: Callable[[], Result]) -> Result:
        start = process_time()
        result = work()
        self.seconds[party] += process_time() - start  # type: ignore[assignment]
        return result

    def weigh(self, data: bytes) -> bytes:
        self.sizes[type(m.decode(data)).__name__] += len(data)
        return data


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
        for participant in self.participants:
            self._to_coordinator(participant, meter.time("participant", participant.begin))
        while coordinator.result is None:
            invited = meter.time("coordinator", coordinator.close_phase)
            if coordinator.abort_reason is not None:
                raise RuntimeError(f"the round was aborted: {coordinator.abort_reason}")
            for i in sorted(invited):
                self._react(self.participants[i], vector)
        expected = vector * len(coordinator.result.survivors) % MODULUS.value
        if (coordinator.result.total != expected).any():
            raise RuntimeError("the sum is wrong")
        return meter

    def _react(self, participant: Participant, vector: np.ndarray) -> None:
        meter, i = self.meter, participant.position
        message = meter.time("coordinator", lambda: self.coordinator.message_for(i))
        if message is None:
            return
        meter.weigh(message)
        dropping = self.coordinator.state is CoordinatorState.COLLECTING_INPUTS
        if dropping and i < int(RATE * self.parameters.participants):
            return
        answer = meter.time("participant", lambda: participant.receive(message))
        if participant.state is ParticipantState.READY_FOR_INPUT:
            meter.neighbours.append(len(participant._memory.neighbours))
            answer = meter.time("participant", lambda: participant.give_input(vector))
        if answer is not None:
            self._to_coordinator(participant, answer)
        if i % PROBE_EVERY == 0:
            meter.probe()
        if i % PROBE_EVERY == 0:
            meter.probe()

    def _to_coordinator(self, participant: Participant, data: bytes) -> None:
        self.meter.weigh(data)
        self.meter.time("coordinator", lambda: self.coordinator.receive(participant.position, data))


def floor(costs: dict[str, float], parameters: RoundParameters, neighbours: float) -> float:
    """Milliseconds that a participant's cryptography takes at least."""
    words = parameters.length * (neighbours + 1)
    stretch = 4 * costs["aes-ctr byte"] + costs["add 32-bit word"]
    checks = neighbours * costs["ed25519 verify"] if parameters.malicious else 0.0
    return (2 * neighbours * costs["x25519"] + words * stretch + checks) / 1000


def report(n: int, length: int, model: ThreatModel, evidence: EvidenceKind, itemise: bool) -> None:
    measured = parties(n, length, model, evidence)
    meter = measured.run()
    parameters = measured.parameters
    neighbours = sum(meter.neighbours) / len(meter.neighbours)
    least = floor(meter.unit_costs(), parameters, neighbours)
    # dropouts stop half-way, so the work is that of those who stayed, to within their share
    each = meter.seconds["participant"] / len(meter.neighbours) * 1000
    size = sum(meter.sizes.values()) / n / 1000
    print(
        f"{model:<12}{n:>6}{parameters.degree:>5}{parameters.threshold:>5}{length:>8}"
        f"{least:>9.2f}{each:>9.2f}{each / least:>7.2f}{meter.seconds['coordinator']:>9.2f}"
        f"{size:>9.1f}",
        flush=True,
    )
    if itemise:
        for name, total in meter.sizes.items():
            print(f"    {name:<22}{total / n:>10,.0f} bytes a participant")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, nargs="+", default=[100, 1000])
    options.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options.add_argument("--models", nargs="+", default=list(ThreatModel), type=ThreatModel)
    options.add_argument("--evidence", default=EvidenceKind.MAC, type=EvidenceKind)
    options.add_argument("--itemise", action="store_true", help="bytes by message type")
    chosen = options.parse_args()
    print("ms of processor time a participant, s for the coordinator, kB a participant in all")
    print(
        f"{'model':<12}{'n':>6}{'k':>5}{'t':>5}{'length':>8}"
        f"{'floor':>9}{'ms':>9}{'ratio':>7}{'coord s':>9}{'kB':>9}"
    )
    for model in chosen.models:
        for n in chosen.participants:
            for length in chosen.lengths:
                report(n, length, model, chosen.evidence, chosen.itemise)


if __name__ == "__main__":
    main()

"""Processor time and bytes of whole rounds, beside the floor that the cryptography sets.

The core floor of a participant: two agreements a neighbour, mask and add for each neighbour and for
itself, and in the malicious model one signature check a neighbour; the whole floor has the rest of
the cryptography too. Operations are counted in the round itself and multiplied by the mean cost of
the libraries' bare calls, made in between, so that both meet the same load of the machine. Every
party's real machine runs; 5 % drop out before their masked input, so that the coordinator has masks
to remove.
"""

from __future__ import annotations

import argparse
import gc
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
PROBE_EVERY, PROBES = 20, 20

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
        """Each of the libraries' primitives a few times, warm."""
        for name, count, work in self._probes:
            work()
            start = process_time()
            for _ in range(PROBES):
                work()
            elapsed = process_time() - start
            self.probes[name] += elapsed / PROBES / count  # type: ignore[assignment]
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


def core_floor(costs: dict[str, float], parameters: RoundParameters, neighbours: float) -> float:
    """Microseconds of agreements, masks and signature checks alone."""
    words = parameters.length * (neighbours + 1)
    stretch = 4 * costs["aes-ctr byte"] + costs["add 32-bit word"]
    checks = neighbours * costs["ed25519 verify"] if parameters.malicious else 0.0
    return 2 * neighbours * costs["x25519"] + words * stretch + checks


def whole_floor(costs: dict[str, float], parameters: RoundParameters, neighbours: float) -> float:
    """The same with all other cryptography that the protocol prescribes: two key pairs, sealed
    shares, key derivations, MACs, the signature under one's own keys."""
    sealed = 2 * parameters.degree
    evidence = 2 * neighbours + 2 * parameters.degree if parameters.malicious else 0.0
    hmacs = 3 * neighbours + 2 + sealed + 2 * evidence
    signing = costs["ed25519 sign"] if parameters.malicious else 0.0
    rest = 2 * costs["x25519"] + sealed * costs["aes-gcm"] + hmacs * costs["hmac"] + signing
    return core_floor(costs, parameters, neighbours) + rest


def report(n: int, length: int, model: ThreatModel, evidence: EvidenceKind, itemise: bool) -> None:
    measured = parties(n, length, model, evidence)
    meter = measured.run()
    parameters = measured.parameters
    neighbours = sum(meter.neighbours) / len(meter.neighbours)
    core = core_floor(meter.unit_costs(), parameters, neighbours) / 1000
    whole = whole_floor(meter.unit_costs(), parameters, neighbours) / 1000
    # dropouts stop half-way, so the work is that of those who stayed, to within their share
    each = meter.seconds["participant"] / len(meter.neighbours) * 1000
    size = sum(meter.sizes.values()) / n / 1000
    print(
        f"{model:<11}{n:>6}{parameters.degree:>4}{parameters.threshold:>4}{length:>7}"
        f"{each:>8.2f}{core:>8.2f}{each / core:>6.2f}{whole:>8.2f}{each / whole:>6.2f}"
        f"{meter.seconds['coordinator']:>8.2f}{size:>8.1f}",
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
    gc.disable()  # a thousand participants in one heap would pay for each other's objects
    print("ms of processor time a participant, beside two floors; s for the coordinator; kB")
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

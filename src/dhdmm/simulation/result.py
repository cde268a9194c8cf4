"""A simulated round: what came out, what it cost, and what it would cost on another network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dhdmm.planning.plan import Plan
from dhdmm.release.release import Release
from dhdmm.simulation.clock import Timing, replay
from dhdmm.simulation.network import Network, Stragglers
from dhdmm.simulation.trace import Trace


@dataclass(frozen=True)
class Effort:
    """What simulating took on this machine: all processes together."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Simulation:
    """One round. `release` and `sum_correct` are None where no cryptography was executed."""

    plan: Plan
    trace: Trace
    network: Network
    stragglers: Stragglers | None
    release: Release | None
    sum_correct: bool | None
    effort: Effort

    def replay(self, network: Network, stragglers: Stragglers | None = None) -> Timing:
        """The same round on another network; without `stragglers`, the simulation's own."""
        return replay(self.trace, network, stragglers or self.stragglers)

    @cached_property
    def timing(self) -> Timing:
        return self.replay(self.network)

    def summary(self) -> dict[str, Any]:
        """What `--json` prints. A participant's figures are means over the survivors.

        `participant_bytes` are all that passes, from the draft to the receipt: those that it sends
        and receives in the phases, `joining` (draft and offer) and `ending` (receipt). The check of
        the plan is on a line of its own, in `total_s` but in no other figure.
        """
        plan, trace, alive = self.plan, self.trace, self.trace.survivors
        computed = trace.participant_seconds[:, alive].sum(axis=0)
        return {
            "study": plan.study.name,
            "participants": plan.participants,
            "threat_model": plan.threat_model.value,
            **plan.parameters.fields(),
            "rows": plan.strategy.rows,
            "modulus_bits": plan.modulus.bits,
            "survivors": int(alive.sum()),
            "sum_correct": self.sum_correct,
            "participant_ms": 1000 * float(computed.mean()),
            "participant_ms_largest": 1000 * float(computed.max()),
            "plan_check_ms": 1000 * trace.plan_check_seconds,
            "coordinator_s": trace.coordinator_seconds,
            "optimisation_s": trace.optimisation_seconds,
            "total_s": self.timing.total_s,
            "participant_sent_bytes": float(trace.sent_bytes[:, alive].sum(axis=0).mean()),
            "participant_received_bytes": float(trace.received_bytes[:, alive].sum(axis=0).mean()),
            "coordinator_sent_bytes": int(trace.received_bytes.sum()),
            "coordinator_received_bytes": int(trace.sent_bytes.sum()),
            "plan_bytes": trace.plan_bytes,
            "participant_joining_bytes": float(trace.joining_bytes[alive].mean()),
            "participant_ending_bytes": float(trace.ending_bytes[alive].mean()),
            "participant_bytes": float(trace.participant_bytes()[alive].mean()),
            "phases": [vars(phase) for phase in self.timing.phases],
            "wall_s": self.effort.wall_s,
            "cpu_s": self.effort.cpu_s,
            "peak_bytes": self.effort.peak_bytes,
        }

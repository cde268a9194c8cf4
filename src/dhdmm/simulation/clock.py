"""The virtual clock: when everything in a trace happens on a given network.

Discrete events, phase by phase. Of n messages each waits in a queue for one server: the
coordinator's processor, its link out, its link in, its processor again. Such a queue has a closed
form, so a phase costs a sort and a few passes over arrays, also for a million participants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.simulation.network import Network, Stragglers
from dhdmm.simulation.trace import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PhaseTiming:
    """One phase: its name and how long it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Timing:
    """A round on a network. `total_s` begins with the optimisation and ends with the release."""

    total_s: float
    phases: tuple[PhaseTiming, ...]


def replay(trace: Trace, network: Network, stragglers: Stragglers | None = None) -> Timing:
    """When things happen; the first phase includes the plan's download and check."""
    n = trace.participants
    slow = np.ones(n) if stragglers is None else stragglers.factors(n)
    links = _Links(
        network.participant_seconds_per_byte(n) * slow,
        network.coordinator_seconds_per_byte(),
        network.latency_seconds(n),
    )
    now, phases = trace.optimisation_seconds, []
    for p, name in enumerate(trace.phases):
        ended = _phase(trace, p, links, slow, now, network.patience_s)
        phases.append(PhaseTiming(name, ended - now))
        now = ended
    return Timing(now + trace.release_seconds, tuple(phases))


@dataclass(frozen=True)
class _Links:
    own: Floats  # seconds a byte, each participant's
    shared: float  # seconds a byte, the coordinator's
    latency: Floats


def _phase(
    trace: Trace, p: int, links: _Links, slow: Floats, began: float, patience: float
) -> float:
    """When phase p ends that began at this time."""
    received, computed = trace.received_bytes[p], trace.participant_seconds[p]
    if p == 0:
        joining = np.where(trace.joining_bytes > 0, trace.joining_bytes, trace.plan_bytes)
        received, computed = received + joining, computed + trace.plan_check_seconds
    opened = began + np.cumsum(trace.opening_seconds[p])  # one after the other, then sent
    out = served(opened, received * links.shared)
    arrived = out + links.latency + received * links.own
    answering = np.flatnonzero(trace.answered[p])
    up = trace.sent_bytes[p]
    sent = (arrived + computed * slow + up * links.own + links.latency)[answering]
    came = np.maximum(served(sent, up[answering] * links.shared), opened[-1])
    taken = served(came, trace.taking_seconds[p][answering])
    in_vain = trace.asked[p].sum() > len(answering)
    waited = began + patience if in_vain else began
    return float(max(taken.max(initial=began), opened[-1], waited) + trace.closing_seconds[p])


def served(arrivals: Floats, services: Floats) -> Floats:
    """When a server is done with each, that takes them one at a time in order of arrival.

    end_i = max_{j ≤ i} (arrival_j + service_j + … + service_i).

    >>> served(np.array([0.0, 5.0, 1.0]), np.array([2.0, 2.0, 2.0])).tolist()
    [2.0, 7.0, 4.0]
    """
    order = np.argsort(arrivals, kind="stable")
    service = services[order]
    through = np.cumsum(service)
    ends = np.empty_like(arrivals)
    ends[order] = through + np.maximum.accumulate(arrivals[order] - (through - service))
    return ends

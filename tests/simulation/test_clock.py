"""The virtual network against small cases worked out by hand."""

import numpy as np
import pytest

from dhdmm.aggregation.method import ThreatModel
from dhdmm.errors import DataError
from dhdmm.planning.methods import METHODS
from dhdmm.simulation.clock import replay, served
from dhdmm.simulation.network import Network, Spread, Stragglers
from dhdmm.simulation.trace import Trace

MS = 0.001


def two_phases() -> Trace:
    """Three participants, of whom the last falls silent in the second phase."""
    trace = Trace.empty(METHODS[ThreatModel.SEMI_HONEST].phases, 3)
    for name in ("asked", "answered", "received_bytes", "sent_bytes"):
        setattr(trace, name, getattr(trace, name)[:2])
    for name in ("participant_seconds", "opening_seconds", "taking_seconds", "closing_seconds"):
        setattr(trace, name, getattr(trace, name)[:2])
    trace.phases = trace.phases[:2]
    trace.asked[:] = True
    trace.answered[:] = [[True, True, True], [True, True, False]]
    trace.plan_bytes = 1000
    trace.plan_check_seconds = 50 * MS
    trace.received_bytes[1] = 2000
    trace.sent_bytes[0], trace.sent_bytes[1] = 500, [4000, 8000, 0]
    trace.participant_seconds[0] = 10 * MS
    trace.participant_seconds[1] = [20 * MS, 30 * MS, 0]
    trace.opening_seconds[1] = 1 * MS
    trace.taking_seconds[:] = [[2 * MS] * 3, [3 * MS, 3 * MS, 0]]
    trace.closing_seconds[:] = [5 * MS, 7 * MS]
    trace.optimisation_seconds, trace.release_seconds = 100 * MS, 4 * MS
    return trace


def milliseconds(trace: Trace, network: Network, stragglers: Stragglers | None = None) -> list:
    timing = replay(trace, network, stragglers)
    return [round(1000 * s, 6) for s in (*(p.seconds for p in timing.phases), timing.total_s)]


def test_unlimited_links_leave_computation_alone() -> None:
    """Keys: check 50, compute 10, take 3 × 2, close 5. Shares: three openings of 1, of which the
    first two are answered after 1 + 20 and 2 + 30; each is taken in 3; close 7."""
    assert milliseconds(two_phases(), Network()) == [71, 32 + 3 + 7, 100 + 71 + 42 + 4]


def test_links_and_latency_to_the_millisecond() -> None:
    """Participants have 1 Mbit/s (8 ms a kB), the coordinator 8 (1 ms a kB), 100 ms each way.

    Keys: plans leave at 1, 2, 3 and arrive 108 later, at 109, 110, 111; checked and answered at
    169, 170, 171; 500 B take 4 and 100, to 273, 274, 275; half a millisecond each on the shared
    link, to 273.5, 274.5, 275.5; taken until 275.5, 277.5, 279.5; closed at 284.5.
    Shares: opened at 1, 2, 3; 2 ms each on the shared link, to 3, 5, 7; 116 later at 119 and 121;
    computed at 139 and 151; 32 and 64 to send and 100 to travel, 271 and 315; 4 and 8 on the
    shared link, 275 and 323; taken at 278 and 326; closed at 333.
    """
    network = Network(participant_mbps=1, coordinator_mbps=8, latency_ms=100)
    assert milliseconds(two_phases(), network) == [284.5, 333, 100 + 284.5 + 333 + 4]


def test_answers_that_arrive_together_queue_for_the_shared_link() -> None:
    """Only the coordinator's link is slow: 1 Mbit/s. Plans take 8 each, keys 4 each: answers come
    at 68, 76, 84 and the last is through at 88, taken at 90, closed at 95. Shares: 16 each way out,
    at 17, 33, 49; answers at 37 and 63; 32 and 64 long: 69, 133; taken 136; closed 143."""
    assert milliseconds(two_phases(), Network(coordinator_mbps=1))[:2] == [95, 143]


def test_patience_is_spent_only_when_somebody_is_silent() -> None:
    assert milliseconds(two_phases(), Network(patience_s=1))[:2] == [71, 1007]
    assert milliseconds(two_phases(), Network(patience_s=0.001))[:2] == [71, 42]


def test_a_straggler_holds_everybody_up() -> None:
    everybody = Stragglers(share=1, slowdown=10)
    assert milliseconds(two_phases(), Network(), everybody)[:2] == [600 + 11, 302 + 3 + 7]
    one = Stragglers(share=1 / 3, slowdown=10, seed=1)
    assert sorted(one.factors(3)) == [1, 1, 10]
    assert milliseconds(two_phases(), Network(), one)[0] == 600 + 2 + 5


def test_every_participant_may_have_its_own_link() -> None:
    fast, slow = Network(participant_mbps=8), Network(participant_mbps=[8, 8, 1])
    assert milliseconds(two_phases(), fast)[0] == 1 + 60 + 0.5 + 6 + 5
    assert milliseconds(two_phases(), slow)[0] == 8 + 60 + 4 + 2 + 5
    with pytest.raises(DataError, match="2 values for 3 participants"):
        replay(two_phases(), Network(participant_mbps=[1, 1]))
    with pytest.raises(DataError, match="more than nothing"):
        replay(two_phases(), Network(coordinator_mbps=0))


def test_drawn_links_follow_their_seed() -> None:
    drawn = Spread(median=10, sigma=0.5, seed=3).values(1001)
    assert np.array_equal(drawn, Spread(10, 0.5, 3).values(1001))
    assert not np.array_equal(drawn, Spread(10, 0.5, 4).values(1001))
    assert 9 < np.median(drawn) < 11


def test_queue_is_the_one_that_serving_one_by_one_gives() -> None:
    random = np.random.default_rng(5)
    for _ in range(50):
        arrivals, services = random.random(20), random.random(20) / 10
        free, ends = 0.0, np.zeros(20)
        for i in np.argsort(arrivals):
            free = ends[i] = max(free, arrivals[i]) + services[i]
        assert np.allclose(served(arrivals, services), ends, rtol=0, atol=1e-12)


def test_a_faster_network_never_takes_longer() -> None:
    trace, slow = two_phases(), Network(1, 10, 50)
    for faster in (Network(2, 10, 50), Network(1, 20, 50), Network(1, 10, 5), Network(1, None, 50)):
        assert replay(trace, faster).total_s < replay(trace, slow).total_s

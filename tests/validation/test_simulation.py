"""What the simulator says of validated rounds is what they are."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import dhdmm
from dhdmm.aggregation.method import input_phase
from dhdmm.simulation.model import put_modelled_bytes
from dhdmm.simulation.population import population_for, silent_ones
from dhdmm.simulation.recorder import TraceRecorder
from dhdmm.simulation.simulate import execute
from dhdmm.simulation.trace import Trace
from tests.round.small import small_plan

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
@pytest.mark.parametrize("level", ["sum", "bounded"])
def test_sizes_from_counts_are_the_bytes_of_a_real_round(threat_model: str, level: str) -> None:
    plan = small_plan(threat_model=threat_model, validation=level, dropout=0.17)
    population = population_for(plan, 1, None, 5)
    counted = plan.method.counted(population.plan.round(population.round_id))
    trace = Trace.empty(plan.method.phases, plan.participants)
    recorder = TraceRecorder(trace, lambda _done, _of: None, counted)
    silent = silent_ones({input_phase(plan.method).name: 0.1}, plan, 5)
    assert execute(population, recorder, silent, "local", None).sum_correct
    modelled = deepcopy(trace)
    modelled.received_bytes[:] = modelled.sent_bytes[:] = 0
    put_modelled_bytes(modelled, counted, recorder.introductions)
    assert np.array_equal(modelled.received_bytes, trace.received_bytes)
    assert np.array_equal(modelled.sent_bytes, trace.sent_bytes)


def test_a_modelled_round_has_the_time_of_proofs() -> None:
    seconds = {
        level: dhdmm.simulate(small_plan(validation=level), compute_model=True, seed=1).summary()[
            "participant_ms"
        ]
        for level in ("none", "sum", "bounded")
    }
    assert seconds["none"] < seconds["sum"] < seconds["bounded"]

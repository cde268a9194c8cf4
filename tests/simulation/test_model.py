"""Counts explain every byte of a real round, and rounds that nobody executes."""

from copy import deepcopy

import numpy as np
import pytest

import dhdmm
from dhdmm.aggregation.merkle import NODE_BYTES, MerkleTree, expected_proof
from dhdmm.errors import DataError
from dhdmm.secagg.counted import CountedMessages
from dhdmm.secagg.states import CoordinatorState
from dhdmm.simulation import simplified
from dhdmm.simulation.model import put_modelled_bytes, put_modelled_seconds
from dhdmm.simulation.population import Population, population_for, silent_ones
from dhdmm.simulation.recorder import TraceRecorder
from dhdmm.simulation.simulate import execute
from dhdmm.simulation.trace import Trace
from dhdmm.study.spec import Study
from tests.round.small import small_plan, small_text

pytestmark = pytest.mark.slow

DROPOUT = {
    CoordinatorState.COLLECTING_SHARES: 0.02,
    CoordinatorState.COLLECTING_INPUTS: 0.03,
    CoordinatorState.COLLECTING_REVEALS: 0.02,
}


N = 210


@pytest.fixture(scope="module", params=["semi-honest", "malicious"])
def executed(request: pytest.FixtureRequest) -> tuple[TraceRecorder, CountedMessages, Population]:
    """A round on a sparse graph, from which some fall silent in three phases."""
    plan = small_plan(threat_model=request.param, participants=N, corrupt=0.05, dropout=0.06)
    population = population_for(plan, 1, None, 5)
    counted = plan.method.counted(population.plan.round(population.round_id))
    trace = Trace.empty(plan.method.phases, N)
    recorder = TraceRecorder(trace, lambda _done, _of: None, counted)
    ended = execute(population, recorder, silent_ones(DROPOUT, plan, 5), "local", None)
    assert ended.sum_correct
    assert plan.parameters.degree < N - 1
    return recorder, counted, population


Executed = tuple[TraceRecorder, CountedMessages, Population]


def test_sizes_from_counts_are_the_bytes_of_a_real_round(executed: Executed) -> None:
    recorder, counted, _ = executed
    modelled = deepcopy(recorder.trace)
    modelled.received_bytes[:] = modelled.sent_bytes[:] = 0
    put_modelled_bytes(modelled, counted, recorder.introductions)
    assert np.array_equal(modelled.received_bytes, recorder.trace.received_bytes)
    assert np.array_equal(modelled.sent_bytes, recorder.trace.sent_bytes)
    assert modelled.sent_bytes.any(axis=1).all()


def test_stand_ins_move_the_bytes_of_real_participants(executed: Executed) -> None:
    """Also where some fall silent before they share, and others after their input."""
    real, population = executed[0].trace, executed[2]
    alone = dhdmm.simulate(population.plan, engine="coordinator", dropout=DROPOUT, seed=5)
    assert alone.sum_correct
    assert alone.release is None  # there is no noise in it
    for figure in ("asked", "answered", "received_bytes", "sent_bytes", "joining_bytes"):
        assert np.array_equal(getattr(alone.trace, figure), getattr(real, figure)), figure
    assert alone.trace.closing_seconds[-1] > 0
    assert alone.trace.participant_seconds.sum() > 0


def test_stand_ins_that_know_nobody_who_falls_silent_spoil_the_sum(
    executed: Executed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their masks with those are what the coordinator removes."""
    knowing = simplified.SimplifiedParticipants
    monkeypatch.setattr(
        simplified, "SimplifiedParticipants", lambda population, _gone: knowing(population, ())
    )
    alone = dhdmm.simulate(executed[2].plan, engine="coordinator", dropout=0.03, seed=5)
    assert alone.sum_correct is False


def test_there_are_no_stand_ins_for_validated_inputs() -> None:
    study = Study.from_text(small_text(participants=40, validation="sum"))
    with pytest.raises(DataError, match="simplified participants prove nothing"):
        dhdmm.simulate(study, participants=40, engine="coordinator")


def test_drawn_rounds_have_the_size_of_executed_ones(executed: Executed) -> None:
    """Neighbourhoods are drawn, not the real ones: means over 210 participants within 2 %, where
    their standard error is below 0.5 %."""
    recorder, counted, population = executed
    real = deepcopy(recorder.trace)
    put_modelled_seconds(real, counted, population.plan.strategy.rows)
    drawn = dhdmm.simulate(population.plan, engine="model", dropout=DROPOUT, seed=5)
    assert drawn.sum_correct is None
    assert np.array_equal(drawn.trace.answered, real.answered)
    for figure in ("received_bytes", "sent_bytes", "participant_seconds"):
        totals = [getattr(trace, figure).sum() for trace in (drawn.trace, real)]
        assert totals[0] == pytest.approx(totals[1], rel=0.02), figure
    assert drawn.trace.coordinator_seconds == pytest.approx(real.coordinator_seconds, rel=0.1)


def test_expected_proof_is_the_mean_of_real_ones() -> None:
    """200 draws of 40 of 1,000 leaves; the mean of a proof has a standard error of 0.1 %."""
    tree, random = MerkleTree([bytes([i % 256]) for i in range(1000)]), np.random.default_rng(1)
    sizes = [
        len(tree.multiproof(random.choice(1000, 40, replace=False).tolist())) // NODE_BYTES
        for _ in range(200)
    ]
    [expected] = expected_proof(1000, np.array([40]))
    assert expected == pytest.approx(np.mean(sizes), rel=0.02)


@pytest.mark.parametrize(("threat_model", "n"), [("semi-honest", 10**6), ("malicious", 10**5)])
def test_a_million_participants_are_modelled(threat_model: str, n: int) -> None:
    """In the malicious model a tenth of them: choosing its graph takes long, the rest does not."""
    study = Study.from_text(small_text(threat_model=threat_model, corrupt=0.05, dropout=0.05))
    summary = dhdmm.simulate(study, participants=n, dropout=0.05, engine="model").summary()
    assert summary["survivors"] == 0.95 * n
    assert summary["coordinator_received_bytes"] > n * 1000
    assert summary["participant_received_bytes"] > n / 8  # the bitmap of survivors


def test_two_servers_are_simulated_with_those_who_reported_as_survivors() -> None:
    """And the model of such a round has the bytes of the real one."""
    study = Study.from_text(small_text(threat_model="two-servers", participants=20))
    real, drawn = (
        dhdmm.simulate(study, participants=20, dropout=0.1, engine=engine, seed=3).summary()
        for engine in ("local", "model")
    )
    assert real["sum_correct"]
    assert real["survivors"] == drawn["survivors"] == 18
    assert real["participant_ms"] > 0
    for figure in ("participant_sent_bytes", "participant_received_bytes"):
        assert drawn[figure] == real[figure], figure
    assert drawn["participant_ending_bytes"] == pytest.approx(
        real["participant_ending_bytes"], rel=0.05
    )

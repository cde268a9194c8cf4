"""Counts explain every byte of a real round, and rounds that nobody executes."""

import numpy as np
import pytest

import dhdmm
from dhdmm.cohort.drive import drive
from dhdmm.cohort.members import Invitation, LocalCohort, permissive, pinned
from dhdmm.participant.policy import review
from dhdmm.secagg.merkle import NODE_BYTES, MerkleTree
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.simulation.cast import cast_for, silent_ones
from dhdmm.simulation.counts import CountingRecorder, expected_proof
from dhdmm.simulation.model import put_modelled_bytes
from dhdmm.simulation.trace import Trace
from dhdmm.study.spec import Study
from tests.round.small import small_plan, small_text

DROPOUT = {
    CoordinatorState.COLLECTING_SHARES: 0.03,
    CoordinatorState.COLLECTING_INPUTS: 0.04,
    CoordinatorState.COLLECTING_REVEALS: 0.03,
}


def real_round(threat_model: str) -> tuple[CountingRecorder, object]:
    cast = cast_for(small_plan(threat_model=threat_model, participants=210), 1, None, 5)
    policy = pinned(permissive(cast.plan), cast.roster)
    invitation = Invitation(cast.plan.to_bytes(), cast.round_id, cast.roster, policy)
    cohort = LocalCohort(review(invitation.plan, policy, cast.roster), invitation, cast.people)
    coordinator = CoordinatorSession(cast.plan, cast.round_id, cast.roster, cast.randomness())
    trace = Trace.empty(cast.plan.threat_model, 210)
    recorder = CountingRecorder(trace, lambda _done, _of: None)
    drive(coordinator, [cohort], silent_ones(DROPOUT, 210, 5), recorder)
    return recorder, cast.plan.round(cast.round_id)


@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_sizes_from_counts_are_the_bytes_of_a_real_round(threat_model: str) -> None:
    recorder, parameters = real_round(threat_model)
    trace = recorder.trace
    received, sent = trace.received_bytes.copy(), trace.sent_bytes.copy()
    put_modelled_bytes(trace, parameters, recorder.counts)  # type: ignore[arg-type]
    assert np.array_equal(trace.received_bytes, received)
    assert np.array_equal(trace.sent_bytes, sent)
    assert (sent > 0).any(axis=1).all()


@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_drawn_rounds_have_the_size_of_executed_ones(threat_model: str) -> None:
    """Neighbourhoods are drawn, not the real ones: means over 300 participants within 1 %, where
    their standard error is below 0.2 %."""
    plan = small_plan(threat_model=threat_model, participants=300)
    options = {"dropout": 0.05, "seed": 2, "compute_model": True}
    real = dhdmm.simulate(plan, engine="local", **options).summary()
    drawn = dhdmm.simulate(plan, engine="model", **options).summary()
    for figure in ("participant_sent_bytes", "participant_received_bytes", "participant_ms"):
        assert drawn[figure] == pytest.approx(real[figure], rel=0.01), figure
    assert drawn["coordinator_s"] == pytest.approx(real["coordinator_s"], rel=0.1)
    assert drawn["survivors"] == real["survivors"]
    assert drawn["sum_correct"] is None


def test_expected_proof_is_the_mean_of_real_ones() -> None:
    """200 draws of 40 of 1,000 leaves; the mean of a proof has a standard error of 0.1 %."""
    tree, random = MerkleTree([bytes([i % 256]) for i in range(1000)]), np.random.default_rng(1)
    sizes = [
        len(tree.multiproof(random.choice(1000, 40, replace=False).tolist())) // NODE_BYTES
        for _ in range(200)
    ]
    [expected] = expected_proof(1000, np.array([40]))
    assert expected == pytest.approx(np.mean(sizes), rel=0.02)


@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_a_million_participants_are_modelled(threat_model: str) -> None:
    study = Study.from_text(small_text(threat_model=threat_model, corrupt=0.05, dropout=0.05))
    simulation = dhdmm.simulate(study, participants=10**6, dropout=0.05, engine="model")
    summary = simulation.summary()
    assert summary["survivors"] == 950_000
    assert summary["coordinator_received_bytes"] > 10**6 * 1000
    assert summary["participant_received_bytes"] > 10**6 / 8  # the bitmap of survivors

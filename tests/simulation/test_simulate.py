"""A simulated round is a real one: its sum is exact, and everything follows from the seed."""

import numpy as np
import pytest

import dhdmm
from dhdmm import runner
from dhdmm.cohort.people import Enrolled
from dhdmm.errors import DataError, Refused, RoundAborted
from dhdmm.participant.measure import measure
from dhdmm.release.decode import decode
from dhdmm.secagg.states import CoordinatorState
from dhdmm.simulation import engines
from dhdmm.simulation.network import Network, Stragglers
from dhdmm.simulation.population import Population, population_for, silent_ones
from dhdmm.simulation.result import Simulation
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.round.small import small_plan, small_text
from tests.sums import PlainSum

pytestmark = pytest.mark.slow

BOTH_MODELS = pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
MEASURED = ("participant_seconds", "opening_seconds", "taking_seconds", "closing_seconds")
COUNTED = ("asked", "answered", "received_bytes", "sent_bytes")
N, RECORDS, SEED = 40, 3, 11


def simulated(threat_model: str, **options: object) -> Simulation:
    plan = small_plan(threat_model=threat_model, participants=N)
    defaults = {"dropout": 0.1, "records_per_participant": RECORDS, "seed": SEED}
    return dhdmm.simulate(plan, **defaults | {"engine": "local"} | options)  # type: ignore[arg-type]


@BOTH_MODELS
def test_simulator_runner_and_ideal_sum_agree_to_the_bit(
    threat_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same noise, records and dropouts; keys and shares are the runner's own."""
    simulation = simulated(threat_model)
    population = population_for(
        small_plan(threat_model=threat_model, participants=N), RECORDS, None, SEED
    )
    [silent] = silent_ones(0.1, population.plan, SEED).values()
    assert simulation.release is not None
    found = simulation.release.measurement
    assert np.array_equal(found, _of_runner(population, list(silent), monkeypatch))
    assert np.array_equal(found, _of_trusted_party(population, list(silent)))
    assert simulation.sum_correct
    assert len(silent) == 4


def _of_runner(
    population: Population, silent: list[int], monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    class SameNoise(Enrolled):
        def noise(self, position: int) -> object:  # type: ignore[override]
            return population.people.noise(position)

    monkeypatch.setattr(runner, "Enrolled", SameNoise)
    monkeypatch.setattr(runner, "dropouts", lambda *_: silent)
    seats = [population.people.seat(i) for i in range(N)]
    identities = tuple(seat.identity for seat in seats)
    enrolment = runner.Enrolment(population.plan, bytes(16), population.roster, identities)
    outcome = runner.run_round(enrolment, [seat.histogram for seat in seats], workers=1)
    assert set(outcome.survivors).isdisjoint(silent)
    return outcome.release.measurement


def _of_trusted_party(population: Population, silent: list[int]) -> np.ndarray:
    inputs = {
        i: measure(population.plan, population.people.seat(i).histogram, population.people.noise(i))
        for i in range(N)
        if i not in silent
    }
    return decode(population.plan, PlainSum(population.plan.round(bytes(16))).sum(inputs).total)


@BOTH_MODELS
def test_a_wrong_sum_is_noticed(threat_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dhdmm.session import participant

    def off_by_one(*given: object) -> np.ndarray:
        vector = measure(*given)  # type: ignore[arg-type]
        vector[0] ^= 1
        return vector

    monkeypatch.setattr(participant, "measure", off_by_one)
    assert simulated(threat_model).sum_correct is False


@BOTH_MODELS
def test_sleeping_participants_say_what_waking_ones_do(
    threat_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident = simulated(threat_model)
    monkeypatch.setattr(engines, "RESIDENT_LIMIT", 0)
    spilled = simulated(threat_model)
    assert spilled.sum_correct
    _require_same(spilled, resident)


@BOTH_MODELS
def test_worker_processes_and_this_one_give_the_same_round(threat_model: str) -> None:
    workers = simulated(threat_model, engine="processes", workers=2)
    assert workers.sum_correct
    assert workers.trace.participant_seconds.any()
    _require_same(workers, simulated(threat_model))


def test_another_seed_gives_another_round() -> None:
    one, other = simulated("malicious"), simulated("malicious", seed=SEED + 1)
    assert not np.array_equal(one.trace.answered, other.trace.answered)


def _require_same(one: Simulation, other: Simulation) -> None:
    for name in COUNTED:
        assert np.array_equal(getattr(one.trace, name), getattr(other.trace, name)), name
    assert one.release is not None
    assert other.release is not None
    assert np.array_equal(one.release.measurement, other.release.measurement)
    assert one.release.transcript is not None
    assert other.release.transcript is not None
    assert one.release.transcript.to_bytes() == other.release.transcript.to_bytes()


@BOTH_MODELS
def test_compute_model_is_deterministic_in_time_too(threat_model: str) -> None:
    network = Network(participant_mbps=1, coordinator_mbps=10, latency_ms=5)
    one, other = (simulated(threat_model, compute_model=True, network=network) for _ in range(2))
    for name in MEASURED:
        assert np.array_equal(getattr(one.trace, name), getattr(other.trace, name)), name
    assert one.timing == other.timing
    assert one.timing.total_s > 0.1


def test_dropouts_of_any_phase_are_survived() -> None:
    late = {
        CoordinatorState.COLLECTING_KEYS: 0.03,
        CoordinatorState.COLLECTING_ACKS: 0.03,
        CoordinatorState.COLLECTING_REVEALS: 0.05,
    }
    simulation = simulated("malicious", dropout=late)
    assert simulation.sum_correct
    assert simulation.trace.answered.sum(axis=1).tolist() == [39, 39, 39, 39, 38, 36]
    assert simulation.release is not None
    assert simulation.release.survivors == 39


def test_too_many_dropouts_abort() -> None:
    with pytest.raises(RoundAborted, match="too-few-participants"):
        simulated("malicious", dropout=0.5)


def test_a_study_is_planned_for_any_number_of_participants() -> None:
    study = Study.from_text(small_text(participants=12))
    simulation = dhdmm.simulate(
        study, participants=20, threat_model="semi-honest", engine="local", dropout=0.05
    )
    summary = simulation.summary()
    assert (summary["participants"], summary["threat_model"]) == (20, "semi-honest")
    assert summary["survivors"] == 19
    assert summary["optimisation_s"] > 0
    assert simulation.replay(Network()).total_s > summary["optimisation_s"]


def test_summary_adds_up() -> None:
    network = Network(participant_mbps=1, coordinator_mbps=100, latency_ms=20)
    simulation = simulated("malicious", network=network, stragglers=Stragglers(0.1, 5))
    summary, trace = simulation.summary(), simulation.trace
    assert summary["coordinator_received_bytes"] == trace.sent_bytes.sum()
    assert summary["coordinator_sent_bytes"] == trace.received_bytes.sum()
    assert summary["plan_bytes"] == len(simulation.plan.to_bytes())
    assert summary["total_s"] == pytest.approx(
        sum(phase["seconds"] for phase in summary["phases"]) + trace.release_seconds
    )
    assert summary["total_s"] > 12 * 0.02  # six phases, there and back
    assert simulation.replay(Network()).total_s < summary["total_s"]


def test_records_are_dealt_out_of_a_table_without_repetition() -> None:
    codes = np.stack(np.divmod(np.arange(20), 2), axis=1)
    table = Histogram.of(codes, np.full(20, 6))
    plan = small_plan(participants=N)
    population = population_for(plan, RECORDS, table, SEED)
    held = Histogram.total(population.people.seat(i).histogram for i in range(N))
    assert np.array_equal(held.codes, table.codes)
    assert np.array_equal(held.counts, table.counts)
    with pytest.raises(DataError, match="120 records are too few for 40 × 4"):
        population_for(plan, 4, table, SEED)


def test_more_records_than_the_bound_are_refused() -> None:
    with pytest.raises(Refused, match="51 records a participant"):
        simulated("malicious", records_per_participant=51)


def test_a_plan_is_not_stretched() -> None:
    with pytest.raises(DataError, match="for 40 participants, not 41"):
        simulated("malicious", participants=41)
    with pytest.raises(DataError, match="malicious, not semi-honest"):
        dhdmm.simulate(small_plan(), threat_model="semi-honest")

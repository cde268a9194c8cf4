"""Worker processes that fail are noticed, not waited for."""

import pytest

from dhdmm.cohort.members import Invitation, permissive, pinned
from dhdmm.cohort.workers import WorkerCohort
from dhdmm.errors import RoundAborted
from dhdmm.simulation.population import population_for
from tests.round.small import small_plan

pytestmark = pytest.mark.slow


def test_a_worker_that_dies_aborts_the_round() -> None:
    worker = WorkerCohort()
    worker._process.kill()
    worker.send({0: None})
    worker.send({1: None})
    with pytest.raises(RoundAborted, match="a worker process died"):
        worker.collect()
    worker.close()


def test_batches_are_answered_in_the_order_they_were_sent() -> None:
    population = population_for(small_plan(), 1, None, 3)
    policy = pinned(permissive(population.plan), population.roster)
    worker = WorkerCohort()
    worker.invite(
        Invitation(population.plan.to_bytes(), population.round_id, population.roster, policy),
        population.people,
    )
    for batch in ([0, 1], [2], [5, 4]):
        worker.send(dict.fromkeys(batch))
    assert [list(worker.collect()) for _ in range(3)] == [[0, 1], [2], [5, 4]]
    assert worker.usage().cpu_seconds > 0
    worker.close()

"""Where simulated participants live: in this process, in worker processes, or on Ray.

Or nowhere: `coordinator` executes the coordinator alone, with simplified participants, whose
seconds are counted; `model` executes nothing, and counts all bytes and seconds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from dhdmm.cohort.drive import Silent
from dhdmm.cohort.members import RESIDENT_LIMIT, Cohort, Invitation
from dhdmm.cohort.workers import cohorts_here
from dhdmm.simulation.population import Population
from dhdmm.simulation.simplified import simplified

Engine = Literal["processes", "local", "ray", "coordinator", "model"]


def cohorts_on(
    engine: Engine,
    invitation: Invitation,
    population: Population,
    silent: Silent,
    workers: int | None,
) -> AbstractContextManager[list[Cohort]]:
    people = population.people
    if engine == "coordinator":
        return simplified(population, silent)
    if engine == "ray":
        from dhdmm.simulation.on_ray import ray_cohorts

        return ray_cohorts(invitation, people, workers, RESIDENT_LIMIT)
    return cohorts_here(invitation, people, 1 if engine == "local" else workers, RESIDENT_LIMIT)

"""Where simulated participants live: in this process, in worker processes, or on Ray."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from dhdmm.cohort.members import RESIDENT_LIMIT, Cohort, Invitation
from dhdmm.cohort.people import People
from dhdmm.cohort.workers import cohorts_here

Engine = Literal["processes", "local", "ray", "model"]
"""`model` executes no cryptography: bytes and seconds come from counted operations."""


def cohorts_on(
    engine: Engine, invitation: Invitation, people: People, workers: int | None
) -> AbstractContextManager[list[Cohort]]:
    if engine == "ray":
        from dhdmm.simulation.on_ray import ray_cohorts

        return ray_cohorts(invitation, people, workers, RESIDENT_LIMIT)
    return cohorts_here(invitation, people, 1 if engine == "local" else workers, RESIDENT_LIMIT)

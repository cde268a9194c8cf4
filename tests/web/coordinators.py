"""A coordinator with pages, in a thread of its own: real requests, real rounds, real releases."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from dhdmm.planning.plan import Plan
from dhdmm.release.directory import file_stems
from dhdmm.release.release import Release
from dhdmm.server import store
from dhdmm.server.store import StoredStudy
from dhdmm.server.studies import add_study
from dhdmm.server.tables import rounds
from dhdmm.study.spec import Study
from tests.service.coordinators import Listening, listening, sqlite_in


def served(folder: Path, *, public: bool = False) -> AbstractContextManager[Listening]:
    """A coordinator without a study, that has pages."""
    return listening(sqlite_in(folder), folder / "releases", pages=True, public=public)


def synthetic(plan: Plan, seed: int = 0, largest: int = 400) -> Release:
    """A release of made-up records: what a round of them would have found."""
    generator = np.random.default_rng(seed)
    strategy = plan.strategy
    noise = np.sqrt(float(plan.participants * plan.participant_variance))
    cells = generator.integers(0, largest, strategy.rows)
    measured = cells + np.rint(generator.normal(0, noise, strategy.rows))
    return Release(plan, generator.bytes(16), plan.participants, measured.astype(np.int64))


def add_finished(served: Listening, study: Study, release: Release) -> str:
    """A round of the study that is over, with this release."""
    return add_round(served, add_study(served.database, study), release.round_id.hex(), release)


def add_round(
    served: Listening,
    study: StoredStudy,
    round_id: str,
    release: Release | None = None,
    **columns: object,
) -> str:
    """A round in any state, as if it had happened."""
    with served.database.writing() as connection:
        row = store.add_round(connection, study)
        made = {"state": "finished"} if release is not None else {}
        if release is not None:
            count = release.plan.participants
            made |= {"enrolled": count, "invited": count, "alive": release.survivors}
        connection.execute(
            rounds.update().where(rounds.c.id == row.id).values(id=round_id, **(made | columns))
        )
    if release is not None:
        place = served.hub.out / f"{file_stems([study.name])[0]}-{round_id}"
        release.save(place)
    return round_id

"""A coordinator with pages, in a thread of its own: real requests, real rounds, real releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from dhdmm.aggregation.identity import Identity
from dhdmm.planning.plan import Plan
from dhdmm.release.directory import file_stems
from dhdmm.release.release import Release
from dhdmm.server import store
from dhdmm.server.app import create_app
from dhdmm.server.database import Database
from dhdmm.server.store import StoredStudy
from dhdmm.server.studies import Hub, add_study
from dhdmm.server.tables import rounds
from dhdmm.server.waiting import Deadlines
from dhdmm.study.spec import Study
from dhdmm.web.pages import create_pages
from tests.service.server.rounds import sqlite_in
from tests.service.walls.servers import coordinating

TOKEN = "the operator's token"
SERVER_KEY = Identity(sha256(b"the coordinator").digest())


@dataclass(frozen=True)
class Served:
    """Where it listens, and what it holds."""

    address: str
    hub: Hub
    database: Database


@contextmanager
def served(
    folder: Path, *, public: bool = False, deadlines: Deadlines | None = None
) -> Iterator[Served]:
    """A coordinator without a study."""
    database = sqlite_in(folder)
    hub = Hub(database, SERVER_KEY, folder / "releases", deadlines or Deadlines(600, 600))
    pages = create_pages(hub, TOKEN, public=public)
    app = create_app(hub, TOKEN, pages=pages, public=public)
    with closing(database), coordinating(app) as server:
        yield Served(f"http://127.0.0.1:{server.port}", hub, database)


def synthetic(plan: Plan, seed: int = 0, largest: int = 400) -> Release:
    """A release of made-up records: what a round of them would have found."""
    generator = np.random.default_rng(seed)
    strategy = plan.strategy
    noise = np.sqrt(float(plan.participants * plan.participant_variance))
    cells = generator.integers(0, largest, strategy.rows)
    measured = cells + np.rint(generator.normal(0, noise, strategy.rows))
    return Release(plan, generator.bytes(16), plan.participants, measured.astype(np.int64))


def add_finished(served: Served, study: Study, release: Release) -> str:
    """A round of the study that is over, with this release."""
    return add_round(served, add_study(served.database, study), release.round_id.hex(), release)


def add_round(
    served: Served,
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

"""Two workers in this process that know of each other only through the store."""

import asyncio
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import func, select

from dhdmm.server import tables
from tests.service.coordinators import sqlite_in
from tests.service.server.rounds import (
    ideal,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow


class Alternating:
    """Every request goes to the other worker."""

    def __init__(self, *workers: httpx.AsyncClient) -> None:
        self._workers = cycle(workers)

    async def get(self, target: str, **options: Any) -> httpx.Response:
        return await next(self._workers).get(target, **options)

    async def post(self, target: str, **options: Any) -> httpx.Response:
        return await next(self._workers).post(target, **options)


@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_two_workers_at_one_round_give_the_same_sum_as_one(
    tmp_path: Path, threat_model: str
) -> None:
    async def scenario() -> None:
        databases = [sqlite_in(tmp_path) for _ in range(2)]
        study, out, roster = study_of(threat_model), tmp_path / "out", roster_file()
        async with (
            serving(databases[0], study, out, roster=roster) as one,
            serving(databases[1], study, out) as other,
        ):
            assert one.round_id == other.round_id
            people = visitors(Alternating(one.http, other.http), one.round_id)
            for visitor in people[::2]:  # so that neither parity of requests is one worker's
                await visitor.get()
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            found = await measurement(one)
            assert np.array_equal(found, await measurement(other))
            assert np.array_equal(found, await ideal(one))
            with databases[0].reading() as connection:
                count = select(func.count()).select_from(tables.shards)
                assert connection.execute(count).scalar_one() == 2, "one of them was idle"

    asyncio.run(scenario())

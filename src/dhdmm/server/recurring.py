"""Studies that are asked again every day, week or month: one round per occurrence.

An occurrence is named after its period, by the calendar in UTC, and begun at most once, whoever is
started or restarted. While a study's last round is going on none is begun; a period that passes in
the meantime has no round. How often a study is asked is not part of the study: data holders consent
to each round's cost, and their ledgers count the rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dhdmm.errors import DhdmmError
from dhdmm.network.problems import Problem
from dhdmm.network.roster import RosterFile
from dhdmm.server.logs import logger
from dhdmm.server.occurrences import Every, now, occurrence_at
from dhdmm.server.store import StoredStudy
from dhdmm.server.studies import Hub

LOOK_SECONDS = 30.0


@dataclass
class Recurring:
    """Begins the rounds of these studies. The roster is asked for anew for each of them."""

    hub: Hub
    studies: Sequence[StoredStudy]
    every: Every
    roster: Callable[[], RosterFile | None]
    clock: Callable[[], datetime] = now

    async def run(self) -> None:
        while True:
            try:
                await self.begin_due()
            except (DhdmmError, Problem) as error:  # such as a roster that is older than the last
                logger().error("no round begun", exc_info=error)
            await asyncio.sleep(LOOK_SECONDS)

    async def begin_due(self) -> list[str]:
        """The rounds that were due and are begun now; this process runs them."""
        occurrence, begun = occurrence_at(self.every, self.clock()), []
        for study in self.studies:
            round_id = await self.hub.begin_occurrence(study, self.roster, occurrence)
            if round_id is not None:
                logger().info("round begun", round=round_id, study_digest=study.digest)
                begun.append(round_id)
        return begun

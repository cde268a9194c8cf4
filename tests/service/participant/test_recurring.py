"""A study that is asked again and again: a round an occurrence, as long as budgets last."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dhdmm.client.ending import Ending
from dhdmm.client.http import CoordinatorClient
from dhdmm.errors import Refused
from dhdmm.network.roster import RosterFile
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server.recurring import Recurring
from dhdmm.server.studies import add_study, begin_again
from tests.service.coordinators import AS_OPERATOR, sqlite_in
from tests.service.participant.people import (
    POLICY,
    coordinator,
    crowd,
    roster_file,
    study_of,
)
from tests.service.participant.test_trouble import meanwhile
from tests.service.server.rounds import Coordinator, serving
from tests.service.server.rounds import roster_file as twelve
from tests.service.server.rounds import study_of as study_of_twelve

pytestmark = pytest.mark.slow


@pytest.mark.fault(58)
def test_a_round_is_begun_in_every_week_once_and_one_at_a_time(tmp_path: Path) -> None:
    today, rosters = datetime(2026, 11, 18, tzinfo=UTC), list[RosterFile]()

    def roster() -> RosterFile:
        rosters.append(twelve())
        return rosters[-1]

    async def abort(coordinator: Coordinator, round_id: str) -> None:
        await coordinator.http.post(f"/v1/rounds/{round_id}/abort", headers=AS_OPERATOR)

    async def scenario() -> None:
        nonlocal today
        database, study = sqlite_in(tmp_path), study_of_twelve()
        async with serving(database, study, tmp_path / "out", roster=twelve()) as here:
            known = add_study(database, study)
            weekly = Recurring(here.hub, [known], "week", roster, lambda: today)
            assert await weekly.begin_due() == [], "the first round is going on"
            await abort(here, here.round_id)
            (first,) = await weekly.begin_due()
            assert await weekly.begin_due() == []
            today += timedelta(days=7)
            assert await weekly.begin_due() == [], "the last one is going on"
            await abort(here, first)
            (second,) = await weekly.begin_due()
            await abort(here, second)
            assert await weekly.begin_due() == [], "this week has had its round"
            listed = (await here.http.get("/v1/rounds", headers=AS_OPERATOR)).json()
            found = {entry["round"]: entry["occurrence"] for entry in listed}
            assert found == {here.round_id: None, first: "2026-W47", second: "2026-W48"}

    asyncio.run(scenario())
    assert rosters, "the file is read anew"


@pytest.mark.fault(33, 58)
def test_an_occurrence_goes_on_without_those_whose_budget_is_used_up(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    poor, rest = persons[0], persons[1:]
    study = study_of(dropout=0.2, threat_model="semi-honest")
    with coordinator(tmp_path, study, roster_file(persons)) as here:
        here.consent(*persons)
        known = add_study(here.database, study)
        with here.client(poor) as client:
            rho = _cost(client, here.round_id)
        poor.policy = POLICY.model_copy(update={"total_rho": 1.5 * rho})
        outcomes = here.join_all(persons)
        assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}

        following = begin_again(here.database, known, roster_file(persons), occurrence="next")
        here.round_id = bytes.fromhex(following.round)
        with pytest.raises(Refused, match="of the budget of") as refused:
            here.join(poor)
        assert "the others go on without this participant" in (refused.value.hint or "")
        assert (poor.entries, poor.journals) == (["open", "reserve", "debit"], [])
        with meanwhile(here, rest) as others:
            _close_keys(here.client(), here.round_id, len(rest))
            ended = [one.result() for one in others]
    assert {outcome.ending for outcome in ended} == {Ending.RELEASED}
    assert {outcome.survivors for outcome in ended} == {5}
    for person in rest:
        assert person.entries == ["open", "reserve", "debit", "reserve", "debit"]


def _cost(client: CoordinatorClient, round_id: bytes) -> float:
    from dhdmm.planning.plan import Plan

    return float(Plan.from_bytes(client.plan(round_id)).rho)


def _close_keys(client: CoordinatorClient, round_id: bytes, count: int) -> None:
    """The operator goes on when so many have come."""
    with client:
        for status in client.statuses(round_id):
            if status.state == CoordinatorState.COLLECTING_KEYS and status.received == count:
                client.close(round_id, status.state)
                return

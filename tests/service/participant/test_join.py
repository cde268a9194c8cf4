"""A whole round as participants live it: real requests over TLS, own folders, own ledgers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from dhdmm.client.ending import Ending
from dhdmm.client.http import CoordinatorClient
from dhdmm.privacy.chain import Kind
from dhdmm.privacy.protection import Protection
from tests.service.participant.people import (
    OPERATOR,
    coordinator,
    crowd,
    roster_file,
    study_of,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])
def test_everybody_ends_with_the_same_verified_release(tmp_path: Path, threat_model: str):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(threat_model=threat_model), roster_file(persons)) as here:
        here.consent(*persons)
        outcomes = here.join_all(persons)
        seen_whole = here.join(persons[0], whole=True).verified
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    assert len({outcome.fingerprint for outcome in outcomes}) == 1
    assert {outcome.survivors for outcome in outcomes} == {6} == {seen_whole.release.survivors}
    plan = seen_whole.release.plan
    for person in persons:
        assert person.entries == ["open", "reserve", "debit"]
        debited = [(Protection.of(plan.study), plan.rho)]
        assert person.member.ledger.state().amounts(Kind.DEBIT) == debited
        assert person.journals == []


@pytest.mark.parametrize(("threat_model", "phases"), [("malicious", 6), ("semi-honest", 4)])
def test_a_phase_is_one_request(
    tmp_path: Path, threat_model: str, phases: int, monkeypatch: pytest.MonkeyPatch
):
    """And nothing more is asked than what the round is, and who is in it."""
    asked, once = Counter[str](), CoordinatorClient._send_once

    def counted(client: CoordinatorClient, method: str, target: str, *more: Any) -> Any:
        path = target.partition("?")[0]
        asked[f"{method} {path.removeprefix(f'/v1/rounds/{here.round_id.hex()}')}"] += 1
        return once(client, method, target, *more)

    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(threat_model=threat_model), roster_file(persons)) as here:
        here.consent(*persons)
        monkeypatch.setattr(CoordinatorClient, "_send_once", counted)
        here.join_all(persons)
    read = ["GET /draft", "GET /seat"]
    each = {"POST /message": phases, **dict.fromkeys(read, 1)}
    assert asked == {route: 6 * times for route, times in each.items()}


def test_people_with_tokens_enrol_by_themselves(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(threat_model="semi-honest")) as here:
        wanted = {"round": here.round_id.hex(), "count": 6, "expires_s": 60}
        made = httpx.post(
            f"{here.address}/v1/tokens",
            json=wanted,
            headers={"Authorization": f"Bearer {OPERATOR}"},
            verify=here.files.client(),
        ).json()["tokens"]
        for person, token in zip(persons, made, strict=True):
            person.token, person.pin = token, type(person.pin)()
        here.consent(*persons)
        outcomes = here.join_all(persons)
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}

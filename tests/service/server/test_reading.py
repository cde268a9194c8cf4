"""Who may read what of a round: one rule for every route."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.network import signing
from dhdmm.network.roster import RosterFile
from dhdmm.server import enrolment, members, store
from dhdmm.server.studies import add_study, next_round
from tests.service.coordinators import AS_OPERATOR, sqlite_in
from tests.service.server.rounds import (
    Coordinator,
    identity_of,
    roster_file,
    serving,
    study_of,
    visitors,
)

WITHOUT_NAMES = ["", "/draft", "/plan"]
WITH_NAMES = ["/roster", "/transcript", "/release.zip"]
Ask = Callable[[str], Awaitable[httpx.Response]]


def asking(coordinator: Coordinator, identity: Identity | None = None, **headers: str) -> Ask:
    """Requests of one caller, by their path."""

    async def ask(target: str) -> httpx.Response:
        signed = {} if identity is None else signing.sign(identity, "GET", target)
        return await coordinator.http.get(target, headers=signed | headers)

    return ask


async def statuses(ask: Ask, coordinator: Coordinator, what: list[str]) -> list[int]:
    base = f"/v1/rounds/{coordinator.round_id}"
    return [(await ask(base + part)).status_code for part in what]


async def listed(ask: Ask) -> list[str]:
    return [entry["round"] for entry in (await ask("/v1/rounds")).json()]


def play(tmp_path: Path, scene: Callable[[Coordinator], Awaitable[None]], **options: Any) -> None:
    async def scenario() -> None:
        study = options.pop("study", study_of("semi-honest"))
        database = sqlite_in(tmp_path)
        async with serving(database, study, tmp_path / "out", **options) as coordinator:
            await scene(coordinator)

    asyncio.run(scenario())


async def finished(coordinator: Coordinator) -> None:
    people = visitors(coordinator.http, coordinator.round_id)
    await asyncio.gather(*(visitor.take_part() for visitor in people))
    await coordinator.until("finished")


@pytest.mark.slow
@pytest.mark.fault(56)
@pytest.mark.parametrize("public", [False, True])
def test_a_round_is_read_by_its_members_and_the_operator(tmp_path: Path, public: bool) -> None:
    """Everybody else reads what names nobody, where the coordinator is public."""

    async def scene(coordinator: Coordinator) -> None:
        await finished(coordinator)
        for reader in (
            asking(coordinator, identity_of(0)),
            asking(coordinator, **AS_OPERATOR),
        ):
            assert await statuses(reader, coordinator, WITHOUT_NAMES) == [200] * 3
            assert await statuses(reader, coordinator, WITH_NAMES) == [200] * 3
            assert await listed(reader) == [coordinator.round_id]
        for stranger in (
            asking(coordinator),
            asking(coordinator, Identity(bytes(32))),
        ):
            expected = [200 if public else 401] * 3
            assert await statuses(stranger, coordinator, WITHOUT_NAMES) == expected
            assert await statuses(stranger, coordinator, WITH_NAMES) == [401] * 3
            assert (await stranger("/v1/rounds")).status_code == expected[0]

    play(tmp_path, scene, roster=roster_file(), public=public)


@pytest.mark.slow
@pytest.mark.fault(56)
def test_a_stranger_cannot_tell_a_round_that_is_there_from_one_that_is_not(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        for stranger in (asking(coordinator), asking(coordinator, Identity(bytes(32)))):
            for part in [*WITHOUT_NAMES, *WITH_NAMES, "/message"]:
                here = await stranger(f"/v1/rounds/{coordinator.round_id}{part}")
                nowhere = await stranger(f"/v1/rounds/{'0' * 32}{part}")
                assert (here.status_code, here.json()) == (401, nowhere.json())

    play(tmp_path, scene, roster=roster_file())


@pytest.mark.fault(56)
def test_a_member_of_one_round_reads_nothing_of_another(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        database, elsewhere = coordinator.hub.database, identity_of(100)
        roster = roster_file().roster
        others = RosterFile(type(roster)(roster.names, (elsewhere.public, *roster.identities[1:])))
        other = next_round(database, add_study(database, study_of("semi-honest")), others)
        mine = asking(coordinator, elsewhere)
        assert await listed(mine) == [other]
        assert await statuses(mine, coordinator, WITHOUT_NAMES + WITH_NAMES) == [401] * 6
        assert await listed(asking(coordinator, identity_of(0))) == [coordinator.round_id]
        assert set(await listed(asking(coordinator, identity_of(1)))) == {
            coordinator.round_id, other,
        }  # fmt: skip

    play(tmp_path, scene, roster=roster_file())


@pytest.mark.slow
@pytest.mark.fault(56)
def test_whoever_holds_a_token_reviews_before_it_enrols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not see who takes part before it does so itself."""

    async def scene(coordinator: Coordinator) -> None:
        wanted = {"round": coordinator.round_id, "count": 1, "expires_s": 60}
        made = await coordinator.http.post("/v1/tokens", json=wanted, headers=AS_OPERATOR)
        (token,) = made.json()["tokens"]
        invited = asking(coordinator, identity_of(0), **{signing.TOKEN_HEADER: token})
        assert await statuses(invited, coordinator, WITHOUT_NAMES) == [200, 200, 409]
        assert await statuses(invited, coordinator, ["/roster"]) == [401]
        assert await listed(invited) == [coordinator.round_id]
        without = asking(coordinator, identity_of(0))
        assert await statuses(without, coordinator, ["", "/draft"]) == [401] * 2
        asked = {"token": token, "name": "A", "key": identity_of(0).public.hex()}
        await coordinator.http.post(f"/v1/rounds/{coordinator.round_id}/enrolment", json=asked)
        assert await statuses(without, coordinator, ["", "/draft", "/roster"]) == [200, 200, 409]
        wrong = asking(coordinator, **{signing.TOKEN_HEADER: token[:-1]})
        assert await statuses(wrong, coordinator, [""]) == [401]
        now = enrolment.time.time()
        monkeypatch.setattr(members.time, "time", lambda: now + 61)
        late = asking(coordinator, **{signing.TOKEN_HEADER: token})
        assert await statuses(late, coordinator, [""]) == [401]
        assert await statuses(invited, coordinator, [""]) == [200], "it has a seat"

    flexible = study_of("semi-honest", participants="{min: 10, max: 12}")
    play(tmp_path, scene, study=flexible)


@pytest.mark.slow
def test_a_member_that_came_through_another_worker_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is asked once for everybody who waits for the same answer."""
    monkeypatch.setattr(members, "PAUSE", 1.0)  # as it is outside of tests

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        known, reads = members.Members(database), 0
        read = known._read

        def counted() -> None:
            nonlocal reads
            reads += 1
            read()

        known._read = counted  # type: ignore[method-assign]
        key = identity_of(0).public
        assert await known.rounds_of(key, "0" * 32) == members.NONE
        study = add_study(database, study_of("semi-honest"))
        begun = next_round(database, study, roster_file())
        strangers = [known.rounds_of(bytes([i]) * 32, begun) for i in range(50)]
        found, *others = await asyncio.gather(known.rounds_of(key, begun), *strangers)
        assert found == {begun}
        assert set(others) == {members.NONE}
        assert reads == 2

    asyncio.run(scenario())


def test_the_short_way_and_the_long_way_to_an_answer_are_one(tmp_path: Path) -> None:
    """A status as our client asks for it goes past FastAPI; asked for otherwise, it does not."""

    async def scene(coordinator: Coordinator) -> None:
        base = f"/v1/rounds/{coordinator.round_id}"
        for who in (asking(coordinator, **AS_OPERATOR), asking(coordinator)):
            short, long = await who(f"{base}?after=0&wait=1"), await who(f"{base}?wait=1.0&after=0")
            assert short.status_code == long.status_code
            assert short.headers["content-type"] == long.headers["content-type"]
            assert _untimed(short) == _untimed(long)
        http = coordinator.http
        wrong = [await http.get(f"{base}?{query}", headers=AS_OPERATOR) for query in WRONG]
        assert [answer.status_code for answer in wrong] == [422] * len(WRONG)
        for method, what, expected in OTHERWISE:
            answer = await http.request(method, base + what, headers=AS_OPERATOR)
            assert answer.status_code == expected, (method, what)

    play(tmp_path, scene)


WRONG = ["after=-1", "after=x", "after=2147483648", "after=1&wait=31", "after=1&wait=x"]
OTHERWISE = [
    ("HEAD", "/draft", 200),
    ("PUT", "/message", 404),
    ("DELETE", "", 405),
    ("GET", "/nothing", 404),
    ("GET", "/draft/", 404),
]


def _untimed(answer: httpx.Response) -> dict[str, Any]:
    return {key: value for key, value in answer.json().items() if key != "remaining_s"}


@pytest.mark.slow
def test_each_round_has_its_own_transcript(tmp_path: Path) -> None:
    """Whoever asks for one after another, and again."""

    async def scene(coordinator: Coordinator) -> None:
        database = coordinator.hub.database
        study = add_study(database, study_of("semi-honest"))
        rounds = [coordinator.round_id, next_round(database, study, roster_file())]
        kept = []
        for round_id in rounds:
            people = visitors(coordinator.http, round_id)
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            await (await coordinator.hub.live(round_id)).ended()
            with database.reading() as connection:
                kept.append(store.read_transcript(connection, round_id))
        ask = asking(coordinator, **AS_OPERATOR)
        for _ in range(2):
            told = [(await ask(f"/v1/rounds/{one}/transcript")).content for one in rounds]
            assert told == kept
        assert len(set(kept)) == 2

    play(tmp_path, scene, roster=roster_file())

"""Enrolment, deadlines, the operator, several studies, and requests that are none of ours."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dhdmm.errors import DhdmmError
from dhdmm.network.roster import RosterFile
from dhdmm.release.directory import MANIFEST
from dhdmm.server import enrolment
from dhdmm.server.metrics import Metrics
from dhdmm.server.store import read_rounds
from dhdmm.server.studies import add_study, current_round, next_round
from dhdmm.server.waiting import Deadlines, PhaseClock
from tests.service.coordinators import AS_OPERATOR, sqlite_in
from tests.service.server.rounds import (
    Coordinator,
    enrol,
    ideal,
    identity_of,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

pytestmark = pytest.mark.slow

Scene = Callable[[Coordinator], Awaitable[None]]
FLEXIBLE = "{min: 10, max: 12}"
STRANGE = ["'; DROP TABLE rounds; --", "' OR '1'='1", '" OR 1=1 --', "%27%20OR%201%3D1", "1;2"]
PATHS = ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "....//", "%00", "/etc/passwd", "c:\\x"]


def play(tmp_path: Path, scene: Scene, study: Any = None, **options: Any) -> None:
    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        asked = study or study_of("semi-honest", participants=FLEXIBLE)
        async with serving(database, asked, tmp_path / "out", **options) as coordinator:
            await scene(coordinator)

    asyncio.run(scenario())


def refused(response: httpx.Response, status: int, reason: str) -> None:
    assert (response.status_code, response.json()["reason"]) == (status, reason), response.text


async def token(coordinator: Coordinator, expires_s: int = 60) -> str:
    wanted = {"round": coordinator.round_id, "count": 1, "expires_s": expires_s}
    made = await coordinator.http.post("/v1/tokens", json=wanted, headers=AS_OPERATOR)
    assert made.status_code == 200
    return made.json()["tokens"][0]


async def ask_for_a_seat(
    coordinator: Coordinator, given: str, name: str, position: int
) -> httpx.Response:
    asked = {"token": given, "name": name, "key": identity_of(position).public.hex()}
    return await coordinator.http.post(f"/v1/rounds/{coordinator.round_id}/enrolment", json=asked)


# ---- enrolment ----------------------------------------------------------------------------------


@pytest.mark.fault(36)
def test_a_token_buys_one_seat_for_one_key(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        mine = await token(coordinator)
        first = await ask_for_a_seat(coordinator, mine, "A", 0)
        assert first.status_code == 201
        again = await ask_for_a_seat(coordinator, mine, "A", 0)
        assert (again.status_code, again.json()) == (200, first.json())
        refused(await ask_for_a_seat(coordinator, mine, "B", 1), 401, "bad-token")
        refused(await ask_for_a_seat(coordinator, "made up", "B", 1), 401, "bad-token")
        assert (await coordinator.status())["enrolled"] == 1

    play(tmp_path, scene)


def test_one_name_and_one_key_have_one_seat(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        tokens = [await token(coordinator) for _ in range(3)]
        assert (await ask_for_a_seat(coordinator, tokens[0], "A", 0)).status_code == 201
        refused(await ask_for_a_seat(coordinator, tokens[1], "A", 1), 409, "taken")
        refused(await ask_for_a_seat(coordinator, tokens[1], "B", 0), 409, "taken")
        assert (await ask_for_a_seat(coordinator, tokens[1], "B", 1)).status_code == 201

    play(tmp_path, scene)


def test_an_expired_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(coordinator: Coordinator) -> None:
        old = await token(coordinator, expires_s=10)
        now = time.time()
        monkeypatch.setattr(enrolment.time, "time", lambda: now + 11)
        refused(await ask_for_a_seat(coordinator, old, "A", 0), 401, "bad-token")

    play(tmp_path, scene)


def test_tokens_are_not_in_the_store(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        secret = await token(coordinator)
        await ask_for_a_seat(coordinator, secret, "A", 0)
        for path in tmp_path.glob("coordinator.db*"):
            assert secret.encode() not in path.read_bytes()

    play(tmp_path, scene)


def test_the_operator_closes_enrolment_and_latecomers_are_refused(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        late = await token(coordinator)
        refused(await coordinator.read("/plan"), 409, "not-yet")
        waiting = asyncio.create_task(coordinator.read("/plan?wait=30"))
        await enrol(coordinator, 10)
        assert not waiting.done()
        await coordinator.close()
        assert (await waiting).status_code == 200
        status = await coordinator.status()
        assert (status["state"], status["invited"]) == ("collecting-keys", 10)
        refused(await ask_for_a_seat(coordinator, late, "late", 11), 409, "closed")

    play(tmp_path, scene)


def test_enrolment_closes_by_itself_when_all_seats_are_taken(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        await enrol(coordinator, 12)
        assert (await coordinator.until("collecting-keys"))["enrolled"] == 12

    play(tmp_path, scene)


def test_too_few_at_the_deadline_abort_the_round(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        await enrol(coordinator, 9)
        status = await coordinator.until("aborted")
        assert status["reason"] == "too-few-participants"
        refused(await coordinator.read("/plan"), 410, "over")

    play(tmp_path, scene, deadlines=Deadlines(enrolment=3, phase=60))


def test_a_roster_that_the_study_does_not_allow_is_refused(tmp_path: Path) -> None:
    database = sqlite_in(tmp_path)
    study = add_study(database, study_of("semi-honest", participants=FLEXIBLE))
    with pytest.raises(DhdmmError, match="the study allows 10 to 12"):
        current_round(database, study, roster_file(9))
    assert not database_rounds(database)


def database_rounds(database: Any) -> list[Any]:
    with database.reading() as connection:
        return read_rounds(connection)


def test_a_signed_roster_is_served_as_the_registrar_signed_it(tmp_path: Path) -> None:
    registrar = identity_of(1000)
    signed = RosterFile.signed(roster_file().roster, registrar)

    async def scene(coordinator: Coordinator) -> None:
        served = await coordinator.read("/roster")
        assert RosterFile.from_bytes(served.content).is_signed_by(registrar.public)

    play(tmp_path, scene, roster=signed)


# ---- deadlines ----------------------------------------------------------------------------------


@pytest.mark.fault(40)
def test_deadlines_heed_the_monotonic_clock_and_no_calendar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calendar jumps by years both ways and nothing happens; the clock does, and it closes."""
    now = 1000.0

    async def scene(coordinator: Coordinator) -> None:
        nonlocal now
        await enrol(coordinator, 10)
        for jump in (10 * 365 * 86400, -10 * 365 * 86400):
            calendar = time.time() + jump
            with monkeypatch.context() as patch:
                patch.setattr(time, "time", lambda calendar=calendar: calendar)
                await asyncio.sleep(0.5)
                status = await coordinator.status()
                assert (status["state"], status["remaining_s"]) == ("enrolling", 600)
        now += 599
        assert (await coordinator.status())["remaining_s"] == 1
        now += 1
        assert (await coordinator.until("collecting-keys"))["remaining_s"] == 600

    play(tmp_path, scene, clock=lambda: now)


@pytest.mark.fault(40)
def test_a_restart_gives_the_phase_its_full_time_again() -> None:
    now = 0.0
    first = PhaseClock(
        Deadlines(enrolment=100, phase=10), "collecting-shares", "collecting-keys", lambda: now
    )
    now = 9.0
    assert first.remaining == 1
    assert (
        PhaseClock(
            Deadlines(100, 10), "collecting-shares", "collecting-keys", lambda: now
        ).remaining
        == 10
    )


def test_people_arrive_in_the_first_phase_if_the_roster_is_given() -> None:
    given = PhaseClock(
        Deadlines(enrolment=100, phase=10), "collecting-keys", "collecting-keys", lambda: 0.0
    )
    assert given.remaining == 100
    enrolled = PhaseClock(Deadlines(enrolment=100, phase=10), "enrolling", "enrolling", lambda: 0.0)
    enrolled.begin("collecting-keys")
    assert enrolled.remaining == 10
    enrolled.begin("finished")
    assert enrolled.remaining is None


@pytest.mark.fault(45)
@pytest.mark.parametrize("roster", [None, roster_file(10)], ids=["enrolled", "given"])
def test_a_restart_in_the_first_phase_gives_it_the_time_that_it_had(
    tmp_path: Path, roster: RosterFile | None
) -> None:
    """People arrive in that phase only if nobody had to enrol."""
    seconds: list[float] = []

    async def scene(coordinator: Coordinator) -> None:
        if (await coordinator.status())["state"] == "enrolling":
            await enrol(coordinator, 10)
            await coordinator.close()
        status = await coordinator.status()
        assert status["state"] == "collecting-keys"
        seconds.append(status["remaining_s"])

    options = {"roster": roster, "deadlines": Deadlines(3600, 20), "clock": lambda: 0.0}
    for _life in range(2):
        play(tmp_path, scene, **options)
    assert seconds == ([20, 20] if roster is None else [3600, 3600])


# ---- the operator, and several rounds -----------------------------------------------------------


def test_only_the_operator_operates(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        base, digest = f"/v1/rounds/{coordinator.round_id}", "0" * 64
        wanted = {"round": coordinator.round_id, "count": 1, "expires_s": 1}
        for target, body in [
            ("/v1/tokens", wanted),
            (f"{base}/close", None),
            (f"{base}/abort", None),
            (f"/v1/studies/{digest}/rounds", None),
        ]:
            for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer é"}):
                encoded = {key: value.encode() for key, value in headers.items()}
                response = await coordinator.http.post(target, json=body, headers=encoded)
                refused(response, 403, "not-the-operator")
        assert (await coordinator.status())["state"] == "enrolling"

    play(tmp_path, scene)


def test_closing_a_phase_that_has_closed_already_does_nothing(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        target = f"/v1/rounds/{coordinator.round_id}/close"
        late = await coordinator.http.post(f"{target}?state=enrolling", headers=AS_OPERATOR)
        assert late.json()["state"] == "collecting-keys"
        unnamed = await coordinator.http.post(target, headers=AS_OPERATOR)
        assert unnamed.json()["state"] == "aborted"  # nobody has sent keys yet

    play(tmp_path, scene, roster=roster_file())


def test_the_operator_ends_a_round(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        target = f"/v1/rounds/{coordinator.round_id}/abort"
        ended = await coordinator.http.post(target, headers=AS_OPERATOR)
        assert (ended.json()["state"], ended.json()["reason"]) == ("aborted", "stopped")
        again = await coordinator.http.post(target, headers=AS_OPERATOR)
        assert again.json()["version"] == ended.json()["version"]

    play(tmp_path, scene, roster=roster_file())


@pytest.mark.fault(47)
def test_a_round_that_is_aborted_is_counted_by_the_process_that_saw_it(tmp_path: Path) -> None:
    async def aborting(coordinator: Coordinator) -> None:
        target = f"/v1/rounds/{coordinator.round_id}/abort"
        await coordinator.http.post(target, headers=AS_OPERATOR)
        await coordinator.hub.published()

    async def looking(coordinator: Coordinator) -> None:
        assert (await coordinator.status())["state"] == "aborted"
        await coordinator.hub.published()

    for scene, count in ((aborting, 1), (looking, 0)):
        metrics = Metrics()
        play(tmp_path, scene, roster=roster_file(), observer=metrics)
        shown = metrics.text().decode()
        assert f'dhdmm_rounds_ended_total{{phase="aborted"}} {count}.0' in shown


def test_a_study_runs_again_beside_another_and_each_gives_its_sum(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        database = coordinator.hub.database
        other = next_round(database, add_study(database, study_of("malicious")), roster_file())
        digest = (await coordinator.status())["study_digest"]
        document = {"roster": json.loads(roster_file().to_bytes())}
        begun = await coordinator.http.post(
            f"/v1/studies/{digest}/rounds", json=document, headers=AS_OPERATOR
        )
        assert begun.status_code == 201, begun.text
        rounds = [coordinator.round_id, other, begun.json()["round"]]
        assert len(set(rounds)) == 3
        people = [visitor for name in rounds for visitor in visitors(coordinator.http, name)]
        await asyncio.gather(*(visitor.take_part() for visitor in people))
        for name in rounds:
            one = Coordinator(coordinator.hub, None, coordinator.http, name)
            assert np.array_equal(await measurement(one), await ideal(one))
        await coordinator.hub.published()
        saved = [path.name for path in (tmp_path / "out").iterdir()]
        assert sorted(saved) == sorted(f"small-{name}" for name in rounds)
        assert all((path / MANIFEST).is_file() for path in (tmp_path / "out").iterdir())
        listed = (await coordinator.http.get("/v1/rounds", headers=AS_OPERATOR)).json()
        assert {entry["state"] for entry in listed} == {"finished"}

    play(tmp_path, scene, study_of("semi-honest"), roster=roster_file())


def test_a_coordinator_started_again_serves_what_is_over(tmp_path: Path) -> None:
    """And saves a release that it had no time to save."""

    async def first() -> str:
        database = sqlite_in(tmp_path)
        study = study_of("semi-honest")
        async with serving(database, study, tmp_path / "lost", roster=roster_file()) as coordinator:
            people = visitors(coordinator.http, coordinator.round_id)
            await asyncio.gather(*(visitor.take_part() for visitor in people))
            await coordinator.until("finished")
            return coordinator.round_id

    async def second(round_id: str) -> None:
        database = sqlite_in(tmp_path)
        async with serving(database, study_of("semi-honest"), tmp_path / "out") as coordinator:
            assert coordinator.round_id == round_id
            await coordinator.hub.published()
            assert [path.name for path in (tmp_path / "out").iterdir()] == [f"small-{round_id}"]
            packed = await coordinator.read("/release.zip")
            assert packed.content.startswith(b"PK")
            assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    asyncio.run(second(asyncio.run(first())))


# ---- strangers ----------------------------------------------------------------------------------


@pytest.mark.fault(37)
def test_injections_and_traversals_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        before = (await coordinator.http.get("/v1/rounds", headers=AS_OPERATOR)).json()
        given = await token(coordinator)
        for strange in [*STRANGE, *PATHS]:
            for target in (
                f"/v1/rounds/{strange}",
                f"/v1/rounds/{strange}/plan",
                f"/v1/rounds/{strange}/release.zip",
                f"/v1/rounds/{coordinator.round_id}/{strange}",
                f"/v1/studies/{strange}/rounds",
                f"/{strange}",
            ):
                response = await coordinator.http.get(target, headers=AS_OPERATOR)
                assert 400 <= response.status_code < 500, target
                assert b"root:" not in response.content
            asked = {"token": strange, "name": strange, "key": "00" * 32}
            target = f"/v1/rounds/{coordinator.round_id}/enrolment"
            refused(await coordinator.http.post(target, json=asked), 401, "bad-token")
            for field in ("token", "name", "key"):
                bad = asked | {field: f"\0{strange}\n"}
                response = await coordinator.http.post(target, json=bad)
                assert response.status_code in (401, 422)
                assert strange not in response.text
        after = (await coordinator.http.get("/v1/rounds", headers=AS_OPERATOR)).json()
        assert [entry["enrolled"] for entry in after] == [entry["enrolled"] for entry in before]
        name = "Robert'); DROP TABLE enrolments; -- <script>alert(1)</script>"
        assert (await ask_for_a_seat(coordinator, given, name, 0)).json()["name"] == name
        assert (await coordinator.status())["enrolled"] == 1

    play(tmp_path, scene)


@pytest.mark.fault(37)
def test_a_study_cannot_name_a_folder_outside_of_the_releases(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        status = coordinator.hub.live_statuses()[0].model_copy(update={"study": "../../x/../y"})
        assert coordinator.hub.directory(status).parent == coordinator.hub.out

    play(tmp_path, scene)


def test_unknown_fields_and_other_types_are_refused_without_repeating_them(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator) -> None:
        target = f"/v1/rounds/{coordinator.round_id}/enrolment"
        whole = {"token": "canary", "name": "A", "key": "00" * 32}
        for bad in (whole | {"more": "canary"}, whole | {"token": 7}, whole | {"key": "canary"}):
            response = await coordinator.http.post(target, json=bad)
            refused(response, 422, "invalid-request")
            assert "canary" not in response.text
        response = await coordinator.http.post(target, content=b"{", headers=JSON)
        refused(response, 422, "invalid-request")
        nowhere = await coordinator.http.get("/v1/rounds/" + "0" * 32, headers=AS_OPERATOR)
        refused(nowhere, 404, "not-found")

    play(tmp_path, scene)


JSON = {"Content-Type": "application/json"}

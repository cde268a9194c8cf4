"""Messages over HTTP that an honest network or an honest participant would not deliver so."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dhdmm.aggregation.identity import Identity
from dhdmm.network import signing
from dhdmm.release import receipt
from dhdmm.secagg import messages
from dhdmm.server.requests import Outcome, Request
from dhdmm.server.round_state import RoundState
from dhdmm.server.studies import add_study, next_round
from tests.service.coordinators import sqlite_in
from tests.service.server.rounds import (
    WAIT,
    Coordinator,
    Visitor,
    ideal,
    measurement,
    roster_file,
    serving,
    study_of,
    visitors,
)

Scene = Callable[[Coordinator, list[Visitor]], Awaitable[None]]


def play(tmp_path: Path, scene: Scene, threat_model: str = "malicious", **options: Any) -> None:
    """A coordinator, twelve people on its roster, and what happens between them."""

    async def scenario() -> None:
        database = sqlite_in(tmp_path)
        study = study_of(threat_model)
        async with serving(
            database, study, tmp_path / "out", roster=roster_file(), **options
        ) as coordinator:
            await scene(coordinator, visitors(coordinator.http, coordinator.round_id))

    asyncio.run(scenario())


def refused(response: httpx.Response, status: int, reason: str) -> None:
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, response.json()["reason"]) == (status, reason), response.text


@pytest.mark.slow
@pytest.mark.fault(8)
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_the_same_message_many_times_at_once_counts_once(tmp_path: Path, threat_model: str) -> None:
    class Insistent(Visitor):
        async def delivered(self, body: bytes, after: str, wait: float = 0) -> None:
            responses = await asyncio.gather(*(self.post(body) for _ in range(5)))
            replies = sorted(response.json()["reply"] for response in responses)
            assert replies == ["accepted", *["repeated"] * 4]

    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        insistent = [Insistent(v.http, v.round_id, v.position, v.histogram) for v in people]
        await asyncio.gather(*(visitor.take_part() for visitor in insistent))
        assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    play(tmp_path, scene, threat_model)


@pytest.mark.slow
@pytest.mark.fault(5)
def test_a_retry_after_the_end_gets_the_reply_that_was_lost(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        await asyncio.gather(*(visitor.take_part() for visitor in people))
        await coordinator.until("finished")
        again = await people[3].post(people[3].sent[-1])
        assert again.json() == {"reply": "repeated"}
        refused(await people[3].post(people[4].sent[-1]), 410, "over")

    play(tmp_path, scene, "semi-honest")


@pytest.mark.slow
@pytest.mark.fault(5)
def test_who_asks_while_the_last_turn_ends_gets_the_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round's thread has left the last row, and those who wait have not been told yet."""
    over, noticed = threading.Event(), threading.Event()
    turn = RoundState.turn

    def slow_to_return(state: RoundState, requests: Sequence[Request]) -> list[Outcome]:
        outcomes = turn(state, requests)
        if state.row.over and not over.is_set():
            over.set()
            assert noticed.wait(30)
        return outcomes

    class Waiting(Visitor):
        heard = ""

        async def delivered(
            self, body: bytes, after: str, wait: float = WAIT
        ) -> httpx.Response | None:
            self.heard = after
            return await super().delivered(body, after, wait)

    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        people = [Waiting(v.http, v.round_id, v.position, v.histogram) for v in people]
        everybody = asyncio.gather(*(visitor.take_part() for visitor in people))
        await asyncio.to_thread(over.wait, 30)
        asked = asyncio.create_task(people[0].get(people[0].heard, WAIT))
        await asyncio.wait([asked], timeout=0.1)
        noticed.set()
        await everybody
        answer = await asked
        assert answer.status_code == 200, answer.text
        assert answer.content.startswith(receipt.MAGIC)

    monkeypatch.setattr(RoundState, "turn", slow_to_return)
    play(tmp_path, scene, "semi-honest")


@pytest.mark.slow
@pytest.mark.fault(5)
def test_a_message_is_answered_with_the_next_one_and_again_if_that_was_lost(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        sessions = [await visitor.session() for visitor in people]
        said = [session.begin() for session in sessions]
        first = await people[0].exchange(said[0], wait=0.05)
        assert (first.status_code, first.headers["dhdmm-reply"]) == (204, "accepted")
        waiting = [visitor.exchange(body) for visitor, body in zip(people, said, strict=True)]
        told = await asyncio.gather(*waiting)
        words = [answer.headers["dhdmm-reply"] for answer in told]
        assert words == ["repeated", *["accepted"] * 11]
        assert {type(messages.decode(answer.content)) for answer in told} == {messages.Root}
        again = await people[3].exchange(said[3])
        assert (again.content, again.headers["dhdmm-reply"]) == (told[3].content, "repeated")
        heard = sha256(told[3].content).hexdigest()
        nothing_new = await people[3].exchange(said[3], heard, wait=0.05)
        assert nothing_new.status_code == 204
        refused(await people[3].exchange(said[3], "junk"), 422, "invalid-request")

    play(tmp_path, scene)


@pytest.mark.slow
@pytest.mark.fault(9)
def test_a_second_message_that_differs_is_refused_and_the_first_kept(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        twin = Visitor(coordinator.http, coordinator.round_id, 0, people[0].histogram)
        first, second = [(await one.session()).begin() for one in (people[0], twin)]
        assert first != second
        assert (await people[0].post(first)).status_code == 200
        refused(await people[0].post(second), 409, "conflicting-message")
        assert (await people[0].post(first)).json() == {"reply": "repeated"}

    play(tmp_path, scene)


@pytest.mark.slow
@pytest.mark.fault(9)
def test_of_two_different_messages_at_once_exactly_one_counts(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        twin = Visitor(coordinator.http, coordinator.round_id, 0, people[0].histogram)
        bodies = [(await one.session()).begin() for one in (people[0], twin)]
        responses = await asyncio.gather(*(people[0].post(body) for body in bodies))
        assert sorted(response.status_code for response in responses) == [200, 409]
        assert (await coordinator.status())["received"] == 1

    play(tmp_path, scene)


@pytest.mark.slow
@pytest.mark.fault(10)
def test_late_and_early_messages_are_refused_by_phase(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        *present, late = people
        keys = (await late.session()).begin()
        sessions = [await visitor.session() for visitor in present]
        for visitor, session in zip(present, sessions, strict=True):
            assert (await visitor.post(session.begin())).status_code == 200
        early = messages.Shares(session.machine.parameters.session, 0, bytes(32), ()).encode()
        refused(await present[0].post(early), 409, "wrong-phase")
        await coordinator.close()
        refused(await late.post(keys), 409, "wrong-phase")
        assert (await coordinator.status())["invited"] == len(present)

    play(tmp_path, scene, "semi-honest")


@pytest.mark.fault(11)
def test_a_message_of_another_round_is_refused(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        database, study = coordinator.hub.database, study_of("semi-honest")
        other = next_round(database, add_study(database, study), roster_file())
        elsewhere = Visitor(coordinator.http, other, 0, people[0].histogram)
        keys = (await elsewhere.session()).begin()
        refused(await people[0].post(keys), 409, "wrong-session")
        assert (await elsewhere.post(keys)).json() == {"reply": "accepted"}

    play(tmp_path, scene, "semi-honest")


@pytest.mark.fault(11)
def test_a_signed_request_cannot_be_replayed_elsewhere(tmp_path: Path) -> None:
    """Nor for another participant, with another body, or as another kind of request."""

    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        one, other = people[:2]
        keys = (await one.session()).begin()
        signed = signing.sign(one.identity, "POST", one.target, keys)
        stranger = signing.sign(Identity(bytes(32)), "POST", one.target, keys)
        claimed = signed | {signing.KEY_HEADER: other.identity.public.hex()}
        for headers, body, reason in [
            ({}, keys, "unsigned"),
            (signed | {signing.SIGNATURE_HEADER: "00" * 64}, keys, "unsigned"),
            (signed | {signing.SIGNATURE_HEADER: "no"}, keys, "unsigned"),
            (claimed, keys, "unsigned"),
            (signed, keys + b"\0", "unsigned"),
            (stranger, keys, "unknown-identity"),
        ]:
            response = await coordinator.http.post(one.target, content=body, headers=headers)
            refused(response, 401, reason)
        got = await coordinator.http.get(one.target, headers=signed)
        refused(got, 401, "unsigned")
        assert (await coordinator.status())["received"] == 0

    play(tmp_path, scene, "semi-honest")


@pytest.mark.slow
@pytest.mark.fault(21)
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
def test_a_vector_of_wrong_length_or_range_is_refused_before_it_is_added(
    tmp_path: Path, threat_model: str
) -> None:
    """The same people then send their real inputs, and the sum is exact."""

    class Clumsy(Visitor):
        async def delivered(self, body: bytes, after: str, wait: float = WAIT) -> Any:
            message = messages.decode(body)
            if isinstance(message, messages.MaskedInput):
                for vector in (b"", message.vector[:-1], message.vector + b"\0"):
                    changed = replace(message, vector=vector).encode()
                    refused(await self.post(changed), 422, "malformed")
            return await super().delivered(body, after, wait)

    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        clumsy = [Clumsy(v.http, v.round_id, v.position, v.histogram) for v in people]
        await asyncio.gather(*(visitor.take_part() for visitor in clumsy))
        assert np.array_equal(await measurement(coordinator), await ideal(coordinator))

    play(tmp_path, scene, threat_model)


@pytest.mark.slow
@pytest.mark.fault(21, 41)
def test_no_bytes_whatever_do_more_than_get_refused(tmp_path: Path) -> None:
    """Random frames, and honest ones with a byte changed, cut off or added."""

    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        honest = (await people[0].session()).begin()
        loop = asyncio.get_running_loop()
        await people[0].get()  # after which the round has taken its first turn
        before = await coordinator.status()

        frames = st.one_of(
            st.binary(max_size=200),
            st.builds(
                lambda at, byte: honest[:at] + bytes([honest[at] ^ byte]) + honest[at + 1 :],
                st.integers(0, 37),  # the header: keys may be any
                st.integers(1, 255),
            ),
            st.integers(0, len(honest) - 1).map(lambda size: honest[:size]),
            st.binary(min_size=1, max_size=20).map(lambda rest: honest + rest),
        )

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(frames)
        def attack(frame: bytes) -> None:
            asked = asyncio.run_coroutine_threadsafe(people[0].post(frame), loop)
            response = asked.result()
            assert response.status_code in (409, 422)
            assert response.json()["reason"] in ("malformed", "wrong-session", "wrong-phase")

        await asyncio.to_thread(attack)
        assert await coordinator.status() | {"remaining_s": 0} == before | {"remaining_s": 0}
        assert (await people[0].post(honest)).json() == {"reply": "accepted"}

    play(tmp_path, scene)


def test_a_body_longer_than_any_message_or_compressed_is_not_read(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        seats = (await coordinator.hub.live(coordinator.round_id)).seats
        assert seats is not None
        refused(await people[0].post(bytes(seats.largest_message + 1)), 413, "too-large")
        target, headers = people[0].target, {"content-encoding": "gzip"}
        headers |= signing.sign(people[0].identity, "POST", target, b"")
        response = await coordinator.http.post(target, content=b"", headers=headers)
        refused(response, 415, "encoded-body")

    play(tmp_path, scene)


@pytest.mark.slow
def test_every_message_of_a_round_fits_into_the_allowed_size(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        await asyncio.gather(*(visitor.take_part() for visitor in people))
        seats = (await coordinator.hub.live(coordinator.round_id)).seats
        assert seats is not None
        longest = max(len(body) for visitor in people for body in visitor.sent)
        assert longest <= seats.largest_message < 10 * longest

    play(tmp_path, scene)


@pytest.mark.slow
def test_a_message_is_sent_again_to_whoever_lost_it(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        for visitor in people:
            await visitor.post((await visitor.session()).begin())
        await coordinator.until("collecting-choices")
        first, again = [(await people[0].get()).content for _ in range(2)]
        assert first == again
        known = sha256(first).hexdigest()
        assert (await people[0].get(after=known)).status_code == 204
        refused(await people[0].get(after="zz"), 422, "invalid-request")
        refused(await people[0].get(wait=1000), 422, "invalid-request")

    play(tmp_path, scene)


def test_an_aborted_round_tells_everybody_and_then_is_gone(tmp_path: Path) -> None:
    async def scene(coordinator: Coordinator, people: list[Visitor]) -> None:
        await coordinator.close()
        told = await people[0].get()
        said = messages.decode(told.content)
        assert isinstance(said, messages.Aborted)
        assert said.reason == "too-few-participants"
        refused(await people[0].get(after=sha256(told.content).hexdigest()), 410, "over")
        refused(await people[0].read("/transcript"), 410, "over")

    play(tmp_path, scene)

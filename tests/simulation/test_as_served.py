"""A simulated round moves the bytes that a round over HTTP moves, participant by participant."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dhdmm.client.ending import Ending, Participation
from dhdmm.client.home import Home
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.planning.draft import plan as make_plan
from dhdmm.simulation.population import population_for
from dhdmm.simulation.simulate import simulate
from tests.service.participant.people import POLICY, Person, coordinator, study_of

pytestmark = pytest.mark.slow
SEED, PEOPLE = 3, 6
Bodies = dict[tuple[str, str], list[tuple[str, int, int]]]


class Counting:
    """Notes every request: its route, and the bytes of its body and of its answer's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.seen = app, defaultdict[str, list[tuple[str, int, int]]](list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, answered = Request(scope), 0

        async def counted(message: Message) -> None:
            nonlocal answered
            answered += len(message.get("body", b""))
            await send(message)

        await self.app(scope, receive, counted)
        route = f"{request.method} {request.url.path.rpartition('/')[2]}"
        asked = int(request.headers.get("content-length", "0"))
        self.seen[request.headers.get("dhdmm-key", "")].append((route, asked, answered))


@pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])
def test_a_simulated_round_moves_the_bytes_of_a_real_one(tmp_path: Path, threat_model: str):
    study = study_of(threat_model=threat_model)
    simulated = simulate(study, participants=PEOPLE, engine="local", seed=SEED)
    population = population_for(make_plan(study, PEOPLE), 1, None, SEED)
    persons = [
        Person(
            NamedIdentity(name, population.people.identity(i)),
            Home(tmp_path / name),
            population.people.seat(i).histogram,
            POLICY,
            Pin(fingerprint=population.roster.digest),
        )
        for i, name in enumerate(population.roster.names)
    ]
    counting: list[Counting] = []

    def around(app: ASGIApp) -> Counting:
        counting.append(Counting(app))
        return counting[0]

    with coordinator(tmp_path, study, RosterFile(population.roster), around=around) as here:
        here.consent(*persons)
        with ThreadPoolExecutor(PEOPLE) as pool:
            outcomes: list[Participation] = list(pool.map(here.join, persons))
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    trace, phases = simulated.trace, len(simulated.trace.phases)
    for i, person in enumerate(persons):
        draft, offer, *messages = counting[0].seen[person.named.identity.public.hex()]
        assert (draft[0], offer[0]) == ("GET draft", "GET seat")
        assert draft[2] + offer[2] == trace.joining_bytes[i]
        assert [route for route, _, _ in messages] == ["POST message"] * phases
        assert [sent for _, sent, _ in messages] == trace.sent_bytes[:, i].tolist()
        *told, receipt = [answer for _, _, answer in messages]
        assert [0, *told] == trace.received_bytes[:, i].tolist()
        assert receipt == trace.ending_bytes[i]
        assert (
            np.sum([draft[1:], offer[1:], *(one[1:] for one in messages)])
            == (trace.participant_bytes()[i])
        )

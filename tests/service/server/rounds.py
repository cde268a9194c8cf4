"""A coordinator's application in this process, and participants that speak HTTP with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import ENROLMENT
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.members import permissive, pinned
from dhdmm.network import signing
from dhdmm.network.roster import RosterFile
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import Review, review
from dhdmm.planning.plan import Plan
from dhdmm.release.decode import decode
from dhdmm.release.transcript import Transcript
from dhdmm.secagg.states import CoordinatorState, ParticipantState
from dhdmm.server.database import Database
from dhdmm.server.studies import Hub, add_study, current_round
from dhdmm.session.participant import ParticipantSession
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.round.parties import noise_of
from tests.round.small import people, small_text
from tests.service.coordinators import AS_OPERATOR, assembled
from tests.sums import PlainSum

PARTICIPANTS = 12
WAIT = 5


def identity_of(position: int) -> Identity:
    return Identity(sha256(f"participant {position}".encode()).digest())


def roster_file(count: int = PARTICIPANTS) -> RosterFile:
    names = tuple(f"participant {i}" for i in range(count))
    return RosterFile(Roster(names, tuple(identity_of(i).public for i in range(count))))


def study_of(threat_model: str = "malicious", **changes: object) -> Study:
    return Study.from_text(small_text(threat_model=threat_model, **changes))


@dataclass
class Coordinator:
    """An application, its hub, and a client that reaches it without a network."""

    hub: Hub
    app: Any
    http: httpx.AsyncClient
    round_id: str

    async def status(self) -> dict[str, Any]:
        return (await self.read()).json()

    async def read(self, what: str = "") -> httpx.Response:
        """Something of the round, as the operator."""
        return await self.http.get(f"/v1/rounds/{self.round_id}{what}", headers=AS_OPERATOR)

    async def until(self, state: str, received: int = 0) -> dict[str, Any]:
        """The status, once the round is in this state and so many have spoken, or is beyond it."""
        status, states = await self.status(), [ENROLMENT.name, *CoordinatorState]
        while (states.index(status["state"]), status["received"]) < (states.index(state), received):
            status = (await self.read(f"?after={status['version']}&wait={WAIT}")).json()
        return status

    async def close(self) -> None:
        done = await self.http.post(f"/v1/rounds/{self.round_id}/close", headers=AS_OPERATOR)
        assert done.status_code == 200, done.text


@asynccontextmanager
async def serving(
    database: Database,
    study: Study,
    out: Path,
    *,
    roster: RosterFile | None = None,
    **options: Any,
) -> AsyncIterator[Coordinator]:
    """One worker with the study's current round."""
    hub, app = assembled(database, out, **options)
    round_id = current_round(database, add_study(database, study), roster)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://coordinator") as http,
    ):
        yield Coordinator(hub, app, http, round_id)


@lru_cache
def reviewed_once(plan: bytes, roster: bytes) -> tuple[Review, Roster]:
    """All participants would find the same."""
    known = RosterFile.from_bytes(roster).roster
    policy = pinned(permissive(Plan.from_bytes(plan)), known)
    return review(plan, policy, known), known


@dataclass
class Visitor:
    """A participant: a real session with a journal, and requests that it signs."""

    http: httpx.AsyncClient
    round_id: str
    position: int
    histogram: Histogram = field(repr=False)
    identity: Identity = field(init=False, repr=False)
    journal: MemoryJournal = field(default_factory=MemoryJournal, repr=False)
    sent: list[bytes] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.identity = identity_of(self.position)

    @property
    def target(self) -> str:
        return f"/v1/rounds/{self.round_id}/message"

    async def post(self, body: bytes, query: str = "") -> httpx.Response:
        self.sent.append(body)
        target = self.target + query
        headers = signing.sign(self.identity, "POST", target, body)
        return await self.http.post(target, content=body, headers=headers)

    async def exchange(self, body: bytes, after: str = "", wait: float = WAIT) -> httpx.Response:
        """Post it, and wait for what comes next."""
        return await self.post(body, f"?after={after}&wait={wait}")

    async def get(self, after: str = "", wait: float = 0) -> httpx.Response:
        return await self.read(f"/message?after={after}&wait={wait}")

    async def read(self, what: str = "") -> httpx.Response:
        """Something of the round, as this participant."""
        target = f"/v1/rounds/{self.round_id}{what}"
        return await self.http.get(target, headers=signing.sign(self.identity, "GET", target))

    async def session(self) -> ParticipantSession:
        plan = await self.read(f"/plan?wait={WAIT}")
        while plan.status_code == 409:  # enrolment is still open
            plan = await self.read(f"/plan?wait={WAIT}")
        roster = await self.read("/roster")
        reviewed, known = reviewed_once(plan.content, roster.content)
        return ParticipantSession(
            reviewed,
            bytes.fromhex(self.round_id),
            known,
            self.position,
            self.identity,
            self.histogram,
            pay=lambda _digest: None,
            randomness=os.urandom,
            noise=partial(noise_of, self.position),
            journal=self.journal,
        )

    async def take_part(self, until: ParticipantState = ParticipantState.DONE) -> None:
        """The whole round; `until` a state in which this participant falls silent."""
        session = await self.session()
        answer: bytes | None = session.begin()
        after = ""
        while session.machine.state is not until:
            received = None if answer is None else await self.delivered(answer, after)
            received = received or await self.get(after, WAIT)
            if received.status_code == 410:
                return
            answer = None
            if received.status_code == 200:
                after = sha256(received.content).hexdigest()
                answer = session.receive(received.content)
        if answer is not None and until is ParticipantState.DONE:
            await self.delivered(answer, after, 0)

    async def delivered(self, body: bytes, after: str, wait: float = WAIT) -> httpx.Response | None:
        """What comes next, however often the coordinator is not there or busy."""
        while (response := await self.exchange(body, after, wait)).status_code == 503:
            await asyncio.sleep(0.05)
        assert response.status_code in (200, 204, 410), response.text
        return None if response.status_code == 204 else response


def visitors(
    http: httpx.AsyncClient, round_id: str, histograms: Sequence[Histogram] | None = None
) -> list[Visitor]:
    held = people(PARTICIPANTS) if histograms is None else histograms
    return [Visitor(http, round_id, i, histogram) for i, histogram in enumerate(held)]


async def enrol(coordinator: Coordinator, count: int = PARTICIPANTS) -> None:
    """Tokens for so many, and a seat for each."""
    wanted = {"round": coordinator.round_id, "count": count, "expires_s": 60}
    made = await coordinator.http.post("/v1/tokens", json=wanted, headers=AS_OPERATOR)
    for i, token in enumerate(made.json()["tokens"]):
        asked = {"token": token, "name": f"participant {i}", "key": identity_of(i).public.hex()}
        done = await coordinator.http.post(
            f"/v1/rounds/{coordinator.round_id}/enrolment", json=asked
        )
        assert done.status_code in (200, 201), done.text


async def measurement(coordinator: Coordinator) -> np.ndarray:
    """M̂ as the transcript has it."""
    await coordinator.until("finished")
    response = await coordinator.read("/transcript")
    return Transcript.from_bytes(response.content).account.measurement


async def ideal(
    coordinator: Coordinator,
    silent: Collection[int] = (),
    held: Sequence[Histogram] | None = None,
) -> np.ndarray:
    """M̂ if everybody but the silent had handed its measurement to a trusted party."""
    response = await coordinator.read("/plan")
    plan = Plan.from_bytes(response.content)
    inputs = {
        i: measure(plan, histogram, noise_of(i))
        for i, histogram in enumerate(people(PARTICIPANTS) if held is None else held)
        if i not in silent
    }
    total = PlainSum(plan.round(bytes.fromhex(coordinator.round_id))).sum(inputs).total
    return decode(plan, total)

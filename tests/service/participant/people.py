"""A real coordinator over TLS in this process, and people who join it from their own folders."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.client.ending import Participation
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.client.join import join
from dhdmm.client.seat import Member, Seat, require_consent, take_seat
from dhdmm.network import identity as identities
from dhdmm.network.helper_link import HelperLink
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.network.trust import Address, trusting
from dhdmm.participant.policy import Policy
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server.database import Database
from dhdmm.server.studies import Hub, add_study, current_round
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.protocol.network import Stream
from tests.round.small import people, small_text
from tests.service.coordinators import OPERATOR, database_at, listening, sqlite_in
from tests.service.walls.servers import Files, certificate

REGISTRAR = Identity.generate(Stream("registrar"))
POLICY = Policy(
    threat_models=["malicious", "semi-honest"], max_epsilon=2.0, min_participants=3, total_rho=1.0
)


def study_of(**changes: object) -> Study:
    return Study.from_text(small_text(**({"participants": 6, "corrupt": 0.2} | changes)))


@dataclass
class Person:
    """A participant with its own folder. What it knows of the roster is the registrar's key."""

    named: NamedIdentity
    home: Home
    histogram: Histogram = field(repr=False)
    policy: Policy = POLICY
    pin: Pin = field(default_factory=lambda: Pin(registrar=REGISTRAR.public))
    token: str | None = None
    tabulated: int = 0

    @property
    def member(self) -> Member:
        ledger = self.home.ledger(None, self.policy)
        return Member(self.named, self.policy, ledger, self.home, self.pin)

    @property
    def entries(self) -> list[str]:
        """What the ledger says."""
        return [str(entry.kind) for entry in self.home.ledger(None, self.policy).entries()]

    @property
    def journals(self) -> list[Path]:
        return list((self.home.root / "journals").glob("*.journal"))

    def tabulate(self, _study: Study) -> Histogram:
        self.tabulated += 1
        return self.histogram


def crowd(folder: Path, count: int, **traits: Any) -> list[Person]:
    """So many people, always the same."""
    made = []
    for number, histogram in enumerate(people(count)):
        home = Home(folder / f"person {number}")
        home.root.mkdir(mode=0o700, parents=True)
        named = identities.create(home.identity, f"person {number}", Stream("person", number))
        made.append(Person(named, home, histogram, **traits))
    return made


def roster_file(persons: Sequence[Person]) -> RosterFile:
    names = tuple(person.named.name for person in persons)
    keys = tuple(person.named.identity.public for person in persons)
    return RosterFile.signed(Roster(names, keys), REGISTRAR)


@dataclass
class Coordinator:
    """A server that runs, and what it serves."""

    address: str
    files: Files
    database: Database
    study: Study
    round_id: bytes
    hub: Hub

    def client(self, person: Person | None = None, **options: Any) -> CoordinatorClient:
        identity = person.named.identity if person else None
        trust = trusting(self.files.certificate)
        options = {"patience": 120.0, "sleep": lambda pause: time.sleep(pause / 10)} | options
        options |= {"token": person.token} if person else {"operator": OPERATOR}
        return CoordinatorClient(Address.parse(self.address), trust, identity, **options)

    def consent(self, *persons: Person) -> None:
        """They have looked at what the coordinator offers, and agree."""
        with self.client() as client:
            draft = Draft.of(Plan.from_bytes(client.preview(self.round_id)))
        for person in persons:
            person.home.consent_to(draft)

    def join(self, person: Person, **options: Any) -> Participation:
        with self.client(person) as client:
            return join(
                client,
                self.round_id,
                person.member,
                person.tabulate,
                token=person.token,
                **options,
            )

    def join_all(self, persons: Sequence[Person]) -> list[Participation]:
        with ThreadPoolExecutor(len(persons)) as pool:
            return list(pool.map(self.join, persons))

    def inputs_without(self, missing: int) -> None:
        """The operator goes on when the inputs of all but so many are there."""
        with self.client() as client:
            for status in client.statuses(self.round_id):
                here = status.state == CoordinatorState.COLLECTING_INPUTS
                if here and status.invited - status.received == missing:
                    break
        closing = f"{self.address}/v1/rounds/{self.round_id.hex()}/close"
        authorised = {"Authorization": f"Bearer {OPERATOR}"}
        httpx.post(closing, headers=authorised, verify=self.files.client()).raise_for_status()


def seat_of(client: CoordinatorClient, round_id: bytes, member: Member) -> Seat:
    """The seat that it would take; everything is asked for anew."""
    preview = require_consent(client.preview(round_id), member)
    return take_seat(client, round_id, member, preview, client.offer(round_id))


@contextlib.contextmanager
def coordinator(
    folder: Path,
    study: Study,
    roster: RosterFile | None = None,
    *,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    public: bool = False,
    helper: HelperLink | None = None,
    helper_key: bytes | None = None,
    store: str | None = None,
) -> Iterator[Coordinator]:
    """A coordinator with one round; `around` may put something hostile before it.

    A `public` one has pages, too.
    """
    database = sqlite_in(folder) if store is None else database_at(store)
    round_id = current_round(database, add_study(database, study, helper_key), roster)
    files, options = certificate(folder), {"pages": public, "public": public, "helper": helper}
    with listening(database, folder / "releases", files=files, around=around, **options) as here:
        yield Coordinator(here.address, files, database, study, bytes.fromhex(round_id), here.hub)

"""The coordinator of an interrupted round, started again on its store, and people who come back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from dhdmm.client.ending import Participation
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.client.join import join
from dhdmm.client.seat import Member
from dhdmm.network import identity as identities
from dhdmm.network.roster import Pin
from dhdmm.network.trust import Address, trusting
from dhdmm.planning.plan import Plan
from dhdmm.release.transcript import Transcript
from dhdmm.server.studies import Hub
from tests.museum.cast import COORDINATOR, REGISTRAR, noise_of, records_of
from tests.service.coordinators import OPERATOR, database_at, listening
from tests.service.walls.servers import Files, certificate


@dataclass
class Resumed:
    """A coordinator that goes on with a round it finds in its store."""

    address: str
    files: Files
    hub: Hub
    round_id: bytes

    def client(self, member: Member | None = None, token: str | None = None) -> CoordinatorClient:
        """Of somebody who takes part, or of the operator."""
        identity = member.named.identity if member else None
        shown = {"token": token} if member else {"operator": OPERATOR}
        address, trust = Address.parse(self.address), trusting(self.files.certificate)
        return CoordinatorClient(address, trust, identity, patience=120.0, **shown)

    def join(self, position: int, home: Home, token: str | None) -> Participation:
        """With the identity, policy, ledger, consent and journal of the folder."""
        policy = home.policy(None)
        pin = Pin(registrar=REGISTRAR.public) if token is None else Pin()
        member = Member(
            identities.load(home.identity), policy, home.ledger(None, policy), home, pin
        )
        with self.client(member, token) as client:
            return join(
                client,
                self.round_id,
                member,
                lambda _study: records_of(position),
                token=token,
                noise=partial(noise_of, position),
            )

    def join_all(self, homes: dict[int, Home], tokens: list[str]) -> dict[int, Participation]:
        """Who fails ends the round for all: nobody waits for somebody that does not come."""
        with ThreadPoolExecutor(len(homes)) as pool:
            joined = {
                i: pool.submit(self.join, i, home, tokens[i] if tokens else None)
                for i, home in homes.items()
            }
            wait(joined.values(), return_when=FIRST_EXCEPTION)
            if not all(future.done() for future in joined.values()):
                self.abort()
            return {i: future.result() for i, future in joined.items()}

    def abort(self) -> None:
        place = f"{self.address}/v1/rounds/{self.round_id.hex()}/abort"
        authorised = {"Authorization": f"Bearer {OPERATOR}"}
        httpx.post(place, headers=authorised, verify=self.files.client()).raise_for_status()

    def transcript(self) -> Transcript:
        with self.client() as client:
            return Transcript.from_bytes(client.transcript(self.round_id))

    def plan(self) -> Plan:
        with self.client() as client:
            return Plan.from_bytes(client.plan(self.round_id))


@contextmanager
def resumed(url: str, round_id: bytes, folder: Path) -> Iterator[Resumed]:
    """As `dhdmm serve` begins: the store is brought up to date, and its rounds go on."""
    files, out = certificate(folder), folder / "releases"
    with listening(database_at(url), out, identity=COORDINATOR, files=files) as here:
        yield Resumed(here.address, files, here.hub, round_id)

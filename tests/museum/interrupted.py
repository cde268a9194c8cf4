"""Rounds that stop in their midst: the coordinator's store, and every participant's own folder.

People 0 and 1 have spoken in the phase; what 2 said is in its journal and was lost on the way; the
others have not heard that the phase began. In the malicious round whose inputs are collected, the
last one has left the round and said so.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ENROLMENT
from dhdmm.client.home import Home
from dhdmm.network import identity as identities
from dhdmm.participant.limits import written
from dhdmm.participant.policy import Policy, review
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.privacy.protection import Protection
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server import store
from dhdmm.server.database import Database
from dhdmm.server.enrolment import make_tokens
from dhdmm.server.requests import Close, Enrol, Upload
from dhdmm.server.round_state import RoundState
from dhdmm.server.store import StoredStudy
from dhdmm.server.studies import current_round
from dhdmm.session.participant import ParticipantSession
from tests.museum import stores
from tests.museum.cast import (
    COORDINATOR,
    LAST_SECOND,
    NOW,
    PEOPLE,
    POLICY,
    noise_of,
    person_key,
    person_name,
    person_seed,
    records_of,
    roster_file,
)
from tests.protocol.network import Stream

_C = CoordinatorState
SPOKEN = 2
STOPS = {
    "semi-honest": (ENROLMENT.name, _C.COLLECTING_KEYS, _C.COLLECTING_INPUTS, _C.FINISHED),
    "malicious": (*(_C.COLLECTING_KEYS, _C.COLLECTING_INPUTS, _C.COLLECTING_REVEALS, _C.FINISHED),),
}
LEAVER = 4
"""Who departs from the malicious round while inputs are collected."""


def interrupted(draft: Draft, stop: str, folder: Path) -> dict[str, object]:
    """Make the round of this draft up to `stop`; what a test must know to go on with it."""
    folder.mkdir(parents=True)
    made = _Making(draft, stop, folder)
    with ExitStack() as locks:
        made.go(locks)
    return made.facts()


@dataclass
class _Making:
    draft: Draft
    stop: str
    folder: Path
    tokens: list[str] = field(default_factory=list)
    answers: dict[int, bytes] = field(default_factory=dict)

    @property
    def malicious(self) -> bool:
        return self.draft.study.aggregation.threat_model == "malicious"

    def go(self, locks: ExitStack) -> None:
        database = Database(f"sqlite:///{self.folder / 'coordinator.db'}")
        database.migrate()
        file = roster_file(signed=True) if self.malicious else None
        self.round_id = current_round(database, self._stored(database), file)
        self.live = RoundState(database, self.round_id, COORDINATOR)
        self.homes = [self._home(i) for i in range(PEOPLE)] if self.stop != _C.FINISHED else []
        if not self.malicious:
            self._enrol(database)
        if self.stop != ENROLMENT.name:
            self._aggregate(locks)
        database.close()
        self._keep()

    def facts(self) -> dict[str, object]:
        return {
            "study": self.draft.study.name,
            "state": self.stop,
            "round": self.round_id,
            "tokens": self.tokens,
            "left": [LEAVER] if self._leaving else [],
        }

    @property
    def _leaving(self) -> bool:
        return self.malicious and self.stop == _C.COLLECTING_INPUTS

    def _stored(self, database: Database) -> StoredStudy:
        study = self.draft.study
        minimum, maximum = participants_allowed(study.aggregation)
        kept = StoredStudy(
            digest=study.digest.hex(),
            name=study.name,
            threat_model=study.aggregation.threat_model,
            minimum=minimum,
            maximum=maximum,
            preview=self.draft.plan(minimum).to_bytes(),
        )
        with database.writing() as connection:
            return store.add_study(connection, kept)

    def _home(self, position: int) -> Home:
        home = Home(self.folder / "people" / str(position))
        home.root.mkdir(mode=0o700, parents=True)
        identities.create(home.identity, person_name(position), person_seed(position))
        (home.root / "policy.yaml").write_text(written(self.policy()), encoding="utf-8")
        home.consent_to(self.draft)
        return home

    def policy(self) -> Policy:
        """Pins the study and the roster by their digests."""
        pins = {
            "rosters": [roster_file(signed=True).roster.digest.hex()],
            "studies": [self.draft.study.digest.hex()],
        }
        return POLICY.model_copy(update=pins)

    def _enrol(self, database: Database) -> None:
        with database.turn(self.round_id) as turn:
            self.tokens = make_tokens(turn, PEOPLE, LAST_SECOND - int(NOW.timestamp()))
        coming = PEOPLE if self.stop != ENROLMENT.name else SPOKEN + 1
        for i, token in enumerate(self.tokens[:coming]):
            asked = Enrol(token.encode(), person_name(i), person_key(i).public)
            self.live.turn([asked])
        if self.stop != ENROLMENT.name:
            self.live.turn([Close(ENROLMENT.name)])

    def _aggregate(self, locks: ExitStack) -> None:
        """Phase by phase; `people` may be nobody in particular if nothing is kept of them."""
        self.live.turn([])
        told: dict[int, bytes | None] = dict.fromkeys(range(PEOPLE))
        self.sessions: dict[int, ParticipantSession] = {}
        while (state := self.live.row.state) != self.stop:
            answers = {i: self._answer(i, message, locks) for i, message in told.items()}
            self.live.turn([Upload(i, answer) for i, answer in answers.items()])
            self.live.turn([Close(state)])
            told = self.live.messages(range(PEOPLE))
        if self.stop == _C.FINISHED:
            return
        for i in range(SPOKEN + 1):
            answer = self._answer(i, told[i], locks)
            if i < SPOKEN:
                self.live.turn([Upload(i, answer)])
        if self._leaving:
            farewell = self.sessions[LEAVER].machine.abort(AbortReason.STOPPED)
            self.live.turn([Upload(LEAVER, farewell)])

    def _answer(self, position: int, message: bytes | None, locks: ExitStack) -> bytes:
        if position not in self.sessions:
            self.sessions[position] = self._session(position, locks)
            return self.sessions[position].begin()
        assert message is not None
        answer = self.sessions[position].receive(message)
        assert answer is not None
        return answer

    def _session(self, position: int, locks: ExitStack) -> ParticipantSession:
        home = self.homes[position] if self.homes else Home(self.folder / "gone" / str(position))
        seats, round_id = self.live.seats, bytes.fromhex(self.round_id)
        assert seats is not None
        ledger = home.ledger(None, POLICY)
        protection = Protection.of(seats.plan.study)
        ledger.reserve(seats.plan.digest, round_id, Fraction(seats.plan.rho), protection)
        identity = person_key(position)
        return ParticipantSession(
            review(seats.encoded_plan, self.policy(), seats.roster),
            round_id,
            seats.roster,
            position,
            identity,
            records_of(position),
            pay=lambda digest: ledger.debit(round_id, digest),
            randomness=Stream("museum session", position),
            noise=lambda: noise_of(position),
            journal=locks.enter_context(home.journal(round_id, identity.public)),
        )

    def _keep(self) -> None:
        """The store as a text; the file itself where inputs are being collected."""
        path = self.folder / "coordinator.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stores.write(stores.read(path), self.folder / "store.json")
        for left in self.folder.glob("coordinator.db-*"):
            left.unlink()
        if not self._leaving:
            path.unlink()

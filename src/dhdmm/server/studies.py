"""All studies and rounds of one coordinator process: study → enrolment → plan → round → release."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection

from dhdmm.aggregation.identity import Identity
from dhdmm.errors import DhdmmError
from dhdmm.network.helper_link import HelperLink
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.roster import RosterFile
from dhdmm.network.status import Status
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import draft
from dhdmm.planning.plan import Plan
from dhdmm.server import store
from dhdmm.server.database import Database
from dhdmm.server.enrolment import agree, make_tokens
from dhdmm.server.live import LiveRound
from dhdmm.server.logs import logger
from dhdmm.server.metrics import Metrics
from dhdmm.server.releases import Releases, zipped
from dhdmm.server.responses import not_found
from dhdmm.server.round_state import RoundState, Running, Seats
from dhdmm.server.store import StoredStudy, StudyHead, Turn, Window
from dhdmm.server.threads import in_thread, query
from dhdmm.server.waiting import Clock, Deadlines
from dhdmm.study.spec import Study

MOST_LISTED = 200
"""Rounds in one answer; the older ones are on the next pages."""


def stored(study: Study, helper: bytes | None = None) -> StoredStudy:
    """A study with the draft that data holders consent to, which takes a while to find."""
    if study.aggregation.threat_model == "two-servers" and helper is None:
        raise DhdmmError(
            f"'{study.name}' is a study with two servers, and no helper is given",
            hint="dhdmm serve with --helper and --helper-key",
        )
    if study.aggregation.threat_model != "two-servers":
        helper = None
    minimum, maximum = participants_allowed(study.aggregation)
    return StoredStudy(
        digest=study.digest.hex(),
        name=study.name,
        threat_model=study.aggregation.threat_model,
        minimum=minimum,
        maximum=maximum,
        preview=draft(study, helper=helper).plan(minimum).to_bytes(),
    )


def add_study(database: Database, study: Study, helper: bytes | None = None) -> StoredStudy:
    """The study as the store has it; its draft is made if it is new."""
    with database.reading() as connection:
        known = store.read_study(connection, study.digest.hex())
    if known is not None:
        agreed = Plan.from_bytes(known.preview).helper
        if agreed and agreed != helper:
            raise DhdmmError(
                f"the store has the study '{study.name}' with the helper {agreed.hex()}",
                hint="give that one, or another store: people consented to a helper",
            )
        return known
    made = stored(study, helper)
    with database.writing() as connection:
        return store.add_study(connection, made)


def current_round(database: Database, study: StoredStudy, roster: RosterFile | None = None) -> str:
    """The study's latest round; its first one is begun here, by one of all workers."""
    return _choose(database, study, roster, None, lambda _latest: "it is the latest").round


def next_round(
    database: Database,
    study: StoredStudy,
    roster: RosterFile | None = None,
    occurrence: str | None = None,
) -> str:
    """The study again, as a new round; the same one again for the same occurrence."""
    return _choose(database, study, roster, occurrence, lambda _latest: None).round


def _require_newest(connection: Connection, study: StudyHead, roster: RosterFile) -> None:
    """No older roster than one that a round of this study has had."""
    roster.require_study(study.name)
    if roster.registrar is not None:
        newest = store.read_newest_roster(connection, study.name, roster.registrar.hex())
        if newest is not None:
            serial, digest = newest
            known = roster.roster.digest if digest is None else bytes.fromhex(digest)
            roster.require_not_older(serial, known)


def runs_under_another_roster(
    database: Database, study: StoredStudy, round_id: str, roster: RosterFile
) -> bool:
    """Whether the round is going on with another roster than this, which the next one will have."""
    with database.reading() as connection:
        _require_newest(connection, study, roster)
        row = store.read_row(connection, round_id)
    names = [fingerprint.hex() for fingerprint in roster.fingerprints]
    return row is not None and not row.over and row.roster_digest not in names


@dataclass(frozen=True)
class Chosen:
    """The round that a study is at, and why it is no new one."""

    round: str
    because: str | None = None


def begin_again(
    database: Database,
    study: StoredStudy,
    roster: RosterFile | None = None,
    *,
    occurrence: str | None = None,
    apart: float = 0.0,
) -> Chosen:
    """A new round, if the last one is over; of an occurrence, or `apart` seconds after the last.

    However often it is called, as by a process that is restarted again and again, there is one
    round at a time, and one of an occurrence.
    """

    def stays(latest: store.Row) -> str | None:
        if not latest.over:
            return "the last round is going on"
        if occurrence is None and time.time() - latest.begun < apart:
            return "the last round began too short a time ago"
        return None

    return _choose(database, study, roster, occurrence, stays)


def _choose(
    database: Database,
    study: StoredStudy,
    roster: RosterFile | None,
    occurrence: str | None,
    stays: Callable[[store.Row], str | None],
) -> Chosen:
    """The round of this occurrence, or the latest if it stays for some reason, or a new one."""
    with database.writing() as connection:
        store.lock_study(connection, study.digest)
        if occurrence is not None:
            same = store.read_occurrence(connection, study.digest, occurrence)
            if same is not None:
                return Chosen(same.id, "this occurrence has its round")
        latest = store.read_latest(connection, study.digest)
        because = None if latest is None else stays(latest)
        if latest is not None and because is not None:
            return Chosen(latest.id, because)
        return Chosen(_begin(connection, study, roster, occurrence))


def _begin(
    connection: Connection,
    study: StoredStudy,
    roster: RosterFile | None,
    occurrence: str | None = None,
) -> str:
    """Where the roster is known already, nobody needs to enrol."""
    row = store.add_round(connection, study, occurrence)
    if roster is not None:
        _require_newest(connection, study, roster)
        row.registrar = roster.registrar.hex() if roster.registrar else None
        row.roster_serial = roster.serial
        count = len(roster.roster)
        if not study.minimum <= count <= study.maximum:
            allowed = f"{study.minimum} to {study.maximum}"
            raise DhdmmError(f"{count} names are on the roster, the study allows {allowed}")
        turn = Turn(connection, row)
        agree(turn, study, roster)
        turn.close()
    return row.id


def awaited(
    database: Database, round_id: str, identity: Identity
) -> tuple[str, list[tuple[str, bytes]]]:
    """As the store has it: a session is made from the round's log, asked, and thrown away."""
    with database.reading() as connection:
        row = store.read_row(connection, round_id)
        agreement = store.read_agreement(connection, round_id)
        if row is None or agreement is None or row.over:
            return row.state if row else "", []
        seats = Seats(agreement, round_id)
        session = Running(Turn(connection, row), seats, identity).session
        members = list(zip(seats.roster.names, seats.roster.identities, strict=True))
        return row.state, [members[position] for position in sorted(session.machine.awaited)]


@dataclass
class Hub:
    """Every round of a store, and what this process does for it."""

    database: Database
    identity: Identity = field(repr=False)
    out: Path
    deadlines: Deadlines = field(default_factory=Deadlines)
    observer: Metrics = field(default_factory=Metrics, repr=False)
    clock: Clock = time.monotonic
    draining: bool = False
    name: str = ""
    """Who coordinates, for participants to read."""
    helper: HelperLink | None = field(default=None, repr=False)
    """The second server of rounds that have one."""
    _live: dict[str, LiveRound] = field(default_factory=dict, init=False)
    _publishing: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.releases = Releases(self.database, self.out, self.observer, self.clock)

    # Beginning and end

    async def start(self) -> None:
        """Go on with every round of the store that is not over; save what is not saved."""
        statuses = await self.statuses(limit=None)
        finished = [status for status in statuses if status.finished]
        for status in await self.releases.unsaved(finished):
            saving = self.releases.save_by_itself(status)
            self._publishing[status.round] = asyncio.create_task(saving)
        for status in statuses:
            if not status.over:
                await self.live(status.round)

    def drain(self) -> None:
        """Begin nothing new, and answer everybody who waits."""
        self.draining = True
        for live in self._live.values():
            live.drain()

    async def stop(self) -> None:
        """Stop all rounds. A release that is not saved yet is saved at the next start."""
        self.drain()
        for task in self._publishing.values():
            task.cancel()
        if self._publishing:
            await asyncio.wait(self._publishing.values())
        await asyncio.gather(*(live.stop() for live in self._live.values()))

    async def published(self) -> None:
        """Returns when every round that this process hosts is over and its release is saved."""
        while any(not task.done() for task in self._publishing.values()):
            await asyncio.gather(*self._publishing.values())

    # Rounds

    async def live(self, round_id: str) -> LiveRound:
        """The round, as this process runs it; a 404 if there is no such round."""
        if round_id not in self._live:
            if await query(self.database, lambda found: store.read_row(found, round_id)) is None:
                raise not_found("round")
            state = await in_thread(lambda: RoundState(self.database, round_id, self.identity))
            if round_id not in self._live:
                self._host(round_id, state)
        return self._live[round_id]

    def live_statuses(self) -> list[Status]:
        """Of the rounds that this process hosts, without asking the store."""
        return [live.status() for live in self._live.values()]

    async def statuses(
        self,
        *,
        study: str | None = None,
        running: bool = False,
        after: str | None = None,
        limit: int | None = MOST_LISTED,
    ) -> list[Status]:
        """Of rounds in the store, the newest first; those older than `after`, a 404 if unknown."""
        last: store.Row | None = None
        if after is not None:
            last = await query(self.database, lambda found: store.read_row(found, after))
        if after is not None and last is None:
            raise not_found("round")
        window = Window(study, running, last, limit)
        hosted = {status.round: status for status in self.live_statuses()}
        rows = await query(self.database, lambda found: store.read_rounds(found, window))
        return [hosted.get(row.id) or store.status_of(row, head, None) for row, head in rows]

    async def heads(self) -> list[StudyHead]:
        """The studies that have rounds."""
        return await query(self.database, store.read_heads)

    async def begin(
        self, study_digest: str, roster: RosterFile | None, occurrence: str | None = None
    ) -> LiveRound:
        """The same study again, as a new round; the same round again for the same occurrence."""
        study = await self.study(study_digest)
        try:
            begun = await in_thread(lambda: next_round(self.database, study, roster, occurrence))
        except DhdmmError as error:
            raise Problem(422, Reason.INVALID, error.what, hint=error.hint) from None
        return await self.live(begun)

    async def begin_occurrence(
        self, study: StoredStudy, roster: Callable[[], RosterFile | None], occurrence: str
    ) -> str | None:
        """The new round of this occurrence; None if there is one, or another is going on."""
        chosen = await in_thread(
            lambda: begin_again(self.database, study, roster(), occurrence=occurrence)
        )
        await self.live(chosen.round)
        return chosen.round if chosen.because is None else None

    async def study(self, digest: str) -> StoredStudy:
        """The study with its draft; a 404 if there is no such study."""
        known = await query(self.database, lambda found: store.read_study(found, digest))
        if known is None:
            raise not_found("study")
        return known

    async def add(self, study: StoredStudy) -> StoredStudy:
        """Take in a study whose draft was made elsewhere; one that is known stays as it is."""

        def keep() -> StoredStudy:
            with self.database.writing() as connection:
                return store.add_study(connection, study)

        return await in_thread(keep)

    async def make_tokens(self, round_id: str, count: int, expires_s: int) -> list[str]:
        await self.live(round_id)

        def make() -> list[str]:
            with self.database.turn(round_id) as turn:
                return make_tokens(turn, count, expires_s)

        return await in_thread(make)

    async def awaited(self, round_id: str) -> tuple[str, list[tuple[str, bytes]]]:
        """The round's state, and the names and keys of those who have not spoken in it."""
        await self.live(round_id)
        return await in_thread(lambda: awaited(self.database, round_id, self.identity))

    async def ready(self) -> bool:
        """Whether requests are best sent here: neither draining nor without a store."""
        failing = self.draining or any(live.store_fails for live in self._live.values())
        return not failing and await asyncio.to_thread(self.database.answers)

    # Releases

    def directory(self, status: Status) -> Path:
        """Where the round's release is, or will be."""
        return self.releases.directory(status)

    async def zipped_release(self, round_id: str) -> bytes:
        return await asyncio.to_thread(zipped, await self.saved_release(round_id))

    async def saved_release(self, round_id: str) -> Path:
        """The round's release directory; a 409 if the round has none."""
        status = (await self.live(round_id)).status()
        return await self.releases.save(status)

    def _host(self, round_id: str, state: RoundState) -> None:
        link = None if self.helper is None else self.helper.another()
        live = LiveRound(state, self.deadlines, self.observer, self.clock, link)
        self._live[round_id] = live
        live.start()
        if round_id not in self._publishing:
            self._publishing[round_id] = asyncio.create_task(self._publish(live))

    async def _publish(self, live: LiveRound) -> None:
        ended_before = live.over
        await live.ended()
        status = live.status()
        logger().info("round over", round=status.round, phase=status.state, reason=status.reason)
        if not ended_before:
            self.observer.round_ended(status.state)
        if status.finished:
            await self.releases.save_by_itself(status)

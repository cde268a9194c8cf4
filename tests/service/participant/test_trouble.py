"""Crashes, restarts, a busy coordinator, a lying one: as the participant lives through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.client.ending import Ending, Participation
from dhdmm.client.http import (
    FIRST_PATIENCE,
    CoordinatorClient,
    Delivered,
    RequestRefused,
    Unreachable,
)
from dhdmm.client.join import join
from dhdmm.errors import RoundAborted, VerificationError
from dhdmm.network.roster import Pin
from dhdmm.network.trust import Address, trusting
from dhdmm.release.receipt import MAGIC, Receipt
from dhdmm.release.transcript import Transcript
from dhdmm.secagg import messages
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server.store import read_transcript
from dhdmm.session.introductions import split
from tests.protocol.network import Stream
from tests.service.participant.between import Malice, Outage
from tests.service.participant.people import (
    OPERATOR,
    Coordinator,
    Person,
    coordinator,
    crowd,
    roster_file,
    study_of,
)
from tests.service.participant.test_hostile_answers import answering

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """As by `kill -9`: nothing of ours catches it."""


class Doomed(CoordinatorClient):
    """Dies at its `number`th message, before it is sent or before its reply is read."""

    def __init__(self, *given: Any, number: int, delivered: bool, **options: Any) -> None:
        super().__init__(*given, **options)
        self.number, self.delivered = number, delivered

    def send(self, round_id: bytes, message: bytes, after: str | None) -> Delivered:
        self.number -= 1
        if self.number < 0 and not self.delivered:
            raise Killed
        dying = self.number < 0
        reply = super().send(round_id, message, None if dying else after)
        if self.number < 0:
            raise Killed
        return reply


def doomed(here: Coordinator, person: Person, number: int, delivered: bool) -> Participation | None:
    """One life of a participant; None if it ended early."""
    address, trust = Address.parse(here.address), trusting(here.files.certificate)
    identity = person.named.identity
    with Doomed(address, trust, identity, number=number, delivered=delivered) as client:
        try:
            return join(client, here.round_id, person.member, person.tabulate)
        except Killed:
            return None


@contextmanager
def meanwhile(here: Coordinator, persons: list[Person]) -> Iterator[list[Future[Participation]]]:
    """The others join at the same time."""
    with ThreadPoolExecutor(len(persons)) as pool:
        yield [pool.submit(here.join, person) for person in persons]


@pytest.mark.fault(5)
@pytest.mark.fault(35)
def test_killed_at_every_message_a_participant_resumes_and_is_counted_once(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(*persons)
        lives, outcome, paid = 0, None, set()
        with meanwhile(here, persons[1:]):
            while outcome is None:
                # a life repeats the message of the one before; every other gets one further
                outcome = doomed(here, persons[0], number=lives > 0, delivered=lives % 2 == 1)
                paid.add(persons[0].member.ledger.paid_for(here.round_id))
                lives += 1
                assert lives < 40
    assert outcome.ending is Ending.RELEASED
    assert outcome.survivors == 6
    assert len(paid - {None}) == 1
    assert persons[0].entries == ["open", "reserve", "debit"]
    assert lives > 4


@pytest.mark.fault(35)
def test_a_crash_between_debit_and_send_stays_debited_and_the_round_goes_on_without(
    tmp_path: Path,
):
    persons = crowd(tmp_path, 6)
    late, rest = persons[0], persons[1:]
    study = study_of(dropout=0.2, threat_model="semi-honest")
    with coordinator(tmp_path, study, roster_file(persons)) as here:
        here.consent(*persons)
        with meanwhile(here, rest):
            assert doomed(here, late, number=2, delivered=False) is None
            assert late.entries == ["open", "reserve", "debit"]
            here.inputs_without(1)
        outcome = here.join(late)
        assert outcome.ending is Ending.LEFT_BEHIND
        assert outcome.paid
        assert late.entries == ["open", "reserve", "debit"]
        assert late.journals == []
        assert here.join(late).ending is Ending.LEFT_BEHIND  # and nothing begins again
        again = here.join(rest[0])
        assert (again.ending, again.survivors) == (Ending.RELEASED, 5)


def test_a_journal_that_is_lost_after_paying_ends_the_participants_part(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    study = study_of(dropout=0.2, threat_model="semi-honest")
    with coordinator(tmp_path, study, roster_file(persons)) as here:
        here.consent(*persons)
        with meanwhile(here, persons[1:]):
            assert doomed(here, persons[0], number=2, delivered=False) is None
            (journal,) = persons[0].journals
            journal.unlink()
            with pytest.raises(RoundAborted, match="part in the round is over"):
                here.join(persons[0])
            here.inputs_without(1)


@pytest.mark.fault(36)
def test_a_busy_coordinator_is_asked_again_with_the_same_bytes(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    kept: list[Outage] = []

    def around(app: Any) -> Outage:
        kept.append(Outage(app))
        return kept[0]

    with coordinator(tmp_path, study_of(threat_model="semi-honest"), around=around) as here:
        tokens = _tokens(here, 6)
        for person, token in zip(persons, tokens, strict=True):
            person.token, person.pin = token, Pin()
        here.consent(*persons)
        outcomes = here.join_all(persons)
        with (
            here.client(crowd(tmp_path / "x", 7)[6]) as stranger,
            pytest.raises(RequestRefused) as no,
        ):
            stranger.enrol(here.round_id, tokens[0], "somebody else")
        assert (no.value.status, no.value.reason) == (401, "bad-token")
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    posts = {k: bodies for k, bodies in kept[0].tries.items() if k[0] == "POST"}
    assert all(len(bodies) >= 3 and len(set(bodies)) == 1 for bodies in posts.values())


def _tokens(here: Coordinator, count: int) -> list[str]:
    asked = {
        "url": f"{here.address}/v1/tokens",
        "json": {"round": here.round_id.hex(), "count": count, "expires_s": 60},
        "headers": {"Authorization": f"Bearer {OPERATOR}"},
        "verify": here.files.client(),
    }
    answers = [httpx.post(**asked) for _ in range(3)]
    return next(answer.json()["tokens"] for answer in answers if answer.status_code == 200)


def _patient(address: str, pauses: list[float]) -> CoordinatorClient:
    """Whose time only passes while it sleeps."""
    return CoordinatorClient(
        Address.parse(address), trusting(), patience=100.0, sleep=pauses.append,
        clock=lambda: sum(pauses), randomness=Stream("pauses"),
    )  # fmt: skip


def test_a_coordinator_that_is_away_too_long_is_given_up_on():
    pauses: list[float] = []
    with answering([]) as address:
        client = _patient(address, pauses)
        assert client.rounds() == []
    with client, pytest.raises(Unreachable, match="the same command again"):
        client.rounds()
    assert 80 < sum(pauses) <= 100
    assert all(0.5 * 0.25 <= pause <= 15 for pause in pauses)
    assert len(set(pauses)) > 5


def test_an_address_where_nobody_ever_answered_is_given_up_on_sooner():
    pauses: list[float] = []
    with (
        _patient("http://127.0.0.1:9", pauses) as client,
        pytest.raises(Unreachable, match="check the address and the port"),
    ):
        client.rounds()
    assert 4 < sum(pauses) <= FIRST_PATIENCE
    assert len(set(pauses)) > 3


def _told(person: Person, change: Callable[[bytes], bytes]) -> Any:
    """What this person is sent in a round passes through `change`."""
    key = person.named.identity.public.hex()

    def changed(request: Any, body: bytes) -> bytes:
        mine = request.headers.get("dhdmm-key") == key and request.url.path.endswith("/message")
        return change(body) if mine else body

    return changed


def _declared_dead(position: int) -> Callable[[bytes], bytes]:
    def change(body: bytes) -> bytes:
        said = None if body.startswith(MAGIC) else messages.decode(split(body).message)
        if isinstance(said, messages.Survivors):
            return replace(said, alive=said.alive.without([position])).encode()
        return body

    return change


def _with_another_input(here: list[Coordinator], position: int) -> Callable[[bytes], bytes]:
    """The coordinator signs that something else was added in our place."""

    def change(body: bytes) -> bytes:
        if not body.startswith(MAGIC):
            return body
        with here[0].database.reading() as connection:
            kept = read_transcript(connection, here[0].round_id.hex())
        account = Transcript.from_bytes(kept or b"").account
        phases = list(account.phases)
        at = [phase.state for phase in phases].index(CoordinatorState.COLLECTING_INPUTS)
        digests = list(phases[at].digests)
        digests[position] = bytes(32)
        phases[at] = replace(phases[at], digests=tuple(digests))
        forged = replace(account, phases=tuple(phases))
        sealed = Transcript.seal(forged, Identity.generate(Stream("coordinator")))
        return Receipt.of(sealed, position).to_bytes()

    return change


@pytest.mark.fault(12)
def test_lies_to_single_participants_are_noticed_by_them(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    rounds: list[Coordinator] = []
    killing = _told(persons[0], _declared_dead(0))
    robbing = _told(persons[1], _with_another_input(rounds, 1))

    def around(app: Any) -> Any:
        return Malice(Malice(app, killing), robbing)

    with coordinator(tmp_path, study_of(corrupt=0.3), roster_file(persons), around=around) as here:
        rounds.append(here)
        here.consent(*persons)
        with meanwhile(here, persons) as (dead, robbed, *rest):
            outcome = dead.result()
            with pytest.raises(VerificationError, match="the input that left here is not in"):
                robbed.result()
            endings = {one.result().ending for one in rest}
    assert (outcome.ending, outcome.reason) == (Ending.WITHDREW, "declared-dead")
    assert outcome.paid
    assert persons[0].journals == []
    assert endings == {Ending.RELEASED}

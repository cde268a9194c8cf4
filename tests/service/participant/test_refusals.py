"""What a participant does not take part in: found out before anything is paid or said."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.client.counted import CountedTables
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.client.join import join
from dhdmm.errors import DataError, DhdmmError, Refused
from dhdmm.network.offer import Offer, Place
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.network.trust import Address, trusting
from dhdmm.participant.policy import PolicyReason, PolicyRefusal
from dhdmm.planning.draft import Draft, draft
from dhdmm.planning.plan import terms_of
from dhdmm.privacy.protection import Protection
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.protocol.network import Stream
from tests.service.participant.between import Malice
from tests.service.participant.people import (
    OPERATOR,
    POLICY,
    Coordinator,
    Person,
    coordinator,
    crowd,
    roster_file,
    seat_of,
    study_of,
)

pytestmark = pytest.mark.slow

SIX = study_of()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A round that nobody ever speaks in."""
    folder = tmp_path_factory.mktemp("coordinator")
    (folder / "people").mkdir()
    with coordinator(folder, SIX, roster_file(crowd(folder / "people", 6))) as made:
        yield made


@pytest.fixture
def person(tmp_path: Path, here: Coordinator) -> Person:
    """One of the six, who has consented."""
    someone = crowd(tmp_path, 6)[0]
    here.consent(someone)
    return someone


def refused(here: Coordinator, person: Person) -> DhdmmError:
    """The refusal; nothing was reserved and nobody heard anything."""
    with pytest.raises(DhdmmError) as caught:
        here.join(person)
    with here.client() as client:
        status = client.status(here.round_id)
        assert (status.state, status.received) == ("collecting-keys", 0)
    assert person.journals == []
    return caught.value


def test_without_consent_the_data_is_not_even_looked_at(here: Coordinator, tmp_path: Path):
    person = crowd(tmp_path, 6)[0]
    assert "nobody here has consented" in refused(here, person).what
    assert person.tabulated == 0
    assert person.entries == ["open"]


def test_the_table_is_counted_before_the_first_request(here: Coordinator, person: Person):
    """For every study consented to here, since nobody can be asked yet which one it is."""
    happened: list[str] = []

    def tabulate(study: Study) -> Histogram:
        happened.append("counted")
        if study.digest != SIX.digest:
            raise DataError("this table is for another study")
        return person.histogram

    class Listening(CoordinatorClient):
        def _send_once(self, method: str, target: str, *rest: Any) -> Any:
            happened.append("asked")
            return super()._send_once(method, target, *rest)

    person.home.consent_to(draft(study_of(corrupt=0.3)))
    person.pin = Pin()
    trust = trusting(here.files.certificate)
    with (
        Listening(Address.parse(here.address), trust, person.named.identity) as client,
        pytest.raises(PolicyRefusal, match="is not pinned"),
    ):
        join(client, here.round_id, person.member, tabulate)
    assert happened[:2] == ["counted"] * 2
    assert happened[2:] == ["asked"] * len(happened[2:])


@pytest.mark.parametrize("known", [True, False])
def test_a_table_that_cannot_be_counted_is_refused_when_its_study_is_asked_for(known: bool):
    def tabulate(_study: Study) -> Histogram:
        raise DataError("there is no column 'age'")

    counted = CountedTables(tabulate)
    counted.prepare([SIX] * known)
    with pytest.raises(DataError, match="there is no column 'age'"):
        counted(SIX)


def test_consent_is_to_one_draft_only(here: Coordinator, tmp_path: Path):
    person = crowd(tmp_path, 6)[0]
    cheaper = draft(study_of(corrupt=0.3))
    person.home.consent_to(cheaper)
    assert "nobody here has consented" in refused(here, person).what


@pytest.mark.fault(19)
def test_a_malicious_round_is_refused_without_a_pinned_roster(here: Coordinator, person: Person):
    person.pin = Pin()
    refusal = refused(here, person)
    assert isinstance(refusal, PolicyRefusal)
    assert refusal.reason is PolicyReason.UNPINNED_ROSTER
    assert person.entries == ["open"]


@pytest.mark.fault(19)
@pytest.mark.parametrize("pin", ["registrar", "fingerprint"])
def test_another_roster_than_the_pinned_one_is_refused(here: Coordinator, person: Person, pin: str):
    stranger = Identity.generate(Stream("another registrar"))
    person.pin = Pin(**{pin: stranger.public})
    assert refused(here, person).reason is PolicyReason.UNPINNED_ROSTER


@pytest.mark.fault(17)
def test_a_policy_caps_the_honest_floor_it_relies_on(here: Coordinator, person: Person):
    person.policy = POLICY.model_copy(update={"max_honest_floor": 2})
    assert refused(here, person).reason is PolicyReason.HONEST_FLOOR


def test_somebody_without_a_seat_is_told_so(here: Coordinator, tmp_path: Path):
    stranger = crowd(tmp_path, 7)[6]
    here.consent(stranger)
    assert "not on the round's roster" in refused(here, stranger).what
    assert stranger.entries == ["open"]


@pytest.mark.parametrize("operator", [None, OPERATOR])
def test_an_operator_has_no_seat_either(here: Coordinator, tmp_path: Path, operator: str | None):
    stranger = crowd(tmp_path, 7)[6]
    here.consent(stranger)
    with (
        here.client(stranger, operator=operator) as client,
        pytest.raises(DhdmmError, match="not on the round's roster"),
    ):
        join(client, here.round_id, stranger.member, stranger.tabulate)
    assert stranger.entries == ["open"]


@pytest.mark.parametrize("shown", [True, False])
def test_somebody_without_a_seat_finds_out_by_itself(tmp_path: Path, shown: bool):
    """Where the coordinator offers one nevertheless: somebody else's, or none in particular."""
    persons = crowd(tmp_path, 7)
    stranger, signed = persons[6], roster_file(persons[:6])
    study = study_of(participants="{min: 6, max: 7}")
    terms = terms_of(draft(study).plan_for(signed.roster))
    offer = Offer("collecting-keys", None, terms, Place.on(signed, 0) if shown else None)
    told = {"seat": offer.to_bytes(), "roster": signed.to_bytes()}

    def change(request, body: bytes) -> bytes:
        return told.get(request.url.path.rpartition("/")[2], body)

    around = lambda app: Malice(app, change)  # noqa: E731
    with coordinator(tmp_path, study, roster_file(persons), around=around) as here:
        here.consent(stranger)
        assert "no seat for this identity" in refused(here, stranger).what
    assert stranger.entries == ["open"]


@pytest.mark.fault(33)
def test_an_exhausted_budget_refuses_the_round(here: Coordinator, person: Person):
    person.policy = POLICY.model_copy(update={"total_rho": 1e-6})
    assert "the ledger refuses" in refused(here, person).what
    assert person.entries == ["open"]


@pytest.mark.fault(34)
def test_a_ledger_that_was_turned_back_refuses_the_round(here: Coordinator, person: Person):
    ledger = person.member.ledger
    shutil.copy(person.home.root / "ledger", person.home.root / "older")
    protection = Protection.of(here.study)
    ledger.reserve(bytes(32), bytes(16), ledger.budget(), protection)
    ledger.debit(bytes(16), bytes(32))
    shutil.copy(person.home.root / "older", person.home.root / "ledger")
    with pytest.raises(Refused, match="shown before"):
        here.join(person)


def test_a_seat_cannot_be_taken_twice_at_the_same_time(here: Coordinator, person: Person):
    with (
        person.home.journal(here.round_id, person.named.identity.public),
        pytest.raises(Refused, match="another process"),
    ):
        here.join(person)


# A coordinator that shows one thing and runs another


class Credulous(Pin):
    """Believes whatever roster the coordinator sends."""

    is_set = True

    def check(self, given: RosterFile) -> None:
        pass


@pytest.mark.fault(17)
@pytest.mark.fault(19)
def test_invented_participants_are_noticed(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    victim = persons[0]
    sybils = [Identity.generate(Stream("sybil", i)).public for i in range(11)]
    names = (victim.named.name, *(f"sybil {i}" for i in range(11)))
    roster = RosterFile(Roster(names, (victim.named.identity.public, *sybils)))
    with coordinator(tmp_path, study_of(participants="{min: 6, max: 12}"), roster) as here:
        here.consent(victim)
        assert refused(here, victim).reason is PolicyReason.UNPINNED_ROSTER
        victim.pin = Credulous()
        with here.client(victim) as client:
            seat = seat_of(client, here.round_id, victim.member)
        assert (len(seat.roster), seat.roster.digest) == (12, roster.roster.digest)
        assert (seat.position, seat.given.registrar) == (0, None)


@pytest.mark.fault(15)
@pytest.mark.parametrize("looking", [True, False])
def test_a_plan_of_another_draft_than_the_one_consented_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looking: bool
):
    """Study and strategy are the reviewed ones by construction; its price could be another."""
    persons = crowd(tmp_path, 6)
    given = roster_file(persons)
    honest = draft(SIX)
    other = replace(honest, rho=honest.rho * Fraction(9, 10))
    terms = terms_of(other.plan_for(given.roster))
    swapped = Offer("collecting-keys", None, terms, Place.on(given, 0))
    assert Draft.of(other.plan(6)).digest != honest.digest

    def change(request, body: bytes) -> bytes:
        return swapped.to_bytes() if request.url.path.endswith("/seat") else body

    with coordinator(tmp_path, SIX, given, around=lambda app: Malice(app, change)) as here:
        here.consent(persons[0])
        if looking:
            assert "not made from the draft" in refused(here, persons[0]).what
            assert persons[0].entries == ["open"]
            return
        monkeypatch.setattr(Home, "consented", lambda _home, _draft: True)
        with here.client(persons[0]) as client:
            seat = seat_of(client, here.round_id, persons[0].member)
        assert seat.reviewed.plan.rho == other.rho != honest.rho


@pytest.mark.fault(49)
def test_a_draft_or_an_offer_that_is_none_is_called_the_coordinators(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    given = roster_file(persons)
    place, terms = Place.on(given, 0), terms_of(draft(SIX).plan_for(given.roster))
    numberless = replace(place, edition=[10**5000, "2026-11-17", None])
    told: dict[str, bytes] = {}

    def change(request, body: bytes) -> bytes:
        return told.get(request.url.path.rpartition("/")[2], body)

    with coordinator(tmp_path, SIX, given, around=lambda app: Malice(app, change)) as here:
        here.consent(persons[0])
        for sent, words in (
            ({"draft": b"no plan"}, "what the coordinator sends is no draft"),
            ({"draft": zlib.compress(b"no plan")}, "what the coordinator sends is no draft"),
            ({"seat": b"no offer"}, "the coordinator's offer cannot be understood"),
            ({"seat": _offer(b"no terms", place)}, "the coordinator's offer has no terms"),
            ({"seat": _offer(terms[:-1], place)}, "the coordinator's offer has no terms"),
            ({"seat": _offer(terms, numberless)}, "the coordinator's offer cannot be understood"),
        ):
            told.clear()
            told.update(sent)
            assert words in refused(here, persons[0]).what
    assert persons[0].entries == ["open"]


def _offer(terms: bytes, place: Place) -> bytes:
    return Offer("collecting-keys", None, terms, place).to_bytes()

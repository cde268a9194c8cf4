"""A round that an earlier dhdmm left in its midst is finished by this one, with the exact sum."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from dhdmm.aggregation.method import ENROLMENT
from dhdmm.client.ending import Ending
from dhdmm.client.home import Home
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify
from dhdmm.secagg import messages
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server.database import Database
from dhdmm.server.requests import Close, Enrol
from dhdmm.server.round_state import RoundState
from dhdmm.server.studies import add_study, current_round
from dhdmm.study.spec import Study
from tests.museum import stores
from tests.museum.cast import COORDINATOR, PEOPLE, exact_sum, person_key, person_name
from tests.museum.resuming import resumed
from tests.museum.wings import WINGS, Wing
from tests.participant.postgres import Server
from tests.service.coordinators import fresh_database

pytestmark = pytest.mark.slow

UNFINISHED = [
    (wing, place)
    for wing in WINGS
    for place, facts in wing.facts["rounds"].items()
    if facts["state"] != CoordinatorState.FINISHED
]
FINISHED = [
    (wing, place)
    for wing in WINGS
    for place in wing.facts["rounds"]
    if (wing, place) not in UNFINISHED
]


def dump_of(wing: Wing, place: str) -> stores.Dump:
    return json.loads((wing.folder / "rounds" / place / "store.json").read_text("utf-8"))


@pytest.mark.parametrize(("wing", "place"), UNFINISHED, ids=str)
def test_a_round_goes_on_where_it_stopped(wing: Wing, place: str, tmp_path: Path) -> None:
    url = stores.into_sqlite(dump_of(wing, place), tmp_path / "coordinator.db")
    finish(wing, place, url, tmp_path)


@pytest.mark.parametrize("wing", WINGS, ids=str)
def test_the_file_of_a_store_goes_on_as_well(wing: Wing, tmp_path: Path) -> None:
    place = "malicious-inputs"
    path = wing.copy(f"rounds/{place}/coordinator.db", tmp_path / "coordinator.db")
    assert stores.read(path) == dump_of(wing, place)
    finish(wing, place, f"sqlite:///{path}", tmp_path)


@pytest.mark.parametrize("wing", WINGS, ids=str)
@pytest.mark.parametrize("place", ["malicious-inputs", "semi-honest-keys"])
def test_the_same_in_postgresql(wing: Wing, place: str, postgres: Server, tmp_path: Path) -> None:
    url = stores.into_database(dump_of(wing, place), fresh_database(postgres))
    finish(wing, place, url, tmp_path)


@pytest.mark.parametrize(("wing", "place"), FINISHED, ids=str)
def test_the_release_of_a_finished_round_is_saved_again(
    wing: Wing, place: str, tmp_path: Path
) -> None:
    facts = wing.facts["rounds"][place]
    url = stores.into_sqlite(dump_of(wing, place), tmp_path / "coordinator.db")
    with resumed(url, bytes.fromhex(facts["round"]), tmp_path) as coordinator:
        check_release(coordinator.transcript(), coordinator.round_id, set(range(PEOPLE)))
        folder = _saved(tmp_path / "releases")
    assert Release.load(folder).round_id.hex() == facts["round"]


def _saved(releases: Path) -> Path:
    """The one release, as soon as the process that saves it is done."""
    end = time.monotonic() + 60
    while time.monotonic() < end and not (found := list(releases.glob("[!.]*"))):
        time.sleep(0.1)
    (folder,) = found
    return folder


def test_a_round_that_enrols_keeps_to_what_its_draft_was_made_for(tmp_path: Path) -> None:
    """Participants of dhdmm 0.1.0 may be among those who come: they can read all they are sent."""
    wing, place = WINGS[0], "semi-honest-enrolling"
    facts = wing.facts["rounds"][place]
    database = Database(stores.into_sqlite(dump_of(wing, place), tmp_path / "coordinator.db"))
    database.migrate()
    live = RoundState(database, facts["round"], COORDINATOR)
    for i, token in enumerate(facts["tokens"]):
        live.turn([Enrol(token.encode(), person_name(i), person_key(i).public)])
    live.turn([Close(ENROLMENT.name)])
    assert live.seats is not None
    assert live.roster_file() == wing.bytes("rosters/unsigned.json")
    assert live.seats.encoded_plan == wing.bytes("plans/semi-honest.cbor")


@pytest.mark.parametrize(("wing", "place"), UNFINISHED, ids=str)
def test_the_study_file_leads_to_the_round_that_is_under_way(
    wing: Wing, place: str, tmp_path: Path
) -> None:
    """As `dhdmm serve STUDY` looks for it; otherwise it would begin a second round."""
    name, facts = place.rpartition("-")[0], wing.facts["rounds"][place]
    database = Database(stores.into_sqlite(dump_of(wing, place), tmp_path / "coordinator.db"))
    database.migrate()
    study = add_study(database, Study.load(wing.folder / "studies" / f"{name}.yaml"))
    assert current_round(database, study) == facts["round"]


@pytest.mark.parametrize("place", [place for wing, place in UNFINISHED if wing is WINGS[0]])
def test_an_upgraded_log_has_numbers_for_names(place: str, tmp_path: Path) -> None:
    dump = dump_of(WINGS[0], place)
    before = [name.split("/") for _, _, name, _ in dump["tables"]["log"]["rows"]]
    database = Database(stores.into_sqlite(dump, tmp_path / "coordinator.db"))
    database.migrate()
    tables = stores.read(tmp_path / "coordinator.db")["tables"]
    after = [row[2] for row in tables["records"]["rows"]]
    numbers = {kind.__name__: str(kind.TYPE) for kind in messages.MESSAGES}
    assert after == ["/".join([numbers.get(name, name), *rest]) for name, *rest in before]
    assert "log" not in tables  # where a process of before would go on writing
    database.migrate()  # again: nothing is left to do


def finish(wing: Wing, place: str, url: str, folder: Path) -> None:
    """Everybody comes back, with the own folder of then."""
    facts = wing.facts["rounds"][place]
    there = set(range(PEOPLE)) - set(facts["left"])
    homes = {i: Home(wing.copy(f"rounds/{place}/people/{i}", folder / str(i))) for i in there}
    with resumed(url, bytes.fromhex(facts["round"]), folder) as coordinator:
        outcomes = coordinator.join_all(homes, facts["tokens"])
        assert {outcome.ending for outcome in outcomes.values()} == {Ending.RELEASED}
        check_release(coordinator.transcript(), coordinator.round_id, there)
    for home in homes.values():
        ledger = home.existing_ledger(None)
        assert ledger is not None
        assert ledger.paid_for(bytes.fromhex(facts["round"])) is not None
        assert not list((home.root / "journals").glob("*.journal"))


def check_release(transcript: Transcript, round_id: bytes, survivors: set[int]) -> None:
    release = verify(transcript, COORDINATOR.public).release
    exact = exact_sum(release.plan, round_id, dict.fromkeys(survivors))
    assert np.array_equal(release.measurement, exact)

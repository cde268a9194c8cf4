"""Rosters that follow one another: revoked keys stay revoked, on both sides."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import structlog

from dhdmm.aggregation.roster import Roster
from dhdmm.cli.serve import OTHER_ROSTER, _beginning, _rounds
from dhdmm.client.home import Home
from dhdmm.errors import DhdmmError, Refused
from dhdmm.network.roster import Edition, Pin, RosterCredentials, RosterFile
from dhdmm.server import logs
from dhdmm.server.studies import add_study, begin_again, next_round, runs_under_another_roster
from tests.cli.commands import Shell
from tests.service.participant.people import (
    REGISTRAR,
    Coordinator,
    Person,
    coordinator,
    crowd,
    roster_file,
    seat_of,
    study_of,
)
from tests.service.participant.test_trouble import doomed

pytestmark = pytest.mark.slow

STUDY = study_of(participants="{min: 6, max: 7}")


def edition(persons: list[Person], serial: int, study: str | None = "small") -> RosterFile:
    made = Edition(serial, "2026-11-17", study)
    return RosterFile.signed(roster_file(persons).roster, REGISTRAR, made)


def seat_under(here: Coordinator, person: Person, round_id: str | None = None) -> int:
    """The serial number of the roster under which the person would take its seat."""
    chosen = bytes.fromhex(round_id) if round_id else here.round_id
    with here.client(person) as client:
        return seat_of(client, chosen, person.member).given.serial


def begin(here: Coordinator, roster: RosterFile) -> str:
    return next_round(here.database, add_study(here.database, here.study), roster)


# ---- the file -----------------------------------------------------------------------------------


def test_a_long_roster_is_written_in_pieces_as_if_at_once() -> None:
    names = [f'{i} "\\ü{{}},[]' for i in range(2001)]
    roster = Roster(names, [i.to_bytes(32, "big") for i in range(len(names))])
    written = RosterFile.signed(roster, REGISTRAR).to_bytes()
    document = json.loads(written)
    assert written == json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
    assert [one["name"] for one in document["members"]] == names
    assert [int(one["key"], 16) for one in document["members"]] == list(range(len(names)))


def test_a_roster_in_use_is_read_once(tmp_path: Path):
    written = roster_file(crowd(tmp_path, 3)).to_bytes()
    kept = RosterFile.from_bytes(written)
    assert RosterFile.from_bytes(bytes(bytearray(written))) is kept
    changed = written.replace(kept.signature.hex().encode(), bytes(64).hex().encode())
    with pytest.raises(Refused, match="signature does not hold"):
        RosterFile.from_bytes(changed)


def test_an_edition_is_signed_and_comes_back(tmp_path: Path):
    made = edition(crowd(tmp_path, 3), 7)
    assert RosterFile.from_bytes(made.to_bytes()) == made
    assert json.loads(made.to_bytes())["serial"] == 7


@pytest.mark.fault(53)
@pytest.mark.parametrize(
    "change", [{"serial": 8}, {"date": "2027-01-01"}, {"study": "another"}, {"study": None}]
)
def test_an_edition_that_was_changed_is_refused(tmp_path: Path, change: dict[str, object]):
    document = json.loads(edition(crowd(tmp_path, 3), 7).to_bytes())
    with pytest.raises(Refused, match="signature does not hold"):
        RosterFile.from_bytes(json.dumps(document | change).encode())


@pytest.mark.parametrize("change", [{"serial": 0}, {"date": None}, {"serial": -1}, {"date": "x"}])
def test_half_an_edition_is_refused(tmp_path: Path, change: dict[str, object]):
    document = json.loads(edition(crowd(tmp_path, 3), 7).to_bytes())
    with pytest.raises(DhdmmError):
        RosterFile.from_bytes(json.dumps(document | change).encode())


def test_a_roster_without_an_edition_is_as_it_always_was(tmp_path: Path):
    """Number 0, and in the first format readable by older versions."""
    made = roster_file(crowd(tmp_path, 3))
    assert set(json.loads(made.to_bytes(1))) == {"dhdmm", "members", "registrar", "signature"}
    assert RosterFile.from_bytes(made.to_bytes()).serial == 0


def test_the_command_counts_and_dates_rosters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shell = Shell(tmp_path, monkeypatch, capsys)
    for name in ("registrar", "north", "south"):
        shell("identity", "--name", name, "--out", f"{name}.identity", "--public", f"{name}.json")
    signing = ["--registrar", "registrar.identity", "--json"]

    def made(out: str, *options: str) -> dict[str, object]:
        said = shell("roster", "--out", out, "north.json", "south.json", *signing, *options)
        return json.loads(said.out) if said.code == 0 else {"error": said.err}

    first = made("1.json", "--study", "hospitals")
    assert (first["serial"], first["study"]) == (1, "hospitals")
    second = made("2.json", "--replaces", "1.json")
    assert (second["serial"], second["study"]) == (2, "hospitals")
    assert made("9.json", "--serial", "9")["serial"] == 9
    assert "has the serial number 2" in str(made("x", "--replaces", "2.json", "--serial", "2"))
    unsigned = shell("roster", "--out", "x", "north.json", "--serial", "3")
    assert (unsigned.code, "only a signed roster" in unsigned.err) == (3, True)
    assert RosterFile.load(tmp_path / "2.json").serial == 2


# ---- participants -------------------------------------------------------------------------------


@pytest.mark.fault(53)
def test_a_participant_refuses_a_roster_older_than_one_it_has_accepted(tmp_path: Path):
    """Of two coordinators, the second still has the roster with the revoked key."""
    persons = crowd(tmp_path, 7)
    (tmp_path / "other").mkdir()
    with (
        coordinator(tmp_path, STUDY, edition(persons[:6], 2)) as here,
        coordinator(tmp_path / "other", STUDY, edition(persons, 1)) as stale,
    ):
        here.consent(persons[0], persons[1])
        assert seat_under(stale, persons[1]) == 1, "who has seen nothing newer cannot know"
        assert seat_under(here, persons[0]) == 2
        with pytest.raises(Refused, match="serial number 1, and 2 was seen before"):
            seat_under(stale, persons[0])
        assert seat_under(here, persons[0]) == 2
        assert seat_under(here, persons[1]) == 2


@pytest.mark.fault(53)
def test_without_the_rule_both_sides_go_back_to_a_roster_with_a_revoked_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(RosterCredentials, "require_not_older", lambda *_newest: None)
    persons = crowd(tmp_path, 7)
    with coordinator(tmp_path, STUDY, edition(persons[:6], 2)) as here:
        here.consent(persons[0])
        assert seat_under(here, persons[0]) == 2
        assert seat_under(here, persons[0], begin(here, edition(persons, 1))) == 1


@pytest.mark.fault(53)
def test_two_rosters_with_one_serial_number_are_refused(tmp_path: Path):
    home, persons = Home(tmp_path / "home"), crowd(tmp_path, 7)
    home.accept_roster(edition(persons[:6], 2), "small")
    home.accept_roster(edition(persons[:6], 2), "small")
    with pytest.raises(Refused, match="another roster with the serial number 2"):
        home.accept_roster(edition(persons, 2), "small")
    with pytest.raises(Refused, match="serial number 0"):
        home.accept_roster(roster_file(persons), "small")
    home.accept_roster(edition(persons, 1), "another study")


def test_rosters_without_an_edition_may_change(tmp_path: Path):
    home, persons = Home(tmp_path / "home"), crowd(tmp_path, 7)
    home.accept_roster(roster_file(persons[:6]), "small")
    home.accept_roster(roster_file(persons), "small")


def test_a_round_that_a_participant_is_in_goes_on_under_its_own_roster(tmp_path: Path):
    persons = crowd(tmp_path, 7)
    with coordinator(tmp_path, STUDY, edition(persons[:6], 1)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], 0, delivered=True) is None
        newer = begin(here, edition(persons, 2))
        assert seat_under(here, persons[0], newer) == 2
        assert seat_under(here, persons[0]) == 1


def test_a_roster_for_another_study_is_refused(tmp_path: Path):
    persons = crowd(tmp_path, 6)
    elsewhere = edition(persons, 1, "another study")
    with coordinator(tmp_path, STUDY, roster_file(persons)) as here:
        with pytest.raises(Refused, match="for the study 'another study'"):
            begin(here, elsewhere)
        here.consent(persons[0])
        assert seat_under(here, persons[0]) == 0
    with pytest.raises(Refused, match="not for 'small'"):
        elsewhere.require_study("small")


def test_who_pinned_a_fingerprint_has_said_which_roster(tmp_path: Path):
    persons = crowd(tmp_path, 7)
    with coordinator(tmp_path, STUDY, edition(persons[:6], 1)) as here:
        here.consent(persons[0])
        persons[0].home.accept_roster(edition(persons, 2), "small")
        persons[0].pin = Pin(fingerprint=roster_file(persons[:6]).roster.digest)
        assert seat_under(here, persons[0]) == 1


# ---- the coordinator ----------------------------------------------------------------------------


@pytest.mark.fault(53)
def test_a_coordinator_begins_no_round_with_an_older_roster(tmp_path: Path):
    persons = crowd(tmp_path, 7)
    with coordinator(tmp_path, STUDY, edition(persons[:6], 2)) as here:
        with pytest.raises(Refused, match="serial number 1, and 2 was seen before"):
            begin(here, edition(persons[:6], 1))
        with pytest.raises(Refused, match="another roster with the serial number 2"):
            begin(here, edition(persons, 2))
        begin(here, edition(persons, 3))
        with pytest.raises(Refused, match="serial number 2, and 3 was seen before"):
            begin(here, edition(persons[:6], 2))


def test_a_restart_with_a_newer_roster_goes_on_with_the_round_under_its_own(tmp_path: Path):
    persons = crowd(tmp_path, 7)
    old, new = edition(persons[:6], 1), edition(persons, 2)
    with coordinator(tmp_path, STUDY, old) as here:
        study = add_study(here.database, STUDY)
        chosen = begin_again(here.database, study, new)
        assert chosen.round == here.round_id.hex()
        assert runs_under_another_roster(here.database, study, chosen.round, new)
        assert not runs_under_another_roster(here.database, study, chosen.round, old)
        with here.database.turn(chosen.round) as turn:
            turn.row.state = "aborted"
        following = begin_again(here.database, study, new).round
        assert seat_count(here, following) == 7
        with pytest.raises(Refused, match="was seen before"):
            runs_under_another_roster(here.database, study, following, old)


def test_serving_says_which_roster_the_running_round_has(tmp_path: Path):
    persons, said = crowd(tmp_path, 7), io.StringIO()
    with coordinator(tmp_path, STUDY, edition(persons[:6], 1)) as here:
        logs.configure(as_json=True, stream=said)
        try:
            begin = _beginning(True, 0, None, None)
            (found,) = _rounds(here.database, [STUDY], edition(persons, 2), begin, None)
        finally:
            structlog.reset_defaults()
    assert found == here.round_id.hex()
    events = [json.loads(line)["event"] for line in said.getvalue().splitlines()]
    assert events == ["no new round: the last round is going on", OTHER_ROSTER]


def seat_count(here: Coordinator, round_id: str) -> int:
    with here.client() as client:
        return client.status(bytes.fromhex(round_id)).enrolled

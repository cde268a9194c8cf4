"""Rounds that a participant began and did not end: gone on with, concluded, or given up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from dhdmm.client.joined import open_rounds
from dhdmm.privacy.chain import Kind
from dhdmm.privacy.protection import Protection
from dhdmm.server.studies import add_study, next_round
from tests.cli.commands import Said, Shell
from tests.service.participant.people import (
    OPERATOR,
    REGISTRAR,
    Coordinator,
    Person,
    coordinator,
    crowd,
    roster_file,
    study_of,
)
from tests.service.participant.test_trouble import doomed, meanwhile

pytestmark = pytest.mark.slow

POLICY = "min_participants: 3\nmax_epsilon: 2.0\nthreat_models: [malicious, semi-honest]\n"
AT_FIRST, AT_THE_INPUT, AT_THE_END = 0, 2, 3  # the message at which somebody is killed
LOSING_ONE = study_of(dropout=0.2, threat_model="semi-honest")


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Of the first person of the crowd."""
    monkeypatch.setenv("DHDMM_STATE", str(tmp_path / "person 0"))
    (tmp_path / "table.csv").write_text("age,sex\n1,F\n")
    return Shell(tmp_path, monkeypatch, capsys)


def joining(shell: Shell, here: Coordinator, *more: str) -> Said:
    """`dhdmm join` as it was typed before the crash."""
    (shell.folder / "person 0" / "policy.yaml").write_text(POLICY)
    given = ["--ca", str(here.files.certificate), "--data", "table.csv", *more]
    return shell("join", here.address, *given)


def abort(here: Coordinator) -> None:
    ending = f"{here.address}/v1/rounds/{here.round_id.hex()}/abort"
    authorised = {"Authorization": f"Bearer {OPERATOR}"}
    httpx.post(ending, headers=authorised, verify=here.files.client()).raise_for_status()


def another_round(here: Coordinator, persons: list[Person]) -> str:
    """Begun by another process: this one learns of it within a second."""
    begun = next_round(here.database, add_study(here.database, here.study), roster_file(persons))
    with here.client(persons[0]) as client:
        while begun not in [status.round for status in client.rounds()]:
            time.sleep(0.05)
    return begun


@pytest.mark.fault(50)
def test_the_same_join_after_an_aborted_round_gives_its_reservation_back(
    shell: Shell, tmp_path: Path
):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], AT_FIRST, delivered=True) is None
        assert (persons[0].entries, len(persons[0].journals)) == (["open", "reserve"], 1)
        abort(here)
        another_round(here, persons)
        said = joining(shell, here)
    assert "is not pinned" in said.err  # so it came to the new round, and refused that one
    assert f"round {here.round_id.hex()} is aborted: nothing is spent" in said.err
    assert persons[0].entries == ["open", "reserve", "cancel"]
    assert persons[0].journals == []


@pytest.mark.fault(50)
def test_an_aborted_round_whose_input_may_have_left_stays_paid_and_its_secrets_are_erased(
    shell: Shell, tmp_path: Path
):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, LOSING_ONE, roster_file(persons)) as here:
        here.consent(*persons)
        with meanwhile(here, persons[1:]):
            assert doomed(here, persons[0], AT_THE_INPUT, delivered=False) is None
            abort(here)
        another_round(here, persons)
        said = joining(shell, here, "--registrar", "00" * 32)
    assert "its cost stays, since the input had left; its secrets are erased" in said.err
    assert persons[0].entries == ["open", "reserve", "debit"]
    assert persons[0].journals == []
    assert open_rounds(persons[0].home, [persons[0].member.ledger]) == []


def test_join_goes_on_with_the_round_that_it_was_in_although_another_is_going_on(
    shell: Shell, tmp_path: Path
):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], AT_FIRST, delivered=True) is None
        other = another_round(here, persons)
        said = joining(shell, here)
        assert f"going on with round {here.round_id.hex()}" in said.err
        assert "resumed from the journal" in said.err
        named = joining(shell, here, "--round", other)
        assert "going on with" not in named.err
    assert persons[0].entries == ["open", "reserve"]
    assert len(persons[0].journals) == 1


def test_a_round_that_ended_with_our_input_is_looked_at_before_another_is_begun(
    shell: Shell, tmp_path: Path
):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, LOSING_ONE, roster_file(persons)) as here:
        here.consent(*persons)
        with meanwhile(here, persons[1:]):
            assert doomed(here, persons[0], AT_THE_END, delivered=True) is None
        another_round(here, persons)
        key = REGISTRAR.public.hex()
        said = joining(shell, here, "--registrar", key, "--json", "--out", "release")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["table_rows"]["counted"] == document["table_rows"]["rows"] > 0
    assert (document["round"], document["ending"]) == (here.round_id.hex(), "released")
    assert (tmp_path / "release" / "release.json").exists()
    assert persons[0].journals == []


def test_a_coordinator_is_not_asked_about_rounds_of_another(shell: Shell, tmp_path: Path):
    persons = crowd(tmp_path, 6)
    (tmp_path / "other").mkdir()
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], AT_FIRST, delivered=True) is None
        with coordinator(tmp_path / "other", study_of(), roster_file(persons)) as other:
            said = joining(shell, other)
    assert here.round_id.hex() not in said.err
    assert persons[0].entries == ["open", "reserve"]


# ---- dhdmm rounds -------------------------------------------------------------------------------


def test_rounds_are_listed_with_what_is_at_stake(shell: Shell, tmp_path: Path):
    persons = crowd(tmp_path, 6)
    assert shell("rounds").out == "you are in no round\n"
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], AT_FIRST, delivered=True) is None
    (listed,) = json.loads(shell("rounds", "--json").out)["rounds"]
    (reserved,) = persons[0].member.ledger.state().amounts(Kind.RESERVE)
    assert listed | {"begun": ""} == {
        "round": here.round_id.hex(),
        "study": "small",
        "coordinator": here.address,
        "begun": "",
        "rho": str(reserved[1]),
        "paid": False,
        "secrets": True,
    }
    shown = shell("rounds").out
    assert f"small at {here.address}" in shown
    assert "reserved; secrets are kept" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.fault(50)
def test_a_round_is_given_up_and_its_reservation_comes_back(shell: Shell, tmp_path: Path):
    """Without a word from the coordinator, which may be gone for good."""
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert doomed(here, persons[0], AT_FIRST, delivered=True) is None
        said = shell("rounds", "--give-up", here.round_id.hex())
        assert (said.code, "nothing is spent" in said.out) == (0, True)
        assert persons[0].entries == ["open", "reserve", "cancel"]
        assert persons[0].journals == []
        assert shell("rounds").out == "you are in no round\n"
        again = joining(shell, here, "--registrar", REGISTRAR.public.hex())
        assert (again.code, "has left the round for good" in again.err) == (4, True)
    twice = shell("rounds", "--give-up", here.round_id.hex())
    assert (twice.code, "is open here" in twice.err) == (3, True)


@pytest.mark.fault(50)
def test_a_round_given_up_after_its_input_may_have_left_stays_paid(shell: Shell, tmp_path: Path):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, LOSING_ONE, roster_file(persons)) as here:
        here.consent(*persons)
        with meanwhile(here, persons[1:]):
            assert doomed(here, persons[0], AT_THE_INPUT, delivered=False) is None
            said = shell("rounds", "--give-up", here.round_id.hex())
            here.inputs_without(1)
    assert (said.code, "its cost stays" in said.out) == (0, True)
    assert persons[0].entries == ["open", "reserve", "debit"]
    assert persons[0].journals == []


def test_a_reservation_without_a_journal_is_listed_and_given_up(shell: Shell, tmp_path: Path):
    person = crowd(tmp_path, 1)[0]
    ledger, round_id = person.member.ledger, bytes(range(16))
    ledger.reserve(bytes(32), round_id, ledger.budget() / 2, Protection.of(study_of()))
    (listed,) = json.loads(shell("rounds", "--json").out)["rounds"]
    assert (listed["round"], listed["secrets"]) == (round_id.hex(), False)
    assert shell("rounds", "--give-up", round_id.hex()).code == 0
    assert person.entries == ["open", "reserve", "cancel"]


def test_a_round_that_a_process_is_in_is_not_given_up(shell: Shell, tmp_path: Path):
    person, round_id = crowd(tmp_path, 1)[0], bytes(range(16))
    with person.home.journal(round_id, person.named.identity.public) as journal:
        journal.write(b"state", b"message")
        said = shell("rounds", "--give-up", round_id.hex())
    assert (said.code, "another process is in this round" in said.err) == (4, True)
    assert len(person.journals) == 1


@pytest.mark.parametrize("written", ["", "x" * 32, "00"])
def test_what_is_no_round_is_refused(shell: Shell, written: str):
    assert shell("rounds", "--give-up", written).code == 3

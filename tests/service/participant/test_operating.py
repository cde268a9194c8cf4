"""The operator's commands as they are typed, and what a lost reply does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpcore
import pytest
import typer.main

from dhdmm.cli import operate
from dhdmm.client.http import CoordinatorClient
from dhdmm.errors import DhdmmError
from dhdmm.network.trust import Address, trusting
from dhdmm.server.studies import add_study, next_round
from tests.cli.commands import Said, Shell
from tests.docs.pages import PROJECT, blocks
from tests.service.participant.people import (
    OPERATOR,
    Coordinator,
    coordinator,
    crowd,
    roster_file,
    study_of,
)
from tests.service.participant.test_trouble import doomed

pytestmark = pytest.mark.slow

PAGE = PROJECT / "docs" / "DEPLOYING.md"


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "operator").write_text(f"{OPERATOR}\n")
    (tmp_path / "operator").chmod(0o600)
    return Shell(tmp_path, monkeypatch, capsys)


def operating(shell: Shell, here: Coordinator, command: str, *more: str) -> Said:
    given = ["--ca", str(here.files.certificate), "--operator-token-file", "operator"]
    return shell("coordinator", command, here.address, *given, *more)


def told(said: Said) -> dict[str, Any]:
    assert said.code == 0, said.err
    return json.loads(said.out)


@pytest.mark.fault(59)
def test_an_operator_sees_who_is_missing_closes_begins_and_aborts(shell: Shell, tmp_path: Path):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(persons[0])
        assert len(told(operating(shell, here, "missing", "--json"))["missing"]) == 6
        assert doomed(here, persons[0], 0, delivered=True) is None
        waited_for = told(operating(shell, here, "missing", "--json"))
        assert (waited_for["round"], waited_for["state"]) == (
            here.round_id.hex(),
            "collecting-keys",
        )
        assert [one["name"] for one in waited_for["missing"]] == [p.named.name for p in persons[1:]]
        assert waited_for["missing"][0]["fingerprint"] == persons[1].named.public.fingerprint
        shown = operating(shell, here, "missing").out
        assert shown.startswith("collecting-keys: 5 missing\n")
        assert max(map(len, shown.splitlines())) <= 80

        closed = operating(shell, here, "close").out
        assert closed == f"small, round {here.round_id.hex()}: aborted (too-few-participants)\n"
        assert told(operating(shell, here, "missing", "--json"))["missing"] == []

        (tmp_path / "roster.json").write_bytes(roster_file(persons).to_bytes())
        week = ["--roster", "roster.json", "--occurrence", "2026-W47", "--json"]
        begun = told(operating(shell, here, "begin", *week))
        assert (begun["state"], begun["occurrence"]) == ("collecting-keys", "2026-W47")
        assert told(operating(shell, here, "begin", *week))["round"] == begun["round"]

        aborted = told(operating(shell, here, "abort", "--json"))
        assert (aborted["round"], aborted["reason"]) == (begun["round"], "stopped")


@pytest.mark.fault(59)
def test_only_the_operator_operates_and_learns_names(shell: Shell, tmp_path: Path):
    with coordinator(tmp_path, study_of(), roster_file(crowd(tmp_path, 6))) as here:
        for command in ("begin", "close", "abort", "missing"):
            given = ["coordinator", command, here.address, "--ca", str(here.files.certificate)]
            without = shell(*given)
            assert (without.code, "only the operator" in without.err) == (3, True)
            wrong = shell(*given, "--operator-token", "a guess")
            assert (wrong.code, "person" in wrong.out + wrong.err) == (4, False)
        with here.client() as client:
            assert [status.state for status in client.rounds()] == ["collecting-keys"]


@pytest.mark.fault(5)
def test_a_lost_reply_to_begin_does_not_begin_two_rounds(tmp_path: Path):
    class Losing(CoordinatorClient):
        lost = False

        def _send_once(self, method: str, *rest: Any) -> Any:
            reply = super()._send_once(method, *rest)
            if method == "POST" and not self.lost:
                self.lost = True
                raise httpcore.ReadError("the line went dead")
            return reply

    with coordinator(tmp_path, study_of(), roster_file(crowd(tmp_path, 6))) as here:
        roster = json.loads(roster_file(crowd(tmp_path / "x", 6)).to_bytes())
        trust = trusting(here.files.certificate)
        given = {"operator": OPERATOR, "sleep": lambda _pause: None}
        with Losing(Address.parse(here.address), trust, **given) as client:
            begun = client.begin(here.study.digest.hex(), roster, None)
            assert client.lost
            assert [one.round for one in client.rounds()] == [begun.round, here.round_id.hex()]


def test_of_several_studies_one_is_named(shell: Shell, tmp_path: Path):
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        other = add_study(here.database, study_of(corrupt=0.3))
        next_round(here.database, other, roster_file(persons))
        refused = operating(shell, here, "begin")
        assert (refused.code, other.digest in refused.err) == (3, True)
        said = operating(shell, here, "begin", "--study", other.digest, "--json")
        assert (told(said)["study_digest"], told(said)["state"]) == (other.digest, "enrolling")


@pytest.mark.fault(51)
def test_clients_and_commands_cope_with_thousands_of_rounds(shell: Shell, tmp_path: Path):
    """The round that is going on is found, although it is not among the newest."""
    with coordinator(tmp_path, study_of(), roster_file(crowd(tmp_path, 6))) as here:
        study = add_study(here.database, here.study)
        _add_finished(here, 2200, study.digest)
        with here.client() as client:
            assert len({status.round for status in client.rounds()}) == 2201
        tls = ["--ca", str(here.files.certificate), "--operator-token-file", "operator"]
        shown = shell("status", here.address, *tls)
        assert "there are older ones: --last shows more" in shown.out
        assert len(json.loads(shell("status", here.address, *tls, "--json").out)["rounds"]) == 50
        running = json.loads(shell("status", here.address, *tls, "--running", "--json").out)
        assert [entry["round"] for entry in running["rounds"]] == [here.round_id.hex()]
        assert told(operating(shell, here, "missing", "--json"))["round"] == here.round_id.hex()


def _add_finished(here: Coordinator, count: int, digest: str) -> None:
    from sqlalchemy import insert, select

    from dhdmm.server.tables import rounds

    with here.database.writing() as connection:
        first = connection.execute(select(rounds)).mappings().one()
        later = {"state": "finished", "begun": first["begun"] + 10, "ended": first["begun"] + 10}
        made = [
            {**first, **later, "id": f"{number:032x}", "number": number, "study": digest}
            for number in range(2, count + 2)
        ]
        connection.execute(insert(rounds), made)


def test_the_page_shows_commands_that_work(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (block,) = [b for b in blocks(PAGE) if "dhdmm coordinator missing" in b.text]
    persons = crowd(tmp_path, 6)
    (tmp_path / "roster.json").write_bytes(roster_file(persons).to_bytes())
    monkeypatch.setenv("DHDMM_OPERATOR_TOKEN", OPERATOR)
    names = []
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        for line in block.text.splitlines()[1:]:
            _, *words = line.replace("https://coordinator.example", here.address).split()
            names.append(words[1])
            given = [] if names[-1] == "purge" else ["--ca", str(here.files.certificate)]
            assert shell(*words, *given).code == 0, line
    assert sorted(names) == sorted(typer.main.get_command(operate.app).commands)


def test_the_operators_help_fits_80_columns(shell: Shell):
    names = list(typer.main.get_command(operate.app).commands)
    assert names == ["begin", "close", "abort", "missing", "purge"]
    for words in ([], *([name] for name in names)):
        shown = shell("coordinator", *words, "--help")
        assert shown.code == 0
        assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.parametrize("written", ["", "90", "d", "-1d", "1y", "1.5h"])
def test_what_is_no_duration_is_refused(written: str):
    from dhdmm.cli.durations import seconds_of

    with pytest.raises(DhdmmError, match="not a duration"):
        seconds_of(written)

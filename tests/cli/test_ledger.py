"""`dhdmm ledger`: what is spent, for whom, and what that bounds."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dhdmm.cli.ledger import ledger as ledger_command
from dhdmm.errors import Refused
from dhdmm.privacy.chain import Purpose
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Protection
from dhdmm.privacy.zcdp import Conversion
from tests.cli.commands import called

RECORD = Protection("record", "zero-out", "", 1, 1)
PATIENT = Protection("person", "replace", "patient", 2, 1)
WARD = Protection("participant", "zero-out", "", 40, 1)
FORMAT_1 = Path(__file__).parents[1] / "privacy" / "fixtures" / "format-1.sqlite"


def spend(path: Path, *rounds: tuple[Fraction, Protection]) -> Ledger:
    clock = lambda: datetime(2030, 1, 1, tzinfo=UTC)  # noqa: E731 - a fixed clock
    ledger = Ledger(path, clock) if path.exists() else Ledger.create(path, Fraction(1), clock)
    for number, (rho, protection) in enumerate(rounds, start=len(ledger.entries())):
        ledger.reserve(bytes([number]) * 32, bytes([number]) * 16, rho, protection)
        ledger.debit(bytes([number]) * 16, bytes(32))
    return ledger


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    ledger = spend(path, (Fraction(1, 3), RECORD))
    ledger.reserve(bytes(32), bytes(16), Fraction(1, 4), PATIENT)
    return path


@pytest.fixture
def old_ledger(tmp_path: Path) -> Path:
    path = tmp_path / "old.sqlite"
    shutil.copy(FORMAT_1, path)
    shutil.copy(f"{FORMAT_1}.anchor", f"{path}.anchor")
    path.chmod(0o600)
    return path


def test_the_ledger_is_shown_in_json_with_exact_amounts(ledger_path):
    shown = json.loads(called(ledger_command, str(ledger_path), "--json"))
    amounts = {name: shown[name] for name in ("budget", "spent", "reserved", "remaining")}
    assert amounts == {"budget": "1", "spent": "1/3", "reserved": "1/4", "remaining": "5/12"}
    assert [entry["kind"] for entry in shown["entries"]] == ["open", "reserve", "debit", "reserve"]
    assert shown["entries"][3]["protection"] == asdict(PATIENT)
    assert shown["checkpoint"] == {"sequence": 4, "digest": shown["entries"][-1]["digest"]}


def test_totals_of_different_units_and_relations_are_apart(tmp_path):
    path = tmp_path / "ledger.sqlite"
    other = Protection("person", "replace", "insured", 2, 1)
    looser = Protection("person", "replace", "patient", 5, 3)
    tenth = Fraction(1, 10)
    spend(path, *((tenth, whom) for whom in (RECORD, PATIENT, looser, other, WARD)))
    shown = json.loads(called(ledger_command, str(path), "--json"))
    accounts = {
        (account["unit"], account["identifier"], account["relation"]): account["spent"]
        for account in shown["accounts"]
    }
    assert accounts == {
        ("record", None, "zero-out"): "1/10",
        ("person", "patient", "replace"): "1/5",
        ("person", "insured", "replace"): "1/10",
        ("participant", None, "zero-out"): "1/10",
    }
    bounds = {(bound["unit"], bound["identifier"]): bound["removed"] for bound in shown["bounds"]}
    assert bounds == {
        ("record", None): {"rho": "1/2", "rho_times_k_squared": "0"},
        ("person", "patient"): {"rho": "3/10", "rho_times_k_squared": "1/5"},
        ("person", "insured"): {"rho": "1/5", "rho_times_k_squared": "3/10"},
        ("participant", None): {"rho": "1/10", "rho_times_k_squared": "2/5"},
    }


def test_epsilon_of_the_budget_holds_for_every_zcdp_mechanism(ledger_path):
    """Later studies may depend on earlier releases, so the Gaussian curve is no answer."""
    shown = json.loads(called(ledger_command, str(ledger_path), "--delta", "1e-5", "--json"))
    stated = shown["epsilon"]["budget"]
    assert (stated, shown["delta"]) == (Conversion.CKS.epsilon(Fraction(1), 1e-5), 1e-5)
    assert stated > 1.05 * Conversion.GAUSSIAN.epsilon(Fraction(1), 1e-5)


def test_the_ledger_is_shown_to_people_at_80_columns(ledger_path):
    spend(ledger_path, (Fraction(1, 100), WARD))
    shown = called(ledger_command, str(ledger_path))
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"budget +7\.766 +1 ", shown)
    assert re.search(r"remaining +4\.\d+ +0\.406667", shown)
    assert "Left: 40 more rounds like the last." in shown
    assert re.search(r"record +zero-out +1 +0\.333333 +0\n", shown)
    assert re.search(r"person \(patient\) +replace +0 +0 +0\.25\n", shown)
    assert re.search(r"a record, as counted +0\.343333 +1\.37333", shown)
    assert re.search(r"a person +0\.01 \+ 0\.333333 k² +0\.04 \+ 1\.33333 k²", shown)
    words = " ".join(shown.split())
    assert "all rounds within it tell of one record, removed, at most the ε in the" in words
    assert "counts k² times, and bounds nothing if k has no bound" in words
    assert "format 1" not in words
    assert "2030-01-01" in shown


def test_rounds_of_an_old_ledger_are_shown_as_not_recorded(old_ledger):
    shown = called(ledger_command, str(old_ledger))
    assert re.search(r"not recorded +not recorded +1 +0\.1 +0\.25\n", shown)
    assert re.search(r"a record, as counted +0\.1 +0\.4\s", shown)
    assert re.search(r"a person +0\.1 k² +0\.4 k²\s", shown)
    words = " ".join(shown.split())
    assert "cannot tell whether persons were protected" in words
    document = json.loads(called(ledger_command, str(old_ledger), "--json"))
    assert document["format"] == 1
    assert {entry["protection"] for entry in document["entries"]} == {None}
    assert [account["unit"] for account in document["accounts"]] == [None]


def test_a_budget_that_promises_nothing_is_shown_too(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path, Fraction(10**6), lambda: datetime(2030, 1, 1, tzinfo=UTC))
    shown = json.loads(called(ledger_command, str(path), "--json"))
    assert shown["epsilon"]["budget"] > 10**6
    assert shown["accounts"] == []


def test_an_identifier_cannot_steer_the_terminal(tmp_path):
    path = tmp_path / "ledger.sqlite"
    spend(path, (Fraction(1, 10), Protection("person", "replace", "a\x1b[2J" + "b" * 90, 1, 1)))
    shown = called(ledger_command, str(path))
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_rounds_are_shown_with_their_study_date_participants_and_what_is_left_buys(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = spend(path)
    purpose = Purpose("emergency\x1b[2J visits", 12)
    ledger.reserve(bytes(32), bytes(16), Fraction(3, 10), RECORD, purpose)
    ledger.debit(bytes(16), bytes(32))
    shown = called(ledger_command, str(path))
    assert "\x1b" not in shown
    assert re.search(r"emergency.\[2J visits +2030-01-01 +spent +12 +3\.\d+ +0\.3\n", shown)
    assert "Left: 2 more rounds like the last (emergency" in shown


def test_showing_a_ledger_changes_nothing(ledger_path):
    before = ledger_path.read_bytes()
    called(ledger_command, str(ledger_path))
    assert ledger_path.read_bytes() == before


def test_a_missing_ledger_is_refused(tmp_path):
    with pytest.raises(Refused):
        called(ledger_command, str(tmp_path / "absent.sqlite"))

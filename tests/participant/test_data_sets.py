"""One budget for one data set: whichever study asks, from wherever, in however many processes."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import dhdmm
from dhdmm.cli.coordinator import Participant
from dhdmm.errors import DataError, ExitCode, PrivacyError, Refused
from dhdmm.participant.data_sets import DataSets, ledgers_for, place_of
from dhdmm.participant.limits import Policy
from dhdmm.privacy.budgets import Budget, buys
from dhdmm.privacy.chain import Kind
from dhdmm.privacy.zcdp import Conversion
from tests.cli.commands import Shell
from tests.round.small import small_text

ROUND = ["--participants", "12"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DHDMM_STATE", str(tmp_path / "state"))
    (tmp_path / "study.yaml").write_text(small_text())
    (tmp_path / "other.yaml").write_text(small_text().replace("study: small", "study: other"))
    rows = "".join(f"{i % 10},{'FM'[i % 2]}\n" for i in range(120))
    (tmp_path / "visits.csv").write_text("age,sex\n" + rows)
    return tmp_path


@pytest.fixture
def shell(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(folder, monkeypatch, capsys)


def named(folder: Path, budget: str = "rho=0.07") -> None:
    DataSets().add("visits", str(folder / "visits.csv"), Budget.parse(budget))


def spent() -> Fraction:
    return DataSets().named("visits").ledger().spent()


@pytest.mark.slow
def test_two_studies_and_a_copy_share_the_budget_of_the_table(shell: Shell, folder: Path) -> None:
    named(folder)
    rho = dhdmm.plan(dhdmm.Study.load(folder / "study.yaml")).rho
    said = shell("run", "study.yaml", "--data", "visits.csv", *ROUND, "--out", "first", "--json")
    assert json.loads(said.out)["ledgers"] == [str(DataSets().named("visits").ledger().path)]
    assert shell("run", "other.yaml", "--data", "visits", *ROUND, "--out", "second").code == 0
    assert spent() == 2 * rho
    third = shell("run", "other.yaml", "--data", "./visits.csv", *ROUND, "--out", "third")
    assert (third.code, "the ledger refuses" in third.err) == (ExitCode.REFUSED, True)
    (folder / "visits").mkdir()  # a folder of that name is no ledger
    shown = shell("ledger", "visits").out
    assert "small" in shown
    assert "other" in shown
    assert "no more round like the last (other)" in shown
    assert not list(folder.glob("*.ledger"))


@pytest.mark.slow
def test_python_run_and_join_debit_the_same_budget(folder: Path) -> None:
    named(folder, "rho=0.1")
    study = dhdmm.Study.load(folder / "study.yaml")
    plan = dhdmm.plan(study)
    table = folder / "visits.csv"
    parts = [table, *[_empty(folder)] * 11]
    options = {"accept_loss": 0.01}
    wide = dhdmm.plan(study.with_aggregation(max_records_per_participant=200))
    dhdmm.run(wide, parts, **options)
    assert spent() == wide.rho
    dhdmm.run(plan, [_empty(folder)] * 12, ledger="visits")
    assert spent() == wide.rho + plan.rho
    member = Participant(state=folder / "state")
    limits = Policy(total_rho=5.0)
    assert member.ledger_for(str(table), limits).path == DataSets().named("visits").ledger().path
    assert member.ledger_for("visits", limits).path == DataSets().named("visits").ledger().path
    assert member.ledger_for(str(_empty(folder)), limits).path == folder / "state" / "ledger"


def _empty(folder: Path) -> Path:
    (folder / "empty.csv").write_text("age,sex\n")
    return folder / "empty.csv"


@pytest.mark.slow
def test_processes_at_once_never_overspend(folder: Path) -> None:
    named(folder)
    program = [sys.executable, "-c", "from dhdmm.cli.main import main; main()", "run"]
    options = ["--data", "visits.csv", *ROUND, "--json", "--workers", "1"]
    running = [
        subprocess.Popen(
            [*program, study, *options, "--out", f"{study}-{i}"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i, study in enumerate(["study.yaml", "other.yaml", "study.yaml"])
    ]
    endings = [(process.communicate()[1], process.returncode) for process in running]
    assert sorted(code for _, code in endings) == [0, 0, ExitCode.REFUSED]
    assert all("the ledger refuses" in said for said, code in endings if code)
    state = DataSets().named("visits").ledger().state()
    assert len(state.amounts(Kind.DEBIT)) == 2
    assert state.total(Kind.RESERVE) == 0


def test_a_table_has_one_budget_however_it_is_named(folder: Path) -> None:
    named(folder)
    (folder / "link.csv").symlink_to(folder / "visits.csv")
    tenth = Budget.parse("rho=0.1")
    for table in ("visits.csv", "link.csv", "."):
        with pytest.raises(Refused, match="is the data set 'visits', which has a budget"):
            DataSets().add("again", str(folder / table), tenth)
    (folder / "more.csv").write_text("age,sex\n")
    with pytest.raises(Refused, match="there is a data set 'visits' already"):
        DataSets().add("visits", str(folder / "more.csv"), tenth)
    for name in ("", "../x", "a b", "é"):
        with pytest.raises(DataError, match="cannot be a data set's name"):
            DataSets().add(name, str(folder / "more.csv"), tenth)
    with pytest.raises(DataError, match="there is no such file"):
        DataSets().add("absent", str(folder / "absent.csv"), tenth)
    assert [one.name for one in DataSets().all()] == ["visits"]


def test_files_of_a_named_folder_pay_from_its_budget(folder: Path) -> None:
    (folder / "wards").mkdir()
    (folder / "wards" / "a.csv").write_text("age,sex\n")
    DataSets().add("wards", str(folder / "wards"), Budget.parse("rho=0.1"))
    (ledger,) = ledgers_for([folder / "wards" / "a.csv"], None)
    assert ledger.path == DataSets().named("wards").ledger().path


@pytest.mark.slow
def test_another_ledger_cannot_pay_for_a_named_table(shell: Shell, folder: Path) -> None:
    named(folder)
    arguments = ["run", "study.yaml", "--data", "visits.csv", *ROUND]
    refused = shell(*arguments, "--ledger", "fresh.ledger")
    assert refused.code != 0
    assert not (folder / "fresh.ledger").exists()
    shell("run", "study.yaml", "--data", str(_dealt(folder)), *ROUND, "--ledger", "own.ledger")
    refused = shell(*arguments, "--ledger", "own.ledger", "--out", "again")
    assert (refused.code, "whose budget counts" in refused.err) == (ExitCode.REFUSED, True)
    assert spent() == 0


def _dealt(folder: Path) -> Path:
    (folder / "copy.csv").write_text((folder / "visits.csv").read_text())
    return folder / "copy.csv"


def test_a_round_that_fails_gives_back_what_it_reserved(shell: Shell, folder: Path) -> None:
    named(folder)
    said = shell("run", "study.yaml", "--data", "visits", *ROUND, "--dropout", "0.5")
    assert said.code == ExitCode.ABORTED
    assert "keeps the round's budget as spent" in said.err
    assert DataSets().named("visits").ledger().reserved() == 0


def test_data_sets_are_listed_and_added_from_the_command_line(shell: Shell) -> None:
    assert "no data set is named yet" in shell("data", "list").out
    budget = ["--budget", "epsilon=2,delta=1e-6"]
    said = shell("data", "add", "visits", "--table", "visits.csv", *budget)
    assert "ε = 2 at δ = 1e-06" in said.out
    shown = shell("data", "list")
    assert "visits" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    wrong = shell("data", "add", "more", "--table", "study.yaml", "--budget", "eps=1")
    assert (wrong.code, "write epsilon=3,delta=1e-6" in wrong.err) == (ExitCode.REFUSED, True)


def test_a_password_is_no_part_of_a_tables_place() -> None:
    with_it = "postgresql://reader:secret@db.example/hospital?table=visits"
    without = "postgresql://reader@db.example/hospital?table=visits"
    assert place_of(with_it) == place_of(without) == without


@pytest.mark.parametrize(
    "text", ["", "epsilon=1", "rho=0", "rho=x", "epsilon=1,delta=2", "rho=1,rho=2"]
)
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PrivacyError):
        Budget.parse(text)


def test_a_budget_in_epsilon_holds_for_any_rounds_within_it() -> None:
    budget = Budget.parse("epsilon=3, delta=1e-6")
    assert Conversion.CKS.epsilon(budget.rho, 1e-6) <= 3 <= 1.0001 * budget.epsilon
    assert buys(Fraction(1), Fraction(1, 3)) == "3 more rounds like this one"
    assert buys(Fraction(1), Fraction(1)) == "1 more round like this one"

"""What a user gets wrong, and Ctrl-C: a clear line, nothing half-written, no budget lost unsaid."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import ExitCode
from dhdmm.privacy.ledger import Ledger
from tests.cli.commands import Shell
from tests.round.small import small_text

HEADER = "age,sex\n"
PAID = ["--ledger", "study.ledger"]
SPENT = "inputs had been sent, so the ledger keeps the round's budget as spent"


def rows(count: int, seed: int = 0) -> str:
    generator = np.random.default_rng(seed)
    ages, sexes = generator.integers(0, 10, count), generator.choice(["F", "M"], count)
    return HEADER + "".join(f"{age},{sex}\n" for age, sex in zip(ages, sexes, strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study and twelve good tables, one of them without a record."""
    (tmp_path / "study.yaml").write_text(small_text())
    (tmp_path / "tables").mkdir()
    for i in range(12):
        (tmp_path / "tables" / f"{i:02}.csv").write_text(rows(4 * i, seed=i))
    return tmp_path


@pytest.fixture
def shell(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(folder, monkeypatch, capsys)


def ledger_kinds(folder: Path) -> list[str]:
    ledger = Ledger(folder / "study.ledger", lambda: datetime.now(UTC))
    return [str(entry.kind) for entry in ledger.entries()]


# ---- tables --------------------------------------------------------------------------------------

BAD_TABLES = {
    "a wrong column": (
        "aeg,sex\n1,F\n",
        "error: tables/05.csv: there is no column 'age'\n"
        "  hint: did you mean 'aeg'? the columns are 'aeg', 'sex'\n",
        ExitCode.INPUT,
    ),
    "a wrong type": (
        "age,sex\nyoung,F\nold,M\n3,F\n",
        "error: tables/05.csv: values are missing or outside the study's domain:"
        " column 'age' in 2 rows\n"
        "  hint: dhdmm check shows which; map the columns (--columns), or choose what happens with"
        " on_unknown: drop or other\n",
        ExitCode.INPUT,
    ),
    "an empty file": (
        "",
        "error: tables/05.csv: the file is empty: not even a header\n"
        "  hint: the first line names the columns\n",
        ExitCode.INPUT,
    ),
    "a torn line": (
        "age,sex\n1,F\n2\n",
        "error: tables/05.csv:3: the line is not CSV like the header\n"
        "  hint: too few or too many fields, or a quotation mark that is not closed\n",
        ExitCode.INPUT,
    ),
    "too many records": (
        rows(51),
        "error: tables/05.csv: there are more than max_records_per_participant = 50 records\n"
        "  hint: nothing is clipped: agree on a larger bound, from public knowledge\n",
        ExitCode.REFUSED,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BAD_TABLES)
def test_bad_table_is_named_and_nothing_is_written(shell: Shell, kind: str) -> None:
    content, message, code = BAD_TABLES[kind]
    (shell.folder / "tables/05.csv").write_text(content)
    before = shell.files()
    said = shell("run", "study.yaml", "--data", "tables")
    assert (said.out, said.err, said.code) == ("", message, code)
    assert shell.files() == before


@pytest.mark.slow
def test_participant_without_records_takes_part(shell: Shell) -> None:
    assert (shell.folder / "tables" / "00.csv").read_text() == HEADER
    said = shell("run", "study.yaml", "--data", "tables", "--json")
    assert said.code == ExitCode.OK
    assert json.loads(said.out)["survivors"] == 12


# ---- files and options ---------------------------------------------------------------------------

BAD_COMMANDS = {
    "a missing file": (
        ["--data", "tables/00.csv", "--data", "absent.csv"],
        "error: absent.csv: there is no such file\n",
        ExitCode.INPUT,
    ),
    "a missing folder": (
        ["--data", "absent", "--data", "tables"],
        "error: absent: there is no such file\n",
        ExitCode.INPUT,
    ),
    "nothing but a missing folder": (
        ["--data", "absent"],
        "error: absent: there is no such file\n",
        ExitCode.INPUT,
    ),
    "a folder without tables": (
        ["--data", "nothing"],
        "error: nothing: no .csv, .tsv, .parquet file in the folder\n",
        ExitCode.INPUT,
    ),
    "one table, not dealt out": (
        ["--data", "tables/01.csv"],
        "error: tables/01.csv: one table is one participant\n"
        "  hint: --participants deals it out among so many\n",
        ExitCode.INPUT,
    ),
    "several tables to deal out": (
        ["--data", "tables", "--participants", "12"],
        "error: --participants deals out one table, not 12\n"
        "  hint: leave it out: every file is a participant\n",
        ExitCode.INPUT,
    ),
    "more records than participants may have": (
        ["--data", "whole.csv", "--participants", "12"],
        "error: a participant has 100 records, max_records_per_participant is 50\n"
        "  hint: nothing is clipped: have more participants, or agree on a larger bound\n",
        ExitCode.REFUSED,
    ),
    "too few participants": (
        ["--data", "tables/00.csv", "--data", "tables/01.csv", "--data", "tables/02.csv"],
        "error: 3 participants, the study allows 12 to 12\n"
        "  hint: change 'aggregation.participants' in the study\n",
        ExitCode.REFUSED,
    ),
    "an output folder in use": (
        ["--data", "tables", "--out", "taken"],
        "error: taken: there is something in the release's place already\n"
        "  hint: name another folder with --out\n",
        ExitCode.INPUT,
    ),
    "an output folder inside a file": (
        ["--data", "tables", "--out", "study.yaml/release"],
        "error: study.yaml: nothing can be written here\n  hint: name another place with --out\n",
        ExitCode.INPUT,
    ),
    "a budget that is none": (
        ["--data", "tables", "--ledger", "new.ledger", "--budget", "rho=0"],
        "error: '0' is no positive number\n  hint: write epsilon=3,delta=1e-6, or rho=0.5\n",
        ExitCode.REFUSED,
    ),
    "an unknown threat model": (
        ["--data", "tables", "--threat-model", "benevolent"],
        "error: aggregation.threat_model: 'benevolent' is not one of semi-honest, malicious,"
        " two-servers\n",
        ExitCode.INPUT,
    ),
}


@pytest.mark.parametrize("kind", BAD_COMMANDS)
def test_bad_command_is_explained_and_nothing_is_written(shell: Shell, kind: str) -> None:
    options, message, code = BAD_COMMANDS[kind]
    (shell.folder / "nothing").mkdir()
    (shell.folder / "taken").mkdir()
    (shell.folder / "taken" / "notes.txt").write_text("mine")
    (shell.folder / "whole.csv").write_text(rows(1200))
    before = shell.files()
    said = shell("run", "study.yaml", *options)
    assert (said.out, said.err, said.code) == ("", message, code)
    assert shell.files() == before


@pytest.mark.parametrize(
    "options",
    [
        ["--dropout", "1.5"],
        ["--dropout", "nan"],
        ["--on-unknown", "guess"],
        ["--workers", "0"],
        ["--participants", "2"],
    ],
)
def test_impossible_option_is_wrong_usage(shell: Shell, options: list[str]) -> None:
    before = shell.files()
    said = shell("run", "study.yaml", "--data", "tables", *options)
    assert said.code == ExitCode.USAGE
    assert options[0] in said.err
    assert shell.files() == before


def test_error_is_one_json_document_when_asked_for(shell: Shell) -> None:
    said = shell("run", "study.yaml", "--data", "absent.csv", "--data", "tables", "--json")
    assert said.out == ""
    assert json.loads(said.err) == {
        "error": {"what": "there is no such file", "where": "absent.csv", "hint": None}
    }


# ---- the budget ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.fault(33)
def test_exhausted_budget_refuses_before_anything_is_sent(shell: Shell) -> None:
    options = ["--data", "tables", *PAID, "--budget", "rho=0.03", "--json"]
    first = shell("run", "study.yaml", *options, "--out", "first")
    assert first.code == ExitCode.OK
    second = shell("run", "study.yaml", *options, "--out", "second")
    assert second.code == ExitCode.REFUSED
    assert "the budget has" in json.loads(second.err)["error"]["what"]
    assert ledger_kinds(shell.folder) == ["open", "reserve", "debit"]
    assert not (shell.folder / "second").exists()


@pytest.mark.slow
def test_too_many_dropouts_abort_and_the_ledger_says_what_is_spent(shell: Shell) -> None:
    said = shell("run", "study.yaml", "--data", "tables", "--dropout", "0.5", "--out", "out", *PAID)
    assert said.err == (
        f"error: the round ended without a result: too-few-participants\n  hint: {SPENT}\n"
    )
    assert (said.out, said.code) == ("", ExitCode.ABORTED)
    assert ledger_kinds(shell.folder) == ["open", "reserve", "debit"]
    assert not (shell.folder / "out").exists()


@pytest.mark.slow
def test_release_that_cannot_be_written_says_what_is_spent(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dhdmm.release.directory._write_files", full)
    before = shell.files()
    said = shell("run", "study.yaml", "--data", "tables", "--out", "out", *PAID)
    assert said.code == ExitCode.INPUT
    assert said.err.endswith(f"No space left on device\n  hint: {SPENT}\n")
    assert shell.files() - before == {"study.ledger", "study.ledger.anchor"}


# ---- Ctrl-C --------------------------------------------------------------------------------------

PAUSED = """
import sys, time

def pause(*_, **__):
    print("paused", flush=True)
    time.sleep(60)

def pause_in(phase):
    from dhdmm.secagg.coordinator import Coordinator
    close = Coordinator.close_phase
    def paused(self):
        if self.state == phase:
            pause()
        return close(self)
    Coordinator.close_phase = paused

def pause_at(module, name):
    import importlib
    setattr(importlib.import_module(module), name, pause)

{pause}
from dhdmm.cli.main import main
main()
"""
STAGES = {
    "tabulating": ("pause_at('dhdmm.participant.tabulate', 'tabulate')", None),
    "planning": ("pause_at('dhdmm.planning.draft', 'plan')", None),
    "reviewing": ("pause_at('dhdmm.cohort.workers', 'review')", ["open", "reserve", "cancel"]),
    "sharing": ("pause_in('collecting-shares')", ["open", "reserve", "cancel"]),
    "sending": ("pause_in('collecting-inputs')", ["open", "reserve", "debit"]),
    "unmasking": ("pause_in('collecting-reveals')", ["open", "reserve", "debit"]),
    "saving": (
        "pause_at('dhdmm.release.directory', '_put_in_place')",
        ["open", "reserve", "debit"],
    ),
}
"""Where the round is paused, and what the ledger must say after Ctrl-C there."""


def interrupted(folder: Path, pause: str, *options: str) -> tuple[str, str, int]:
    """Ctrl-C as a terminal sends it, to the whole process group, once the stage is reached."""
    arguments = ["run", "study.yaml", "--participants", "12", "--out", "out", *PAID, *options]
    process = subprocess.Popen(
        [sys.executable, "-c", PAUSED.format(pause=pause), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "paused\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return out, err, process.returncode


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_leaves_one_line_and_a_ledger_that_adds_up(folder: Path, stage: str) -> None:
    pause, kinds = STAGES[stage]
    whole = folder / "whole.csv"
    whole.write_text(rows(100))
    before = set(folder.rglob("*"))
    workers = "2" if stage == "sharing" else "1"
    out, err, code = interrupted(folder, pause, "--data", "whole.csv", "--workers", workers)
    spent = kinds is not None and "debit" in kinds
    assert err == (f"interrupted: {SPENT}\n" if spent else "interrupted\n")
    assert (out, code) == ("", ExitCode.INTERRUPTED)
    written = {path.name for path in set(folder.rglob("*")) - before}
    assert written == (set() if kinds is None else {"study.ledger", "study.ledger.anchor"})
    assert kinds is None or ledger_kinds(folder) == kinds

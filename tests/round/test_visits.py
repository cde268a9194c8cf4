"""40,000 untidy visits: every loss is stated, and no way to a release is silent about it."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

import dhdmm
from dhdmm.errors import ExitCode, Refused
from dhdmm.participant.report import Report, RowsLeftOut, require_accepted
from tests.cli.commands import Shell

EXAMPLE = Path(__file__).parents[2] / "examples" / "visits"
RENAMED = ["--columns", "age=AGE_YEARS"]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    spec = importlib.util.spec_from_file_location("make_visits", EXAMPLE / "make_data.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.main(folder / "data")
    shutil.copy(EXAMPLE / "study.yaml", folder)
    return folder


@pytest.fixture
def shell(
    visits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(visits, monkeypatch, capsys)


@pytest.mark.slow
def test_raw_table_check_mapping_run(shell: Shell, visits: Path) -> None:
    """The way of docs/how-to/own-tables.md; every step says what it loses."""
    truth = json.loads((visits / "data" / "truth.json").read_text())
    seen = shell("check", "study.yaml", "--data", "data", *RENAMED, "--json")
    raw = [table["rows"] for table in json.loads(seen.out)["tables"]]
    assert sum(one["rows"] for one in raw) == sum(truth.values()) == 40_000
    assert sum(one["left_out"] for one in raw) > 0.7 * 40_000
    hospital = ["--data", "data/hospital-01.csv", *RENAMED]
    shown = shell("check", "study.yaml", *hospital, "--propose", "visits.map.yaml")
    assert "perhaps male" in shown.out
    assert "female, but for case or blanks" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    mapped = ["--data", "data", "--columns", "visits.map.yaml", "--on-unknown", "drop"]
    seen = shell("check", "study.yaml", *mapped[:4], "--json")
    rows = [table["rows"] for table in json.loads(seen.out)["tables"]]
    left_out = sum(one["left_out"] for one in rows)
    assert 0 < left_out < 0.01 * 40_000
    said = shell("run", "study.yaml", *mapped, "--out", "release")
    assert f"{left_out} left out (0.9 %)" in said.err
    release = dhdmm.Release.load("release")
    coverage = release.coverage
    assert coverage is not None
    assert abs(coverage.left_out - left_out) < 6 * coverage.left_out_error
    outcomes = release.query("SELECT outcome, COUNT(*) FROM data GROUP BY outcome")
    for value, label in zip(outcomes.values, outcomes.varying()["outcome"], strict=True):
        assert truth[label] * 0.985 < value < truth[label] * 1.005


@pytest.mark.slow
def test_the_silent_case_is_refused_on_the_command_line_and_leaves_nothing(shell: Shell) -> None:
    before = shell.files()
    said = shell("run", "study.yaml", "--data", "data", *RENAMED, "--on-unknown", "drop")
    assert said.code == ExitCode.REFUSED
    assert "40,000 rows: 9,087 counted, 30,913 left out (77.3 %)" in said.err
    assert "sex: missing or outside the domain in 26,775 rows" in said.err
    assert "--accept-loss 77.3%" in said.err
    assert shell.files() == before


@pytest.mark.slow
def test_an_accepted_loss_is_said_in_text_and_json(shell: Shell) -> None:
    arguments = ["run", "study.yaml", "--data", "data", *RENAMED, "--on-unknown", "drop"]
    said = shell(*arguments, "--accept-loss", "77.3%", "--out", "accepted", "--json")
    assert json.loads(said.out)["table_rows"]["left_out"] == 30_913
    assert "30,913 left out" in said.err


@pytest.mark.slow
def test_python_refuses_what_nobody_accepted_and_warns_of_the_rest(
    visits: Path, recwarn: pytest.WarningsRecorder
) -> None:
    study = dhdmm.Study.load(visits / "study.yaml")
    tables = sorted((visits / "data").glob("*.csv"))
    renamed = {"age": "AGE_YEARS"}
    with pytest.raises(Refused, match="30,913 left out"):
        dhdmm.run(dhdmm.plan(study), tables, columns=renamed, on_unknown="drop")
    with pytest.warns(RowsLeftOut, match="30,913 left out"):
        dhdmm.run(dhdmm.plan(study), tables, columns=renamed, on_unknown="drop", accept_loss=0.78)


@pytest.mark.slow
def test_a_check_shows_nothing_of_the_table_by_itself(visits: Path) -> None:
    study = dhdmm.Study.load(visits / "study.yaml")
    table = visits / "data" / "hospital-01.csv"
    found = dhdmm.check(study, table, columns={"age": "AGE_YEARS"})
    assert "FEMALE" not in repr(found)
    assert found.report.left_out == 2575
    stream = dhdmm.check(study, _stream(table), columns={"age": "AGE_YEARS"})
    assert stream.report == found.report
    assert [one.marginal for one in stream.columns] == [one.marginal for one in found.columns]


def _stream(path: Path) -> object:
    import pandas as pd
    import pyarrow as pa

    return pa.Table.from_pandas(pd.read_csv(path, dtype=str, keep_default_na=False)).to_reader()


@pytest.mark.parametrize(
    ("dropped", "truncated", "accepted", "refused"),
    [
        (10, 0, 0.01, False),
        (11, 0, 0.01, True),
        (0, 100, 0.01, False),
        (0, 101, 0.01, True),
        (101, 101, 0.11, False),
        (11, 11, 0.01, True),
        (600, 0, 0.6, False),
    ],
)
def test_what_cannot_be_read_is_refused_from_1_percent_and_truncation_from_10(
    dropped: int, truncated: int, accepted: float, refused: bool
) -> None:
    report = Report(1000, {"age": dropped}, dropped, None, truncated, truncated)
    if refused:
        with pytest.raises(Refused):
            require_accepted(report, accepted)
    else:
        require_accepted(report, accepted)


@pytest.mark.parametrize("share", ["-1", "x%", "101%", "1.5"])
def test_a_share_that_is_none_is_wrong_usage(shell: Shell, share: str) -> None:
    said = shell("run", "study.yaml", "--data", "data", "--accept-loss", share)
    assert said.code == ExitCode.USAGE

"""`python -m research` as a person types it."""

import sys
from pathlib import Path

import pytest

from dhdmm.cli.main import run_app
from research.__main__ import app


@pytest.mark.slow
def test_one_item_and_whether_the_run_was_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "kappa", "--quick", "--out", str(tmp_path / "here")) == 0
    assert "9.39e-86" in capsys.readouterr().out
    for page in ("report.html", "results.md"):
        text = (tmp_path / "here" / page).read_text(encoding="utf-8")
        assert "quick run" in text
        assert "python -m research kappa --quick --out DIR" in text
    assert _run(monkeypatch, "kappa", "--out", str(tmp_path / "here")) == 0
    assert "quick run" not in (tmp_path / "here" / "results.md").read_text(encoding="utf-8")
    rows = (tmp_path / "here" / "results" / "kappa.csv").read_text(encoding="utf-8")
    assert "9.39e-86" in rows


def test_an_unknown_name_is_a_mistake_of_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "kapa") == 2
    assert "kappa" in capsys.readouterr().err


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["research", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_app(app)
    return int(ended.value.code or 0)

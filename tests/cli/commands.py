"""Commands as a person types them, in this process: what was printed, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
import typer
from typer.testing import CliRunner

from dhdmm.cli.main import main
from dhdmm.cli.options import for_typer


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Shell:
    """Runs `dhdmm …` in one folder."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        captured: pytest.CaptureFixture[str],
    ) -> None:
        self.folder = folder
        self._monkeypatch, self._captured = monkeypatch, captured
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "80")

    def __call__(self, *arguments: str) -> Said:
        self._monkeypatch.setattr(sys, "argv", ["dhdmm", *arguments])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            structlog.reset_defaults()  # `serve` logs to a screen that is this test's alone
        out, err = self._captured.readouterr()
        return Said(code, out, err)

    def files(self) -> set[str]:
        """Everything in the folder, hidden files too."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


def called(command: Callable[..., None], *arguments: object) -> str:
    """What one command function prints at 80 columns; an error is raised as it is."""
    app = typer.Typer()
    app.command()(for_typer(command))
    environment = {"COLUMNS": "80", "NO_COLOR": "1"}
    shown = CliRunner().invoke(app, [str(a) for a in arguments], env=environment)
    if shown.exception:
        raise shown.exception
    return shown.stdout

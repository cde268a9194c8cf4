"""Weakens the package line by line and expects a test to fail each time: `make mutants`.

A mechanical tool makes thousands of mutants and runs everything for each. These are chosen: each
would cost privacy, security or a stated error, and names the few tests that are there to notice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from tests.mutants.mutant import PROJECT, SOURCES, Mutant
from tests.mutants.page import PAGE, page
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Outcome

LONGEST_SECONDS = 300


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, and what the tests printed."""

    mutant: Mutant
    outcome: Outcome | None
    """None if the tests neither passed nor failed, or the module could not be imported."""
    printed: str

    @property
    def expected(self) -> bool:
        return self.outcome is (Outcome.SURVIVED if self.mutant.left else Outcome.KILLED)

    def __str__(self) -> str:
        name = "BROKEN" if self.outcome is None else self.outcome.name
        return f"{name} {self.mutant.file}: {self.mutant.weakened}"


def trial(sources: Path, module: str, tests: Iterable[str]) -> tuple[Outcome | None, str]:
    """The outcome of these tests with these sources."""
    command = [sys.executable, "-m", "tests.mutants.trial", str(sources), module, *tests]
    # Plugins would triple the time that pytest takes to begin, and none is needed.
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    try:
        ran = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"no end after {LONGEST_SECONDS} seconds"
    known = ran.returncode in set(Outcome)
    return Outcome(ran.returncode) if known else None, ran.stdout + ran.stderr


def judge(mutant: Mutant, whole: Path, folder: Path) -> Verdict:
    """Copies the sources, weakens one line and runs the tests that should notice."""
    sources = Path(tempfile.mkdtemp(dir=folder))
    try:
        shutil.copytree(whole, sources, dirs_exist_ok=True)
        file = mutant.source(sources)
        file.write_text(mutant.mutated(file.read_text(encoding="utf-8")), encoding="utf-8")
        return Verdict(mutant, *trial(sources, mutant.module, mutant.paths))
    finally:
        shutil.rmtree(sources)


def judged(mutants: Sequence[Mutant], folder: Path) -> list[Verdict]:
    """All of them, as many at a time as there are cores; the sources as they are come first."""
    whole = folder / "whole"
    shutil.copytree(SOURCES, whole)
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for outcome, printed in workers.map(partial(trial, whole, "dhdmm"), by_file(mutants)):
            if outcome is not Outcome.SURVIVED:
                sys.exit(f"{printed}\nthe tests must pass before anything is weakened")
        return list(workers.map(lambda mutant: judge(mutant, whole, folder), mutants))


def by_file(mutants: Iterable[Mutant]) -> list[list[str]]:
    """Every test once, those of one file together."""
    every = sorted({path for mutant in mutants for path in mutant.paths})
    return [list(paths) for _, paths in groupby(every, lambda path: path.partition("::")[0])]


def main(*only: str) -> None:
    """All mutants, or those of the files whose names begin so: secagg, privacy/excess.py."""
    chosen = [mutant for mutant in MUTANTS if mutant.file.startswith(only or "")]
    with tempfile.TemporaryDirectory() as folder:
        verdicts = judged(chosen, Path(folder))
    for verdict in verdicts:
        if not verdict.expected:
            print(verdict.printed, verdict, sep="\n")
    unexpected = sum(not verdict.expected for verdict in verdicts)
    if not only and not unexpected:
        PAGE.write_text(page(MUTANTS), encoding="utf-8")
    killed = sum(verdict.outcome is Outcome.KILLED for verdict in verdicts)
    print(f"{len(verdicts)} mutants, {killed} killed, {unexpected} not as the table says")
    sys.exit(unexpected > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

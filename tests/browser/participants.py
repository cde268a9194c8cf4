"""Real participants: each a process of its own that runs `dhdmm join`, with its own folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dhdmm.cli.local_network import GENEROUS
from dhdmm.client.home import Home
from dhdmm.network import identity as identities
from dhdmm.study import document


def home_of(folder: Path, number: int) -> Path:
    """Who it is and what it allows."""
    home = Home(folder / f"participant {number}")
    home.root.mkdir(mode=0o700, parents=True)
    identities.create(home.identity, f"{folder.name[-20:]} {number}", os.urandom)
    (home.root / "policy.yaml").write_text(document.write(GENEROUS.model_dump()))
    return home.root


@contextmanager
def joining(
    programs: Path,
    address: str,
    folder: Path,
    tables: list[Path],
    tokens: list[str],
    *options: str,
) -> Iterator[list[subprocess.Popen[str]]]:
    """A process for every table; none is left when the block ends."""
    started = []
    try:
        for number, (table, token) in enumerate(zip(tables, tokens, strict=True)):
            home = home_of(folder, number)
            given = ["--data", str(table), "--state", str(home), "--token", token, *options]
            with (home / "said").open("w") as said:
                started.append(
                    subprocess.Popen(
                        [programs / "dhdmm", "join", address, *given],
                        stdout=said,
                        stderr=said,
                        text=True,
                    )
                )
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()

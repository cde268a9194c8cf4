"""`dhdmm policy`: a participant's limits as a file to read and change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dhdmm.cli import output
from dhdmm.network.files import create_new
from dhdmm.participant.limits import commented


def policy(
    path: Annotated[Path, typer.Argument(help="The policy file to write.")] = Path("policy.yaml"),
    as_json: output.Json = False,
) -> None:
    """Write a policy file with safe limits, each explained. Never overwrites one."""

    create_new(path, commented().encode(), private=False)
    output.emit(
        {"written": str(path)},
        as_json,
        lambda screen: screen.print(
            f"Wrote {path}. Read every limit before you join a round.", soft_wrap=True, markup=False
        ),
    )

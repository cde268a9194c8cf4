"""`dhdmm policy`: a participant's limits as a file to read and change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dhdmm.cli import output
from dhdmm.errors import DhdmmError
from dhdmm.participant.limits import commented


def policy(
    path: Annotated[Path, typer.Argument(help="The policy file to write.")] = Path("policy.yaml"),
    as_json: output.Json = False,
) -> None:
    """Write a policy file with safe limits, each explained. Never overwrites one."""

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(commented())
    except FileExistsError:
        raise DhdmmError(
            "the file exists", where=str(path), hint="choose another name, or move it away"
        ) from None
    except OSError as error:
        raise DhdmmError(f"cannot write the file: {error.strerror}", where=str(path)) from None
    output.emit(
        {"written": str(path)},
        as_json,
        lambda screen: screen.print(
            f"Wrote {path}. Read every limit before you join a round.", soft_wrap=True, markup=False
        ),
    )

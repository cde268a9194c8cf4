"""`dhdmm show`: a release directory on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dhdmm.cli import answers, output
from dhdmm.release.release import Release

DEFAULT_ROWS = 12


def show(
    directory: Annotated[Path, typer.Argument(help="The release directory.")],
    item: Annotated[str | None, typer.Option("--item", help="Only this table.")] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=0, help="Rows of each table; 0 for all of them.")
    ] = DEFAULT_ROWS,
    as_json: output.Json = False,
) -> None:
    """Show a release: where it comes from, then each table with its error bars."""

    release = Release.load(directory)
    tables = release.values() if item is None else [release[item]]
    shown = [table.head(rows) if rows else table for table in tables]
    document = answers.document(release, shown)
    output.emit(document, as_json, lambda screen: answers.draw_release(screen, release, shown))

"""`dhdmm show`: a release directory on a terminal."""

from __future__ import annotations

from dhdmm.cli import answers, options, output
from dhdmm.release.release import Release


def show(
    directory: options.ReleaseDirectory,
    item: options.Item = None,
    rows: options.Rows = options.ROWS,
    as_json: output.Json = False,
) -> None:
    """Show a release: where it comes from, then each table with its error bars."""

    release = Release.load(directory)
    tables = list(release.values()) if item is None else [release[item]]
    shown = [table.head(rows) if rows else table for table in tables]
    document = answers.document(release, shown) if as_json else {}
    output.emit(document, as_json, lambda screen: answers.draw_release(screen, release, shown))

"""`dhdmm query`: one more question to a release."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dhdmm.cli import answers, options, output
from dhdmm.release.coverage import coverage_words
from dhdmm.release.frames import plain_rows
from dhdmm.release.release import Release

DEFAULT_ROWS = 40
FREE = "Answered from the release: this costs no privacy budget."


def query(
    directory: options.ReleaseDirectory,
    sql: Annotated[
        str,
        typer.Argument(help="SELECT ..., COUNT(*) FROM data WHERE ... GROUP BY ..."),
    ],
    rows: Annotated[
        int, typer.Option(min=0, help="Rows on the screen; 0 for all of them.")
    ] = DEFAULT_ROWS,
    level: Annotated[float, "The level of the confidence intervals."] = 0.95,
    as_json: output.Json = False,
) -> None:
    """Ask a release a query that its study did not ask, at no privacy cost.

    Counts with FILTER, arithmetic of them, HAVING, ORDER BY and LIMIT are understood. A query that
    the round did not measure is refused, with the nearest ones that it did.
    """

    release = Release.load(directory)
    table = release.query(sql, level=level)
    document: dict[str, Any] = {
        "provenance": release.provenance(),
        "rows_counted": coverage_words(release),
        "sql": sql,
        "level": level,
        "rho_spent": 0,
        "note": table.note,
        "rows": plain_rows(table.to_arrow()) if as_json else [],
    }

    def draw(screen: Any) -> None:
        answers.draw_table(screen, table.head(rows) if rows else table, len(table))
        screen.print(f"rows: {coverage_words(release)}")
        screen.print(FREE)

    output.emit(document, as_json, draw)

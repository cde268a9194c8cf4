"""`dhdmm compare`: two releases side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dhdmm.cli import options, output
from dhdmm.errors import DhdmmError
from dhdmm.release import comparison
from dhdmm.release.comparison import MEANING, Difference
from dhdmm.release.frames import places_of
from dhdmm.release.release import Release
from dhdmm.release.wording import number, printable
from dhdmm.study.names import nearest

NUMBERS = 7
"""Columns of numbers at the end of a difference's table."""
LABEL_CHARACTERS = 30


def compare(
    first: Annotated[Path, typer.Argument(help="A release directory.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    item: options.Item = None,
    rows: options.Rows = options.ROWS,
    as_json: output.Json = False,
) -> None:
    """Compare the queries that two releases share: both answers, the difference, its error.

    z is the difference in standard errors. Beyond ±1.96 noise alone brings it once in 20 answers.
    """

    releases = Release.load(first), Release.load(second)
    found = comparison.compare(*releases)
    names = [difference.name for difference in found]
    if item is not None and item not in names:
        raise DhdmmError(f"the releases share no table '{item}'", hint=nearest(item, names))
    chosen = [difference for difference in found if item in (None, difference.name)]
    document = _document([release.provenance() for release in releases], chosen) if as_json else {}
    output.emit(document, as_json, lambda screen: _draw(screen, chosen, rows))


def _document(provenance: list[dict[str, Any]], chosen: list[Difference]) -> dict[str, Any]:
    return {
        "first": provenance[0],
        "second": provenance[1],
        "tables": [
            {"item": one.name, "level": one.level, "rows": one.to_arrow().to_pylist()}
            for one in chosen
        ],
    }


def _draw(screen: Console, chosen: list[Difference], rows: int) -> None:

    for one in chosen:
        screen.print(Text(printable(one.name), "bold"))
        screen.print(_table(one, rows or len(one)))
        if 0 < rows < len(one):
            screen.print(Text(f"… {len(one) - rows:,} more rows", "dim"))
        screen.print()
    screen.print(MEANING)


def _table(one: Difference, rows: int) -> Any:

    drawn = output.table("query", numbers=("first", "second", "difference", "± s.e.", "z"))
    shown = one.to_arrow().slice(0, rows)
    words, numbers = shown.column_names[:-NUMBERS], shown.column_names[-NUMBERS:]
    places, digits = places_of(one.standard_errors, one.first, one.second)
    for row in shown.to_pylist():
        first, second, difference, error, _low, _high, z = (row[name] for name in numbers)
        label = printable(", ".join(row[word] for word in words if row[word]), LABEL_CHARACTERS)
        counts = [number(value, places) for value in (first, second, difference)]
        drawn.add_row(Text(label), *counts, f"± {number(error, digits)}", number(z, 1))
    return drawn

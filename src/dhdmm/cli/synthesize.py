"""`dhdmm synthesize`: made-up records that resemble a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dhdmm.cli import options, output
from dhdmm.errors import DhdmmError
from dhdmm.release.release import Release
from dhdmm.release.synthetic import Quality
from dhdmm.release.wording import printable

FORMATS = (".csv", ".parquet")
MEANING = (
    "Distances are in standard errors. Of the true counts, 95 % would be inside, at a distance of"
    " 1. No record is anybody's. This costs no privacy budget."
)
LONGEST_NAME = 36


def synthesize(
    directory: options.ReleaseDirectory,
    out: Annotated[Path, "A new .csv or .parquet file."],
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many records; by default as many as counted.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other records of the same kind.")] = 1,
    as_json: output.Json = False,
) -> None:
    """Write made-up records whose tables agree with the release, and say how well they do."""

    if out.suffix not in FORMATS:
        raise DhdmmError("records are written as .csv or .parquet", where=str(out))
    if out.exists():
        raise DhdmmError("the file exists", where=str(out), hint="name a new one")
    release = Release.load(directory)
    made = release.synthesize(rows, seed=seed)
    try:
        made.to_csv(out) if out.suffix == ".csv" else made.to_parquet(out)
    except OSError as error:
        raise DhdmmError(f"cannot write there: {error.strerror}", where=str(out)) from None
    document: dict[str, Any] = {
        "provenance": release.provenance(),
        "records": len(made),
        "file": str(out),
        "quality": [asdict(one) for one in made.quality],
        "unasked": list(made.unasked),
    }

    def draw(screen: Console) -> None:
        _draw(screen, made.quality)
        if made.unasked:
            names = printable(", ".join(made.unasked))
            screen.print(Text(f"No table is about {names}: values there are drawn evenly."))
        screen.print(f"{len(made):,} records. {MEANING}")

    output.emit(document, as_json, draw)


def _draw(screen: Console, quality: tuple[Quality, ...]) -> None:
    drawn = output.table("table", numbers=("answers", "inside", "distance", "largest"))
    for one in quality:
        drawn.add_row(
            Text(printable(one.table, LONGEST_NAME)),
            f"{one.answers:,}",
            f"{100 * one.inside:.0f} %",
            f"{one.distance:.2f}",
            f"{one.largest:.1f}",
        )
    screen.print(drawn)

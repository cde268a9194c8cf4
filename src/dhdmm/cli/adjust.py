"""`dhdmm adjust`: answers that look like counts, written beside the raw ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from dhdmm.cli import options, output
from dhdmm.errors import DhdmmError
from dhdmm.release.directory import file_stems
from dhdmm.release.release import Release

REPORT = "adjusted.json"


def adjust(
    directory: options.ReleaseDirectory,
    out: Annotated[Path, "A new directory for the tables."],
    nonnegative: Annotated[bool, "No answer is below 0."] = False,
    integers: Annotated[bool, "Every answer is whole."] = False,
    each: Annotated[
        bool, "Adjust each answer by itself: totals and parts no longer agree."
    ] = False,
    replicates: Annotated[
        int, typer.Option(min=0, help="Simulated rounds that estimate the bias; 0 for none.")
    ] = 0,
    as_json: output.Json = False,
) -> None:
    """Write tables with raw and adjusted answers, and say how much the adjustment biases them."""

    release = Release.load(directory)
    _make_directory(out)
    adjusted = release.adjusted(
        nonnegative=nonnegative, integers=integers, consistent=not each, replicates=replicates
    )
    files = {name: f"{stem}.csv" for name, stem in zip(adjusted, file_stems(adjusted), strict=True)}
    for name, file in files.items():
        adjusted[name].to_csv(out / file)
    document: dict[str, Any] = {
        "provenance": release.provenance(),
        "rules": asdict(adjusted.rules),
        "effect": asdict(adjusted.effect),
        "tables": files,
    }
    (out / REPORT).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    output.emit(document, as_json, lambda screen: screen.print(f"{adjusted.effect}"))


def _make_directory(out: Path) -> None:

    try:
        out.mkdir(parents=True, exist_ok=True)
        empty = not any(out.iterdir())
    except OSError as error:
        raise DhdmmError(f"cannot write there: {error.strerror}", where=str(out)) from None
    if not empty:
        raise DhdmmError("the directory is not empty", where=str(out), hint="name a new one")
